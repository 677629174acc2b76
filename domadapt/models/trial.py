"""What a model gives for a short text: tried before training, because architectures differ in it without a word."""

from typing import Any

import torch
from torch import Tensor, nn

TRIED = "A text, to see what comes of it."  # its length must not be the batch's, 1


def tried(base: Any, tokenizer: Any, **how: Any) -> tuple[Any, int]:
    """What an encoder gives for a text, as it predicts, and of how many pieces that text is.

    Args:
        base: a transformers encoder.
        tokenizer: its own.
        how: more for it, such as ``output_attentions=True``.
    """
    device, training = next(base.parameters()).device, base.training
    ids = torch.tensor([tokenizer(TRIED)["input_ids"]], device=device)
    base.eval()
    try:
        with torch.no_grad():
            return base(input_ids=ids, attention_mask=torch.ones_like(ids), **how), ids.shape[1]
    finally:
        base.train(training)


def refuse_without_states(base: Any, tokenizer: Any, name: str) -> None:
    """Of a model that gives not one state a piece, say so.

    Raises:
        ValueError: naming the model and what it gives instead.
    """
    kind = type(base).__name__
    try:
        output, pieces = tried(base, tokenizer)
    except Exception as error:  # an architecture may need anything
        raise ValueError(f"backbone {name!r} ({kind}) can't encode a text: {error}") from error
    states = getattr(output, "last_hidden_state", None)
    expected = (1, pieces, base.config.hidden_size)
    if states is None or tuple(states.shape) != expected:
        found = "no last_hidden_state" if states is None else f"a last_hidden_state of shape {tuple(states.shape)}"
        raise ValueError(f"backbone {name!r} ({kind}): expected one state a piece, {expected}; it gives {found}")


class UnreadableLayer(ValueError):
    """What a single layer gives can't be read.

    Args:
        why: what the model does instead.
        advice: what can be asked for instead, appended to the message; who asks for nothing leaves it out.
    """

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why, advice)  # both, or it would not come back from another process
        self.why, self.advice = why, advice

    def __str__(self) -> str:
        return f"{self.why}{self.advice}"


def layer_stack(base: Any, name: str) -> nn.ModuleList:
    """The transformer layers: the one list, in no other list, of as many modules as the configuration has layers.

    Args:
        base: a transformers encoder.
        name: of the backbone.

    Raises:
        UnreadableLayer: there is no such list, as where layers share their weights, or several.
    """
    lists = {place: module for place, module in base.named_modules() if isinstance(module, nn.ModuleList)}
    inner = {place for place in lists if any(place.startswith(f"{other}.") for other in lists)}
    count = int(base.config.num_hidden_layers)
    found = [module for place, module in lists.items() if place not in inner and len(module) == count]
    if len(found) != 1:
        has = "shares weights between its layers or has none" if not found else "splits its layers into several lists"
        raise UnreadableLayer(
            f"backbone {name!r} ({type(base).__name__}) {has}, so no single one of its {count} layers can be read or "
            "frozen",
            ": expected the last layer (-1), and backbone.trainable=all or none",
        )
    return found[0]


def layer_states(output: Any) -> Tensor:
    """(batch, pieces, width) of what a layer gives, which is a tuple in some models."""
    states: Tensor = output[0] if isinstance(output, tuple) else output
    return states


def refuse_turned(base: Any, tokenizer: Any, name: str, layer: int) -> None:
    """Refuse a layer that gives anything but (batch, pieces, width), such as pieces first.

    Args:
        base: a transformers encoder.
        tokenizer: its own.
        name: of the backbone.
        layer: counted from 0.

    Raises:
        UnreadableLayer: naming the layer and the shape.
    """
    shapes: list[tuple[int, ...]] = []
    handle = layer_stack(base, name)[layer].register_forward_hook(
        lambda module, inputs, output: shapes.append(tuple(layer_states(output).shape))
    )
    try:
        _, pieces = tried(base, tokenizer)
    finally:
        handle.remove()
    expected = (1, pieces, base.config.hidden_size)
    if shapes != [expected]:
        raise UnreadableLayer(
            f"layer {layer}: backbone {name!r} ({type(base).__name__}) gives states of shape {shapes} there, expected "
            f"{expected}",
            "; take its last layer, -1",
        )


def returned_attention(base: Any, tokenizer: Any) -> tuple[int, int] | None:
    """In how many layers, and of how many heads each, a model returns all pieces' attention to all pieces.

    Args:
        base: a transformers encoder.
        tokenizer: its own.

    Returns:
        None where it returns none, or something else: windows, or scores.
    """
    output, pieces = tried(base, tokenizer, output_attentions=True)
    found = getattr(output, "attentions", None) or ()
    shapes = {tuple(weights.shape) if isinstance(weights, Tensor) else None for weights in found}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or shape != (1, shape[1], pieces, pieces):
        return None
    sums = torch.stack([weights.float().sum(-1) for weights in found])
    return (len(found), shape[1]) if torch.allclose(sums, torch.ones_like(sums), atol=1e-3) else None


def as_scores(weights: Tensor) -> Tensor:
    """Scores whose softmax these attention weights are, in float32: their logarithm, and masked where they are zero.

    In training most models return weights after dropout. What it has taken looks like masked; the softmax divides the
    rest up.

    Args:
        weights: (batch, pieces, pieces).

    >>> as_scores(torch.tensor([[0.5, 0.0, 1.0]])).softmax(-1).tolist()
    [[0.3333333432674408, 0.0, 0.6666666865348816]]
    """
    weights = weights.float()
    # Not the logarithm of zero: masked afterwards, it would still make gradients that are no numbers.
    scores = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    return scores.masked_fill(weights <= 0, torch.finfo(weights.dtype).min)
