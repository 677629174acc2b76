"""Structural probes: is there a linear map under which squared distances of word states are distances in the tree?

Hewitt & Manning 2019 (https://aclanthology.org/N19-1419). One map for distances, |B(h_i - h_j)|² ≈ arcs between i and
j, one for depths, |B h_i|² ≈ arcs to the root, of rank k, by the mean absolute error, each sentence by its own size.
What they recover is the parser's tree: on text that it parses wrongly, a better encoder scores lower.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domadapt.analysis.tree_scores import Known, score
from domadapt.syntax.trees import Tree

RANK: Final = 64  # the paper finds no gain beyond
EPOCHS: Final = 20  # on MiniLM, 100 found no more
BATCH: Final = 20
RATE: Final = 5e-3


@dataclass(frozen=True, slots=True)
class Probe:
    """Two maps.

    Attributes:
        distance, depth: (width, rank).
    """

    distance: Tensor
    depth: Tensor

    def distances(self, states: Tensor) -> Tensor:
        """(..., n, n) predicted distances from (..., n, width)."""
        return squared_distances(states @ self.distance)

    def depths(self, states: Tensor) -> Tensor:
        """(..., n) predicted depths from (..., n, width)."""
        return (states @ self.depth).square().sum(-1)


def squared_distances(points: Tensor) -> Tensor:
    """(..., n, n) from (..., n, width).

    >>> squared_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    norms = points.square().sum(-1)
    return (norms.unsqueeze(-1) + norms.unsqueeze(-2) - 2 * points @ points.mT).clamp(min=0)


def fit(
    states: Sequence[Tensor], trees: Sequence[Tree], rank: int = RANK, epochs: int = EPOCHS, seed: int = 1
) -> Probe:
    """Train both maps.

    Args:
        states: of each tree (n, width).
        trees: of one word at least each.
        rank: of the maps; at most the width.
        epochs: passes over the trees.
        seed: of the start and the order.

    Raises:
        ValueError: there is no tree.
    """
    if not trees:
        raise ValueError("structural probe: no sentence to learn from; expected some of 5 to 50 words")
    width = states[0].shape[1]
    # A scale is no more than the map could learn; it makes one learning rate fit every layer.
    scale = torch.cat([*states]).square().mean().clamp(min=1e-12).rsqrt().item()
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(2, width, min(rank, width), generator=generator) * (2 / (width * min(rank, width))) ** 0.5
    maps.requires_grad_()
    order = np.argsort([len(tree.words) for tree in trees], kind="stable")  # of like length together: little padding
    batches = [_padded(order[i : i + BATCH], states, trees, scale) for i in range(0, len(order), BATCH)]
    optimizer = torch.optim.Adam([maps], lr=RATE)
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    for _ in range(epochs):
        for number in torch.randperm(len(batches), generator=generator).tolist():
            points, distances, depths, real = batches[number]
            probe, sizes = Probe(maps[0], maps[1]), real.sum(-1)
            off = (probe.distances(points) - distances).abs() * real.unsqueeze(-1) * real.unsqueeze(-2)
            shallow = (probe.depths(points) - depths).abs() * real
            loss = (off.sum((1, 2)) / sizes**2 + shallow.sum(1) / sizes).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    distance, depth = (maps.detach() * scale).unbind()
    return Probe(distance, depth)


def _padded(
    chosen: NDArray[np.int64], states: Sequence[Tensor], trees: Sequence[Tree], scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States (batch, n, width), distances (batch, n, n), depths (batch, n), and which words there are (batch, n)."""
    most = max(len(trees[i].words) for i in chosen)
    points = torch.zeros(len(chosen), most, states[0].shape[1])
    distances, depths, real = (torch.zeros(len(chosen), most, *more) for more in ((most,), (), ()))
    for row, i in enumerate(chosen):
        size = len(trees[i].words)
        points[row, :size] = states[i] * scale
        distances[row, :size, :size] = torch.from_numpy(trees[i].distances)
        depths[row, :size] = torch.from_numpy(trees[i].depths)
        real[row, :size] = 1
    return points, distances, depths, real


def known(probe: Probe, states: Sequence[Tensor], trees: Sequence[Tree]) -> Known:
    """What a probe finds in states that it has not learnt from.

    Args:
        probe: of :func:`fit`.
        states: of each tree (n, width).
        trees: of 5 to 50 words each, as the paper scores them.
    """
    predicted = (
        (probe.distances(one).double().numpy(), probe.depths(one).double().numpy()) for one in states
    )  # one sentence at a time: nothing is padded
    return score(predicted, trees)
