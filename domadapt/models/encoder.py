"""The text encoder: any Hugging Face model whose attention can be reached, or a BiLSTM from scratch.

Attention is reached through transformers' attention interface: every layer runs PyTorch's fused attention, except
those to which an injection has attached a hook (:meth:`Encoder.hook_attention`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from domadapt.data.batches import Batch
from domadapt.models.attention import AttentionHook, attention_modules, refuse_unreachable_attention
from domadapt.models.pretrained import load_model, load_tokenizer


@dataclass(frozen=True, slots=True)
class Output:
    """What an encoder says about a batch.

    Attributes:
        states: (batch, pieces, width) last hidden states.
        logits: (batch, pieces, labels) for token tasks, (batch, labels) for sequence tasks.
    """

    states: Tensor
    logits: Tensor


class Encoder(nn.Module):
    """A stock Hugging Face classification model, its last states, and hooks into its attention.

    Args:
        name: ``minilm`` (the pip-installed default), ``tiny_random`` (tests), a folder, or a hub name.
        kind: ``token`` or ``sequence``: which stock head sits on top.
        labels: names of the classes.
        trainable: ``all``, ``top:N`` (the N layers nearest the output, and the head) or ``none`` (the head alone).

    Raises:
        ValueError: the model is not reached, its attention can't be hooked, or ``trainable`` is malformed.
    """

    takes_methods = True

    def __init__(self, name: str, kind: str, labels: list[str], trainable: str = "all") -> None:
        super().__init__()
        self.name, self.kind, self.labels = name, kind, labels
        self.tokenizer = load_tokenizer(name)
        self.model = load_model(name, kind, labels)
        refuse_unreachable_attention(self.base, name)
        freeze(self, trainable)

    @property
    def base(self) -> Any:
        """The encoder below the task head."""
        return self.model.base_model

    @property
    def width(self) -> int:
        """Size of a piece's state."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int:
        """Most pieces of a text, special ones included."""
        embeddings = getattr(self.base, "embeddings", None)
        padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
        offset = 0 if padding is None else padding + 1  # RoBERTa and its like: positions begin after the padding id
        return int(self.model.config.max_position_embeddings) - offset

    @contextmanager
    def stock_attention(self) -> Iterator[None]:
        """Set hooks aside: what a stage before training sees must not depend on the injections beside it."""
        modules = [m for m in self.attention_layers() if getattr(m, "domadapt_hook", None) is not None]
        hooks = [m.domadapt_hook for m in modules]
        for module in modules:
            object.__setattr__(module, "domadapt_hook", None)
        try:
            yield
        finally:
            for module, hook in zip(modules, hooks, strict=True):
                object.__setattr__(module, "domadapt_hook", hook)

    def forward(self, batch: Batch) -> Output:
        """Encode a batch and classify it with the stock head."""
        # Not output_hidden_states: what transformers needs for it does not survive the way into another process.
        states: list[Tensor] = []
        hook = self.base.register_forward_hook(lambda module, inputs, output: states.append(output[0]))
        try:
            out = self.model(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, piece_heads=batch.piece_heads
            )
        finally:
            hook.remove()
        return Output(states[0], out.logits)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(batch, pieces, width) last states alone, without the task head or parses."""
        states: Tensor = self.base(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return states

    def attention_layers(self) -> list[nn.Module]:
        """The self-attention modules, in order; found by class, because not every model numbers its layers."""
        return attention_modules(self.base)

    def layers(self) -> nn.ModuleList:
        """The stack of transformer layers."""
        return max((m for m in self.base.modules() if isinstance(m, nn.ModuleList)), key=len)

    def hook_attention(self, layer: int, hook: AttentionHook) -> None:
        """Let ``hook`` compute the attention of one layer.

        Args:
            layer: counted from 0.
            hook: called as ``hook(query, key, value, mask, scaling, dropout, fused, **inputs)`` with (batch, heads,
                pieces, head width) tensors; ``fused()`` gives the layer's usual (batch, pieces, heads, head width)
                result; must return that shape.

        Raises:
            ValueError: no such layer, or it already has a hook.
        """
        modules = self.attention_layers()
        if not 0 <= layer < len(modules):
            raise ValueError(f"layer {layer}: {self.name} has layers 0 to {len(modules) - 1}")
        if getattr(modules[layer], "domadapt_hook", None) is not None:
            raise ValueError(f"layer {layer} already has an attention hook: give each injection its own layer")
        # Past nn.Module.__setattr__: the hook's owner is registered elsewhere and must not appear twice.
        object.__setattr__(modules[layer], "domadapt_hook", hook)

    def save(self, folder: Path) -> None:
        """Write a stock Hugging Face folder: configuration, safetensors, tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


class EncoderLike(Protocol):
    """What training needs from an encoder (:class:`Encoder`, :class:`domadapt.models.bilstm.BiLSTM`)."""

    tokenizer: PreTrainedTokenizerBase
    takes_methods: bool

    @property
    def width(self) -> int: ...

    @property
    def longest(self) -> int: ...

    def __call__(self, batch: Batch) -> Output: ...

    def save(self, folder: Path) -> None: ...


def freeze(encoder: Encoder, trainable: str) -> None:
    """Fix what should not be trained; the task head always is.

    Raises:
        ValueError: not ``all``, ``none`` or ``top:N`` with N within the model's layers.
    """
    if trainable == "all":
        return
    layers = encoder.layers()
    kind, _, count = trainable.partition(":")
    if trainable != "none" and not (kind == "top" and count.isdigit() and int(count) <= len(layers)):
        raise ValueError(
            f"backbone.trainable={trainable!r}: expected all, none, or top:N with N from 0 to {len(layers)}"
        )
    encoder.base.requires_grad_(False)
    if count:
        for layer in layers[len(layers) - int(count) :]:
            layer.requires_grad_(True)
