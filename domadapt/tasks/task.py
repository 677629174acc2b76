"""What a task is: labels, rows, scores, and which annotation it knows."""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.data.records import MISSING, DataError, Location, Record, Span
from domadapt.models.output import Output
from domadapt.syntax.alignment import IntArray


def tempered(log_probabilities: Tensor, temperature: float) -> Tensor:
    """Probabilities as confidences are told: (rows, classes), calibrated on source dev (Guo et al. 2017).

    >>> import torch
    >>> tempered(torch.tensor([[0.9, 0.1]]).log(), 2.0)
    tensor([[0.7500, 0.2500]])
    """
    return (log_probabilities / temperature).softmax(-1)


def check_temperature(value: Any) -> float:
    """A saved model's temperature.

    Raises:
        ValueError: it is none.
    """
    if type(value) not in (int, float) or not 0.01 <= value <= 100:
        raise ValueError(f"task.temperature={value!r}: expected a number from 0.01 to 100")
    return float(value)


def check_known(record: Record, field: str, value: str, known: Sequence[str]) -> None:
    """Refuse what is not among the task's own.

    Args:
        field: ``label`` or ``span type``.

    Raises:
        DataError: naming file and line, or the record where it came from no file.

    >>> check_known(Record("3", "camera", "Sharp.", label="postive"), "label", "postive", ["negative", "positive"])
    Traceback (most recent call last):
    domadapt.data.records.DataError: record 3 of camera: label is 'postive'; expected 'negative' or 'positive'; \
did you mean 'positive'?
    """
    if value not in known:
        close = get_close_matches(value, known, n=1)
        fix = f"did you mean {close[0]!r}?" if close else f"rename it, or train with it in task.{field.split()[-1]}s"
        raise DataError(place(record), field, value, " or ".join(map(repr, sorted(known))), fix)


def check_annotated(record: Record, field: str, value: object, task: str) -> None:
    """Refuse a record that nobody annotated.

    Raises:
        DataError: as :func:`check_known`.
    """
    if value is None:
        expected = f"something on each record, for task={task}"
        raise DataError(place(record), field, MISSING, expected, "annotate it, or drop the record")


def place(record: Record) -> Location:
    """Where a record was read, else which it is."""
    return record.where or Location(f"record {record.id} of {record.domain}")


MATTERS = 0.05  # probability of being something from which on a word counts
FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one pass over texts, in no particular order.

    Attributes:
        probabilities: (rows, classes).
        features: (rows, width) what the task head reads, in half precision.
        texts: (rows,) place of the text in its list.
        words: (rows,) number of the word in its text; 0 where texts are classified.
        classes: (rows,) true classes; -1 where there are none.
        outside: the class of words that are nothing; -1 where every row is something.
    """

    probabilities: FloatArray
    features: NDArray[np.float16]
    texts: IntArray
    words: IntArray
    classes: IntArray
    outside: int = -1

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labelled(self) -> bool:
        """Whether the classes are known."""
        return bool(len(self) and (self.classes >= 0).all())

    def where(self, chosen: Any) -> "Rows":
        """Some of the rows, by a mask or by numbers."""
        arrays = {name: getattr(self, name)[chosen] for name in ARRAYS}
        return Rows(**arrays, outside=self.outside)

    def that_matter(self) -> "Rows":
        """Rows that could be something: most words of a text are plainly nothing, and drown what is to be seen.

        >>> rows = Rows(np.array([[0.99, 0.01], [0.6, 0.4]], np.float32), *np.zeros((4, 2), np.int64), outside=0)
        >>> len(rows.that_matter())
        1
        """
        return self if self.outside < 0 else self.where(1 - self.probabilities[:, self.outside] > MATTERS)


ARRAYS = tuple(field.name for field in fields(Rows) if field.name != "outside")


def rows(logits: Tensor, features: Tensor, texts: Tensor, words: Tensor, classes: Tensor | None, outside: int) -> Rows:
    """Tensors of a batch, (rows, ...) each, as :class:`Rows`."""
    known = classes.cpu().numpy() if classes is not None else np.full(len(texts), -1, dtype=np.int64)
    return Rows(
        logits.float().softmax(-1).cpu().numpy(),
        features.half().cpu().numpy(),
        texts.cpu().numpy(),
        words.cpu().numpy(),
        known,
        outside,
    )


def joined(parts: Sequence[Rows], classes: int) -> Rows:
    """Rows of several batches together."""
    if not parts:
        none = np.empty(0, np.int64)
        return Rows(np.empty((0, classes), np.float32), np.empty((0, 0), np.float16), none, none, none)
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    return Rows(**arrays, outside=parts[0].outside)


Scores = dict[str, float]


def set_scores(gold: Collection[Hashable], predicted: Collection[Hashable], prefix: str) -> Scores:
    """Precision, recall and F1 of a predicted set; an item counts only if it is exactly in the gold set.

    >>> set_scores({(0, 4), (6, 9)}, {(0, 4), (6, 8)}, "aspect")["aspect_f1"]
    0.5
    """
    from sklearn.metrics import precision_recall_fscore_support  # over a second, which prediction does not need

    items = sorted({*gold, *predicted}, key=repr)
    gold_set, predicted_set = set(gold), set(predicted)
    truth, guess = [i in gold_set for i in items] or [False], [i in predicted_set for i in items] or [False]
    precision, recall, f1, _ = precision_recall_fscore_support(truth, guess, average="binary", zero_division=0.0)
    return {
        f"{prefix}_f1": float(f1),
        f"{prefix}_precision": float(precision),
        f"{prefix}_recall": float(recall),
        f"{prefix}_support": float(len(gold_set)),
    }


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Scores:
    """Macro F1, accuracy and F1 of each class that occurs in the gold labels.

    >>> class_scores(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])["accuracy"]
    0.6666666666666666
    """
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    present = [label for label in labels if label in set(gold)]
    _, _, each, support = precision_recall_fscore_support(gold, predicted, labels=present, zero_division=0.0)
    result = {"macro_f1": float(each.mean()), "accuracy": float(accuracy_score(gold, predicted))}
    for label, f1, count in zip(present, each, support, strict=True):
        result |= {f"{label}_f1": float(f1), f"{label}_support": float(count)}
    return result


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of one text.

    Attributes:
        label: the class, for classification.
        confidence: its probability, or the mean probability of the predicted words' classes.
        spans: character ranges of the user's own text, for extraction, each with its confidence.
        truncated: whether the text's end was not read.
    """

    label: str | None = None
    confidence: float = 0.0
    spans: tuple[Span, ...] = ()
    truncated: bool = False


class Task(Protocol):
    """A kind of label.

    Attributes:
        kind: ``token`` or ``sequence``: which stock head is used.
        labels: names of the classes, in the order of the logits.
        temperature: of confidences; 1 until it is fitted to source dev.
        headline: name of the score that results are compared by.
    """

    kind: str
    labels: list[str]
    temperature: float
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
