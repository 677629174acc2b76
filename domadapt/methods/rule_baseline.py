"""Ten dependency paths from opinion words to terms, learnt from the source, in place of a network.

After Klein et al. 2022: see :func:`domadapt.syntax.nouns.learn_rules`. Every benchmark of spans should print it: a
network that is not better has learnt nothing that transfers.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from domadapt.config.overrides import in_range
from domadapt.data.records import Record, Span
from domadapt.methods.terms import needed_kinds, opinion_words, path_rules, places, words_of
from domadapt.syntax.nouns import Rule, Words, linked_nouns
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.trees import Path
from domadapt.tasks.task import Prediction


class PathRules:
    """Opinions by a list of words; whatever run of nouns a rule leads to from one of them is a term."""

    kinds: frozenset[str]  #: span types of terms
    opinions: dict[str, str]  #: opinion words, in lower case, with their span type; "" where only terms are annotated
    term_type: str  #: the commonest of ``kinds``
    rules: dict[Path, Rule]  #: in the order they were taken
    type_by_opinion: dict[str, str]  #: by opinion word, the type of the terms that it mostly goes with in the source

    def __init__(self, rules: int, longest: int, min_uses: int, opinion_share: float) -> None:
        for name, value in (("min_uses", min_uses), ("rules", rules), ("longest", longest)):
            in_range(f"rule_baseline.path_rules.{name}", value, 1)
        in_range("rule_baseline.path_rules.opinion_share", opinion_share, 0.0, 1.0)
        self.min_uses, self.opinion_share, self.most, self.longest = min_uses, opinion_share, rules, longest

    def learn(self, records: Sequence[Record], parses: Sequence[Parse]) -> dict[str, Any]:
        """Read everything off the source; returns what to record of it."""
        self.kinds = needed_kinds("rule_baseline", records, parses)
        met: dict[str, Counter[str]] = {}
        every = Counter(span.type for record in records for span in record.spans or ())
        for record, parse in zip(records, parses, strict=True):
            words = words_of(record, parse)
            for span in [span for span in record.spans or () if span.type not in self.kinds]:
                for place in range(*(parse.within(span.start, span.end) or (0, 0))):
                    met.setdefault(words[place], Counter())[span.type] += 1
        listed = sorted(opinion_words(records, parses, self.kinds, self.min_uses, self.opinion_share))
        self.opinions = {word: met[word].most_common(1)[0][0] if word in met else "" for word in listed}
        self.term_type = next(kind for kind, _ in every.most_common() if kind in self.kinds)
        rules = path_rules(records, parses, self.kinds, self.opinions, self.most, self.longest)
        self.rules = {rule.path: rule for rule in rules}
        types: dict[str, Counter[str]] = {}  # where terms have several, such as polarities: of each opinion word
        for record, parse in zip(records, parses, strict=True):
            annotated = {parse.within(span.start, span.end): span.type for span in record.spans or ()}
            words = words_of(record, parse)
            for run, opinion, path in linked_nouns(record, parse, places(record, parse, self.opinions), self.longest):
                if path in self.rules and annotated.get(run) in self.kinds:
                    types.setdefault(words[opinion], Counter())[annotated[run]] += 1
        self.type_by_opinion = {word: counts.most_common(1)[0][0] for word, counts in types.items()}
        return {"rule_baseline/opinions": len(listed), "rule_baseline/rules": [str(rule) for rule in rules]}

    def predict(self, text: Text, parse: Parse) -> Prediction:
        """Spans of one text: runs of nouns, each by the rule of highest precision that leads to it, which is how sure
        it is; and opinions, where the source has some."""
        words, ranges, opinions = words_of(text, parse), parse.words.tolist(), places(text, parse, self.opinions)
        best: dict[Words, tuple[float, str]] = {}
        for run, opinion, path in linked_nouns(text, parse, opinions, self.longest):
            if path in self.rules:
                kind = self.type_by_opinion.get(words[opinion], self.term_type)
                best[run] = max(best.get(run, (0.0, "")), (self.rules[path].precision, kind))
        spans = [Span(ranges[a][0], ranges[end - 1][1], kind, sure) for (a, end), (sure, kind) in best.items()]
        spans += [Span(ranges[i][0], ranges[i][1], kind) for i in opinions if (kind := self.opinions[words[i]])]
        return Prediction(spans=tuple(sorted(spans, key=lambda span: (span.start, span.end, span.type))))
