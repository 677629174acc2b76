"""Attention heads that a method chooses: which, and how much of their attention falls where it should."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from domadapt.methods.method import in_range, one_of
from domadapt.methods.units import masked_mean


def read_heads(name: str, rows: Any, choices: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """A setting that lists heads; ``choices`` are what each row says beside ``layer`` and ``head``, any where empty.

    >>> read_heads("heads", [{"layer": 3, "head": 0, "direction": "on"}], {"direction": ("up", "down")})
    Traceback (most recent call last):
    ValueError: heads[0].direction='on': expected up or down
    """
    keys = ("layer", "head", *choices)
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{name}={rows!r}: expected a list of {{{', '.join(f'{key}: ...' for key in keys)}}}")
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or {*row} != {*keys}:
            raise ValueError(f"{name}[{place}]={row!r}: expected {', '.join(keys)}")
        for key in ("layer", "head"):
            in_range(f"{name}[{place}].{key}", row[key], 0)
        for key, allowed in choices.items():
            if allowed:
                one_of(f"{name}[{place}].{key}", row[key], *allowed)
            elif not isinstance(row[key], str):
                raise ValueError(f"{name}[{place}].{key}={row[key]!r}: expected a name")
        if row in rows[:place]:
            raise ValueError(f"{name}[{place}]={row}: is there twice")
    return rows


def read_layers(name: str, layers: Any) -> list[int]:
    """Numbers of a setting that lists layers; none for ``all``.

    >>> read_layers("tree_bias.layers", "all"), read_layers("tree_bias.layers", [0, 3])
    ([], [0, 3])
    >>> read_layers("tree_bias.layers", "top")
    Traceback (most recent call last):
    ValueError: tree_bias.layers='top': expected all, or different numbers of layers, such as [0,3]
    """
    numbers = [*layers] if isinstance(layers, list) and all(type(layer) is int for layer in layers) else []
    if layers != "all" and (not numbers or len({*numbers}) < len(numbers)):
        raise ValueError(f"{name}={layers!r}: expected all, or different numbers of layers, such as [0,3]")
    for layer in numbers:
        in_range(name, layer, 0)
    return numbers


def layer_rows(name: str, layers: list[int], encoder: Any) -> dict[int, int]:
    """Chosen layers, each with its place among them: what :func:`read_layers` gave, for a model."""
    for layer in layers:
        check_place(name, layer, encoder)
    return {layer: row for row, layer in enumerate(layers or range(encoder.attention_shape[0]))}


def check_place(name: str, layer: int, encoder: Any, head: int | None = None) -> None:
    """Refuse a layer that an encoder has not, ``name``; or a layer and a head, ``name.layer`` and ``name.head``."""
    numbers = [(name, layer)] if head is None else [(f"{name}.layer", layer), (f"{name}.head", head)]
    for (setting, number), what, count in zip(numbers, ("layers", "heads"), encoder.attention_shape, strict=False):
        if not 0 <= number < count:
            raise ValueError(f"{setting}={number}: {encoder.name} has {what} 0 to {count - 1}")


def mass_loss(scores: Tensor, links: Tensor) -> Tensor:
    """Minus the logarithm of how much of a piece's attention falls on any of the pieces that it is linked with.

    The mean over pieces that are linked with something that no mask hides; zero if there is none.
    Of (batch, pieces, pieces) scores, attending piece in rows, and (3, links): row, attending piece, one to attend to.

    >>> mass_loss(torch.zeros(1, 4, 4), torch.tensor([[0, 0], [1, 1], [2, 3]])).exp().item()
    2.0
    """
    linked = torch.zeros_like(scores, dtype=torch.bool)
    linked[links[0], links[1], links[2]] = True
    linked &= scores > hidden_below(scores)
    lowest = torch.finfo(scores.dtype).min
    mass = scores.log_softmax(-1).masked_fill(~linked, lowest).logsumexp(-1)
    return -masked_mean(mass, linked.any(-1))


def hidden_below(scores: Tensor) -> float:
    """Scores above it are hidden by no mask: windows of attention and masks by distance hide what the tree may link."""
    return torch.finfo(scores.dtype).min / 2
