"""The text encoder: any Hugging Face model whose attention can be reached, or a BiLSTM from scratch.

Injections reach into it by hooks, each of them a stack: on the attention of a layer (:meth:`Encoder.hook_attention`),
beside its heads (:meth:`Encoder.hook_attention_output`), and between the last layer and the task head
(:meth:`Encoder.hook_states`). What any layer gives out can be read (:meth:`Encoder.keep_layer`).
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn
from transformers import AutoConfig
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from domadapt.data.batches import Batch
from domadapt.models.attention import (
    SUPPORTED,
    AttentionHook,
    ForwardPass,
    add_to_output,
    attention_modules,
    number_layers,
    output_projection,
    refuse_unreachable_attention,
)
from domadapt.models.load_report import AGAIN, refuse_partial
from domadapt.models.pretrained import load_model, load_tokenizer

StatesHook = Callable[[Tensor, Batch, dict[str, Tensor]], Tensor]  # states, batch, what this pass keeps -> states


@dataclass(frozen=True, slots=True)
class Output:
    """What an encoder says about a batch.

    Attributes:
        states: (batch, pieces, width) last hidden states.
        logits: (batch, pieces, labels) for token tasks, (batch, labels) for sequence tasks.
        kept: what hooks of this very forward pass have left for their losses, by method and name.
    """

    states: Tensor
    logits: Tensor
    kept: dict[str, Tensor] = field(default_factory=dict)


def word_logits(output: Output, batch: Batch) -> Tensor:
    """(nodes, labels) logits at each word's first piece; meaningless for words without one."""
    flat = output.logits.flatten(0, 1)
    return flat.index_select(0, batch.node_first_piece.clamp(min=0))


class Encoder(nn.Module):
    """A stock Hugging Face classification model, its last states, and hooks into it.

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
        self.model, self.report = load_model(name, kind, labels)
        if (rows := len(self.base.get_input_embeddings().weight)) < len(self.tokenizer):
            raise ValueError(
                f"{name}: its tokenizer knows {len(self.tokenizer)} pieces and its model {rows}: they are of two "
                f"models; {AGAIN}"
            )
        refuse_unreachable_attention(self.base, name)
        number_layers(self.base)
        self.attention_hooks: dict[int, list[AttentionHook]] = {}
        self.output_hooks: dict[int, list[StatesHook]] = {}
        self.states_hooks: list[StatesHook] = []
        self.kept_layers: set[int] = set()
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

    def forward(self, batch: Batch, hooked: bool = True) -> Output:
        """Encode a batch and classify it with the stock head.

        Args:
            batch: to encode.
            hooked: False sets all hooks aside, as a stage before training needs it: what it sees must not depend on
                the injections beside it.
        """
        kept: dict[str, Tensor] = {}
        # Not output_hidden_states: what transformers needs for it does not survive the way into another process.
        states: list[Tensor] = []

        layers = self.layers()
        last = len(layers) - 1

        def keep(module: Any, inputs: Any, output: Any, layer: int) -> None:
            kept[layer_name(layer)] = output[0] if isinstance(output, tuple) else output

        def between(module: Any, inputs: Any, output: Any) -> Any:
            found: Tensor = output[0]
            if hooked and last in self.kept_layers:  # some models normalise what their last layer gives
                kept[layer_name(last)] = found
            for hook in self.states_hooks if hooked else ():
                found = hook(found, batch, kept)
            states.append(found)
            if found is not output[0]:
                output["last_hidden_state"] = found
                if getattr(module, "pooler", None) is not None:  # made of the states as they were
                    output["pooler_output"] = module.pooler(found)
            return output

        handles = [self.base.register_forward_hook(between)]
        handles += [
            layers[layer].register_forward_hook(partial(keep, layer=layer))
            for layer in (self.kept_layers - {last} if hooked else ())
        ]
        try:
            with self._added(batch, hooked, kept):
                out = self.model(**self._inputs(batch, hooked, kept))
        finally:
            for handle in handles:
                handle.remove()
        return Output(states[0], out.logits, kept)

    def states(self, batch: Batch, hooked: bool = True) -> Tensor:
        """(batch, pieces, width) last states alone, without the task head or the hooks before it."""
        kept: dict[str, Tensor] = {}
        with self._added(batch, hooked, kept):
            states: Tensor = self.base(**self._inputs(batch, hooked, kept)).last_hidden_state
        return states

    @contextmanager
    def _added(self, batch: Batch, hooked: bool, kept: dict[str, Tensor]) -> Iterator[None]:
        """Within it, layers' attention gives what the hooks on its output add, too."""
        handles = []
        modules = self.attention_layers() if hooked and self.output_hooks else []
        for layer, module in enumerate(modules):
            for hook in self.output_hooks.get(layer, ()):
                projection = output_projection(self.base, module)
                assert projection is not None  # or it would not have been hooked
                handles += add_to_output(module, projection, hook, batch, kept)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _inputs(self, batch: Batch, hooked: bool, kept: dict[str, Tensor]) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if hooked and self.attention_hooks:
            inputs["forward_pass"] = ForwardPass(batch, self.attention_hooks, kept)
        return inputs

    def twin(self) -> "Encoder":
        """A copy with weights of its own and no hooks: such as a teacher starts from."""
        hooks = self.attention_hooks, self.output_hooks, self.states_hooks, self.kept_layers
        # Copied along, they would copy the methods that own them.
        self.attention_hooks, self.output_hooks, self.states_hooks, self.kept_layers = {}, {}, [], set()
        try:
            return copy.deepcopy(self)
        finally:
            self.attention_hooks, self.output_hooks, self.states_hooks, self.kept_layers = hooks

    def attention_layers(self) -> list[nn.Module]:
        """The self-attention modules, in order; found by class, because not every model numbers its layers."""
        return attention_modules(self.base)

    def layers(self) -> nn.ModuleList:
        """The stack of transformer layers."""
        return max((m for m in self.base.modules() if isinstance(m, nn.ModuleList)), key=len)

    def hook_attention(self, layer: int, hook: AttentionHook, beneath: bool = False) -> None:
        """Put ``hook`` on top of a layer's stack: it sees the attention first, and calls what lies beneath.

        Args:
            layer: counted from 0.
            hook: takes an :class:`~domadapt.models.attention.AttentionCall`, gives (batch, pieces, heads, head width).
            beneath: put it at the bottom: it reads scores, after all that change them, in whatever order methods come.

        Raises:
            ValueError: no such layer.
        """
        self._attention_layer(layer)
        hooks = self.attention_hooks.setdefault(layer, [])
        hooks.insert(0 if beneath else len(hooks), hook)

    def _attention_layer(self, layer: int) -> nn.Module:
        modules = self.attention_layers()
        if not 0 <= layer < len(modules):
            raise ValueError(f"layer {layer}: {self.name} has layers 0 to {len(modules) - 1}")
        return modules[layer]

    @contextmanager
    def hooked(self, layer: int, hook: AttentionHook) -> Iterator[None]:
        """A hook on top of a layer's stack for as long as the block lasts."""
        self.hook_attention(layer, hook)
        try:
            yield
        finally:
            self.attention_hooks[layer].pop()
            if not self.attention_hooks[layer]:
                del self.attention_hooks[layer]

    def hook_attention_output(self, layer: int, hook: StatesHook) -> None:
        """Let ``hook`` add to what a layer's attention gives, beside its heads; several hooks add up.

        Args:
            layer: counted from 0.
            hook: takes the states that go into the layer's attention, the batch, and what this pass keeps; gives what
                is added behind the output projection, (batch, pieces, width).

        Raises:
            ValueError: no such layer, or its output projection is not found.
        """
        if output_projection(self.base, self._attention_layer(layer)) is None:
            kind = type(self.base).__name__
            raise ValueError(
                f"backbone {self.name!r} ({kind}) has no output projection of its own width, so nothing can be added "
                f"beside its heads. All others work of: {SUPPORTED}"
            )
        self.output_hooks.setdefault(layer, []).append(hook)

    def hook_states(self, hook: StatesHook) -> None:
        """Let ``hook`` change the last states before the task head reads them, after those attached before it."""
        self.states_hooks.append(hook)

    def keep_layer(self, layer: int) -> str:
        """Let every forward pass keep what a layer gives out, (batch, pieces, width), in ``Output.kept``.

        Of the last layer these are the last hidden states, as they are before any hook changes them.

        Args:
            layer: counted from 0; -1 is the last.

        Returns:
            Under which name.

        Raises:
            ValueError: no such layer.
        """
        count = len(self.layers())
        if not -count <= layer < count:
            raise ValueError(
                f"layer {layer}: {self.name} has layers 0 to {count - 1}, or from the last one -1 to {-count}"
            )
        self.kept_layers.add(layer % count)
        return layer_name(layer % count)

    def save(self, folder: Path) -> None:
        """Write a stock Hugging Face folder: configuration, safetensors, tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Of a model that was made of what :meth:`save` wrote: refuse one of which that is not all.

        Raises:
            ValueError: a file or a weight is missing, or the labels are others; names it.
        """
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            if not (folder / name).is_file():
                raise ValueError(f"{folder / name}: is missing; {AGAIN}")
        refuse_partial(self.report, str(folder))
        stored = [*AutoConfig.from_pretrained(folder, trust_remote_code=False).id2label.values()]
        if stored != self.labels:
            raise ValueError(f"{folder / 'config.json'}: labels {stored}, expected {self.labels}; {AGAIN}")


def layer_name(layer: int) -> str:
    """What a layer's output is called among what a pass keeps."""
    return f"layer/{layer}"


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
