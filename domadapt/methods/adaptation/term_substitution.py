r"""Other words in the source's sentences: those that the target speaks of.

Every epoch a share of the source's sentences is rewritten. Each annotated term is replaced, with probability
``terms``, by a noun phrase of the unlabelled target; each noun outside of any term, with probability ``others``, by
one of its single nouns; labels stay where they are. Phrases are drawn by :math:`\text{count}^{.75}`, plural for plural.
So a model learns that *where* a term stands makes it one, not which word it is: the shift between reviews is mostly one
of vocabulary (only 7 to 12 % of aspect terms are shared). Akin to CDRG (Yu et al. 2021), without a generator.

The ratio of the two is the knob: ``terms`` alone raises recall at the cost of precision (a target noun becomes a sign
of a term); ``others`` as often as ``terms`` keeps precision.

Where texts are classified there are no terms: nouns that do not go with a class are replaced. Costs tokenising what was
changed, a few percent of a run. Fails where the domains differ in what is annotated rather than in words.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from domadapt.data.edits import Edit, edited
from domadapt.data.records import Record, Span
from domadapt.methods.method import Method, in_range
from domadapt.syntax.nouns import PLURALS, is_noun, noun_phrases
from domadapt.syntax.parser import Parse, Text

TELLING = 0.8  # share of one class from which on a noun goes with it, where it is met five times or more
MET = 5


class TermSubstitution(Method):
    """Source sentences with the target's nouns.

    Args:
        share: of sentences that are rewritten in an epoch.
        terms: probability that a term is replaced.
        others: probability that a noun outside terms is.
        power: of a phrase's count, when it is drawn.

    Raises:
        ValueError: a probability is not one.
    """

    augments = True
    reads = frozenset({"corpus_parses"})

    def __init__(self, share: float, terms: float, others: float, power: float) -> None:
        super().__init__()
        for name, value in (("share", share), ("terms", terms), ("others", others), ("power", power)):
            in_range(f"term_substitution.{name}", value, 0.0, 1.0)
        self.share, self.terms, self.others, self.power = share, terms, others, power

    def prepare(self) -> dict[str, Any]:
        """Count the target's noun phrases, and find the places of the source that can take one."""
        setting, domains = self.setting, self.setting.domains
        texts, records = domains.unlabeled.texts, domains.source_train
        self.pools = pools(texts, list(setting.corpus_parses(texts, "target")), self.power)
        parses = list(setting.corpus_parses(records, "source"))
        kinds, telling = noun_kinds(records, parses), telling_nouns(records, parses)
        self.places = {r.id: places(r, p, kinds, telling) for r, p in zip(records, parses, strict=True)}
        found = [place for some in self.places.values() for place in some]
        return {
            "term_substitution/phrases": len(self.pools[False, False].phrases) + len(self.pools[True, False].phrases),
            "term_substitution/terms": sum(place.term for place in found),
            "term_substitution/others": sum(not place.term for place in found),
        }

    def augment(self, records: Sequence[Record], epoch: int, random: np.random.Generator) -> Sequence[Record]:
        """A share of the records, rewritten; one that another method has changed already is left alone."""
        own = self.setting.domains.source_train
        chosen = random.random(len(records)) < self.share
        return [
            self._rewritten(record, random) if take and record is before else record
            for record, before, take in zip(records, own, chosen, strict=True)
        ]

    def _rewritten(self, record: Record, random: np.random.Generator) -> Record:
        edits = []
        for place in self.places[record.id]:
            if random.random() < (self.terms if place.term else self.others):
                phrase = self.pools[place.plural, not place.term].draw(random)
                if phrase is not None:
                    old = record.text[place.start : place.end]
                    edits.append(Edit(place.start, place.end, phrase.capitalize() if old.istitle() else phrase))
        return edited(record, edits) if edits else record


class Place(NamedTuple):
    """Where a noun phrase can stand: characters, whether it is a term, whether its last word is a plural."""

    start: int
    end: int
    term: bool
    plural: bool


class Pool:
    """Phrases to draw from.

    Args:
        counts: of each phrase.
        power: a phrase is drawn in proportion to its count to this power.
    """

    def __init__(self, counts: Counter[str], power: float) -> None:
        self.phrases = sorted(counts)
        self.sums = list(accumulate(counts[phrase] ** power for phrase in self.phrases))

    def draw(self, random: np.random.Generator) -> str | None:
        """One of them; None if there is none."""
        if not self.phrases:
            return None
        return self.phrases[min(bisect(self.sums, random.random() * self.sums[-1]), len(self.phrases) - 1)]


def pools(texts: Sequence[Text], parses: Sequence[Parse], power: float) -> dict[tuple[bool, bool], Pool]:
    """Noun phrases of texts: by whether they are plural, and whether they are single words."""
    counts: dict[tuple[bool, bool], Counter[str]] = {(p, s): Counter() for p in (False, True) for s in (False, True)}
    for text, parse in zip(texts, parses, strict=True):
        for phrase in noun_phrases(parse, text.text):
            words = text.text[parse.words[phrase.first][0] : parse.words[phrase.end - 1][1]].lower()
            counts[phrase.plural, False][words] += 1
            if phrase.end - phrase.first == 1:
                counts[phrase.plural, True][words] += 1
    return {kind: Pool(found, power) for kind, found in counts.items()}


def noun_kinds(records: Sequence[Record], parses: Sequence[Parse]) -> frozenset[str]:
    """Span types whose last words are mostly nouns: aspects are, opinions are not."""
    nouns, all_ = Counter[str](), Counter[str]()
    for record, parse in zip(records, parses, strict=True):
        ends = {int(end): word for word, (_, end) in enumerate(parse.words)}
        for span in record.spans or ():
            all_[span.type] += 1
            nouns[span.type] += span.end in ends and is_noun(parse, ends[span.end], record.text)
    return frozenset(kind for kind, count in all_.items() if nouns[kind] > count / 2)


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
        Place(s.start, s.end, True, parse.tags[ends[s.end]] in PLURALS)
        for s in spans
        if s.type in kinds and s.start in starts and s.end in ends and not overlapped(s, spans)
    ]
    for word, (start, end) in enumerate(parse.words.tolist()):
        if any(s.start < end and start < s.end for s in spans) or word_of(record.text, parse, word) in telling:
            continue
        if is_noun(parse, word, record.text):
            found.append(Place(start, end, False, parse.tags[word] in PLURALS))
    return found


def overlapped(span: Span, spans: Sequence[Span]) -> bool:
    """Whether another span shares characters with one."""
    return any(s is not span and s.start < span.end and span.start < s.end for s in spans)
