"""The contract of a floor: rules that are learnt from the source and applied to the target, without a network."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from domadapt.data.records import Record, Span
from domadapt.methods.method import in_range
from domadapt.methods.opinion_paths import places
from domadapt.methods.term_types import noun_kinds
from domadapt.methods.weak_evidence import judging_words
from domadapt.syntax.double_propagation import words_of
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.path_rules import Words
from domadapt.tasks.task import Prediction


class Floor(ABC):
    """Extracts opinions by a list of words, and terms by rules that start from them.

    A new floor is a subclass in its own file, and one yaml with its ``_target_``.

    Args:
        name: of its settings.
        least: uses of a word in the source before it can be listed.
        share: of them that must judge, from 0 to 1.

    Attributes:
        kinds: span types of terms.
        opinions: words that judge, in lower case, with their span type; an empty one where only terms are annotated.
        term_type: the commonest of ``kinds``.
    """

    kinds: frozenset[str]
    opinions: dict[str, str]
    term_type: str

    def __init__(self, name: str, least: int, share: float) -> None:
        in_range(f"floor.{name}.least", least, 1)
        in_range(f"floor.{name}.share", share, 0.0, 1.0)
        self.least, self.share = least, share

    def learn(
        self, records: Sequence[Record], parses: Sequence[Parse], texts: Sequence[Text], target: Sequence[Parse]
    ) -> dict[str, Any]:
        """Read everything off the source; what is counted in the target is counted without a label of it.

        Args:
            records: labelled, of the source.
            parses: of them.
            texts: unlabelled, of the target.
            target: parses of these.

        Returns:
            What to record of it.

        Raises:
            ValueError: the source has no terms, or the parser gives no parts of speech.
        """
        self.kinds = noun_kinds(records, parses)
        if not self.kinds:
            raise ValueError(
                "floor: expected spans that are mostly nouns, as terms are, and a parser that tags parts of speech; "
                "the source has none; leave the floor out"
            )
        met: dict[str, Counter[str]] = {}
        every = Counter(span.type for record in records for span in record.spans or ())
        for record, parse in zip(records, parses, strict=True):
            words = words_of(record, parse)
            for span in [span for span in record.spans or () if span.type not in self.kinds]:
                for place in range(*(parse.within(span.start, span.end) or (0, 0))):
                    met.setdefault(words[place], Counter())[span.type] += 1
        seeds = sorted(judging_words(records, parses, self.kinds, self.least, self.share))
        self.opinions = {word: met[word].most_common(1)[0][0] if word in met else "" for word in seeds}
        self.term_type = next(kind for kind, _ in every.most_common() if kind in self.kinds)
        return {"floor/opinions": len(seeds), **self.learn_terms(records, parses, texts, target)}

    @abstractmethod
    def learn_terms(
        self, records: Sequence[Record], parses: Sequence[Parse], texts: Sequence[Text], target: Sequence[Parse]
    ) -> dict[str, Any]:
        """The rules, once the opinion words are known; arguments and result are those of :meth:`learn`."""

    @abstractmethod
    def terms(self, text: Text, parse: Parse) -> Iterator[tuple[Words, str, float]]:
        """First word and end of each term of a text, its type, and what share of the like is right in the source."""

    def predict(self, text: Text, parse: Parse) -> Prediction:
        """Spans of one text, opinions among them where the source has some.

        Args:
            text: of the target, or of any other domain.
            parse: of it.
        """
        words = words_of(text, parse)
        found: list[tuple[Words, str, float | None]] = [
            ((i, i + 1), self.opinions[words[i]], None) for i in places(text, parse, self.opinions)
        ]
        spans = {
            Span(int(parse.words[first, 0]), int(parse.words[end - 1, 1]), kind, sure)
            for (first, end), kind, sure in (*found, *self.terms(text, parse))
            if kind
        }
        return Prediction(spans=tuple(sorted(spans, key=lambda span: (span.start, span.end, span.type))))
