"""The contract of a task: what is predicted, its loss, its scores."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.data.records import Record, Span
from domadapt.models.output import Output
from domadapt.syntax.alignment import IntArray
from domadapt.tasks.rows import Rows
from domadapt.tasks.scores import Scores


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of one text.

    Attributes:
        label: the class, for classification.
        confidence: its probability, or the mean probability of the predicted words' classes.
        spans: character ranges of the user's own text, for extraction, each with its confidence.
    """

    label: str | None = None
    confidence: float = 0.0
    spans: tuple[Span, ...] = ()


class Task(Protocol):
    """A kind of label.

    Attributes:
        kind: ``token`` or ``sequence``: which stock head is used.
        labels: names of the classes, in the order of the logits.
        headline: name of the score that results are compared by.
    """

    kind: str
    labels: list[str]
    headline: str

    def learn_labels(self, records: Sequence[Record]) -> None:
        """Take the classes from labelled source records."""

    def learn_transitions(self, examples: Sequence[Example]) -> None:
        """Count how labels follow each other in labelled examples of the source; nothing where texts are classified."""

    def learnt(self) -> dict[str, Any]:
        """What a saved model needs to be told of the task: arguments of its class."""

    def check(self, records: Sequence[Record]) -> None:
        """Refuse records without the task's labels, or with unknown ones."""

    def usable(self, records: tuple[Record, ...], warnings: Counter[str]) -> tuple[Record, ...]:
        """Records that the task can learn from or be scored on; what is left out is counted."""

    def targets(
        self, records: Sequence[Record], words: Sequence[IntArray], warnings: Counter[str]
    ) -> dict[str, list[object]]:
        """Keyword arguments of :func:`domadapt.data.batches.encode` that carry the labels; oddities are counted."""

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """Scalar loss of a labelled batch."""

    def log_probabilities(self, output: Output, batch: Batch) -> Tensor:
        """(rows, classes) of what is classified, as decoding has it."""

    def rows(self, output: Output, batch: Batch) -> Rows:
        """What is classified: texts or words, with their classes where the batch is labelled."""

    def decode(self, output: Output, batch: Batch, words: Sequence[IntArray]) -> list[Prediction]:
        """One prediction a text; ``words`` are those of the batch's texts, in its order."""

    def score(self, records: Sequence[Record], predictions: Sequence[Prediction]) -> Scores:
        """Scores of predictions against labelled records, the headline among them."""
