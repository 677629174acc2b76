"""Each head, and each layer's attention, switched off: what that does to the scores.

As Michel et al. (2019, https://arxiv.org/abs/1905.10650) do it, a head is off when what it puts out is zero; a layer
is, when all of its heads are. The rest of the layer goes on. What lies below the switch is computed once a batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from domadapt.analysis.expected import Array, KindCounts, headline, kind_counts
from domadapt.analysis.subject import Side, Subject
from domadapt.data.batches import Batch, in_order
from domadapt.methods.session import Session
from domadapt.tasks.rows import Predicted, joined
from domadapt.utils.work import progress

RESAMPLES, OUTSIDE = 1000, 0.05


@dataclass(frozen=True, slots=True)
class Effect:
    """A score without a part less that with it: above 0 it did harm; and an interval over texts, drawn in pairs."""

    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SideEffects:
    """Of one side's labelled texts that training has not seen."""

    texts: int
    score: float  #: with everything on
    heads: tuple[tuple[Effect, ...], ...]  #: (layers, heads)
    layers: tuple[Effect, ...]  #: of whole layers


@dataclass(frozen=True, slots=True)
class Ablation:
    """What it did to the headline score, on the sides that have labels."""

    headline: str
    sides: dict[str, SideEffects]


Switch = tuple[int, int | None]  # a layer, and a head of it or all


def ablation(subject: Subject) -> Ablation:
    """Switch off one part after the other, on every side that has labels."""
    scored = {name: side for name, side in subject.sides().items() if side.scored}
    effects = {name: _effects(subject, side, name) for name, side in scored.items()}
    return Ablation(subject.after.task.headline, effects)


def _effects(subject: Subject, side: Side, name: str) -> SideEffects:
    session, task = subject.after, subject.after.task
    layers = len(session.encoder.attention_layers())
    parts: dict[Switch | None, list[Predicted]] = {}
    loader = in_order(side.scored, session.collator, subject.batch_size)
    with torch.no_grad():
        for batch in progress(loader, f"{name} heads off", len(loader), "batch"):
            for switch, rows in rows_by_switch(session, batch.to(session.device), layers):
                # What the head reads is not read here, and of 79 passes would fill the memory.
                parts.setdefault(switch, []).append(replace(rows, features=np.empty((len(rows), 0), np.float16)))
    how, size = (task.headline, getattr(task, "average", "present"), subject.seed), len(task.labels)
    counts = {switch: kind_counts(joined(rows, size), task.labels, labelled=True) for switch, rows in parts.items()}
    drawn = {switch: resampled_headlines(kinds, *how) for switch, kinds in counts.items()}
    on = drawn.pop(None)
    effects: dict[Switch, Effect] = {}
    for switch, off in ((switch, off) for switch, off in drawn.items() if switch is not None):
        change = off - on
        low, high = np.quantile(change[1:], [OUTSIDE / 2, 1 - OUTSIDE / 2])
        effects[switch] = Effect(*(round(float(x), 6) for x in (change[0], low, high)))
    of_heads = [(at, effect) for (at, head), effect in effects.items() if head is not None]
    heads = tuple(tuple(effect for at, effect in of_heads if at == layer) for layer in range(layers))
    whole = tuple(effects[layer, None] for layer in range(layers))
    return SideEffects(len(side.scored), round(float(on[0]), 6), heads, whole)


def rows_by_switch(session: Session, batch: Batch, layers: int) -> Iterator[tuple[Switch | None, Predicted]]:
    """A batch's rows with everything on, then with one part off at a time."""

    def rows() -> Predicted:
        return session.task.rows(session.transformed(session.encoder(batch), batch), batch)

    def count(call: Any) -> torch.Tensor:  # heads are counted where they are seen
        output: torch.Tensor = call.inner()
        sizes.append(output.shape[2])
        return output

    stack, outputs, sizes = session.encoder.layers(), list[Any](), list[int]()
    with ExitStack() as hooks:
        for module in stack:
            hooks.callback(module.register_forward_hook(lambda _, __, output: outputs.append(output)).remove)
        for layer in range(layers):
            hooks.enter_context(session.encoder.hooked(layer, count))
        yield None, rows()
    for layer in range(layers):
        with reuse_outputs(stack, outputs[:layer]):
            for head in (*range(sizes[layer]), None):
                with session.encoder.hooked(layer, lambda call, off=head: zero_head(call.inner(), off)):
                    yield (layer, head), rows()


def zero_head(output: torch.Tensor, head: int | None) -> torch.Tensor:
    """What a layer's heads put out, (batch, pieces, heads, head width), with one of them, or all, at zero."""
    output = output.clone()
    output[:, :, slice(None) if head is None else head] = 0
    return output


@contextmanager
def reuse_outputs(stack: torch.nn.ModuleList, outputs: Sequence[Any]) -> Iterator[None]:
    """Within it, the first layers give what they gave before, and compute nothing."""
    layers: list[Any] = list(stack)[: len(outputs)]
    try:
        for layer, output in zip(layers, outputs, strict=True):
            layer.forward = lambda *_, given=output, **__: given
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def resampled_headlines(kinds: dict[str, KindCounts], name: str, average: str, seed: int) -> Array:
    """(1 + resamples,) headline of the texts as they are, and drawn again: in the same way each time, as pairs."""
    size = len(next(iter(kinds.values())).predicted)
    random, chances = np.random.default_rng(seed), np.full(size, 1 / max(size, 1))
    often = random.multinomial(size, chances, RESAMPLES) if size else np.zeros((RESAMPLES, 0))
    weights = np.concatenate([np.ones((1, size)), often])
    return headline(np.stack([kind.sums(weights) for kind in kinds.values()]), name, average)
