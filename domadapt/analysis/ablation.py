"""Each head, and each layer's attention, switched off: what that does to the scores.

As Michel et al. (2019, https://arxiv.org/abs/1905.10650) do it, a head is off when what it puts out is zero; a layer
is, when all of its heads are. The rest of the layer goes on. What lies below the switch is computed once a batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from domadapt.analysis.subject import Side, Subject
from domadapt.data.batches import Batch, in_order
from domadapt.data.records import Record, Span
from domadapt.methods.session import Session
from domadapt.models.contracts import Output
from domadapt.statistics.items import Answer, CountArray, count_items, f1
from domadapt.tasks.task import Prediction, Task
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
    predictions: dict[Switch | None, dict[int, Prediction]] = {}
    loader = in_order(side.scored, session.collator, subject.batch_size)
    with torch.no_grad():
        for read in progress(loader, f"{name} heads off", len(loader), "batch"):
            batch = read.to(session.device)
            places = batch.index.tolist()
            words = [side.scored[place].words for place in places]
            for switch, output in outputs_by_switch(session, batch, layers):
                found = task.decode(output, batch, words)
                predictions.setdefault(switch, {}).update(zip(places, found, strict=True))
    average = "micro" if task.headline == "accuracy" else getattr(task, "average", "macro")
    drawn = {
        switch: resampled_scores(count_right(task, side.records, found), average, subject.seed)
        for switch, found in predictions.items()
    }
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


def outputs_by_switch(session: Session, batch: Batch, layers: int) -> Iterator[tuple[Switch | None, Output]]:
    """What a batch gives with everything on, then with one part off at a time."""

    def read() -> Output:
        return session.transformed(session.encoder(batch), batch)

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
        yield None, read()
    for layer in range(layers):
        with reuse_outputs(stack, outputs[:layer]):
            for head in (*range(sizes[layer]), None):
                with session.encoder.hooked(layer, lambda call, off=head: zero_head(call.inner(), off)):
                    yield (layer, head), read()


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


def count_right(task: Task, records: Sequence[Record], predictions: Mapping[int, Prediction]) -> CountArray:
    """(texts, kinds, 3) true positives, false ones and misses, by the records' places."""

    def labels(label: str | None, spans: Sequence[Span]) -> set[Any]:
        return {(span.start, span.end, span.type) for span in spans} if task.kind == "token" else {label}

    each = ((record, predictions[place]) for place, record in enumerate(records))
    answers = [Answer(r.id, r.text, labels(r.label, r.spans or ()), labels(p.label, p.spans)) for r, p in each]
    return count_items(answers, task.names, "macro").counts


def resampled_scores(counts: CountArray, average: str, seed: int) -> NDArray[np.float64]:
    """(1 + resamples,) score of the texts as they are, and drawn again: in the same way each time, as pairs."""
    size = len(counts)
    random, chances = np.random.default_rng(seed), np.full(size, 1 / max(size, 1))
    often = random.multinomial(size, chances, RESAMPLES) if size else np.zeros((RESAMPLES, 0))
    weights = np.concatenate([np.ones((1, size)), often])
    return np.asarray(f1(np.tensordot(weights, counts, 1), average), np.float64)
