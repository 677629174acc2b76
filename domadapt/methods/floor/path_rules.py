"""Ten dependency paths from opinion words to terms, learnt from the source, and nothing else.

Klein et al. (2022), Opinion-based Relational Pivoting for Cross-domain Aspect Term Extraction: few terms are shared
between domains, nearly all paths are. :mod:`domadapt.syntax.path_rules` says how rules are learnt. Opinion words are
those of the source: with those that double propagation adds from the target, F1 of opinions falls, on source dev too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from domadapt.data.records import Record
from domadapt.methods.floor.floor import Floor
from domadapt.methods.method import in_range
from domadapt.methods.opinion_paths import path_rules, places
from domadapt.syntax.double_propagation import words_of
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.path_rules import Rule, Words, linked
from domadapt.syntax.trees import Path


class PathRules(Floor):
    """Whatever a rule leads to is a term.

    Args:
        rules: at most.
        longest: arcs of a path.
        least, share: of opinion words, see :class:`Floor`.

    Attributes:
        rules: by their paths, in the order they were taken.
        judged: type of the terms that an opinion word mostly judges in the source, where it does.
    """

    def __init__(self, rules: int, longest: int, least: int, share: float) -> None:
        super().__init__("path_rules", least, share)
        in_range("floor.path_rules.rules", rules, 1)
        in_range("floor.path_rules.longest", longest, 1)
        self.most, self.longest = rules, longest
        self.rules: dict[Path, Rule] = {}
        self.judged: dict[str, str] = {}

    def learn_terms(
        self, records: Sequence[Record], parses: Sequence[Parse], texts: Sequence[Text], target: Sequence[Parse]
    ) -> dict[str, Any]:
        """Rules; where terms have several types, such as polarities, which of them goes with an opinion word."""
        rules = path_rules(records, parses, self.kinds, self.opinions, self.most, self.longest)
        self.rules = {rule.path: rule for rule in rules}
        types: dict[str, Counter[str]] = {}
        for record, parse in zip(records, parses, strict=True):
            told = {parse.within(span.start, span.end): span.type for span in record.spans or ()}
            words = words_of(record, parse)
            for run, opinion, path in linked(record, parse, places(record, parse, self.opinions), self.longest):
                if path in self.rules and told.get(run) in self.kinds:
                    types.setdefault(words[opinion], Counter())[told[run]] += 1
        self.judged = {word: counts.most_common(1)[0][0] for word, counts in types.items()}
        return {"floor/rules": [str(rule) for rule in rules]}

    def terms(self, text: Text, parse: Parse) -> Iterator[tuple[Words, str, float]]:
        """Each run of nouns by the rule of highest precision that leads to it."""
        words = words_of(text, parse)
        best: dict[Words, tuple[float, str]] = {}
        for run, opinion, path in linked(text, parse, places(text, parse, self.opinions), self.longest):
            if path in self.rules:
                kind = self.judged.get(words[opinion], self.term_type)
                best[run] = max(best.get(run, (0.0, "")), (self.rules[path].precision, kind))
        yield from ((run, kind, sure) for run, (sure, kind) in best.items())
