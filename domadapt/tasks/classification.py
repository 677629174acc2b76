"""One label a text, and the task that a source's annotation tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from domadapt.config.overrides import one_of
from domadapt.data.records import Record
from domadapt.tasks.rows import Predicted, rows_of
from domadapt.tasks.task import Prediction, Scores, Targets, Task, check_annotated, check_known, class_scores, tempered
from domadapt.utils.pairs import are_pairs

if TYPE_CHECKING:  # labels are checked before torch is loaded
    from torch import Tensor

    from domadapt.data.batches import Batch
    from domadapt.models.contracts import Output
    from domadapt.syntax.alignment import IntArray


class Classification(Task):
    """Text classification; compared by macro F1, because domains differ in how often each label occurs.

    A saved model also gives the temperature of confidences and whether texts are pairs; training learns both.
    """

    kind = "sequence"
    field, annotation = "label", "a label"

    def __init__(
        self, labels: list[str] | None = None, headline: str = "macro_f1", temperature: float = 1.0, pairs: bool = False
    ) -> None:
        super().__init__(temperature)
        self.pairs = pairs
        if isinstance(labels, str):
            raise ValueError(f"task.labels={labels!r}: expected a list, such as task.labels=[negative,positive]")
        one_of("task.headline", headline, "macro_f1", "accuracy")
        self.headline = headline
        self.labels = [str(label) for label in labels or []]
        if twice := [label for label in self.labels if self.labels.count(label) > 1]:
            raise ValueError(
                f"task.labels={self.labels}: {twice[0]!r} is there twice, and would count so; name it once"
            )

    def learn_labels(self, records: Sequence[Record]) -> None:
        self.pairs = are_pairs((r.text for r in records), "the source")
        self.labels = self.labels or sorted({r.label for r in records if r.label is not None})
        if len(self.labels) < 2:
            raise ValueError(f"task=classification: the source has the labels {self.labels}, at least 2 are needed")

    def learnt(self) -> dict[str, Any]:
        return {"labels": self.labels, "temperature": round(self.temperature, 4), "pairs": self.pairs}

    def check(self, records: Sequence[Record]) -> None:
        self.check_texts((record.text for record in records), "a labelled text")
        for record in records:
            check_annotated(record, "label", record.label, "classification")
            check_known(record, "label", str(record.label), self.labels)

    def targets(self, records: Sequence[Record], words: Sequence[IntArray], warnings: Counter[str]) -> Targets:
        return {"labels": [self.labels.index(str(r.label)) for r in records]}

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """Mean cross entropy over texts."""
        import torch.nn.functional as F

        assert batch.labels is not None
        return F.cross_entropy(output.logits.float(), batch.labels)

    def log_probabilities(self, output: Output, batch: Batch) -> Tensor:
        return output.logits.float().log_softmax(-1)

    def rows(self, output: Output, batch: Batch) -> Predicted:
        """One row a text; its first piece is what nearly all heads read."""
        return rows_of(output.logits, output.states[:, 0], batch.index, batch.index * 0, batch.labels, o_class=-1)

    def decode(self, output: Output, batch: Batch, words: Sequence[IntArray]) -> list[Prediction]:
        """The likeliest class of each text and its probability, calibrated."""
        confidence, best = tempered(self.log_probabilities(output, batch), self.temperature).max(-1)
        return [Prediction(self.labels[i], c) for i, c in zip(best.tolist(), confidence.tolist(), strict=True)]

    def score(self, records: Sequence[Record], predictions: Sequence[Prediction]) -> Scores:
        """Macro F1, accuracy, F1 of each class."""
        return class_scores([str(r.label) for r in records], [str(p.label) for p in predictions], self.labels)


def auto(records: Sequence[Record]) -> str:
    """Name of the task that labelled records are of: spans first, for there are corpora with both.

    Empty lists of spans say nothing beside labels: doccano writes one for a text that nobody has given a label.

    >>> auto([Record("1", "camera", "Sharp.", label="positive"), Record("2", "camera", "So.", spans=())])
    'classification'
    >>> auto([Record("2", "camera", "So.", spans=())])
    'extraction'
    """
    labelled = any(record.label is not None for record in records)
    if any(record.spans or (record.spans is not None and not labelled) for record in records):
        return "extraction"
    if labelled:
        return "classification"
    raise ValueError("the source: no record has a label or spans; expected either on each")
