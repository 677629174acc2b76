"""Attention and dropout as a processor trains them fastest; on a GPU, and where nothing is trained, PyTorch's are used.

PyTorch draws a float for each element of a dropout mask, where a byte is enough, and its fused attention takes a slow
path in training, where three plain steps are faster at a sentence's length. Each is a tenth of a step on two cores.
"""

import torch
from torch import Tensor, nn


class ByteDropout(nn.Dropout):
    """Dropout whose masks are drawn from bytes, on the CPU: the probability is rounded to 1/256.

    >>> layer = ByteDropout(0.5)
    >>> found = layer(torch.ones(10_000))
    >>> found.unique().tolist(), 0.45 < float((found > 0).float().mean()) < 0.55
    ([0.0, 2.0], True)
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or input.device.type != "cpu" or not self.p:
            return super().forward(input)
        return byte_dropout(input, self.p)


def drop_by_bytes(model: nn.Module) -> None:
    """Let a model's stock dropout layers draw bytes; its weights and what is saved stay as they are."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = ByteDropout


def byte_dropout(states: Tensor, probability: float) -> Tensor:
    """Elements kept with a probability in 256ths, and scaled so that the mean stays."""
    dropped = round(256 * probability)
    if dropped >= 256:
        return states * 0
    size = states.numel()
    # All 64 bits: without an upper end, the topmost bit would never be set.
    drawn = torch.empty(-(-size // 8), dtype=torch.int64).random_(-(2**63), None).view(torch.uint8)[:size]
    kept = (drawn >= dropped).view(states.shape).to(states.dtype).mul_(256 / (256 - dropped))
    return states * kept


def reaches(module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Whether :func:`plain_attention` gives what PyTorch's would: trained on the CPU, a key a query, nothing causal."""
    whole = mask is not None or not getattr(module, "is_causal", True)
    return torch.is_grad_enabled() and query.device.type == "cpu" and whole and query.shape[1] == key.shape[1]


def plain_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None, dropout: float
) -> Tensor:
    """(batch, pieces, heads, head width) attention in three steps, of (batch, heads, pieces, head width) each.

    The mask is boolean (True = may attend) or additive, and broadcasts to (batch, heads, pieces, pieces).
    """
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if mask is not None:
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~mask, lowest) if mask.dtype == torch.bool else scores + mask.to(scores.dtype)
    weights = scores.softmax(-1)
    if dropout:
        weights = byte_dropout(weights, dropout)
    attended: Tensor = weights.to(value.dtype) @ value
    return attended.transpose(1, 2).contiguous()
