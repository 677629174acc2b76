r"""Source sentences speak of the target's things, of other ones every epoch.

The shift between reviews is mostly one of vocabulary: 7 to 12 % of aspect terms are shared. Each epoch a share of the
source's sentences is rewritten: each annotated term is replaced (``term_probability``) by a noun phrase of the target's
text, each noun outside of spans (``noun_probability``) by one of its single nouns, plural for plural; labels stay. The
model learns that *where* a word stands makes it a term. Akin to CDRG (Yu et al. 2021), without a generator.

A phrase x is drawn for a term by

.. math:: \text{count}(x)^{.75} \, (.02 + q(x)),

and for another noun with 1 - q(x) in place of q(x). After each epoch, with ``predicted_terms``, the network reads the
target: q(x) is the mean over the uses of x of the probability that its words are in terms, shrunk by three uses towards
the mean of phrases with the same last word, and that towards the mean of all. Until then, and without, q is constant;
where another method has a source-only network trained, its probabilities count for the first half of training.

Terms and other nouns are replaced as often: replacing others less often raises recall and costs more precision, and
replacing them alone teaches that nothing of the target is a term. Where several span types are mostly nouns and a noun
tells its type (:func:`type_agreement`), a phrase of the wrong type would make a label false: spans stay, and other
nouns are replaced only where spans are names. Where texts are classified, nouns are replaced that do not go with a
class; in a pair of texts a noun of both is replaced alike, lest their relation change. Costs a pass over the target's
text an epoch, and tokenising. Fails where domains differ in what is annotated rather than in words. Ours.
"""

import itertools
import logging
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from domadapt.data.records import Record
from domadapt.data.texts import Edit, edited
from domadapt.methods.method import Method, in_range
from domadapt.methods.session import ReadText, Session
from domadapt.methods.terms import term_kinds
from domadapt.syntax.nouns import PLURALS, is_noun, noun_phrases, universal_tag
from domadapt.syntax.parser import Parse, Text
from domadapt.utils.pairs import parts

log = logging.getLogger(__name__)
POWER = 0.75  # of a phrase's count: word2vec's, Mikolov et al. 2013
FLOOR = 0.02  # so that any phrase may still come
SHRINKAGE = 3.0  # uses
TELLS = 0.5  # agreement from which on a noun tells its type: half of the way from chance to always
TELLING, MET = 0.6, 5  # of the way from a class's own share to always: then a noun goes with it; and its least uses


class Phrase(NamedTuple):
    """A noun phrase in lower case, and whether its last word is a plural."""

    words: str
    plural: bool


class Place(NamedTuple):
    """Characters of a record where a phrase can stand, whether that is a plural, and whether it is a term."""

    start: int
    end: int
    plural: bool
    term: bool


class Use(NamedTuple):
    """A phrase in a target text: which text, its first word, and the end."""

    text: int
    first: int
    end: int


class TermSubstitution(Method):
    """Source sentences with the target's nouns."""

    augments = True

    def __init__(
        self,
        sentence_share: float,
        term_probability: float,
        noun_probability: float,
        predicted_terms: bool,
        whole_texts: bool,
    ) -> None:
        super().__init__()
        in_range("term_substitution.sentence_share", sentence_share, 0.0, 1.0)
        in_range("term_substitution.term_probability", term_probability, 0.0, 1.0)
        in_range("term_substitution.noun_probability", noun_probability, 0.0, 1.0)
        self.sentence_share, self.predicted_terms = sentence_share, predicted_terms
        self.term_probability, self.noun_probability = term_probability, noun_probability
        self.reads = frozenset({"corpus_parses", *(["target"] if predicted_terms else [])})
        self.tasks = frozenset({"token", *(["sequence"] if whole_texts else [])})
        self.kinds: frozenset[str] = frozenset()
        self.q: Tensor | None = None  # (phrases,) None before the target has been read

    def attach(self, session: Session) -> None:
        super().attach(session)
        self.augments = session.task.kind in self.tasks

    def prepare(self) -> dict[str, Any]:
        """Count the target's noun phrases, and find the places of the source that can take one."""
        if not self.augments:
            return {}
        session, texts = self.session, self.session.domains.unlabelled.texts
        records, parses = session.domains.source_train, session.corpora.parses("source")
        self.kinds = term_kinds(session)
        source = len(session.domains.source_records)  # labelled target records that have joined stand behind
        told_apart = len(self.kinds) > 1 and type_agreement(records[:source], self.kinds) >= TELLS
        nothing = told_apart and not are_names(records[:source], parses[:source], self.kinds)
        if told_apart:
            which = "nothing is" if nothing else "only other nouns are"
            log.info("term_substitution: nouns tell %s apart: %s rewritten", ", ".join(sorted(self.kinds)), which)
            self.kinds = frozenset()
        target_parses = session.corpora.parses("target")
        self.uses = phrases(texts, target_parses)
        self.phrases = list(self.uses)
        self.spellings = [spelling(self.uses[phrase], texts, target_parses) for phrase in self.phrases]
        telling = telling_nouns(records[:source], parses[:source])
        pairs = zip(records, parses, strict=True)
        self.places = {r.id: [] if nothing else places(r, p, self.kinds, telling) for r, p in pairs}
        if self._reads_target() and session.source_only is not None:
            self.q = self._probabilities(session.readings.source_only())
        self._fill()
        every = [place for record_places in self.places.values() for place in record_places]
        terms = sum(place.term for place in every)
        counts = {"phrases": len(self.phrases), "terms": terms, "others": len(every) - terms}
        return {f"term_substitution/{name}": count for name, count in counts.items()}

    def _fill(self) -> None:
        """Pools to draw from, by what the network predicts now."""
        counts = np.array([len(self.uses[phrase]) for phrase in self.phrases], dtype=np.float64) ** POWER
        q = None if self.q is None else self.q.numpy()
        self.pools: dict[tuple[bool, bool], Pool] = {}
        for term, plural in itertools.product((False, True), (False, True)):
            likely = np.ones(len(counts)) if q is None else FLOOR + (q if term else 1 - q)
            fits = [p.plural == plural and (term or " " not in p.words) for p in self.phrases]
            self.pools[term, plural] = Pool(np.flatnonzero(fits), (counts * likely)[fits])

    def augment(self, records: Sequence[Record], epoch: int, random: np.random.Generator) -> Sequence[Record]:
        """A share of the records, rewritten; one that another method has changed already is left alone."""
        if not self.augments:
            return records
        known = self.session.domains.source_train
        chosen = random.random(len(records)) < self.sentence_share
        return [
            self._rewritten(record, random) if take and record is original else record
            for record, original, take in zip(records, known, chosen, strict=True)
        ]

    def _rewritten(self, record: Record, random: np.random.Generator) -> Record:
        edits = []
        pair, alike = len(parts(record.text)) == 2, dict[str, int | None]()
        for place in self.places[record.id]:
            noun = record.text[place.start : place.end].lower()
            if pair and noun in alike:
                drawn = alike[noun]
            elif random.random() < (self.term_probability if place.term else self.noun_probability):
                drawn = self.pools[place.term, place.plural].draw(random)
            else:
                drawn = None
            alike[noun] = drawn
            if drawn is not None:
                phrase = self.spellings[drawn]
                capital = place.start == 0 and record.text[0].isupper()
                edits.append(Edit(place.start, place.end, phrase[0].upper() + phrase[1:] if capital else phrase))
        return edited(record, edits) if edits else record

    def after_epoch(self, epoch: int) -> None:
        """Read the target: where does each phrase belong?"""
        epochs, done = self.session.epochs, epoch + 1
        if self._reads_target() and done < epochs and (self.session.source_only is None or 2 * done >= epochs):
            self.q = self._probabilities(self.session.readings.now())
            self._fill()

    def _reads_target(self) -> bool:
        return bool(self.predicted_terms and self.kinds and self.phrases)

    def _probabilities(self, readings: Mapping[int, ReadText]) -> Tensor:
        """(phrases,) of standing in terms, by what a network makes of target texts."""
        tags = [i for i, label in enumerate(self.session.task.labels) if label[2:] in self.kinds]
        read = {text: (one.words, one.rows[:, tags].exp().sum(1)) for text, one in readings.items()}
        words = {text: dict(zip(numbers, sums.tolist(), strict=True)) for text, (numbers, sums) in read.items()}
        return term_probabilities(self.phrases, self.uses, words)

    def memory(self) -> dict[str, Any]:
        return {"q": self.q}

    def recall(self, memory: dict[str, Any]) -> None:
        self.q = memory["q"]
        if hasattr(self, "uses"):  # not in a loaded model, which writes no text
            self._fill()


class Pool:
    """Numbers to draw from, each in proportion to its weight.

    >>> Pool(np.array([7, 9]), np.array([0.0, 2.0])).draw(np.random.default_rng(0))
    9
    """

    def __init__(self, numbers: Any, weights: Any) -> None:
        self.numbers, self.sums = numbers.tolist(), np.cumsum(weights).tolist()

    def draw(self, random: np.random.Generator) -> int | None:
        """The number of one; None if there is none."""
        if not self.numbers:
            return None
        return int(self.numbers[min(bisect(self.sums, random.random() * self.sums[-1]), len(self.numbers) - 1)])


def phrases(texts: Sequence[Text], parses: Sequence[Parse]) -> dict[Phrase, list[Use]]:
    """Noun phrases of texts, with all of their uses."""
    uses: dict[Phrase, list[Use]] = {}
    for number, (text, parse) in enumerate(zip(texts, parses, strict=True)):
        for phrase in noun_phrases(parse, text.text):
            use = Use(number, phrase.first, phrase.end)
            uses.setdefault(Phrase(use_text(use, texts, parses).lower(), phrase.plural), []).append(use)
    return uses


def use_text(use: Use, texts: Sequence[Text], parses: Sequence[Parse]) -> str:
    """A phrase as it stands there, its words apart by spaces."""
    text, words = texts[use.text].text, parses[use.text].words[use.first : use.end].tolist()
    return " ".join(text[start:end] for start, end in words)


def spelling(uses: Sequence[Use], texts: Sequence[Text], parses: Sequence[Parse]) -> str:
    """How a phrase is mostly written where it does not open a text; in lower case if it always does."""
    inside = Counter(use_text(use, texts, parses) for use in uses if use.first)
    return max(inside, key=lambda form: (inside[form], form)) if inside else use_text(uses[0], texts, parses).lower()


def term_probabilities(
    phrases: Sequence[Phrase], uses: Mapping[Phrase, Sequence[Use]], words: Mapping[int, Mapping[int, float]]
) -> Tensor:
    """(phrases,) mean probability of each phrase, shrunk; ``words``: of each word that was read, by number, by text.

    >>> one, two = Phrase("battery life", False), Phrase("life", False)
    >>> term_probabilities([one, two], {one: [Use(0, 0, 2)], two: []}, {0: {0: 1.0, 1: 0.5}}).tolist()
    [0.75, 0.75]
    """
    sums, counts = np.zeros(len(phrases)), np.zeros(len(phrases))
    for number, phrase in enumerate(phrases):
        for use in uses[phrase]:
            known = words.get(use.text, {})
            if probabilities := [known[word] for word in range(use.first, use.end) if word in known]:
                sums[number] += sum(probabilities) / len(probabilities)
                counts[number] += 1
    heads: dict[str, int] = {}
    head = np.array([heads.setdefault(phrase.words.split()[-1], len(heads)) for phrase in phrases])
    mean = sums.sum() / max(1.0, counts.sum())
    of_head = (np.bincount(head, sums) + SHRINKAGE * mean) / (np.bincount(head, counts) + SHRINKAGE)
    return torch.from_numpy((sums + SHRINKAGE * of_head[head]) / (counts + SHRINKAGE))


def type_agreement(records: Sequence[Record], kinds: Collection[str]) -> float:
    """How well a term's last word tells its type: 1, always; 0, no better than chance.

    The share of pairs of terms with the same last word that are of one type, corrected for chance as Cohen's kappa is,
    where chance is the share of all pairs. Each word counts by its uses. Names have .88 to .89 and aspects with their
    polarity .11 to .30 in five corpora.

    >>> from domadapt.data.records import Span
    >>> text, spans = "Food and wine.", (Span(0, 4, "good"), Span(9, 13, "good"))
    >>> one = Record("1", "bars", text, spans=spans)
    >>> other = Record("2", "bars", text, spans=(Span(0, 4, "bad"), Span(9, 13, "bad")))
    >>> type_agreement([one, other, one, other], {"good", "bad"})
    0.0
    """
    by_word: dict[str, Counter[str]] = {}
    for record in records:
        for span in record.spans or ():
            if span.type in kinds:
                for word in record.text[span.start : span.end].lower().split()[-1:]:  # none of a span of spaces
                    by_word.setdefault(word, Counter())[span.type] += 1
    met = [counts for counts in by_word.values() if counts.total() > 1]
    if not met:
        return 1.0
    every = sum(met, Counter[str]())

    def same(counts: Counter[str]) -> float:
        return sum(n * (n - 1) for n in counts.values()) / (counts.total() - 1)

    chance = same(every) / every.total()
    return max(0.0, (sum(map(same, met)) / every.total() - chance) / (1 - chance)) if chance < 1 else 0.0


def are_names(records: Sequence[Record], parses: Sequence[Parse], kinds: Collection[str]) -> bool:
    """Whether spans of these types mostly end in a proper noun."""
    proper = met = 0
    for record, parse in zip(records, parses, strict=True):
        ends = {int(end): word for word, (_, end) in enumerate(parse.words)}
        places = [ends[span.end] for span in record.spans or () if span.type in kinds and span.end in ends]
        met += len(places)
        proper += sum(universal_tag(parse.tags[word]) == "PROPN" for word in places)
    return proper > met / 2


def telling_nouns(records: Sequence[Record], parses: Sequence[Parse]) -> frozenset[str]:
    """Nouns that go with one class, where texts are classified: they stay, lest labels lose their reason.

    What most nouns go with, since most texts are of that class, tells nothing: of two classes as frequent as each other
    four of five uses tell, of one that three texts of four have nine of ten.
    """
    by_class: dict[str, Counter[str]] = {}
    for record, parse in zip(records, parses, strict=True):
        if record.label is not None:
            for word, (start, end) in enumerate(parse.words.tolist()):
                if is_noun(parse, word, record.text):
                    by_class.setdefault(record.text[start:end].lower(), Counter())[record.label] += 1
    every = sum(by_class.values(), Counter[str]())

    def tells(counts: Counter[str]) -> bool:
        shares = [(count / counts.total(), every[label] / every.total()) for label, count in counts.items()]
        return any(noun_share - share > TELLING * (1 - share) for noun_share, share in shares)

    return frozenset(noun for noun, counts in by_class.items() if counts.total() >= MET and tells(counts))


def places(record: Record, parse: Parse, kinds: Collection[str], telling: frozenset[str]) -> list[Place]:
    """Where a record can take a noun phrase: spans of these types on whole words, and nouns outside of every span."""
    starts = {int(start) for start in parse.words[:, 0]}
    ends = {int(end): word for word, end in enumerate(parse.words[:, 1])}
    spans = record.spans or ()

    def overlaps_span(start: int, end: int, ignored: Any = None) -> bool:
        return any(s is not ignored and s.start < end and start < s.end for s in spans)

    slots = [
        Place(s.start, s.end, parse.tags[ends[s.end]] in PLURALS, True)
        for s in spans
        if s.type in kinds and s.start in starts and s.end in ends and not overlaps_span(s.start, s.end, s)
    ]
    for word, (start, end) in enumerate(parse.words.tolist()):
        noun = is_noun(parse, word, record.text) and record.text[start:end].lower() not in telling
        if noun and not overlaps_span(start, end):
            slots.append(Place(start, end, parse.tags[word] in PLURALS, False))
    return slots
