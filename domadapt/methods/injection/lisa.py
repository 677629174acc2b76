r"""Linguistically-informed self-attention: one attention head learns to be the parser.

Strubell, Verga, Andor, Weiss, McCallum 2018, https://aclanthology.org/D18-1548. One head of one layer scores every pair
of pieces with a biaffine form over its own queries and keys,

.. math:: s_{ij} = \frac{q_i^\top U k_j + b^\top k_j}{\sqrt d}, \qquad A_i = \mathrm{softmax}_j(s_{ij}),

and is trained so that each piece attends to the first piece of its word's syntactic head, on source and on target
text, for the head's loss needs no labels but parses:

.. math:: L = -\frac1{|P|} \sum_{i \in P} \log A_{i,\mathrm{head}(i)}.

U starts as the identity and b as zero, so training starts from the pretrained head. A piece without a defined head
([CLS], [SEP], whitespace, a head that was truncated away) attends freely and is not supervised.

Where queries are a linear layer of their own and meet the keys as they are (BERT, RoBERTa, ELECTRA, DistilBERT and
their like), U and b fold into it exactly, :math:`W' = U^\top W_q,\ b' = U^\top b_q + b`: what is scored and saved is a
stock model that gives the same outputs without us.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.methods.method import Method, Step, View, both_sides, in_range
from domadapt.methods.setting import Setting
from domadapt.models.attention import AttentionCall, additive_mask
from domadapt.syntax.alignment import IGNORED

QUERIES = ("query", "q_lin", "self.query")  # names of the query projection in an attention module


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

    def __init__(self, layer: int, head: int, at_prediction: str, weight: float) -> None:
        super().__init__({"lisa/head": weight})
        if at_prediction not in ("predicted", "parser"):
            raise ValueError(f"lisa.at_prediction={at_prediction!r}: expected predicted or parser")
        in_range("lisa.layer", layer, 0)
        in_range("lisa.head", head, 0)
        self.layer, self.head, self.by_parser = layer, head, at_prediction == "parser"
        self.reads = frozenset({"parses", "target"} | ({"parses_at_prediction"} if self.by_parser else set()))

    def attach(self, setting: Setting) -> None:
        """Make U and b, and take over the head."""
        super().attach(setting)
        encoder = setting.encoder
        config = encoder.model.config
        heads = int(config.num_attention_heads)
        if not 0 <= self.head < heads:
            raise ValueError(f"lisa.head={self.head}: {encoder.name} has heads 0 to {heads - 1}")
        encoder.hook_attention(self.layer, self._attend)
        size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
        self.bilinear = nn.Parameter(torch.eye(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.scores = f"lisa/{self.layer}/{self.head}"  # of one forward pass, in what it keeps
        self.projection = query_projection(encoder, self.layer)
        self.folds = self.projection is not None and not self.by_parser
        self.used_at_prediction = not self.folds

    def _attend(self, call: AttentionCall) -> Tensor:
        """Every head as it is, then the syntax head's part of the result replaced by its own."""
        result = call.inner()  # (batch, pieces, heads, head width)
        if self.folds and not self.training:  # its U and b are in the weights by then
            return result
        head = self.head
        shared = head // (call.query.shape[1] // call.key.shape[1])  # some models give several heads the same keys
        scores = biaffine_scores(call.query[:, head], call.key[:, shared], self.bilinear, self.bias, call.scaling)
        if call.mask is not None:
            mask = call.mask[:, head if call.mask.shape[1] > 1 else 0]
            scores = scores + additive_mask(mask, scores.dtype)
        call.kept[self.scores] = scores
        weights = scores.softmax(-1)
        if self.by_parser and call.batch.piece_heads is not None:
            weights = replace_by_tree(weights, call.batch.piece_heads)
        weights = F.dropout(weights, call.dropout, self.training)
        attended = weights.to(call.value.dtype) @ call.value[:, shared]
        # Not in place: the inner result is needed as it is for its own gradient.
        return torch.cat([result[:, :, :head], attended.unsqueeze(2), result[:, :, head + 1 :]], dim=2)

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Cross entropy of the head's attention, before dropout, against the tree."""
        return both_sides(step, self.head_loss)

    def head_loss(self, view: View) -> dict[str, Tensor]:
        """The loss on one side."""
        assert view.batch.piece_heads is not None
        return {"lisa/head": head_loss(view.encoded.kept[self.scores], view.batch.piece_heads)}

    def final_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """U and b folded into the head's query projection, where that is exact."""
        if not self.folds:
            return weights
        name, size = f"{self.projection}.weight", len(self.bias)
        own = slice(self.head * size, (self.head + 1) * size)
        bilinear, bias = self.bilinear.detach().float(), self.bias.detach().float()
        matrix, offset = weights[name].clone(), weights[f"{self.projection}.bias"].clone()
        matrix[own] = (bilinear.T @ matrix[own].float()).to(matrix.dtype)
        offset[own] = (bilinear.T @ offset[own].float() + bias).to(offset.dtype)
        return {**weights, name: matrix, f"{self.projection}.bias": offset}


def query_projection(encoder: Any, layer: int) -> str | None:
    """The name, in the encoder's state, of a layer's query projection; None where folding would not be exact.

    Rotary positions come between projection and scores, and some models project queries, keys and values in one.

    Args:
        encoder: an :class:`~domadapt.models.encoder.Encoder`.
        layer: counted from 0.
    """
    if any("rotary" in name for name, _ in encoder.base.named_modules()):
        return None
    module = encoder.attention_layers()[layer]
    home = next(name for name, found in encoder.named_modules() if found is module)
    for name in QUERIES:
        part = dict(module.named_modules()).get(name)
        if isinstance(part, nn.Linear) and part.bias is not None and part.out_features == encoder.width:
            return f"{home}.{name}"
    return None


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
