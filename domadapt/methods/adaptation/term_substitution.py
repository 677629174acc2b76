r"""Other words in the source's sentences: those that the target speaks of.

Every epoch a share of the source's sentences is rewritten. Each annotated term is replaced, with probability
``terms``, by a noun phrase of the unlabelled target; each noun outside of any term, with probability ``others``, by
one of its single nouns; labels stay where they are. Phrases are drawn by :math:`\text{count}^{.75}`, plural for plural.
So a model learns that *where* a term stands makes it one, not which word it is: the shift between reviews is mostly one
of vocabulary (only 7 to 12 % of aspect terms are shared). Akin to CDRG (Yu et al. 2021), without a generator.

Words that name the product itself ('this laptop') stand for the source's products ('this restaurant'), and for nothing
else: whether they are terms is a matter of guidelines, and is learnt so from the source's
(:mod:`domadapt.methods.products`).

The ratio of the two is the knob: ``terms`` alone raises recall at the cost of precision (a target noun becomes a sign
of a term); ``others`` as often as ``terms`` keeps precision.

Where the model finds enough terms as it is, there is precision to be lost. So the first epoch reads the source as it
is (up to three do, until the model finds half of the terms in source dev), and what it then finds in the target is
compared with what the source's rates let expect (:mod:`domadapt.methods.look`); where that is a little less than
``enough``, another epoch reads the source as it is, and tells. Beside labelled target texts a quarter more is asked
for: a model that reads some of the target finds more there, whether it is enough or not. With ``enough`` of it, nouns
outside terms are replaced as often as terms; ``self_training`` is told to leave the target alone, and
``corpus_evidence`` to be silent.

Where texts are classified there are no terms: nouns that do not go with a class are replaced. Costs tokenising what was
changed, a few percent of a run. Fails where the domains differ in what is annotated rather than in words.
"""

import itertools
import logging
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from domadapt.data.edits import Edit, edited
from domadapt.data.records import Record, Span
from domadapt.methods.look import found_of_expected
from domadapt.methods.method import Method, in_range
from domadapt.methods.products import left_alone, products
from domadapt.methods.term_rates import ENOUGH_TERMS, FOUND_TERMS
from domadapt.methods.term_types import term_kinds, term_types
from domadapt.syntax.nouns import PLURALS, NounPhrase, is_noun, noun_phrases
from domadapt.syntax.parser import Parse, Text

log = logging.getLogger(__name__)
TELLING = 0.8  # share of one class from which on a noun goes with it, where it is met five times or more
MET = 5
FEWEST = 5  # phrases to draw from
TEXTS, BATCH = 1500, 64  # of the target, that are read after the first epoch
PATIENCE = 3  # epochs on the source as it is, at most
UNSURE = 0.15  # so much less than enough, or less than that, may be too few or enough: the next epoch tells them apart
LABELLED = 0.25  # a model that reads labelled target texts, too, finds so much more there, and misses no fewer
NEARLY = 0.1  # what a look differs by between seeds: so much less than enough is enough, where no epoch is left
PAIRED, PAIRED_KEEP = 0.95, 0.2  # from which share on a source is annotated in pairs; empty sentences kept then


class TermSubstitution(Method):
    """Source sentences with the target's nouns.

    Args:
        share: of sentences that are rewritten in an epoch.
        terms: probability that a term is replaced.
        others: probability that a noun outside terms is.
        power: of a phrase's count, when it is drawn.
        window: a phrase's rank among the target's nouns, from 0 to 1, differs from the rank of what it replaces among
            the source's by this at most: what is spoken of as a part stands for a part, what is owned for what is
            owned. 1 draws from all.
        empties: share of sentences without a span that are kept in an epoch, others standing in for the rest; None
            keeps all, but for a source that is annotated in pairs (nearly every sentence with an opinion has an
            aspect, too), where an empty sentence may hold terms that nobody marked.
        enough: share of the terms to expect from which on others are replaced as often as terms, or from a tenth less
            where three looks did not make it clear; None does not look, and rewrites from the first epoch on.
        products: whether products stand for products alone, where the model finds too few terms.

    Raises:
        ValueError: a share is not one.
    """

    augments = True
    reads = frozenset({"corpus_parses"})

    def __init__(
        self,
        share: float,
        terms: float,
        others: float,
        power: float,
        window: float,
        empties: float | None,
        enough: float | None = None,
        products: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(products, bool):
            raise ValueError(f"term_substitution.products={products!r}: expected true or false")
        self.told_apart, self.products = products, frozenset[str]()
        settings = {"share": share, "terms": terms, "others": others, "power": power, "window": window}
        for name, value in (settings | ({} if empties is None else {"empties": empties})).items():
            in_range(f"term_substitution.{name}", value, 0.0, 1.0)
        self.share, self.terms, self.others, self.power = share, terms, others, power
        self.window, self.empties, self.enough = window, empties, enough
        if enough is not None:
            in_range("term_substitution.enough", enough, 0.0, 1e6)
        self.spelled: dict[str, str] = {}  # phrases in lower case, as they are mostly written
        self.looks = False  # before it rewrites
        self.found: float | None = None  # share of the terms to expect

    def prepare(self) -> dict[str, Any]:
        """Count the target's noun phrases, and find the places of the source that can take one."""
        setting, domains = self.setting, self.setting.domains
        texts, records = domains.unlabeled.texts, domains.source_train
        self.ranks = term_types(setting)
        parses = setting.corpus_parses("source")
        counts = phrases(texts, setting.corpus_parses("target"))
        self.spelled = spellings(texts, setting.corpus_parses("target"))
        named = frozenset[str]()
        if self.told_apart:
            self.products, named = products(setting, "source"), products(setting, "target")

        def pool(plural: bool, single: bool, product: bool | None) -> Pool:
            some = {
                phrase: count
                for (phrase, many), count in counts.items()
                if many == plural and not (single and " " in phrase) and product in (None, phrase.split()[-1] in named)
            }
            return Pool(some, self.power, self.ranks.target)

        self.pools = {key: pool(*key) for key in itertools.product((False, True), (False, True), (None, False, True))}
        kinds = term_kinds(setting)
        self.looks = self.enough is not None and bool(kinds)
        self.first_epoch = int(self.looks)  # the first, at least, reads the source as it is
        telling = telling_nouns(records, parses)
        self.places = {r.id: places(r, p, kinds, telling) for r, p in zip(records, parses, strict=True)}
        self.kept = self.empties if self.empties is not None else (PAIRED_KEEP if in_pairs(records, kinds) else 1.0)
        self.full = [record for record in records if record.spans and kinds]
        found = [place for some in self.places.values() for place in some]
        known = self.ranks.source
        self.heads = [known[place.head] for place in found if place.term and place.head in known]
        return {
            "term_substitution/phrases": len(counts),
            "term_substitution/terms": sum(place.term for place in found),
            "term_substitution/others": sum(not place.term for place in found),
            "term_substitution/empties": self.kept,
        }

    def augment(self, records: Sequence[Record], epoch: int, random: np.random.Generator) -> Sequence[Record]:
        """A share of the records, rewritten; one that another method has changed already is left alone."""
        if self.looks and self.found is None:
            return records
        own = self.setting.domains.source_train
        chosen, spared = random.random(len(records)) < self.share, random.random(len(records)) < self.kept
        result = []
        for record, before, take, spare in zip(records, own, chosen, spared, strict=True):
            same = record is before
            if same and not (spare or record.spans) and self.full:
                record = self.full[int(random.integers(len(self.full)))]
            result.append(self._rewritten(record, random) if same and take else record)
        return result

    @property
    def starved(self) -> bool:
        """Whether the model finds too few terms; taken for granted where nobody looks."""
        return not self.looks or self.found is None or self.found < self.wanted - NEARLY

    @property
    def wanted(self) -> float:
        """Share of the terms to expect that is enough."""
        return float(self.enough or 0.0) + LABELLED * bool(self.setting.domains.target_records)

    def after_epoch(self, epoch: int) -> None:
        """After the first that has taught the model something: is it starved of recall?"""
        if not self.looks or self.found is not None:
            return
        found, last = found_of_expected(self.setting, TEXTS, BATCH), epoch + 1 >= PATIENCE
        if found is None and last:
            found = 0.0  # what learns so slowly is starved of all
        if found is None:
            return
        told = f"the model finds {found:.2f} times the terms in the target that the source lets expect"
        if not last and -UNSURE <= found - self.wanted < 0:
            log.info("term_substitution: %s: too near to tell, so it looks again after another epoch", told)
            return
        self._know(found)
        starved = "recall is to be gained" if self.starved else "nearly enough or more, so precision is to be kept"
        log.info("term_substitution: %s: %s", told, starved)

    def _know(self, found: float) -> None:
        self.found = found
        self.setting.counted[ENOUGH_TERMS], self.setting.counted[FOUND_TERMS] = not self.starved, found

    def memory(self) -> dict[str, Any]:
        """What the model has found."""
        return {"found": self.found}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take it back."""
        if memory["found"] is not None:
            self._know(float(memory["found"]))

    def _rewritten(self, record: Record, random: np.random.Generator) -> Record:
        edits, others = [], self.others if self.starved else max(self.terms, self.others)
        for place in self.places[record.id]:
            if random.random() < (self.terms if place.term else others):
                rank = self.ranks.source.get(place.head)
                if rank is None and self.heads:  # a term that ends in no noun
                    rank = self.heads[int(random.integers(len(self.heads)))]
                product = None if left_alone(self.setting) else place.head in self.products
                pool = self.pools[place.plural, not place.term, product]
                phrase = pool.draw(rank, 1.0 if product else self.window, random)
                if phrase is not None:
                    phrase = self.spelled.get(phrase, phrase)
                    capital = record.text[place.start].isupper() and place.start == 0
                    edits.append(Edit(place.start, place.end, phrase[0].upper() + phrase[1:] if capital else phrase))
        return edited(record, edits) if edits else record


class Place(NamedTuple):
    """Where a noun phrase can stand: characters, whether it is a term, whether its last word is a plural, that word."""

    start: int
    end: int
    term: bool
    plural: bool
    head: str


class Pool:
    """Phrases to draw from, by the rank of their last word.

    Args:
        counts: of each phrase.
        power: a phrase is drawn in proportion to its count to this power.
        ranks: of single nouns, from 0 to 1.
    """

    def __init__(self, counts: Mapping[str, int], power: float, ranks: Mapping[str, float]) -> None:
        by_rank = sorted((ranks.get(phrase.split()[-1], 0.5), phrase) for phrase in counts)
        self.ranks = [rank for rank, _ in by_rank]
        self.phrases = [phrase for _, phrase in by_rank]
        self.sums = list(itertools.accumulate(counts[phrase] ** power for phrase in self.phrases))

    def draw(self, rank: float | None, window: float, random: np.random.Generator) -> str | None:
        """One of them; None if there is none.

        Args:
            rank: near which its own is to be; None for any.
            window: how near; of phrases too few, the nearest are taken.
            random: the dice.
        """
        if not self.phrases:
            return None
        low, high = 0, len(self.phrases)
        if rank is not None:
            low, high = bisect(self.ranks, rank - window), bisect(self.ranks, rank + window)
            if high - low < FEWEST:
                low, high = max(0, low - FEWEST), min(len(self.phrases), high + FEWEST)
        before = self.sums[low - 1] if low else 0.0
        return self.phrases[min(bisect(self.sums, before + random.random() * (self.sums[high - 1] - before)), high - 1)]


def written(texts: Sequence[Text], parses: Sequence[Parse]) -> Iterator[tuple[str, NounPhrase]]:
    """Noun phrases of texts as they are written, their words apart by spaces."""
    for text, parse in zip(texts, parses, strict=True):
        for phrase in noun_phrases(parse, text.text):
            yield " ".join(text.text[s:e] for s, e in parse.words[phrase.first : phrase.end].tolist()), phrase


def phrases(texts: Sequence[Text], parses: Sequence[Parse]) -> Counter[tuple[str, bool]]:
    """Noun phrases of texts, in lower case, and whether they are plural, counted."""
    return Counter((words.lower(), phrase.plural) for words, phrase in written(texts, parses))


def spellings(texts: Sequence[Text], parses: Sequence[Parse]) -> dict[str, str]:
    """How each noun phrase, in lower case, is mostly written; what opens a text tells of letters after its first."""
    found: dict[str, Counter[str]] = {}
    for words, phrase in written(texts, parses):
        known = found.setdefault(words.lower(), Counter())
        if phrase.first:
            known[words] += 1
        elif words[1:] != words[1:].lower():
            known[words] += 0
    return {phrase: max(known, key=lambda w: (known[w], w)) if known else phrase for phrase, known in found.items()}


def in_pairs(records: Sequence[Record], kinds: frozenset[str]) -> bool:
    """Whether nearly every record with a span of another type has one of these types, too."""
    others = [record for record in records if {s.type for s in record.spans or ()} - kinds]
    both = sum(bool({s.type for s in record.spans or ()} & kinds) for record in others)
    return bool(others) and bool(kinds) and both >= PAIRED * len(others)


def telling_nouns(records: Sequence[Record], parses: Sequence[Parse]) -> frozenset[str]:
    """Nouns that go with one class, where texts are classified: they stay, lest labels lose their reason."""
    by_class: dict[str, Counter[str]] = {}
    for record, parse in zip(records, parses, strict=True):
        if record.label is not None:
            for word in range(len(parse.words)):
                if is_noun(parse, word, record.text):
                    by_class.setdefault(word_of(record.text, parse, word), Counter())[record.label] += 1
    share = {noun: max(counts.values()) / counts.total() for noun, counts in by_class.items() if counts.total() >= MET}
    return frozenset(noun for noun, most in share.items() if most > TELLING)


def word_of(text: str, parse: Parse, word: int) -> str:
    """A word of a parsed text, in lower case."""
    start, end = parse.words[word]
    return text[start:end].lower()


def places(record: Record, parse: Parse, kinds: frozenset[str], telling: frozenset[str]) -> list[Place]:
    """Where a record can take a noun phrase.

    Args:
        record: labelled.
        parse: of it.
        kinds: span types that can be replaced.
        telling: nouns that stay.

    Returns:
        Terms of these types on whole words, and nouns outside of every span.
    """
    starts = {int(start): word for word, (start, _) in enumerate(parse.words)}
    ends = {int(end): word for word, (_, end) in enumerate(parse.words)}
    spans = record.spans or ()
    found = [
        Place(s.start, s.end, True, parse.tags[ends[s.end]] in PLURALS, word_of(record.text, parse, ends[s.end]))
        for s in spans
        if s.type in kinds and s.start in starts and s.end in ends and not overlapped(s, spans)
    ]
    for word, (start, end) in enumerate(parse.words.tolist()):
        noun = word_of(record.text, parse, word)
        if any(s.start < end and start < s.end for s in spans) or noun in telling:
            continue
        if is_noun(parse, word, record.text):
            found.append(Place(start, end, False, parse.tags[word] in PLURALS, noun))
    return found


def overlapped(span: Span, spans: Sequence[Span]) -> bool:
    """Whether another span shares characters with one."""
    return any(s is not span and s.start < span.end and span.start < s.end for s in spans)
