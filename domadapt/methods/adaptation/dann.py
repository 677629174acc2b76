r"""Domain-adversarial training: states from which source and target can't be told apart.

A discriminator d learns to tell the domain of a row, a text or a word that could be something; the encoder f, through a
gradient that is reversed, to keep it from that (Ganin et al. 2016, https://arxiv.org/abs/1505.07818):

.. math:: \min_f \max_d \; L_{task} - \lambda(t) \, L_{d},
          \qquad \lambda(t) = \frac{2}{1 + e^{-10 t}} - 1,

with :math:`L_d` the cross entropy of the domain, each domain counting for half, and t the share of training that is
done. What is logged is :math:`L_d`: near ln 2 = .69 the discriminator is at a loss, near 0 it sees the domain plainly.

Costs a pass over a target batch a step, and the discriminator. Fails where classes are not as frequent in the target as
in the source: to match the marginals, rows must then be moved across the boundary. An unsteady game: watch the loss.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.setting import Setting
from domadapt.methods.units import check_level, level_of, states_of


class DomainAdversary(Method):
    """Gradient reversal with a ramp.

    Args:
        level: ``sentence``, ``word``, or None for what the task classifies.
        hidden: width of the discriminator's two hidden layers.
        steepness: of the ramp; 10 in the paper.
        rate: of the discriminator's learning, as a multiple of the run's.
        weight: of the loss.
    """

    reads = frozenset({"target"})

    def __init__(self, level: str | None, hidden: int, steepness: float, rate: float, weight: float) -> None:
        super().__init__({"dann": weight})
        check_level("dann", level)
        in_range("dann.hidden", hidden, 1)
        in_range("dann.steepness", steepness, 0.0, 1e3)
        in_range("dann.rate", rate, 0.0, 1e4)
        self.level, self.hidden, self.steepness, self.rate = level, hidden, steepness, rate

    def attach(self, setting: Setting) -> None:
        """Make the discriminator."""
        super().attach(setting)
        self.at = level_of("dann", self.level, setting.task)
        self.discriminator = nn.Sequential(
            *(nn.Linear(setting.encoder.width, self.hidden), nn.ReLU()),
            *(nn.Linear(self.hidden, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 1)),
        )

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Cross entropy of the domain, from reversed states."""
        if step.target is None:
            return {}
        strength = ramp(step.progress, self.steepness)
        sides = []
        for domain, view in enumerate(step.views):
            logits = self.discriminator(reverse(states_of(view, self.at), strength)).float()
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
    reversed_: Tensor = _Reversed.apply(states, strength)
    return reversed_


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, states: Tensor, strength: float) -> Tensor:
        context.strength = strength
        return states.view_as(states)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        return -context.strength * gradients[0], None
