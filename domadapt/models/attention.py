"""The way into attention: transformers' attention interface, and a stack of hooks on each layer.

PyTorch draws a float for each element of a dropout mask, where on a CPU a byte is enough, and its fused attention takes
a slow path in training there, where three plain steps are faster at a sentence's length. Each is a tenth of a step on 2
cores. On a GPU the three steps compute the same numbers again, which PyTorch's fused attention does not, and need no
plan for each new length, which takes it longer than a step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from domadapt.data.batches import Batch
from domadapt.models.contracts import AttentionCall, AttentionHook, UnreachableAttention

ATTENTION = "domadapt"
SUPPORTED = (
    "BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, ELECTRA, ERNIE, MobileBERT, ModernBERT, NomicBERT, EuroBERT; "
    "for example minilm (shipped), bert-base-uncased, roberta-base, answerdotai/ModernBERT-base"
)
PLAIN_LENGTH = 512  # pieces: in longer texts, on a GPU, the plain steps' squares take too much memory
OUTPUTS = ("out_lin", "Wo", "o_proj", "output.dense")  # output projections: of attention, or one level above


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """What travels with one forward pass into the attention function."""

    batch: Batch
    hooks: Mapping[int, Sequence[AttentionHook]]
    kept: dict[str, Tensor]


def hooked_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    forward_pass: ForwardPass | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: PyTorch's fused one, or in training a faster one, beneath a stack of hooks."""
    kwargs.pop("output_attentions", None)  # fused attention has no weights to give; passing it on breaks compilation

    def innermost(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, p: float
    ) -> Tensor:
        if uses_plain_attention(module, query, key, mask):
            return plain_attention(query, key, value, mask, scale, p)
        how = {"dropout": p, "scaling": scale, **kwargs}
        result: Tensor = sdpa_attention_forward(module, query, key, value, mask, **how)[0]
        return result

    layer: Any = getattr(module, "domadapt_layer", None)
    if forward_pass is None or not (hooks := forward_pass.hooks.get(layer, ())):
        return innermost(query, key, value, attention_mask, scaling, dropout), None

    def lower_hooks(count: int) -> Callable[[AttentionCall], Tensor]:
        """The lowest ``count`` hooks; none of them is the layer itself."""
        if not count:
            return lambda call: innermost(call.query, call.key, call.value, call.mask, call.scaling, call.dropout)
        return lambda call: hooks[count - 1](replace(call, beneath=lower_hooks(count - 1)))

    how = (scaling, dropout, forward_pass.batch, forward_pass.kept, lower_hooks(len(hooks) - 1))
    return hooks[-1](AttentionCall(layer, query, key, value, attention_mask, *how)), None


AttentionInterface.register(ATTENTION, hooked_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)  # without it the mask becomes None and padding is attended


def attention_modules(base: Any) -> list[nn.Module]:
    """Self-attention modules of a transformers encoder, by the class it records attention from."""
    recorder = (getattr(base, "_can_record_outputs", None) or {}).get("attentions")
    wanted = getattr(recorder, "target_class", recorder)
    if isinstance(wanted, list | tuple):
        wanted = tuple(getattr(item, "target_class", item) for item in wanted)
    return [m for m in base.modules() if wanted is not None and isinstance(m, wanted)]


def output_projection(base: Any, module: nn.Module) -> nn.Linear | None:
    """The layer that makes one state of a piece's heads; None where there is none of the model's own width."""
    home = next(name for name, inner in base.named_modules() if inner is module)
    for place in (module, base.get_submodule(home.rpartition(".")[0])):
        for name in OUTPUTS:
            part = dict(place.named_modules()).get(name)
            if isinstance(part, nn.Linear) and part.out_features == base.config.hidden_size:
                return part
    return None


def add_to_output(
    module: nn.Module,
    projection: nn.Linear,
    hook: Callable[[Tensor, Batch, dict[str, Tensor]], Tensor],
    batch: Batch,
    kept: dict[str, Tensor],
) -> list[RemovableHandle]:
    """Add what ``hook`` makes of the (batch, pieces, width) states that attention is given to what it gives, until the
    handles are removed. Behind the output projection it meets the same dropout, norm and residual connection."""
    inputs: list[Tensor] = []

    def read(module: Any, args: Any, kwargs: Any) -> None:
        inputs.append(args[0] if args else kwargs["hidden_states"])

    def add(module: Any, args: Any, output: Tensor) -> Tensor:
        return output + hook(inputs.pop(), batch, kept).to(output.dtype)

    return [module.register_forward_pre_hook(read, with_kwargs=True), projection.register_forward_hook(add)]


def why_unreachable(base: Any) -> str:
    """Why a model's attention can't be replaced, which some models ignore in silence; empty if it can."""
    if not base._can_set_attn_implementation() or not attention_modules(base):
        return "computes its attention in a way of its own, which can't be replaced"
    if len(attention_modules(base)) != base.config.num_hidden_layers:
        return "shares attention between layers"
    return ""


def unreachable(base: Any, name: str, why: str) -> UnreachableAttention:
    """The refusal of what needs to get into the attention of a model that does not let it."""
    return UnreachableAttention(
        f"backbone {name!r} ({type(base).__name__}) {why}. It can be adapted, and the injections gnn, gnn_fusion, "
        f"relations and paths, which work on its states, and attention_supervision, if it returns its attention, work "
        f"with it. All injections and all parts of analyze work with: {SUPPORTED}"
    )


class ByteDropout(nn.Dropout):
    """Dropout whose masks are drawn from bytes, on the CPU: the probability is rounded to 1/256.

    >>> layer = ByteDropout(0.5)
    >>> found = layer(torch.ones(10_000))
    >>> found.unique().tolist(), 0.45 < float((found > 0).float().mean()) < 0.55
    ([0.0, 2.0], True)
    """

    def forward(self, input: Tensor) -> Tensor:
        return byte_dropout(input, self.p) if self.training and self.p else super().forward(input)


def drop_by_bytes(model: nn.Module) -> None:
    """Let a model's stock dropout layers draw bytes; its weights and what is saved stay as they are."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = ByteDropout


def byte_dropout(states: Tensor, probability: float) -> Tensor:
    """Elements kept with a probability in 256ths, and scaled so that the mean stays; on a GPU stock dropout."""
    if states.device.type != "cpu":
        return F.dropout(states, probability)
    dropped = round(256 * probability)
    if dropped >= 256:
        return states * 0
    size = states.numel()
    # All 64 bits: without an upper end, the topmost bit would never be set.
    drawn = torch.empty(-(-size // 8), dtype=torch.int64).random_(-(2**63), None).view(torch.uint8)[:size]
    # Bytes of 0 and 1: to turn booleans into numbers takes ten times as long.
    mask = drawn.ge_(dropped).view(states.shape).to(states.dtype).mul_(256 / (256 - dropped))
    return states * mask


def uses_plain_attention(module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Whether :func:`plain_attention` is used, and gives what PyTorch's would: a key a query, nothing causal."""
    whole = mask is not None or not getattr(module, "is_causal", True)
    better = torch.is_grad_enabled() if query.device.type == "cpu" else query.shape[2] <= PLAIN_LENGTH
    return better and whole and query.shape[1] == key.shape[1]


def plain_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None, dropout: float
) -> Tensor:
    """(batch, pieces, heads, head width) attention in three steps, of (batch, heads, pieces, head width) each.

    The mask is boolean (True = may attend) or additive, and broadcasts to (batch, heads, pieces, pieces).
    """
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if mask is not None:
        if mask.dtype == torch.bool:
            lowest = torch.finfo(scores.dtype).min
            mask = torch.zeros(mask.shape, dtype=scores.dtype, device=mask.device).masked_fill_(~mask, lowest)
        scores = scores + mask.to(scores.dtype)
    # On a CPU, softmax of bfloat16 takes three times as long, where pieces are no multiple of 32.
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    if dropout:
        weights = byte_dropout(weights, dropout)
    attended: Tensor = weights @ value
    return attended.transpose(1, 2).contiguous()
