"""The encoder: a stock backbone with a stock head, and hooks for methods."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import AutoConfig

from domadapt.data.batches import Batch
from domadapt.models import attention, pretrained
from domadapt.models.attention import ForwardPass
from domadapt.models.contracts import AttentionCall, AttentionHook, Output
from domadapt.models.pretrained import AGAIN


def word_logits(output: Output, batch: Batch) -> Tensor:
    """(nodes, labels) logits at each word's first piece; meaningless for words without one."""
    return output.logits.flatten(0, 1).index_select(0, batch.node_first_piece.clamp(min=0))


def freeze(encoder: Any, trainable: str) -> None:
    """Fix what should not be trained, by :class:`Encoder`'s ``trainable``; the task head always is."""
    if trainable == "all":
        return
    kind, _, count = str(trainable).partition(":")
    if trainable != "none" and not (kind == "top" and count.isdigit() and int(count) <= encoder.depth):
        raise ValueError(f"backbone.trainable={trainable!r}: expected all, none, or top:N, N from 0 to {encoder.depth}")
    encoder.base.requires_grad_(False)
    for layer in encoder.layers()[encoder.depth - int(count) :] if count else ():
        layer.requires_grad_(True)


# Of states, the batch, and what methods keep of this pass: states, or what is added to them, (batch, pieces, width).
StatesHook = Callable[[Tensor, Batch, dict[str, Tensor]], Tensor]
Heads = Collection[tuple[int, int]]  # layer, head
HeadScores = dict[tuple[int, int], Tensor]  # by these


class Encoder(nn.Module):
    """The text encoder: any Hugging Face model that gives one state a piece.

    Injections reach into it by stacks of hooks: on a layer's attention (:meth:`hook_attention`), beside its heads
    (:meth:`hook_attention_output`), and between the last layer and the task head (:meth:`hook_states`). The first two
    need attention that can be replaced, which not every architecture has, and are refused without. What a layer gives
    out can be read (:meth:`keep_layer`), and what a head looks at (:meth:`keep_scores`).

    Args:
        name: ``minilm`` (the pip-installed default), ``tiny_random`` (tests), a folder, or a hub name.
        kind: ``token`` or ``sequence``: which stock head, of these ``labels``, sits on top.
        trainable: ``all``, ``top:N`` (the N layers nearest the output, and the head) or ``none`` (the head alone).
    """

    takes_methods = True

    def __init__(self, name: str, kind: str, labels: list[str], trainable: str = "all") -> None:
        super().__init__()
        self.name, self.kind, self.labels = name, kind, labels
        self.tokenizer = pretrained.load_tokenizer(name)
        self.model, self.report = pretrained.load_model(name, kind, labels)
        if (rows := len(self.base.get_input_embeddings().weight)) < len(self.tokenizer):
            mismatch = f"its tokenizer knows {len(self.tokenizer)} pieces, its model {rows}: of two models"
            raise ValueError(f"{name}: {mismatch}; {AGAIN}")
        if kind == "sequence" and getattr(self.model.config, "summary_type", "") == "last":
            why = "classifies a text by its last piece and so expects padding before the text, which is after it here"
            fix = "take another backbone, or task=extraction"
            raise ValueError(f"backbone {name!r} ({type(self.model).__name__}) {why}; {fix}")
        pretrained.refuse_without_states(self.base, self.tokenizer, name)
        for layer, module in enumerate(attention.attention_modules(self.base)):
            module.domadapt_layer = layer  # type: ignore[assignment]  # not every model tells
        attention.drop_by_bytes(self.model)
        self.attention_hooks: dict[int, list[AttentionHook]] = {}
        self.output_hooks: list[tuple[nn.Module, nn.Linear, StatesHook]] = []  # attention, its output projection
        self.states_hooks: list[StatesHook] = []
        self.kept_layers: set[int] = set()
        self.wanted_scores: list[Callable[[], Heads]] = []
        self.own_scores: set[tuple[int, int]] = set()  # layers and heads whose scores a hook makes for itself
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
        positions = int(getattr(self.model.config, "max_position_embeddings", None) or 0)
        return positions - offset if positions > 0 else int(self.tokenizer.model_max_length)  # positions are relative

    def forward(self, batch: Batch, hooked: bool = True) -> Output:
        """Encode a batch and classify it with the stock head; not ``hooked``, as if nobody had injected anything."""
        kept: dict[str, Tensor] = {}
        layers: dict[int, Tensor] = {}
        scores: HeadScores = {}
        states: list[Tensor] = []  # not output_hidden_states: what that needs does not survive the way into a process
        last = self.depth - 1
        inner = sorted(self.kept_layers - {last}) if hooked else []

        def keep(module: Any, inputs: Any, output: Any, layer: int) -> None:
            layers[layer] = pretrained.layer_states(output)

        def change_states(module: Any, inputs: Any, output: Any) -> Any:
            changed: Tensor = output[0]
            if hooked and last in self.kept_layers:  # some models normalise what their last layer gives
                layers[last] = changed
            for hook in self.states_hooks if hooked else ():
                changed = hook(changed, batch, kept)
            states.append(changed)
            if changed is not output[0]:
                output["last_hidden_state"] = changed
                if getattr(module, "pooler", None) is not None:  # made of the states as they were
                    activation = getattr(module, "pooler_activation", None)  # ALBERT's pooler is a bare linear layer
                    pooled = activation(module.pooler(changed[:, 0])) if activation else module.pooler(changed)
                    output["pooler_output"] = pooled
            return output

        stack = self.layers() if inner else ()
        wanted = self._scores_of() if hooked and self.unreachable else {}
        options = {"output_attentions": True} if wanted else {}
        with ExitStack() as hooks, self._added(batch, hooked, kept):
            hooks.callback(self.base.register_forward_hook(change_states).remove)
            for layer in inner:
                hooks.callback(stack[layer].register_forward_hook(partial(keep, layer=layer)).remove)
            out = self.model(**self._inputs(batch, hooked, kept, scores), **options)
        for layer, heads in wanted.items():
            scores |= {(layer, head): pretrained.as_scores(out.attentions[layer][:, head]) for head in heads}
        return Output(states[0], out.logits, kept, layers, scores)

    def states(self, batch: Batch, hooked: bool = True) -> Tensor:
        """(batch, pieces, width) last states alone, without the task head or the hooks before it."""
        kept: dict[str, Tensor] = {}
        with self._added(batch, hooked, kept):
            states: Tensor = self.base(**self._inputs(batch, hooked, kept, {})).last_hidden_state
        return states

    @contextmanager
    def _added(self, batch: Batch, hooked: bool, kept: dict[str, Tensor]) -> Iterator[None]:
        """Within it, layers' attention gives what the hooks on its output add, too."""
        with ExitStack() as handles:
            for added in self.output_hooks if hooked else ():
                for handle in attention.add_to_output(*added, batch, kept):
                    handles.enter_context(handle)
            yield

    def _inputs(self, batch: Batch, hooked: bool, kept: dict[str, Tensor], scores: HeadScores) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if batch.token_type_ids is not None and "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = batch.token_type_ids
        hooks = dict(self.attention_hooks) if hooked else {}
        for layer, heads in self._scores_of().items() if hooked and not self.unreachable else ():
            hooks[layer] = [partial(_keep_scores, heads, scores), *hooks.get(layer, ())]  # after all that change them
        if hooks:
            inputs["forward_pass"] = ForwardPass(batch, hooks, kept)
        return inputs

    @cached_property
    def unreachable(self) -> str:
        """Why attention can't be replaced; empty if it can."""
        return attention.why_unreachable(self.base)

    def attention_layers(self) -> list[nn.Module]:
        """The self-attention modules, in order; found by class, because not every model numbers its layers."""
        if self.unreachable:
            raise attention.unreachable(self.base, self.name, self.unreachable)
        return attention.attention_modules(self.base)

    @cached_property
    def attention_shape(self) -> tuple[int, int]:
        """In how many layers a head's scores can be kept, and how many heads each has."""
        if not self.unreachable:
            return len(self.attention_layers()), int(self.model.config.num_attention_heads)
        if (shape := pretrained.returned_attention(self.base, self.tokenizer)) is None:
            why = f"{self.unreachable}, and returns no attention of all pieces to all pieces"
            raise attention.unreachable(self.base, self.name, why)
        return shape

    @property
    def depth(self) -> int:
        return int(self.model.config.num_hidden_layers)

    def layers(self) -> nn.ModuleList:
        """The stack of transformer layers; refused where there is none, because layers share weights, or several."""
        return pretrained.layer_stack(self.base, self.name)

    def hook_attention(self, layer: int, hook: AttentionHook, beneath: bool = False) -> None:
        """Put a hook on top of a layer's stack: it sees the attention first, and calls what lies beneath; or, if
        ``beneath``, at the bottom: it reads scores after all that change them, in whatever order methods come."""
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
        """Let ``hook`` add to what a layer's attention gives, beside its heads, behind the output projection; of the
        states that go into that attention. Several hooks add up."""
        module = self._attention_layer(layer)
        if (projection := attention.output_projection(self.base, module)) is None:
            why = "has no output projection of its own width, so nothing can be added beside its heads"
            kind = f"backbone {self.name!r} ({type(self.base).__name__})"
            raise ValueError(f"{kind} {why}. All others work of: {attention.SUPPORTED}")
        self.output_hooks.append((module, projection, hook))

    def hook_states(self, hook: StatesHook) -> None:
        """Let ``hook`` change the last states before the task head reads them, after those attached before it."""
        self.states_hooks.append(hook)

    def keep_scores(self, wanted: Callable[[], Heads]) -> None:
        """Let forward passes keep the scores, (batch, pieces, pieces), of heads that ``wanted`` names at each pass.

        They are what attention uses, after all hooks, but for heads in ``own_scores``; where attention can't be
        replaced, they are made of the weights that the model returns. In ``Output.scores``.
        """
        _ = self.attention_shape  # refused now, not in the first step
        self.wanted_scores.append(wanted)

    @contextmanager
    def keeping_scores(self, heads: Heads) -> Iterator[None]:
        """Scores are kept, as :meth:`keep_scores` has it, for as long as the block lasts."""
        self.keep_scores(lambda: heads)
        try:
            yield
        finally:
            self.wanted_scores.pop()

    def _scores_of(self) -> dict[int, set[int]]:
        """By layer the heads whose scores are wanted of this pass."""
        heads: dict[int, set[int]] = defaultdict(set)
        for layer, head in (place for wanted in self.wanted_scores for place in wanted()):
            heads[layer].add(head)
        return heads

    def keep_layer(self, layer: int) -> int:
        """Let every forward pass keep what a layer gives out, in ``Output.layers``; gives its number there, from 0 on.
        -1 is the last layer, of which these are the last hidden states before any hook changes them."""
        count = self.depth
        if not -count <= layer < count:
            raise ValueError(f"layer {layer}: {self.name} has layers 0 to {count - 1}, or from the last -1 to {-count}")
        if layer % count < count - 1:
            pretrained.refuse_turned(self.base, self.tokenizer, self.name, layer % count)
        self.kept_layers.add(layer % count)
        return layer % count

    def save(self, folder: Path) -> None:
        """Write a stock Hugging Face folder: configuration, safetensors, tokenizer."""
        with pretrained.quietly():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Of a model that was made of what :meth:`save` wrote: refuse one of which that is not all."""
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            if not (folder / name).is_file():
                raise ValueError(f"{folder / name}: is missing; {AGAIN}")
        self.report.refuse_partial(str(folder))
        rows, ids = self.model.get_input_embeddings().num_embeddings, self.tokenizer.get_vocab()
        if (highest := max(ids, key=lambda word: ids[word])) and ids[highest] >= rows:
            why = f"{highest!r} has the id {ids[highest]}; the encoder knows ids below {rows}"
            raise ValueError(f"{folder / 'tokenizer.json'}: {why}; {AGAIN}")
        stored = [*AutoConfig.from_pretrained(folder, trust_remote_code=False).id2label.values()]
        if stored != self.labels:
            raise ValueError(f"{folder / 'config.json'}: labels {stored}, expected {self.labels}; {AGAIN}")


def _keep_scores(heads: Collection[int], scores: HeadScores, call: AttentionCall) -> Tensor:
    """A hook that leaves attention as it is."""
    scores.update({(call.layer, head): call.scores(head) for head in heads})
    return call.inner()
