r"""Predictions on the target learn to be sure one by one and diverse together.

With probabilities :math:`p_i` of target texts, or words that could be something, and the batch's mean :math:`\bar p`,

.. math:: L = \frac1n \sum_i H(p_i) \; - \; H(\bar p) \cdot 1[H(\bar p) < \rho \ln C],

after Gomes et al. 2010 and SHOT (Liang et al. 2020, https://arxiv.org/abs/2002.08546); the threshold is that of FMIM
(Chen & Wan 2022, https://arxiv.org/abs/2201.12549), for classes need not be as frequent. B and I of a type are one.

Costs a pass over a target batch a step. Fails where the source's boundary runs through the target's clusters, for it
makes errors sure, early if its weight is large; and where the target's classes are less even than :math:`\rho` asks.
"""

import math

import torch
from torch import Tensor

from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.units import candidates, logits_of


class InfoMax(Method):
    """Sure and diverse predictions."""

    reads = frozenset({"target"})

    def __init__(self, rho: float, weight: float) -> None:
        super().__init__({"infomax": weight})
        in_range("infomax.rho", rho, 0.0, 1.0)
        self.rho = rho

    def losses(self, step: Step) -> dict[str, Tensor]:
        if step.target is None:
            return {}
        task, logits = self.session.task, logits_of(step.target)
        token = task.kind == "token"
        probabilities = logits[candidates(logits, token)].softmax(-1)
        merged = merge(probabilities, [label[2:] for label in task.labels] if token else task.labels)
        return {"infomax": step.target.weight * information(merged, self.rho)}


def information(probabilities: Tensor, rho: float) -> Tensor:
    """Mean entropy of the rows, less the entropy of their mean where it is below a share rho of the largest.

    >>> sure_and_diverse, collapsed = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> [round(float(information(p, 1.0)), 2) for p in (sure_and_diverse, collapsed)]  # at 1: not below it
    [0.0, 0.0]
    >>> leaning = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]])
    >>> bool(information(leaning, 1.0) < information(leaning, 0.5))
    True
    """
    if not len(probabilities):
        return probabilities.sum()
    marginal_entropy = entropy(probabilities.mean(0))
    diverse = bool(marginal_entropy < rho * math.log(probabilities.shape[-1]))
    return entropy(probabilities).mean() - marginal_entropy * diverse


def merge(probabilities: Tensor, names: list[str]) -> Tensor:
    """Of (rows, classes) probabilities, those of the same name added.

    >>> merge(torch.tensor([[0.5, 0.2, 0.3]]), ["", "aspect", "aspect"])
    tensor([[0.5000, 0.5000]])
    """
    kinds = list(dict.fromkeys(names))
    places = torch.tensor([kinds.index(name) for name in names], device=probabilities.device)
    return probabilities.new_zeros(len(probabilities), len(kinds)).index_add(1, places, probabilities)


def entropy(probabilities: Tensor) -> Tensor:
    """In nats, over the last dimension."""
    return -(probabilities * probabilities.clamp(min=1e-8).log()).sum(-1)
