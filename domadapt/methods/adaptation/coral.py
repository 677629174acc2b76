r"""Correlation alignment: states of source and target with the same covariance, and the same mean.

.. math:: L = \frac{1}{4 d^2} \| C_S - C_T \|_F^2 \; + \; \frac1d \| \mu_S - \mu_T \|^2

with covariances C and means :math:`\mu` of the rows' states of width d. The first term is Deep CORAL (Sun & Saenko
2016, https://arxiv.org/abs/1607.01719). It can't see a shift that moves all of the target; the second, which can, is
left out by ``means=false``.

Costs a pass over a target batch a step. Fails where batches have fewer rows than the states have numbers: covariances
of a few rows are mostly noise. And as every matching of marginals, where classes are not as frequent in both domains.
"""

from torch import Tensor

from domadapt.methods.method import Method, Step
from domadapt.methods.setting import Setting
from domadapt.methods.units import check_level, level_of, states_of


class Coral(Method):
    """First two moments of both domains, pulled together.

    Args:
        level: ``sentence``, ``word``, or None for what the task classifies.
        means: whether the means count, too.
        weight: of the loss.
    """

    reads = frozenset({"target"})

    def __init__(self, level: str | None, means: bool, weight: float) -> None:
        super().__init__({"coral": weight})
        check_level("coral", level)
        if not isinstance(means, bool):
            raise ValueError(f"coral.means={means!r}: expected true or false")
        self.level, self.means = level, means

    def attach(self, setting: Setting) -> None:
        """Settle the level."""
        super().attach(setting)
        self.at = level_of("coral", self.level, setting.task)

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Between the states of both batches."""
        if step.target is None:
            return {}
        weight = step.source.weight * step.target.weight
        return {"coral": weight * coral(states_of(step.source, self.at), states_of(step.target, self.at), self.means)}


def coral(source: Tensor, target: Tensor, means: bool = False) -> Tensor:
    """Squared distance of two samples' covariances, and of their means if asked; zero of fewer than two rows.

    Args:
        source: (n, width).
        target: (m, width).
        means: whether the means count.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> float(coral(x, x + 3)), float(coral(x, x + 3, means=True)), float(coral(x, 2 * x))
    (0.0, 9.0, 2.25)
    """
    if min(len(source), len(target)) < 2:
        return 0.0 * (source.sum() + target.sum())
    width = source.shape[1]
    loss = (covariance(source) - covariance(target)).pow(2).sum() / (4 * width**2)
    return loss + (source.mean(0) - target.mean(0)).pow(2).sum() / width if means else loss


def covariance(rows: Tensor) -> Tensor:
    """(width, width) of (rows, width), unbiased."""
    centred = rows - rows.mean(0)
    return centred.T @ centred / (len(rows) - 1)
