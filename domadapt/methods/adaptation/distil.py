r"""What saved models say of the target, together, is learnt by one.

With logits :math:`z^m` of M teachers, and z of the student, on each row, a text or a word,

.. math:: L = L_{task} + w \, T^2 \; KL\Big( \frac1M \sum_m \text{softmax}(z^m / T) \,\Big\|\,
          \text{softmax}(z / T) \Big)

on the unlabelled target (Hinton, Vinyals & Dean 2015, https://arxiv.org/abs/1503.02531). Teachers may be seeds of one
recipe, a larger backbone, models of several sources, or models with methods of their own: a stock model is left.

Costs each teacher's pass over the target once, and a pass over a target batch a step. Fails where the teachers are
wrong alike. A teacher that was trained or chosen by labels of this target is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.data.domains import UnlabelledText
from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.units import logits_of
from domadapt.utils.runtime import undisturbed


class Distillation(Method):
    """Soft labels by the models of finished runs.

    Args:
        teachers: the runs' folders.
        temperature: of teachers and student; above 1, what is unlikely counts more.
        texts: target texts that are labelled; a fixed sample.
        batch_size: of labelling.
        weight: of the loss.
    """

    reads = frozenset({"target"})

    def __init__(self, teachers: Sequence[str], temperature: float, texts: int, batch_size: int, weight: float) -> None:
        super().__init__({"distil": weight})
        in_range("distil.temperature", temperature, 0.01, 100.0)
        in_range("distil.texts", texts, 1)
        in_range("distil.batch_size", batch_size, 1)
        if isinstance(teachers, str) or not teachers:
            raise ValueError(
                f"distil.teachers={teachers!r}: expected folders of finished runs, such as "
                f"adaptation.distil.teachers=[runs/a,runs/b]"
            )
        self.teachers, self.temperature = [str(teacher) for teacher in teachers], temperature
        self.texts, self.batch_size = texts, batch_size
        self.labels: dict[str, Tensor] = {}  # by text: (words, classes) or (1, classes); zeros for words unread

    def prepare(self) -> dict[str, Any]:
        """Let every teacher label the target; one that has other labels, or has read the target's, is refused."""
        session, token = self.session, self.session.task.kind == "token"
        examples = session.target_sample(self.texts, seed=2)
        words = [tuple((s, e) for s, e in example.words.tolist()) if token else None for example in examples]
        texts = [UnlabelledText(str(e.index), e.domain, e.text, w) for e, w in zip(examples, words, strict=True)]
        total: list[Tensor] = []
        for run in self.teachers:
            self._check(run)
            with undisturbed():
                where = session.device.type, session.precision
                found = session.saved_runs.label(run, texts, self.batch_size, *where)
            if (found.kind, sorted(found.labels)) != (session.task.kind, sorted(session.task.labels)):
                raise ValueError(
                    f"distil.teachers: {run} tells {', '.join(found.labels)}; expected the labels of this run, "
                    f"{', '.join(session.task.labels)}"
                )
            order = [found.labels.index(label) for label in session.task.labels]
            said = [(logits[:, order] / self.temperature).softmax(-1) / len(self.teachers) for logits in found.logits]
            total = [a + b for a, b in zip(total, said, strict=True)] if total else said
        self.labels = {e.text: labels.nan_to_num(0.0) for e, labels in zip(examples, total, strict=True)}
        return {"distil/teachers": len(self.teachers), "distil/texts": len(examples)}

    def _check(self, run: str) -> None:
        told, domains = self.session.saved_runs.told(run), self.session.domains
        target, given = domains.target, told["target_labels"]
        # The same draw, or its beginning: of another split they may be among the texts that this run is tested on.
        among = given <= domains.target_labels and told["checksum"] == domains.labels_checksum(given)
        reasons = {
            "it was trained on target labels": told["role"] == "in_domain",
            "its epoch was chosen by target labels (selection=oracle)": told["validator"] == "oracle",
            f"it was given {given} target labels that this run is not": given and not among,
            f"its labelled source is this run's target, {target}": target in str(told["source"]).split("+"),
        }
        for reason, holds in reasons.items():
            if holds:
                raise ValueError(f"distil.teachers: {run}: {reason}; what it says would carry them here; leave it out")

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``labels``: (words or texts, classes) probabilities; zeros for what no teacher has read."""
        if not self.labels:
            return {}
        counts = [len(e.words) if self.session.task.kind == "token" else 1 for e in examples]
        return {"labels": rows_by_text(self.labels, examples, counts, len(self.session.task.labels))}

    def losses(self, step: Step) -> dict[str, Tensor]:
        if step.target is None or not self.labels:
            return {}
        batch, token = step.target.batch, self.session.task.kind == "token"
        labels = self.own(batch, "labels")
        labels = labels[batch.node_first_piece >= 0] if token else labels
        logits = logits_of(step.target.output, batch, token).float()
        return {"distil": step.target.weight * divergence(logits, labels, self.temperature)}


def rows_by_text(known: Mapping[str, Tensor], examples: Sequence[Example], counts: Sequence[int], width: int) -> Tensor:
    """(rows, width) what is known of texts, one after the other: zeros of a text of which nothing is known, or another
    number of rows than is counted here, for then it was cut otherwise."""
    rows = [known.get(example.text, torch.zeros(0)) for example in examples]
    pairs = zip(rows, counts, strict=True)
    return torch.cat([found if len(found) == count else torch.zeros(count, width) for found, count in pairs])


def divergence(logits: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Kullback-Leibler divergence of (rows, classes) labels from softened logits, times the squared temperature.

    Labels are probabilities; rows of zeros do not count.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> labels = torch.stack([(logits[0] / 2).softmax(-1), torch.zeros(2)])
    >>> abs(round(float(divergence(logits, labels, 2.0)), 5)), round(float(divergence(-logits, labels, 2.0)), 2)
    (0.0, 1.85)
    """
    known = labels.sum(-1) > 0
    losses = F.kl_div((logits / temperature).log_softmax(-1), labels, reduction="none").sum(-1)
    return temperature**2 * (losses * known).sum() / known.sum().clamp(min=1)
