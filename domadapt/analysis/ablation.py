"""Each head, and each layer's attention, switched off: what that does to the scores.

As Michel et al. (2019, https://arxiv.org/abs/1905.10650) do it, a head is off when what it puts out is zero; a layer
is, when all of its heads are. The rest of the layer goes on. What lies below the switch is the same with and without
it, and is computed once a batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from domadapt.analysis.subject import Counts, Side, Subject, counts
from domadapt.data.batches import Batch
from domadapt.data.loaders import in_order
from domadapt.methods.session import Session
from domadapt.tasks.task import Rows, joined
from domadapt.utils.work import progress

RESAMPLES, OUTSIDE = 1000, 0.05
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Effect:
    """What switching off did to a score.

    Attributes:
        change: of the score, without it less with it: above 0 the part did harm.
        low, high: of its interval over texts, drawn again in pairs.
    """

    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SideEffects:
    """Of one side's texts.

    Attributes:
        texts: labelled, unseen in training.
        score: with everything on.
        heads: (layers, heads).
        layers: of whole layers.
    """

    texts: int
    score: float
    heads: tuple[tuple[Effect, ...], ...]
    layers: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Ablation:
    """What it did.

    Attributes:
        headline: name of the score.
        sides: by side; those without labels are not there.
    """

    headline: str
    sides: dict[str, SideEffects]


Switch = tuple[int, int | None]  # a layer, and a head of it or all


def ablation(subject: Subject) -> Ablation:
    """Switch off one part after the other, on every side that has labels."""
    session = subject.after
    found = {
        name: effects(session, side, subject.batch_size, subject.seed, name)
        for name, side in subject.sides().items()
        if side.scored
    }
    return Ablation(session.task.headline, found)


def effects(session: Session, side: Side, batch_size: int, seed: int, name: str) -> SideEffects:
    """Of one side: one pass over its texts."""
    layers = len(session.encoder.attention_layers())
    parts: dict[Switch | None, list[Rows]] = {}
    loader = in_order(side.scored, session.collator, batch_size)
    with torch.no_grad():
        for batch in progress(loader, f"{name} heads off", len(loader), "batch"):
            for switch, rows in switched(session, batch.to(session.device), layers):
                # What the head reads is not read here, and of 79 passes would fill the memory.
                parts.setdefault(switch, []).append(replace(rows, features=np.empty((len(rows), 0), np.float16)))
    task = session.task
    score = Score(task.headline, getattr(task, "average", "macro"), seed)
    drawn = {
        switch: score(counts(joined(rows, len(task.labels)), task.labels, labelled=True))
        for switch, rows in parts.items()
    }
    on = drawn[None]
    compared = {switch: _effect(on, off) for switch, off in drawn.items() if switch is not None}
    heads = [
        tuple(e for (at, head), e in compared.items() if at == layer and head is not None) for layer in range(layers)
    ]
    return SideEffects(
        len(side.scored),
        round(float(on[0]), 6),
        tuple(heads),
        tuple(compared[layer, None] for layer in range(layers)),
    )


def switched(session: Session, batch: Batch, layers: int) -> Iterator[tuple[Switch | None, Rows]]:
    """A batch's rows with everything on, then with one part off at a time."""
    stack = session.encoder.layers()
    sizes: list[int] = []
    with known(stack) as outputs, ExitStack() as hooks:
        for layer in range(layers):  # heads are counted where they are seen
            hooks.enter_context(session.encoder.hooked(layer, lambda call: _counted(call, sizes)))
        yield None, _rows(session, batch)
    for layer in range(layers):
        with skipped(stack, outputs[:layer]):
            for head in (*range(sizes[layer]), None):
                with session.encoder.hooked(layer, lambda call, off=head: without(call.inner(), off)):
                    yield (layer, head), _rows(session, batch)


def without(output: torch.Tensor, head: int | None) -> torch.Tensor:
    """What a layer's heads put out, with one of them, or all, at zero.

    Args:
        output: (batch, pieces, heads, head width).
        head: counted from 0; None for all.

    >>> without(torch.ones(1, 1, 2, 1), 1).flatten().tolist(), without(torch.ones(1, 1, 2, 1), None).sum().item()
    ([1.0, 0.0], 0.0)
    """
    if head is None:
        return torch.zeros_like(output)
    output = output.clone()
    output[:, :, head] = 0
    return output


def _counted(call: Any, sizes: list[int]) -> torch.Tensor:
    output: torch.Tensor = call.inner()
    sizes.append(output.shape[2])
    return output


def _rows(session: Session, batch: Batch) -> Rows:
    return session.task.rows(session.transformed(session.encoder(batch), batch), batch)


@contextmanager
def known(stack: torch.nn.ModuleList) -> Iterator[list[Any]]:
    """Within it, what each layer gives out is kept."""
    found: list[Any] = []
    handles = [layer.register_forward_hook(lambda _, __, output: found.append(output)) for layer in stack]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def skipped(stack: torch.nn.ModuleList, outputs: Sequence[Any]) -> Iterator[None]:
    """Within it, the first layers give what they gave before, and compute nothing."""
    layers: list[Any] = list(stack)[: len(outputs)]
    try:
        for layer, output in zip(layers, outputs, strict=True):
            layer.forward = lambda *_, given=output, **__: given
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


@dataclass(slots=True)
class Score:
    """The headline of counts, and of the same texts drawn again: in the same way each time, so that they are pairs."""

    headline: str
    average: str
    seed: int

    def __call__(self, kinds: dict[str, Counts]) -> Array:
        """(1 + resamples,) the first of them of the texts as they are."""
        dice = np.random.default_rng(self.seed)
        size = len(next(iter(kinds.values())).predicted)
        often = dice.multinomial(size, np.full(size, 1 / size), RESAMPLES) if size else np.zeros((RESAMPLES, 0))
        weights = np.concatenate([np.ones((1, size)), often])
        sums = np.stack([weights @ np.stack([k.predicted, k.right, k.there], 1) for k in kinds.values()])
        return headline(sums, self.headline, self.average)


def headline(sums: Array, name: str, average: str) -> Array:
    """(draws,) the score of :func:`domadapt.analysis.subject.scores` for many draws at once.

    Args:
        sums: (kinds, draws, 3) predicted, right and there.
        average: ``macro`` or ``micro``.

    >>> headline(np.array([[[4.0, 2.0, 4.0]], [[1.0, 1.0, 1.0]]]), "span_f1", "macro").tolist()
    [0.75]
    """
    total = sums.sum(0)
    if name == "accuracy":
        return np.asarray(total[:, 1] / np.maximum(total[:, 0], 1))
    each = _f1(total)[None] if average == "micro" else _f1(sums)
    return np.asarray(each.mean(0))


def _f1(sums: Array) -> Array:
    both = sums[..., 0] + sums[..., 2]
    return np.asarray(np.where(both > 0, 2 * sums[..., 1] / np.maximum(both, 1e-12), 0.0))


def _effect(on: Array, off: Array) -> Effect:
    change = off - on
    low, high = np.quantile(change[1:], [OUTSIDE / 2, 1 - OUTSIDE / 2])
    return Effect(*(round(float(x), 6) for x in (change[0], low, high)))
