r"""What saved models say of the target, together, is learnt by one.

With logits :math:`z^m` of M teachers, and z of the student, on each row, a text or a word,

.. math:: L = L_{task} + w \, T^2 \; KL\Big( \frac1M \sum_m \text{softmax}(z^m / T) \,\Big\|\,
          \text{softmax}(z / T) \Big)

on the unlabelled target (Hinton, Vinyals & Dean 2015, https://arxiv.org/abs/1503.02531). Teachers may be seeds of one
recipe, a larger backbone, models of several sources, or models with methods of their own: a stock model is left.

Costs each teacher's pass over the target once, and a pass over a target batch a step. Fails where the teachers are
wrong alike. A teacher that was trained or chosen by labels of this target is refused.
"""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.data.texts import sampled
from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.session import without_labels
from domadapt.methods.units import logits_of, rows_of
from domadapt.utils.runtime import undisturbed


class Distillation(Method):
    """Soft labels by the models of finished runs."""

    reads = frozenset({"target"})

    def __init__(self, teachers: Sequence[str], temperature: float, texts: int, batch_size: int, weight: float) -> None:
        super().__init__({"distil": weight})
        in_range("distil.temperature", temperature, 0.01, 100.0)
        in_range("distil.texts", texts, 1)
        in_range("distil.batch_size", batch_size, 1)
        if isinstance(teachers, str) or not teachers:
            example = "adaptation.distil.teachers=[runs/a,runs/b]"
            raise ValueError(f"distil.teachers={teachers!r}: expected folders of finished runs, such as {example}")
        self.teachers, self.temperature = [str(teacher) for teacher in teachers], temperature
        self.texts, self.batch_size = texts, batch_size
        self.labels: dict[str, Tensor] = {}  # by text: (words, classes) or (1, classes); zeros for words unread

    def prepare(self) -> dict[str, Any]:
        """Let every teacher label the target; one that has other labels, or has read the target's, is refused."""
        session = self.session
        examples = sampled(session.target, self.texts, seed=2)
        texts = without_labels(examples, session.task)
        total: list[Tensor] = []
        for run in self.teachers:
            if reason := session.saved_runs.has_read(run, session.domains):
                raise ValueError(f"distil.teachers: {run}: {reason}; what it says would carry them here; leave it out")
            where = session.device.type, session.precision
            with undisturbed():
                task, logits = session.saved_runs.label(run, texts, self.batch_size, *where)
            if (task.kind, sorted(task.labels)) != (session.task.kind, sorted(session.task.labels)):
                theirs, wanted = (", ".join(one.labels) for one in (task, session.task))
                raise ValueError(f"distil.teachers: {run} tells {theirs}; expected the labels of this run, {wanted}")
            order = [task.labels.index(label) for label in session.task.labels]
            shares = [(rows[:, order] / self.temperature).softmax(-1) / len(self.teachers) for rows in logits]
            total = [a + b for a, b in zip(total, shares, strict=True)] if total else shares
        self.labels = {e.text: labels.nan_to_num(0.0) for e, labels in zip(examples, total, strict=True)}
        return {"distil/teachers": len(self.teachers), "distil/texts": len(examples)}

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``labels``: (words or texts, classes) probabilities; zeros for what no teacher has read."""
        if not self.labels:
            return {}
        counts = [len(e.words) if self.session.task.kind == "token" else 1 for e in examples]
        return {"labels": rows_of(self.labels, (e.text for e in examples), counts, len(self.session.task.labels))}

    def losses(self, step: Step) -> dict[str, Tensor]:
        if step.target is None or not self.labels:
            return {}
        labels = self.own(step.target.batch, "labels")
        if self.session.task.kind == "token":
            labels = labels[step.target.batch.node_first_piece >= 0]
        return {"distil": step.target.weight * divergence(logits_of(step.target), labels, self.temperature)}


def divergence(logits: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Mean KL divergence of (rows, classes) probabilities, but rows of zeros, from softened logits, times T squared.

    >>> import torch
    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> labels = torch.stack([(logits[0] / 2).softmax(-1), torch.zeros(2)])
    >>> abs(round(float(divergence(logits, labels, 2.0)), 5)), round(float(divergence(-logits, labels, 2.0)), 2)
    (0.0, 1.85)
    """
    known = labels.sum(-1) > 0
    losses = F.kl_div((logits / temperature).log_softmax(-1), labels, reduction="none").sum(-1)
    return temperature**2 * (losses * known).sum() / known.sum().clamp(min=1)
