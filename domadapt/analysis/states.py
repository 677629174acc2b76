"""States of every layer: the embeddings that the first one reads, then what each layer gives on."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.methods.setting import Setting
from domadapt.models.pretrained import UnreadableLayer, refuse_turned
from domadapt.syntax.alignment import pool_words


def why_unreadable(encoder: Any) -> str:
    """Why :func:`every_layer` can't read a model; empty if it can.

    Args:
        encoder: an :class:`~domadapt.models.encoder.Encoder`.
    """
    try:
        for layer in range(len(encoder.layers())):
            refuse_turned(encoder.base, encoder.tokenizer, encoder.name, layer)
    except UnreadableLayer as error:
        return error.why
    return ""


def every_layer(
    setting: Setting, examples: Sequence[Example], batch_size: int, title: str
) -> Iterator[tuple[Batch, list[Tensor]]]:
    """States of a model as it predicts, batch by batch, longest first; hooks see them, whatever the architecture.

    Args:
        setting: whose encoder has layers that can be read (:func:`why_unreadable`).
        examples: to read.
        batch_size: texts a batch.
        title: of the progress bar.

    Returns:
        The batch, and of the embeddings and every layer (batch, pieces, width), in float32.
    """
    layers = setting.encoder.layers()
    found: dict[int, Tensor] = {}

    def before(module: Any, args: Any, kwargs: Any) -> None:
        found[0] = (args[0] if args else kwargs["hidden_states"]).float()

    def after(place: int) -> Any:
        def keep(module: Any, args: Any, output: Any) -> None:
            found[place] = (output[0] if isinstance(output, tuple) else output).float()

        return keep

    with ExitStack() as stack:
        stack.callback(layers[0].register_forward_pre_hook(before, with_kwargs=True).remove)
        for place, layer in enumerate(layers, start=1):
            stack.callback(layer.register_forward_hook(after(place)).remove)
        for batch, _ in setting.outputs(examples, batch_size, title):
            yield batch, [found[place] for place in range(len(layers) + 1)]


def layer_names(count: int) -> tuple[str, ...]:
    """Names of what :func:`every_layer` gives; layers are counted from 0.

    >>> layer_names(3)
    ('embeddings', 'layer 0', 'layer 1')
    """
    return ("embeddings", *(f"layer {layer}" for layer in range(count - 1)))


def of_words(batch: Batch, states: Tensor) -> list[Tensor]:
    """Per text of a batch (words, width), the mean of each word's pieces; not a number for words that were cut off.

    Args:
        batch: with its words.
        states: (batch, pieces, width).
    """
    nodes = pool_words(states, batch.pair_pieces, batch.pair_nodes, int(batch.words.sum()))
    nodes[batch.node_first_piece < 0] = torch.nan
    return list(nodes.split(batch.words.tolist()))


def of_texts(batch: Batch, states: Tensor) -> Tensor:
    """(batch, width) mean of each text's pieces, special ones included and padding left out."""
    mask = batch.attention_mask.unsqueeze(-1).to(states.dtype)
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1)
