"""A model with fewer layers or heads, that learns from the whole one what it says of unlabelled texts.

Layers are taken away one by one, each time the one without which the answers change least; heads by the gradient of
the loss on the model's own answers (Michel, Levy & Neubig 2019, https://arxiv.org/abs/1905.10650). What is left is
trained on the mean divergence from the whole model's answers, on all pieces of a text or on its label (Hinton, Vinyals
& Dean 2015, https://arxiv.org/abs/1503.02531). No label is read.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from domadapt.models.attention import attention_modules, output_projection
from domadapt.models.pretrained import layer_stack
from domadapt.utils.pairs import apart
from domadapt.utils.runtime import undisturbed
from domadapt.utils.work import progress

BATCH, SAMPLE, LEAST = 16, 16, 30  # texts a batch; batches by which layers and heads are chosen; texts to learn from
RATE, WARMUP = 1e-4, 0.1
Inputs = dict[str, Tensor]


def smaller(folder: Path, texts: Sequence[str], layers: int | None, heads: float, epochs: int) -> tuple[Any, list[str]]:
    """A stock folder's model with what is asked for taken away, and what was done, a sentence each.

    Args:
        folder: transformers' own, with its tokenizer.
        texts: unlabelled; they choose what goes, and teach what stays.
        layers: how many are left; None for all.
        heads: share of all attention heads that go, below 1. No folder of transformers can say so: for ONNX.
        epochs: of learning.
    """
    import transformers

    if len(texts) < LEAST:
        raise ValueError(f"layers, prune_heads: expected {LEAST} texts or more to learn from; got {len(texts)}")
    whole = stock_model(folder)
    depth = whole.config.num_hidden_layers
    if layers is not None and not 0 < layers < depth:
        raise ValueError(f"layers={layers}: expected 1 to {depth - 1}; {folder.name} has {depth}")
    tokenizer, less, said = transformers.AutoTokenizer.from_pretrained(folder), copy.deepcopy(whole), list[str]()
    inputs = [*batches(tokenizer, texts)]
    with undisturbed():
        torch.manual_seed(0)
        taught = [(one, answers(whole, one)) for one in progress(inputs, "whole model", len(inputs), "batch")]
        sample = [taught[i] for i in torch.randperm(len(taught))[:SAMPLE]]
        if layers is not None:
            kept = drop_layers(less, layers, sample)
            said.append(f"{layers} of {depth} layers stay: {', '.join(str(layer + 1) for layer in kept)}.")
        if heads:
            gone, count = prune_heads(less, heads, sample)
            said.append(f"{gone} of {count} attention heads are gone.")
        distil(less, taught, epochs)
    said.append(f"The rest learnt, in {epochs} epochs, the whole model's answers on {len(texts)} unlabelled texts.")
    return less, said


def stock_model(folder: Path) -> Any:
    """transformers' own class of a folder, to predict with."""
    import transformers

    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    return getattr(transformers, name).from_pretrained(folder, dtype=torch.float32).eval()


def batches(tokenizer: Any, texts: Sequence[str]) -> Iterator[Inputs]:
    """Texts of like length together, padded; pairs in the tokenizer's own form."""
    ordered = sorted(texts, key=len)
    for start in range(0, len(ordered), BATCH):
        columns = zip(*(tuple(apart(text).values()) for text in ordered[start : start + BATCH]), strict=True)
        yield dict(tokenizer(*map(list, columns), truncation=True, padding=True, return_tensors="pt"))


@torch.no_grad()
def answers(model: Any, inputs: Inputs) -> Tensor:
    """(rows, classes) log-probabilities: of each text, or of each of its pieces."""
    return log_shares(model, inputs)


def log_shares(model: Any, inputs: Inputs) -> Tensor:
    """:func:`answers` with their gradient."""
    logits: Tensor = model(**inputs).logits
    return (logits if logits.ndim == 2 else logits[inputs["attention_mask"].bool()]).log_softmax(-1)


def divergence(model: Any, taught: Sequence[tuple[Inputs, Tensor]]) -> float:
    """Mean Kullback-Leibler divergence from given answers."""
    found = [nn.functional.kl_div(answers(model, one), by, reduction="none", log_target=True) for one, by in taught]
    return float(torch.cat(found).sum(-1).mean())


def drop_layers(model: Any, layers: int, taught: Sequence[tuple[Inputs, Tensor]]) -> list[int]:
    """Leave so many layers, greedily; which they were, from 0."""
    stack, config = layer_stack(model.base_model, type(model).__name__), model.config
    whole, kept = [*stack], [*range(len(stack))]

    def leave(places: Sequence[int]) -> None:
        del stack[:]
        stack.extend(whole[place] for place in places)
        config.num_hidden_layers = len(places)

    def without(place: int) -> float:
        leave([other for other in kept if other != place])
        return divergence(model, taught)

    while len(kept) > layers:
        kept.remove(min(kept, key=without))
    leave(kept)
    return kept


def prune_heads(model: Any, share: float, taught: Sequence[tuple[Inputs, Tensor]]) -> tuple[int, int]:
    """Cut away the heads that count least, one a layer staying at least; how many they were, of how many."""
    modules: list[Any] = [*attention_modules(model.base_model)]
    parts: list[tuple[Any, Any]] = [(module, output_projection(model.base_model, module)) for module in modules]
    if not modules or not all(hasattr(module, "query") and out is not None for module, out in parts):
        raise ValueError(f"prune_heads: {type(model).__name__}'s attention can't be cut; expected one like BERT's")
    width = modules[0].attention_head_size
    gates = [torch.ones(module.query.out_features // width, requires_grad=True) for module in modules]

    def gated(gate: Tensor) -> Callable[[Any, Any], Any]:
        return lambda module, args: (args[0] * gate.repeat_interleave(width), *args[1:])

    handles = [out.register_forward_pre_hook(gated(gate)) for (_, out), gate in zip(parts, gates, strict=True)]
    importance = [torch.zeros_like(gate) for gate in gates]
    for inputs, by in taught:
        loss = nn.functional.nll_loss(log_shares(model, inputs), by.argmax(-1))
        for total, slope in zip(importance, torch.autograd.grad(loss, gates), strict=True):
            total += slope.abs()
    for handle in handles:
        handle.remove()
    ranked = [one / one.norm().clamp(min=1e-12) for one in importance]  # layers' gradients are of unlike size
    count = sum(map(len, ranked))
    limit = torch.cat(ranked).sort().values[round(share * count) - 1] if round(share * count) else -1.0
    for (module, out), own in zip(parts, ranked, strict=True):
        stay = own > min(limit, float(own.max()) - 1e-12)
        rows = stay.repeat_interleave(width)
        for part in (module.query, module.key, module.value):
            part.weight = nn.Parameter(part.weight.detach()[rows])
            part.bias = nn.Parameter(part.bias.detach()[rows])
            part.out_features = int(rows.sum())
        out.weight = nn.Parameter(out.weight.detach()[:, rows])
        out.in_features = module.all_head_size = int(rows.sum())
        module.num_attention_heads = int(stay.sum())
    return count - sum(module.num_attention_heads for module in modules), count


def distil(model: Any, taught: Sequence[tuple[Inputs, Tensor]], epochs: int) -> None:
    """Train on given answers, batches in a random order, the rate rising and falling."""
    steps = epochs * len(taught)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01, fused=True)
    rates = LambdaLR(optimizer, lambda step: min((step + 1) / (WARMUP * steps), (steps - step) / steps))
    model.train()
    order = (int(place) for _ in range(epochs) for place in torch.randperm(len(taught)))
    for place in progress(order, "distil", steps, "batch"):
        inputs, by = taught[place]
        loss = nn.functional.kl_div(log_shares(model, inputs), by, reduction="batchmean", log_target=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
    model.eval()
