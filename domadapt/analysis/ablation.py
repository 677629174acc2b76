"""Each head switched off: what that does to the scores.

As Michel et al. (2019, https://arxiv.org/abs/1905.10650) do it, a head is off when what it puts out is zero. The rest
of its layer goes on. What lies below the switch is computed once a batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from domadapt.analysis.subject import Side, Subject
from domadapt.data.batches import Batch, in_order
from domadapt.methods.session import Session
from domadapt.models.contracts import Output
from domadapt.statistics.items import Answer, count_items
from domadapt.statistics.resampling import resampled_scores
from domadapt.tasks.task import Prediction, labels_of
from domadapt.utils.work import progress

RESAMPLES, OUTSIDE = 1000, 0.05


@dataclass(frozen=True, slots=True)
class Effect:
    """A score without a head less that with it: above 0 it did harm; and an interval over texts, drawn in pairs."""

    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SideEffects:
    """Of one side's labelled texts that training has not seen."""

    texts: int
    score: float  #: with everything on
    heads: tuple[tuple[Effect, ...], ...]  #: (layers, heads)


@dataclass(frozen=True, slots=True)
class Ablation:
    """What it did to the headline score, on the sides that have labels."""

    headline: str
    sides: dict[str, SideEffects]


Switch = tuple[int, int]  # a layer, and a head of it


def ablation(subject: Subject) -> Ablation:
    """Switch off one head after the other, on every side that has labels."""
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
    counts = {}
    for switch, texts in predictions.items():
        each = ((record, texts[place]) for place, record in enumerate(side.records))
        answers = [Answer(r.id, r.text, labels_of(r, task.kind), labels_of(p, task.kind)) for r, p in each]
        counts[switch] = count_items(answers, task.names, average)
    on = counts.pop(None)
    whole_model, *off = resampled_scores([on, *counts.values()], RESAMPLES).T
    heads: list[list[Effect]] = [[] for _ in range(layers)]
    for (switch, items), drawn in zip(counts.items(), off, strict=True):
        low, high = np.quantile(drawn - whole_model, [OUTSIDE / 2, 1 - OUTSIDE / 2])
        if switch is not None:
            heads[switch[0]].append(Effect(*(round(float(x), 6) for x in (items.score - on.score, low, high))))
    return SideEffects(len(side.scored), round(on.score, 6), tuple(map(tuple, heads)))


def outputs_by_switch(session: Session, batch: Batch, layers: int) -> Iterator[tuple[Switch | None, Output]]:
    """What a batch gives with everything on, then with one head off at a time."""

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
            for head in range(sizes[layer]):
                with session.encoder.hooked(layer, lambda call, off=head: zero_head(call.inner(), off)):
                    yield (layer, head), read()


def zero_head(output: torch.Tensor, head: int) -> torch.Tensor:
    """What a layer's heads put out, (batch, pieces, heads, head width), with one of them at zero."""
    output = output.clone()
    output[:, :, head] = 0
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
