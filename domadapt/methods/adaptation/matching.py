"""Domains are matched: their states by moments, by kernel, or by a discriminator that can't tell them apart."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.methods.method import Method, Step, in_range, one_of
from domadapt.methods.session import Session
from domadapt.methods.units import states_of


class Matching(Method):
    """What compares the rows of both batches: texts, or the words that could be something."""

    reads = frozenset({"target"})
    distance: Callable[[Tensor, Tensor], Tensor]  #: of (n, width) and (m, width) states

    def __init__(self, name: str, level: str | None, weight: float) -> None:
        super().__init__({name: weight})
        one_of(f"{name}.level", level, "sentence", "word", None)
        self.loss, self.level = name, level

    def attach(self, session: Session) -> None:
        super().attach(session)
        token = session.task.kind == "token"
        if self.level == "word" and not token:
            raise ValueError(f"{self.loss}.level=word: here texts are classified; expected sentence, or null")
        self.used_level = self.level or ("word" if token else "sentence")

    def losses(self, step: Step) -> dict[str, Tensor]:
        if step.target is None:
            return {}
        states = states_of(step.source, self.used_level), states_of(step.target, self.used_level)
        return {self.loss: step.source.weight * step.target.weight * self.distance(*states)}


class Coral(Matching):
    r"""Correlation alignment: states of source and target with the same covariance, and the same mean.

    .. math:: L = \frac{1}{4 d^2} \| C_S - C_T \|_F^2 \; + \; \frac1d \| \mu_S - \mu_T \|^2

    with covariances C and means :math:`\mu` of the rows' states of width d. The first term is Deep CORAL (Sun & Saenko
    2016, https://arxiv.org/abs/1607.01719); the second sees a shift that moves all of the target.

    Costs a pass over a target batch a step. Fails where classes are not as frequent in both domains, and where batches
    have fewer rows than states have numbers: such covariances are mostly noise.
    """

    def __init__(self, level: str | None, means: bool, weight: float) -> None:
        super().__init__("coral", level, weight)
        self.distance = partial(coral, means=means)


def coral(source: Tensor, target: Tensor, means: bool = False) -> Tensor:
    """Squared distance of two samples' covariances, and of their means if asked; zero of fewer than two rows.

    >>> x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> float(coral(x, x + 3)), float(coral(x, x + 3, means=True)), float(coral(x, 2 * x))
    (0.0, 9.0, 2.25)
    """
    if min(len(source), len(target)) < 2:
        return 0.0 * (source.sum() + target.sum())
    width = source.shape[1]
    covariances = [rows.T @ rows / (len(rows) - 1) for rows in (source - source.mean(0), target - target.mean(0))]
    loss = (covariances[0] - covariances[1]).pow(2).sum() / (4 * width**2)
    return loss + (source.mean(0) - target.mean(0)).pow(2).sum() / width if means else loss


SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median squared distance


class MMD(Matching):
    r"""Maximum mean discrepancy: states of source and target whose distributions are alike.

    The distance between two samples' means in the space of a kernel k (Gretton et al. 2012, JMLR 13; in networks DAN,
    Long et al. 2015, https://arxiv.org/abs/1502.02791), unbiased, as the biased form pulls each domain's rows together:

    .. math:: \frac{\sum_{i \ne j} k(x_i, x_j)}{n(n-1)} + \frac{\sum_{i \ne j} k(y_i, y_j)}{m(m-1)}
              - \frac{2 \sum_{ij} k(x_i, y_j)}{nm},
              \qquad k(a, b) = \frac15 \sum_{s} e^{-\|a-b\|^2 / (s \, \sigma^2)},

    with :math:`\sigma^2` the median of all squared distances and s of ¼, ½, 1, 2, 4.

    Costs a pass over a target batch a step, and a matrix of the rows' distances. Fails where classes are not as
    frequent in both domains, and on small batches, where it is mostly noise.
    """

    def __init__(self, level: str | None, weight: float) -> None:
        super().__init__("mmd", level, weight)
        self.distance = mmd


def mmd(source: Tensor, target: Tensor) -> Tensor:
    """Squared maximum mean discrepancy, unbiased, of a mean of Gaussian kernels; zero of fewer than two rows.

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


class DomainAdversary(Matching):
    r"""Domain-adversarial training: states from which source and target can't be told apart.

    A discriminator d learns to tell a row's domain; the encoder f, through a gradient that is reversed, to keep it from
    that (Ganin et al. 2016, https://arxiv.org/abs/1505.07818):

    .. math:: \min_f \max_d \; L_{task} - \lambda(t) \, L_{d},
              \qquad \lambda(t) = \frac{2}{1 + e^{-10 t}} - 1,

    with :math:`L_d` the cross entropy of the domain, each domain counting for half, and t the share of training that
    is done. Logged is :math:`L_d`: near ln 2 = .69 the discriminator is at a loss, near 0 it sees the domain plainly.

    Costs a pass over a target batch a step, and the discriminator. Fails where classes are not as frequent in both
    domains, for rows must then cross the boundary; and it is an unsteady game: watch the loss.
    """

    def __init__(self, level: str | None, hidden: int, steepness: float, rate_factor: float, weight: float) -> None:
        super().__init__("dann", level, weight)
        in_range("dann.hidden", hidden, 1)
        in_range("dann.steepness", steepness, 0.0, 1e3)
        in_range("dann.rate_factor", rate_factor, 0.0, 1e4)
        self.hidden, self.steepness, self.rate_factor = hidden, steepness, rate_factor

    def attach(self, session: Session) -> None:
        super().attach(session)
        self.discriminator = nn.Sequential(
            *(nn.Linear(session.encoder.width, self.hidden), nn.ReLU()),
            *(nn.Linear(self.hidden, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 1)),
        )

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Cross entropy of the domain, from reversed states."""
        if step.target is None:
            return {}
        strength = ramp(step.progress, self.steepness)
        sides = []
        for domain, view in enumerate(step.views):
            logits = self.discriminator(reverse(states_of(view, self.used_level), strength)).float()
            total = F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, domain), reduction="sum")
            sides.append(view.weight * total / max(1, len(logits)))
        return {"dann": torch.stack(sides).mean()}


def ramp(progress: float, steepness: float) -> float:
    """From 0 at the beginning of training to 1.

    >>> [round(ramp(progress, 10), 2) for progress in (0, 0.1, 0.5, 1)]
    [0.0, 0.46, 0.99, 1.0]
    """
    return 2 / (1 + math.exp(-steepness * progress)) - 1


def reverse(states: Tensor, strength: float) -> Tensor:
    """The same states; gradients come back times ``-strength``.

    >>> states = torch.ones(2, requires_grad=True)
    >>> reverse(states, 0.5).sum().backward()
    >>> states.grad
    tensor([-0.5000, -0.5000])
    """
    same = states.view_as(states)
    if same.requires_grad:  # not of a frozen encoder
        same.register_hook(lambda gradient: -strength * gradient)
    return same
