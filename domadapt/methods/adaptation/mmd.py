r"""Maximum mean discrepancy: states of source and target whose distributions are alike.

The distance between the means of two samples in the space of a kernel k (Gretton et al. 2012, JMLR 13; in networks
DAN, Long et al. 2015, https://arxiv.org/abs/1502.02791), in its unbiased form,

.. math:: \frac{\sum_{i \ne j} k(x_i, x_j)}{n(n-1)} + \frac{\sum_{i \ne j} k(y_i, y_j)}{m(m-1)}
          - \frac{2 \sum_{ij} k(x_i, y_j)}{nm},
          \qquad k(a, b) = \frac15 \sum_{s} e^{-\|a-b\|^2 / (s \, \sigma^2)},

with :math:`\sigma^2` the median of all squared distances and s of ¼, ½, 1, 2, 4. Unbiased, so it may be a little below
zero where there is nothing left to do; the biased form would go on pulling each domain's rows together.

Costs a pass over a target batch a step, and a matrix of the rows' distances. Fails as every matching of marginals does,
where the classes are not as frequent in both domains; and on small batches, where it is mostly noise.
"""

import torch
from torch import Tensor

from domadapt.methods.method import Method, Step
from domadapt.methods.setting import Setting
from domadapt.methods.units import check_level, level_of, states_of

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median squared distance


class MMD(Method):
    """Kernel means of both domains, pulled together.

    Args:
        level: ``sentence``, ``word``, or None for what the task classifies.
        weight: of the loss.
    """

    reads = frozenset({"target"})

    def __init__(self, level: str | None, weight: float) -> None:
        super().__init__({"mmd": weight})
        check_level("mmd", level)
        self.level = level

    def attach(self, setting: Setting) -> None:
        """Settle the level."""
        super().attach(setting)
        self.at = level_of("mmd", self.level, setting.task)

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Between the states of both batches."""
        if step.target is None:
            return {}
        weight = step.source.weight * step.target.weight
        return {"mmd": weight * mmd(states_of(step.source, self.at), states_of(step.target, self.at))}


def mmd(source: Tensor, target: Tensor) -> Tensor:
    """Squared maximum mean discrepancy, unbiased, of a mean of Gaussian kernels; zero of fewer than two rows.

    Args:
        source: (n, width).
        target: (m, width).

    >>> random = torch.Generator().manual_seed(0)
    >>> x, y = (torch.randn(200, 3, generator=random) for _ in range(2))
    >>> abs(round(float(mmd(x, y)), 2)), round(float(mmd(x, y + 2)), 2)
    (0.0, 0.55)
    """
    n, m = len(source), len(target)
    if min(n, m) < 2:
        return 0.0 * (source.sum() + target.sum())
    rows = torch.cat([source, target])
    rows = rows - rows.detach().mean(0)  # distances stay; of rows that are much alike, halves would lose them
    squares = rows.pow(2).sum(1)
    distances = (squares[:, None] + squares[None] - 2 * rows @ rows.T).clamp(min=0)
    others = ~torch.eye(n + m, dtype=torch.bool, device=rows.device)
    median = distances.detach()[others].median().clamp(min=1e-8)
    kernel = torch.stack([(-distances / (scale * median)).exp() for scale in SCALES]).mean(0) * others
    within = kernel[:n, :n].sum() / (n * (n - 1)) + kernel[n:, n:].sum() / (m * (m - 1))
    return within - 2 * kernel[:n, n:].mean()
