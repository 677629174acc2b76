"""What passes between an encoder and methods; without transformers, so that methods are checked before it is loaded."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from domadapt.data.batches import Batch


@dataclass(frozen=True, slots=True)
class Output:
    """What an encoder says about a batch."""

    states: Tensor  #: (batch, pieces, width), of the last layer
    logits: Tensor  #: (batch, pieces, labels) for token tasks, (batch, labels) for sequence tasks
    kept: dict[str, Tensor] = field(default_factory=dict)  #: what methods' hooks left for losses, by method and name
    layers: dict[int, Tensor] = field(default_factory=dict)  #: (batch, pieces, width) of kept layers, counted from 0
    scores: dict[tuple[int, int], Tensor] = field(default_factory=dict)  #: by layer and head: (batch, pieces, pieces)


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """One layer's attention over one batch, as a hook sees it."""

    layer: int
    query: Tensor  #: (batch, heads, pieces, head width)
    key: Tensor  #: likewise; of fewer heads where these share them
    value: Tensor
    mask: Tensor | None  #: (batch, 1 or heads, pieces, pieces), boolean (True = may attend) or additive
    scaling: float | None  #: of the scores; None for 1 / sqrt(head width)
    dropout: float  #: of the weights
    batch: Batch
    kept: dict[str, Tensor]  #: what this forward pass keeps for its losses: ends in ``Output.kept``
    beneath: Callable[["AttentionCall"], Tensor]  #: the rest of the stack; call :meth:`inner`

    def inner(self, **changes: Any) -> Tensor:
        """(batch, pieces, heads, head width): what the hooks beneath and the layer itself give, of a call with some
        fields replaced, such as ``mask=self.biased(bias)``."""
        return self.beneath(replace(self, **changes))

    def biased(self, bias: Tensor) -> Tensor:
        """The mask with something added to the scores that broadcasts to (batch, heads, pieces, pieces)."""
        bias = bias.to(self.query.dtype)
        return bias if self.mask is None else additive_mask(self.mask, bias.dtype) + bias

    def key_head(self, head: int) -> int:
        """Whose keys and values a head reads: some models give several heads the same."""
        return head // (self.query.shape[1] // self.key.shape[1])

    def scores(self, head: int, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """(batch, pieces, pieces) scores of one head, attending piece in rows, masked, in float32; ``change`` is of its
        queries, (batch, pieces, head width), before they meet the keys."""
        scale = self.scaling if self.scaling is not None else 1 / math.sqrt(self.query.shape[-1])
        with torch.autocast(self.query.device.type, enabled=False):
            query, key = self.query[:, head].float(), self.key[:, self.key_head(head)].float()
            scores = (query if change is None else change(query)) @ key.transpose(-1, -2) * scale
        if self.mask is None:
            return scores
        return scores + additive_mask(self.mask[:, head if self.mask.shape[1] > 1 else 0], scores.dtype)


AttentionHook = Callable[[AttentionCall], Tensor]  # (batch, pieces, heads, head width)


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask as numbers to add: 0 where allowed, a very negative one where not.

    >>> additive_mask(torch.tensor([True, False]), torch.float32)[1].item() < -1e38
    True
    """
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


class UnreachableAttention(ValueError):
    """A model's attention can't be replaced or read in the way that was asked for."""
