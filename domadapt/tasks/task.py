"""What a task is: which annotation it knows, how it is learnt, decoded and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from domadapt.config.overrides import in_range
from domadapt.data.records import MISSING, DataError, Location, Record, Span
from domadapt.tasks.rows import Predicted
from domadapt.utils.pairs import parts

if TYPE_CHECKING:  # labels are checked before torch is loaded
    from torch import Tensor

    from domadapt.data.batches import Batch, Example
    from domadapt.data.domains import UnlabelledText
    from domadapt.models.contracts import Output
    from domadapt.syntax.alignment import IntArray

Scores = dict[str, float]
Targets = dict[str, list[Any]]  # keyword arguments of :func:`domadapt.data.batches.encode`
OTHER_THAN = {True: "a single text", False: "a pair"}


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of one text."""

    label: str | None = None  #: the class, for classification
    confidence: float = 0.0  #: its probability, or the mean probability of the predicted words' classes
    spans: tuple[Span, ...] = ()  #: character ranges of the user's own text, for extraction, each with its confidence
    truncated: bool = False  #: whether the text's end was not read


def row(text: UnlabelledText, prediction: Prediction, kind: str) -> dict[str, Any]:
    """A prediction as a line of JSON says it; ``kind`` is the task's, ``sequence`` or ``token``.

    >>> from domadapt.data.domains import UnlabelledText
    >>> row(UnlabelledText("a:1", "", "Fast."), Prediction("positive", 0.91239), "sequence")
    {'id': 'a:1', 'text': 'Fast.', 'label': 'positive', 'confidence': 0.9124}
    >>> row(UnlabelledText("a:1", "", "Fast."), Prediction(spans=(Span(0, 4, "opinion", 0.75),)), "token")["spans"]
    [{'start': 0, 'end': 4, 'type': 'opinion', 'text': 'Fast', 'confidence': 0.75}]
    """
    line: dict[str, Any] = {"id": text.id, "text": text.text}
    if kind == "sequence":
        line |= {"label": prediction.label, "confidence": round(prediction.confidence, 4)}
    else:
        line["spans"] = [span_row(span, text.text) for span in prediction.spans]
    return line | ({"truncated": True} if prediction.truncated else {})


def span_row(span: Span, text: str | None = None) -> dict[str, Any]:
    """A span as a part of such a line, with its words if the text is given."""
    line: dict[str, Any] = {"start": span.start, "end": span.end, "type": span.type}
    line |= {} if text is None else {"text": text[span.start : span.end]}
    return line if span.confidence is None else line | {"confidence": round(span.confidence, 4)}


def labels_of(labelled: Record | Prediction, kind: str) -> set[Any]:
    """The class of a text, or its spans as (start, end, type); ``kind`` is the task's."""
    return {labelled.label} if kind == "sequence" else {(s.start, s.end, s.type) for s in labelled.spans or ()}


class Task(ABC):
    """A kind of label."""

    kind: str  #: ``token`` or ``sequence``: which stock head is used
    field: str  #: of records, that holds what is learnt: ``label`` or ``spans``
    annotation: str  #: what that is called where it is missing
    labels: list[str]  #: names of the classes, in the order of the logits
    headline: str  #: name of the score that results are compared by
    pairs = False  #: whether a text is a pair of texts

    def __init__(self, temperature: float) -> None:
        in_range("task.temperature", temperature, 0.01, 100)
        self.temperature = float(temperature)  # of confidences; 1 until it is fitted to source dev

    @abstractmethod
    def learn_labels(self, records: Sequence[Record]) -> None:
        """Take the classes from labelled source records, unless the configuration names them."""

    @property
    def names(self) -> list[str]:
        """What is told of a text: its labels, or its types of spans."""
        types: list[str] = getattr(self, "types", self.labels)
        return types

    def learn_transitions(self, examples: Sequence[Example]) -> None:  # noqa: B027
        """Count how labels follow each other in labelled examples of the source; nothing where texts are classified."""

    def check_texts(self, texts: Iterable[str], whose: str, in_python: str = "") -> None:
        """Refuse single texts where the source has pairs, and pairs where it has single texts."""
        for text in texts:
            if (len(parts(text)) == 2) != self.pairs:
                pairs = f"pairs: give the second text as text_pair{in_python}"
                wanted = pairs if self.pairs else "single texts: drop text_pair"
                raise ValueError(f"{whose}: {text[:60]!r} is {OTHER_THAN[self.pairs]}; the model learns from {wanted}")

    @abstractmethod
    def learnt(self) -> dict[str, Any]:
        """What a saved model needs to be told of the task: arguments of its class."""

    @abstractmethod
    def check(self, records: Sequence[Record]) -> None:
        """Refuse records without the task's labels, or with unknown ones."""

    def usable(self, records: tuple[Record, ...], warnings: Counter[str]) -> tuple[Record, ...]:
        """Records with the task's annotation; those without, which some formats have, are counted and left out.

        If none has it all come back: an error, told by :meth:`check`.
        """
        having = tuple(record for record in records if getattr(record, self.field) is not None)
        if having and len(having) < len(records):
            warnings[f"record without {self.annotation}, left out"] += len(records) - len(having)
        return having or records

    @abstractmethod
    def targets(self, records: Sequence[Record], words: Sequence[IntArray], warnings: Counter[str]) -> Targets:
        """What carries the labels into :func:`domadapt.data.batches.encode`; oddities are counted."""

    @abstractmethod
    def loss(self, output: Output, batch: Batch) -> Tensor:
        """Scalar loss of a labelled batch."""

    @abstractmethod
    def log_probabilities(self, output: Output, batch: Batch) -> Tensor:
        """(rows, classes) of what is classified, as decoding has it."""

    @abstractmethod
    def rows(self, output: Output, batch: Batch) -> Predicted:
        """What is classified: texts or words, with their classes where the batch is labelled."""

    @abstractmethod
    def decode(self, output: Output, batch: Batch, words: Sequence[IntArray]) -> list[Prediction]:
        """One prediction a text; ``words`` are those of the batch's texts, in its order."""

    @abstractmethod
    def score(self, records: Sequence[Record], predictions: Sequence[Prediction]) -> Scores:
        """Scores of predictions against labelled records, the headline among them."""


def tempered(log_probabilities: Tensor, temperature: float) -> Tensor:
    """Probabilities as confidences are told: (rows, classes), calibrated on source dev (Guo et al. 2017).

    >>> import torch
    >>> tempered(torch.tensor([[0.9, 0.1]]).log(), 2.0)
    tensor([[0.7500, 0.2500]])
    """
    return (log_probabilities / temperature).softmax(-1)


def check_known(record: Record, field: str, value: str, known: Sequence[str]) -> None:
    """Refuse what is not among the task's own; the error names file and line, or the record where it came from none.

    >>> check_known(Record("3", "camera", "Sharp.", label="postive"), "label", "postive", ["negative", "positive"])
    Traceback (most recent call last):
    domadapt.data.records.DataError: record 3 of camera: label is 'postive'; expected 'negative' or 'positive'; \
did you mean 'positive'?
    """
    if value not in known:
        close = get_close_matches(value, known, n=1)
        fix = f"did you mean {close[0]!r}?" if close else f"rename it, or train with it in task.{field.split()[-1]}s"
        raise DataError(_place(record), field, value, " or ".join(map(repr, sorted(known))), fix)


def check_annotated(record: Record, field: str, value: object, task: str) -> None:
    """Refuse a record that nobody annotated, or for another task alone."""
    if value is None:
        fix = "annotate it, or drop the record"
        if record.spans is not None or record.label is not None:
            fix = f"this one has {'a label' if record.spans is None else 'spans'}, for another task"
        raise DataError(_place(record), field, MISSING, f"a value on each record, for task={task}", fix)


def _place(record: Record) -> Location:
    return record.where or Location(f"record {record.id} of {record.domain}")


def set_scores(gold: Collection[Hashable], predicted: Collection[Hashable], prefix: str) -> Scores:
    """Precision, recall and F1 of a predicted set; an item counts only if it is exactly in the gold set.

    >>> set_scores({(0, 4), (6, 9)}, {(0, 4), (6, 8)}, "aspect")["aspect_f1"]
    0.5
    """
    gold, predicted = set(gold), set(predicted)
    right = len(gold & predicted)
    return {
        f"{prefix}_f1": 2 * right / ((len(gold) + len(predicted)) or 1),
        f"{prefix}_precision": right / (len(predicted) or 1),
        f"{prefix}_recall": right / (len(gold) or 1),
        f"{prefix}_support": float(len(gold)),
    }


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Scores:
    """Macro F1, accuracy and F1 of each class that occurs in the gold labels.

    >>> class_scores(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])["accuracy"]
    0.6666666666666666
    """
    each: Scores = {}
    present = [label for label in labels if label in set(gold)]
    for label in present:
        gold_texts, predicted_texts = ({i for i, one in enumerate(side) if one == label} for side in (gold, predicted))
        scores = set_scores(gold_texts, predicted_texts, label)
        each |= {name: scores[name] for name in (f"{label}_f1", f"{label}_support")}
    average = {"macro_f1": float(np.mean([each[f"{label}_f1"] for label in present]))}
    average["accuracy"] = float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))
    return average | each | average  # first, and not those of a class that is called macro
