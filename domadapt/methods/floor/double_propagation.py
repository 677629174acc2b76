"""Terms by double propagation (Qiu et al. 2011), from the source's opinion words through the target's trees.

Nouns are listed for their relations to opinion words, and to each other, in the unlabelled target
(:mod:`domadapt.syntax.double_propagation`). Whether a listed noun is a term wherever it stands, or only where a rule
finds it, is decided by the F1 of exact terms that the same propagation reaches on the source.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from domadapt.data.records import Record
from domadapt.methods.floor.floor import Floor
from domadapt.methods.method import in_range
from domadapt.syntax.double_propagation import JOINED, JUDGED, LISTED, Propagated, double_propagation, found_in
from domadapt.syntax.nouns import noun_phrases
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.path_rules import Words

LEVELS = {LISTED: "listed", JOINED: "joined with a term", JUDGED: "judged"}


class DoublePropagation(Floor):
    """Nouns that propagation finds are terms.

    Args:
        rounds: of propagation.
        met: relations that must tell a word before it is listed.
        least, share: of opinion words, see :class:`Floor`.
    """

    def __init__(self, rounds: int, met: int, least: int, share: float) -> None:
        super().__init__("double_propagation", least, share)
        in_range("floor.double_propagation.rounds", rounds, 1)
        in_range("floor.double_propagation.met", met, 1)
        self.rounds, self.met = rounds, met
        self.level, self.precision = JUDGED, 0.0

    def learn_terms(
        self, records: Sequence[Record], parses: Sequence[Parse], texts: Sequence[Text], target: Sequence[Parse]
    ) -> dict[str, Any]:
        """Propagate through both domains; the source's terms decide what counts as found."""
        own, self.told = (
            double_propagation(some, trees, self.opinions.keys(), self.rounds, self.met)
            for some, trees in ((records, parses), (texts, target))
        )
        both = [*zip(records, parses, strict=True)]
        gold = {
            (number, parse.within(span.start, span.end))
            for number, (record, parse) in enumerate(both)
            for span in record.spans or ()
            if span.type in self.kinds
        }
        scores = {}
        for level in LEVELS:
            found = {(number, run) for number, one in enumerate(both) for run in runs(*one, own, level)}
            right = len(found & gold)
            scores[level] = 2 * right / max(1, len(found) + len(gold)), right / max(1, len(found))
        self.level = max(LEVELS, key=lambda level: scores[level])
        self.precision = scores[self.level][1]
        return {"floor/terms": len(self.told.terms), "floor/found": LEVELS[self.level]}

    def terms(self, text: Text, parse: Parse) -> Iterator[tuple[Words, str, float]]:
        """Runs of nouns that are found at the level that serves the source best."""
        yield from ((run, self.term_type, self.precision) for run in runs(text, parse, self.told, self.level))


def runs(text: Text, parse: Parse, told: Propagated, level: int) -> Iterator[Words]:
    """Runs of nouns of a text that are found at a level or a higher one."""
    found = found_in(text, parse, told)
    for phrase in noun_phrases(parse, text.text):
        if found[phrase.first] >= level:
            yield phrase.first, phrase.end
