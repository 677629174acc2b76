"""Where a trained model looks: the attention of one layer over the few texts that a report shows."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from domadapt.syntax.parser import SILENT, Parse

if TYPE_CHECKING:
    from domadapt.inference.model import Model

Weights = NDArray[np.float32]
LEAST = 0.1  # share of a word's attention that is drawn


@dataclass(frozen=True, slots=True)
class Attention:
    """One head's attention over texts.

    Attributes:
        layer: counted from 0: the last one that syntax was put into, else the last.
        head: counted from 0: the one of that layer that puts most attention on the words' syntactic heads.
        heads: how many the layer has.
        weights: per text (words, words), attending word in rows; what a row lacks to 1 goes to special pieces.
    """

    layer: int
    head: int
    heads: int
    weights: tuple[Weights, ...]


def attention(model: Path, texts: Sequence[str], parses: Sequence[Parse]) -> Attention | str:
    """Load a model folder and read its attention.

    Args:
        model: a run's ``model/`` folder.
        texts: the texts.
        parses: of these texts.

    Returns:
        The attention, or why there is none.
    """
    if not (model / "domadapt.json").is_file():
        return f"no model in {model}"
    from safetensors import SafetensorError

    from domadapt.inference.model import load

    try:
        loaded = load(model, "cpu", "32")
        if not loaded.setting.encoder.takes_methods:
            return "this model has no attention"
        return look(loaded, syntax_layer(model), texts, parses)
    except (ValueError, OSError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        # A damaged or foreign model spoils its own drawings, not the report.
        return f"{model}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"


def look(loaded: "Model", layer: int | None, texts: Sequence[str], parses: Sequence[Parse]) -> Attention:
    """Read a loaded model's attention.

    Args:
        loaded: on the CPU, in float32.
        layer: see :func:`recorded`.
        texts: the texts.
        parses: of these texts.
    """
    import torch

    from domadapt.data.batches import encode

    setting = loaded.setting
    words = [parse.words for parse in parses]
    trees = parses if loaded.parses else None
    examples, _ = encode(texts, words, setting.encoder.tokenizer, setting.max_pieces, trees)
    with torch.no_grad(), recorded(setting.encoder, layer) as (at, found):
        setting.encoder(setting.collator(examples))
    pieces = found[0].numpy()
    every = [by_words(pieces[i], e.alignment.piece_words(), len(words[i])) for i, e in enumerate(examples)]
    head = most_syntactic(every, parses)
    return Attention(at, head, pieces.shape[1], tuple(weights[head] for weights in every))


def syntax_layer(model: Path) -> int | None:
    """The last layer that an injection trained and left behind in stock weights; None where none says its layer."""
    description = json.loads((model / "domadapt.json").read_text(encoding="utf-8"))
    trained: list[Any] = []
    for config in description.get("left_behind", {}).values():
        heads = config.get("heads")
        trained += heads if isinstance(heads, list) else [config]
    layers = [one.get("layer") for one in trained if isinstance(one, dict)]
    return max((layer for layer in layers if isinstance(layer, int) and layer >= 0), default=None)


@contextmanager
def recorded(encoder: Any, layer: int | None = None) -> Iterator[tuple[int, list[Any]]]:
    """Within it, one layer's weights are kept: (batch, heads, pieces, pieces) a forward pass.

    Args:
        encoder: an :class:`~domadapt.models.encoder.Encoder`.
        layer: counted from 0; None for the last one with a hook, else the last.
    """
    layer = max(encoder.attention_hooks, default=len(encoder.attention_layers()) - 1) if layer is None else layer
    found: list[Any] = []
    with encoder.hooked(layer, keeper(found)):
        yield layer, found


@contextmanager
def all_weights(encoder: Any) -> Iterator[list[Any]]:
    """Within it, the weights of all layers are kept, in their order; whoever reads them clears the list."""
    found: list[Any] = []
    with ExitStack() as stack:
        for layer in range(len(encoder.attention_layers())):
            stack.enter_context(encoder.hooked(layer, keeper(found)))
        yield found


def keeper(found: list[Any]) -> Callable[[Any], Any]:
    """A hook that appends a layer's weights.

    Attention is linear in its values, whatever computes it. With the identity for values, what comes out are the
    weights: of stock attention and of any injection's hook alike.

    Args:
        found: (batch, heads, pieces, pieces) is appended a call.
    """
    import torch

    def keep(call: Any) -> Any:
        identity = torch.eye(call.key.shape[2], dtype=call.value.dtype, device=call.value.device)
        weights = call.inner(value=identity.expand(*call.key.shape[:3], -1), dropout=0.0)
        found.append(weights.transpose(1, 2))
        return call.inner()

    return keep


def by_words(pieces: Weights, piece_words: NDArray[np.int64], words: int) -> Weights:
    """(heads, words, words) from (heads, pieces, pieces): the mean of a word's pieces attends, the sum is attended.

    >>> weights = np.array([[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]], dtype=np.float32)
    >>> by_words(weights, np.array([0, 0, 1]), 2).tolist()
    [[[0.375, 0.625], [1.0, 0.0]]]
    """
    count = len(piece_words)  # the rest is padding
    membership = (piece_words[:, None] == np.arange(words)).astype(np.float32)
    rows = membership / np.maximum(membership.sum(0), 1)
    return np.asarray(rows.T @ pieces[:, :count, :count] @ membership)


def most_syntactic(weights: Sequence[Weights], parses: Sequence[Parse]) -> int:
    """The head with the highest mean attention from words to their syntactic heads."""
    total, count = np.zeros(len(weights[0])), 0
    for one, parse in zip(weights, parses, strict=True):
        own = np.arange(len(parse.heads))
        inner = own[(parse.heads != own) & (np.array(parse.relations) != SILENT)]
        total += one[:, inner, parse.heads[inner]].sum(1)
        count += len(inner)
    return int((total / max(count, 1)).argmax())


def as_parse(weights: Weights, parse: Parse) -> tuple[Parse, int, int]:
    """Each word's most attended word drawn like its head, the weight in percent like the relation.

    Args:
        weights: (words, words) of one text.
        parse: of that text; punctuation stays undrawn.

    Returns:
        The drawing's arcs, how many words look most at their syntactic head, and of how many that have one.
    """
    best = weights.argmax(1) if len(weights) else np.zeros(0, dtype=np.int64)
    share = weights.max(1, initial=0.0)
    names, heads = [], best.astype(np.int64)
    agree = of = 0
    for word, (head, relation) in enumerate(zip(parse.heads.tolist(), parse.relations, strict=True)):
        names.append(SILENT if relation == SILENT or share[word] < LEAST else f"{100 * share[word]:.0f}")
        if relation != SILENT and head != word:
            of += 1
            agree += int(best[word] == head)
    return Parse(parse.words, heads, tuple(names), parse.tags), agree, of
