"""The way into attention: transformers' attention interface, and hooks on single layers."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "domadapt"


SUPPORTED = (
    "BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, ELECTRA, ERNIE, MobileBERT, ModernBERT, NomicBERT, EuroBERT; "
    "for example minilm (shipped), bert-base-uncased, roberta-base, answerdotai/ModernBERT-base"
)


AttentionHook = Callable[..., Tensor]


def hooked_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    piece_heads: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: fused, unless the layer has a hook."""
    kwargs.pop("output_attentions", None)  # fused attention has no weights to give; passing it on breaks compilation

    def fused() -> Tensor:
        result: Tensor = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )[0]
        return result

    hook: AttentionHook | None = getattr(module, "domadapt_hook", None)
    if hook is None:
        return fused(), None
    return hook(query, key, value, attention_mask, scaling, dropout, fused, piece_heads=piece_heads), None


AttentionInterface.register(ATTENTION, hooked_attention)


AttentionMaskInterface.register(ATTENTION, sdpa_mask)  # without it the mask becomes None and padding is attended


def attention_modules(base: Any) -> list[nn.Module]:
    """Self-attention modules of a transformers encoder, by the class it records attention from."""
    recorded = getattr(base, "_can_record_outputs", None) or {}
    recorder = recorded.get("attentions")
    wanted = getattr(recorder, "target_class", recorder)
    if isinstance(wanted, list | tuple):
        wanted = tuple(getattr(item, "target_class", item) for item in wanted)
    return [m for m in base.modules() if wanted is not None and isinstance(m, wanted)]


def refuse_unreachable_attention(base: Any, name: str) -> None:
    """Some models accept an attention function and silently ignore it; raise for those.

    Raises:
        ValueError: naming the model, the reason and what works.
    """
    kind = type(base).__name__
    if not base._can_set_attn_implementation() or not attention_modules(base):
        raise ValueError(f"backbone {name!r} ({kind}) ignores attention functions. These work: {SUPPORTED}")
    if len(attention_modules(base)) != base.config.num_hidden_layers:
        raise ValueError(f"backbone {name!r} ({kind}) shares attention between layers. These work: {SUPPORTED}")
