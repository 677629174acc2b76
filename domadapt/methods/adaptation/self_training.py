r"""Learning from the model's own labels of the target.

After ``start`` epochs, and after each one that follows, the model labels a sample of the unlabelled target as it would
predict, whatever other methods add at decoding included. Its probabilities are sharpened,
:math:`q_c \propto p_c^{1/T} / f_c^b`, where :math:`f_c` is class c's share of all labels and b the ``balance`` (T and b
of .5 are near BOND's renormalisation), and the target is trained on beside the source:

.. math:: L = L_{task}(source) + w \cdot \frac{-\sum_i v_i \sum_c q_{ic} \log p_{ic}}{\sum_i v_i},

with weight :math:`v_i = 1` where the model is sure, :math:`\max_c p_{ic} > \tau`, and a tenth elsewhere (as in BOND,
Liang et al. 2020, softly). With ``agreement`` only texts are learnt from that two labellers of different build label
alike from the first word to the last: the network alone, and what it predicts with other methods' additions, such as
the corpus's evidence (the filter of DA2LM's and GCDDA's generators). It costs a second pass. Beside ``averaging`` the
labels are those of the weights' moving average: a mean teacher (Tarvainen & Valpola 2017,
https://arxiv.org/abs/1703.01780).

It drives towards what it already believes, right or wrong, and finds ever more. So nothing is learnt where another
method has seen that enough is found as it is (:mod:`domadapt.methods.look`). And there is a guard: where the
labels' share of words that are something is less than a quarter or more than four times the source's, they are not
learnt from; the run says so and counts it. Costs a pass over the sample after each epoch, and a step on target text
beside each on the source.

Where texts are classified, the labels have collapsed if a class that is common in the source is found less than a
quarter as often; and a label counts by its class, so that all of them together are of the source's classes
(:mod:`domadapt.methods.class_shares`).
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.methods.class_shares import class_shares, to_source_shares
from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.term_rates import ENOUGH_TERMS
from domadapt.methods.units import logits_of, rows_by_text
from domadapt.models.output import Output

log = logging.getLogger(__name__)
UNSURE = 0.1  # weight of words that the model is not sure of
FACTOR = 4.0  # by which the labels' rate may be off the source's
RARE = 0.05  # share of the source that a class may have and yet be missed


class SelfTraining(Method):
    """Pseudo-labels on the target.

    Args:
        start: epochs before the first labels are made.
        temperature: of the labels, below 1 to sharpen.
        sure: probability from which on a label counts fully.
        texts: target texts that are labelled; a fixed sample.
        batch_size: of labelling.
        weight: of the loss.
        balance: to which power of its share a class's probability is divided.
        agreement: whether to learn from those texts alone that the network labels alike with other methods' additions
            and without.
    """

    reads = frozenset({"target"})

    def __init__(
        self,
        start: int,
        temperature: float,
        sure: float,
        texts: int,
        batch_size: int,
        weight: float,
        balance: float = 0.0,
        agreement: bool = False,
    ) -> None:
        super().__init__({"self_training": weight})
        in_range("self_training.start", start, 0)
        in_range("self_training.temperature", temperature, 0.01, 10.0)
        in_range("self_training.sure", sure, 0.0, 1.0)
        in_range("self_training.texts", texts, 1)
        in_range("self_training.batch_size", batch_size, 1)
        in_range("self_training.balance", balance, 0.0, 1.0)
        if not isinstance(agreement, bool):
            raise ValueError(f"self_training.agreement={agreement!r}: expected true or false")
        self.first_epoch = start
        self.temperature, self.sure, self.balance = temperature, sure, balance
        self.texts, self.batch_size, self.agreement = texts, batch_size, agreement
        self.labels: dict[str, Tensor] = {}  # by text: (rows, classes) log-probabilities
        self.tilt = torch.zeros(())  # (classes,) what sharpened log-probabilities are lowered by
        self.counts = torch.ones(0)  # (classes,) what a label of each counts for
        self.refused = 0

    def after_epoch(self, epoch: int) -> None:
        """Label the target, unless the labels have collapsed."""
        if self.setting.counted.get(ENOUGH_TERMS):
            self.labels = {}  # of an epoch before that was known
            return
        if epoch + 1 < self.first_epoch or epoch + 1 == self.setting.epochs:  # nothing is learnt after the last
            return
        labels = self.labelled(alone=False)
        if not labels:
            return
        classes = torch.cat(list(labels.values())).argmax(-1)
        if not self.token and (lost := self.lost(classes)):
            self.refused += 1
            self.labels = {}
            log.warning(
                "self_training: after epoch %d, hardly any of the target's texts are labelled %s, of the source's many "
                "are: the labels have collapsed and are not learnt from",
                epoch + 1,
                ", ".join(lost),
            )
            return
        found, wanted = self.found_rate(classes), self.source_rate()
        if self.token and not wanted / FACTOR <= found <= wanted * FACTOR:
            self.refused += 1
            self.labels = {}
            log.warning(
                "self_training: after epoch %d, %.1f %% of the target's words are labelled as something, %.1f %% of "
                "the source's are: the labels have collapsed and are not learnt from",
                epoch + 1,
                100 * found,
                100 * wanted,
            )
            return
        if self.agreement:
            other = self.labelled(alone=True)
            labels = {text: own for text, own in labels.items() if torch.equal(own.argmax(-1), other[text].argmax(-1))}
        shares = classes.bincount(minlength=len(self.setting.task.labels)) / len(classes)
        self.tilt = self.balance * shares.clamp(min=1 / len(classes)).log()
        self.counts = torch.ones(len(shares)) if self.token else to_source_shares(classes, self.setting)
        self.labels = labels

    def labelled(self, alone: bool) -> dict[str, Tensor]:
        """By text: (rows, classes) log-probabilities of the model as it predicts, or of the network alone."""
        labels: dict[str, Tensor] = {}
        examples = self.setting.target_sample(self.texts, seed=1)
        for batch, output in self.setting.outputs(examples, self.batch_size, "label target", alone):
            for place, rows in zip(batch.index.tolist(), split_rows(output, batch, self.token), strict=True):
                labels[examples[place].text] = rows.float().log_softmax(-1).cpu()
        return labels

    @property
    def token(self) -> bool:
        """Whether words are classified."""
        return self.setting.task.kind == "token"

    def lost(self, classes: Tensor) -> list[str]:
        """Classes of texts that are found less than a quarter as often as in the source, where they are not rare."""
        labels = self.setting.task.labels
        found, wanted = class_shares(classes, self.setting)
        common = wanted >= min(RARE, 0.5 / len(labels))
        return [
            label for label, gone in zip(labels, (common & (found < wanted / FACTOR)).tolist(), strict=True) if gone
        ]

    def found_rate(self, classes: Tensor) -> float:
        """Share of words that are something."""
        return float((classes > 0).float().mean())

    def source_rate(self) -> float:
        """The same of the source's annotation."""
        tags = [example.word_tags for example in self.setting.source if example.word_tags is not None]
        return float(np.mean(np.concatenate(tags) > 0)) if tags else 0.0

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``labels``: (rows, classes) log-probabilities of words with a piece, or of texts; zeros for unlabelled."""
        if not self.labels:
            return {}
        counts = [int((e.alignment.word_first_pieces() >= 0).sum()) if self.token else 1 for e in examples]
        return {"labels": rows_by_text(self.labels, examples, counts, len(self.setting.task.labels))}

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Cross entropy of the target's labels."""
        if step.target is None or not self.labels:
            return {}
        labels = self.own(step.target.batch, "labels")
        logits = logits_of(step.target.output, step.target.batch, self.token).float()
        labelled = labels.exp().sum(-1) < 1.5  # zeros are no log-probabilities
        tilt, counts = self.tilt.to(logits.device), self.counts.to(logits.device)
        loss = soft_cross_entropy(logits[labelled], labels[labelled], self.temperature, self.sure, tilt, counts)
        return {"self_training": step.target.weight * loss}

    def memory(self) -> dict[str, Any]:
        """The labels."""
        return {"labels": self.labels, "tilt": self.tilt, "counts": self.counts, "refused": self.refused}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take the labels back."""
        self.labels, self.tilt, self.refused = dict(memory["labels"]), memory["tilt"], int(memory["refused"])
        self.counts = memory.get("counts", torch.ones_like(self.tilt))  # runs of before have none


def split_rows(output: Output, batch: Batch, token: bool) -> list[Tensor]:
    """Per text, the logits of what is classified: (words with a piece, classes), or (1, classes)."""
    logits = logits_of(output, batch, token)
    if not token:
        return list(logits.split(1))
    read = batch.node_first_piece >= 0
    counts = torch.bincount(batch.node_places()[0][read], minlength=len(batch.words))
    return list(logits.split(counts.tolist()))


def soft_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    temperature: float,
    sure: float,
    tilt: Tensor | float = 0.0,
    counts: Tensor | None = None,
) -> Tensor:
    """Of sharpened labels, weighted by how sure they are; zero without any.

    Args:
        logits: (rows, classes).
        labels: (rows, classes) log-probabilities.
        temperature: of the labels.
        sure: probability from which on a row counts fully.
        tilt: (classes,) what sharpened log-probabilities are lowered by.
        counts: (classes,) what a row counts for, by its likeliest class; as much as any other without.

    >>> labels = torch.tensor([[0.9, 0.1]]).log()
    >>> right, wrong = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    >>> bool(soft_cross_entropy(right, labels, 0.5, 0.7) < soft_cross_entropy(wrong, labels, 0.5, 0.7))
    True
    """
    if not len(logits):
        return logits.sum()
    weight = torch.where(labels.exp().amax(-1) > sure, 1.0, UNSURE)
    if counts is not None:
        weight = weight * counts[labels.argmax(-1)]
    losses = -((labels / temperature - tilt).softmax(-1) * F.log_softmax(logits, -1)).sum(-1)
    return (weight * losses).sum() / weight.sum().clamp(min=1e-8)  # a class that training's source has not counts for 0
