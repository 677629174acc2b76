r"""Linguistically-informed self-attention: one attention head learns to be the parser.

Strubell, Verga, Andor, Weiss, McCallum 2018, https://aclanthology.org/D18-1548. One head of one layer scores every pair
of pieces with a biaffine form over its own queries and keys,

.. math:: s_{ij} = \frac{q_i^\top U k_j + b^\top k_j}{\sqrt d}, \qquad A_i = \mathrm{softmax}_j(s_{ij}),

and is trained so that each piece attends to the first piece of its word's syntactic head, on source and on target
text, for the head's loss needs no labels but parses:

.. math:: L = -\frac1{|P|} \sum_{i \in P} \log A_{i,\mathrm{head}(i)}.

U starts as the identity and b as zero, so training starts from the pretrained head. A piece without a defined head
([CLS], [SEP], whitespace, a head that was truncated away) attends freely and is not supervised.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.data.batches import Batch
from domadapt.methods.method import Method, in_range
from domadapt.models.encoder import Output
from domadapt.syntax.alignment import IGNORED


class Lisa(Method):
    """One syntax head.

    Args:
        layer: which layer, counted from 0.
        head: which head of it, counted from 0.
        at_prediction: ``predicted`` (the head's own attention) or ``parser`` (the parser's tree, in training and at
            prediction alike; pieces without a head fall back on the head's own attention).
        weight: of the head's loss.

    Raises:
        ValueError: layer, head or at_prediction are out of range.
    """

    reads_parses = True
    reads_target = True
    used_at_prediction = True

    def __init__(self, layer: int, head: int, at_prediction: str, weight: float) -> None:
        super().__init__({"lisa/head": weight})
        if at_prediction not in ("predicted", "parser"):
            raise ValueError(f"lisa.at_prediction={at_prediction!r}: expected predicted or parser")
        in_range("lisa.layer", layer, 0)
        in_range("lisa.head", head, 0)
        self.layer, self.head = layer, head
        self.parses_at_prediction = at_prediction == "parser"
        self._scores: Tensor | None = None

    def attach(self, encoder: Any, relations: int) -> None:
        """Make U and b, and take over the head."""
        config = encoder.model.config
        heads = int(config.num_attention_heads)
        if not 0 <= self.head < heads:
            raise ValueError(f"lisa.head={self.head}: {encoder.name} has heads 0 to {heads - 1}")
        encoder.hook_attention(self.layer, self._attend)
        size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
        self.bilinear = nn.Parameter(torch.eye(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scaling: float | None,
        dropout: float,
        fused: Any,
        piece_heads: Tensor | None = None,
    ) -> Tensor:
        """Every head fused, then the syntax head's part of the result replaced by its own."""
        result = fused()  # (batch, pieces, heads, head width)
        scores = biaffine_scores(query[:, self.head], key[:, self.head], self.bilinear, self.bias, scaling)
        self._scores = scores = scores + additive_mask(mask, scores)
        weights = scores.softmax(-1)
        if self.parses_at_prediction and piece_heads is not None:
            weights = replace_by_tree(weights, piece_heads)
        weights = F.dropout(weights, dropout, self.training)
        attended = weights.to(value.dtype) @ value[:, self.head]
        # Not in place: the fused result is needed as it is for its own gradient.
        return torch.cat([result[:, :, : self.head], attended.unsqueeze(2), result[:, :, self.head + 1 :]], dim=2)

    def batch_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """Cross entropy of the head's attention, before dropout, against the tree."""
        assert self._scores is not None and batch.piece_heads is not None
        scores, self._scores = self._scores, None
        return {"lisa/head": head_loss(scores, batch.piece_heads)}


def biaffine_scores(query: Tensor, key: Tensor, bilinear: Tensor, bias: Tensor, scaling: float | None) -> Tensor:
    """Scores of every pair of pieces, in float32.

    Args:
        query, key: (batch, pieces, head width).
        bilinear: (head width, head width) U.
        bias: (head width,) b: how much a piece is worth attending to, whoever asks.
        scaling: defaults to 1 / sqrt(head width).

    Returns:
        (batch, pieces, pieces), attending piece in rows.

    >>> q = torch.tensor([[[1.0, 0.0]]])
    >>> biaffine_scores(q, q, torch.eye(2), torch.zeros(2), scaling=1.0).item()
    1.0
    """
    scale = scaling if scaling is not None else 1 / math.sqrt(query.shape[-1])
    with torch.autocast(query.device.type, enabled=False):
        query, key = query.float(), key.float()
        return (query @ bilinear.float() + bias.float()) @ key.transpose(-1, -2) * scale


def additive_mask(mask: Tensor | None, scores: Tensor) -> Tensor:
    """The attention mask as numbers to add: 0 where allowed, a very negative one where not.

    Args:
        mask: (batch, 1, pieces, pieces), boolean (True = may attend) or additive; None allows everything.
        scores: (batch, pieces, pieces), for shape and type.
    """
    if mask is None:
        return torch.zeros((), dtype=scores.dtype, device=scores.device)
    mask = mask[:, 0]
    if mask.dtype != torch.bool:
        return mask.to(scores.dtype)
    return torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, torch.finfo(scores.dtype).min)


def replace_by_tree(weights: Tensor, piece_heads: Tensor) -> Tensor:
    """Attention on the tree's head for pieces that have one, the given weights for the others.

    >>> replace_by_tree(torch.full((1, 2, 2), 0.5), torch.tensor([[1, -100]])).tolist()
    [[[0.0, 1.0], [0.5, 0.5]]]
    """
    defined = piece_heads != IGNORED
    tree = F.one_hot(piece_heads.clamp(min=0), weights.shape[-1]).to(weights.dtype)
    return torch.where(defined.unsqueeze(-1), tree, weights)


def head_loss(scores: Tensor, piece_heads: Tensor) -> Tensor:
    """Mean cross entropy over pieces with a defined head; zero if there is none.

    Args:
        scores: (batch, pieces, pieces).
        piece_heads: (batch, pieces), -100 where undefined.
    """
    total = F.cross_entropy(scores.flatten(0, 1), piece_heads.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (piece_heads != IGNORED).sum().clamp(min=1)
