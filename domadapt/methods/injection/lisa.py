r"""Linguistically-informed self-attention: one attention head learns to be the parser.

Strubell et al. 2018, https://aclanthology.org/D18-1548. One head of one layer scores every pair
of pieces with a biaffine form over its own queries and keys,

.. math:: s_{ij} = \frac{q_i^\top U k_j + b^\top k_j}{\sqrt d}, \qquad A_i = \mathrm{softmax}_j(s_{ij}),

and learns that each piece i attends to the first piece h(i) of its word's syntactic head, on source and target text:

.. math:: L = -\frac1{|P|} \sum_{i \in P} \log A_{i h(i)}.

U starts as the identity and b as zero: step 0 is the plain model. A piece with no head, or one cut off, attends freely.

Where queries are a linear layer of their own and meet the keys as they are (BERT, RoBERTa, ELECTRA, DistilBERT and
their like), U and b fold into it exactly, :math:`W' = U^\top W_q,\ b' = U^\top b_q + b`: a stock model is left.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.methods.method import Method, View, in_range, one_of
from domadapt.methods.session import Session
from domadapt.methods.units import check_place, hidden_below
from domadapt.models.contracts import AttentionCall
from domadapt.syntax.alignment import IGNORED

QUERIES = ("query", "q_lin", "self.query")  # names of the query projection in an attention module
SCORES = "lisa/scores"  # of one forward pass, in what it keeps


class Lisa(Method):
    """A syntax head."""

    def __init__(self, layer: int, head: int, at_prediction: str, weight: float) -> None:
        super().__init__({"lisa/head": weight})
        one_of("lisa.at_prediction", at_prediction, "predicted", "parser")
        in_range("lisa.layer", layer, 0)
        in_range("lisa.head", head, 0)
        self.layer, self.head, self.by_parser = layer, head, at_prediction == "parser"
        self.reads = frozenset({"parses", "target"} | ({"parses_at_prediction"} if self.by_parser else set()))

    def attach(self, session: Session) -> None:
        super().attach(session)
        encoder = session.encoder
        attention: Any = encoder.attention_layers()[0]
        size = int(getattr(attention, "head_dim", None) or attention.attention_head_size)
        self.bilinear = nn.Parameter(torch.eye(size))
        self.bias = nn.Parameter(torch.zeros(size))  # how much a piece is worth attending to, whoever asks
        check_place("lisa", self.layer, encoder, self.head)
        encoder.hook_attention(self.layer, self._attend, beneath=True)
        encoder.own_scores.add((self.layer, self.head))
        self.projection = None if self.by_parser else query_projection(encoder, self.layer)
        self.used_at_prediction = self.projection is None

    def _attend(self, call: AttentionCall) -> Tensor:
        """Every head as it is, then the syntax head's part of the result replaced by its own."""
        result = call.inner()  # (batch, pieces, heads, head width)
        if self.projection and not self.training:  # U and b are in the weights by then
            return result
        head = self.head
        # Queries score keys by the biaffine form.
        scores = call.kept[SCORES] = call.scores(head, lambda query: query @ self.bilinear.float() + self.bias.float())
        weights = scores.softmax(-1)
        if self.by_parser and call.batch.piece_heads is not None:
            weights = replace_by_tree(weights, call.batch.piece_heads)
        weights = F.dropout(weights, call.dropout, self.training)
        attended = weights.to(call.value.dtype) @ call.value[:, call.key_head(head)]
        # Not in place: the inner result is needed as it is for its own gradient.
        return torch.cat([result[:, :, :head], attended.unsqueeze(2), result[:, :, head + 1 :]], dim=2)

    def side_losses(self, view: View) -> dict[str, Tensor]:
        """How little of the head's attention, before dropout, falls where the tree says."""
        assert view.batch.piece_heads is not None
        return {"lisa/head": head_loss(view.encoded.kept[SCORES], view.batch.piece_heads)}

    def final_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """U and b folded into the head's query projection, in a copy, where that is exact."""
        if not self.projection:
            return weights
        names, size = (f"{self.projection}.weight", f"{self.projection}.bias"), len(self.bias)
        rows = slice(self.head * size, (self.head + 1) * size)
        bilinear, bias = self.bilinear.detach().float(), self.bias.detach().float()
        matrix, offset = (weights[name].clone() for name in names)
        matrix[rows] = (bilinear.T @ matrix[rows].float()).to(matrix.dtype)
        offset[rows] = (bilinear.T @ offset[rows].float() + bias).to(offset.dtype)
        return {**weights, names[0]: matrix, names[1]: offset}


def query_projection(encoder: Any, layer: int) -> str | None:
    """The name, in the encoder's state, of a layer's query projection; None where folding would not be exact."""
    # Rotary positions come between projection and scores, and some models project queries, keys and values in one.
    if any("rotary" in name for name, _ in encoder.base.named_modules()):
        return None
    module = encoder.attention_layers()[layer]
    home = next(name for name, inner in encoder.named_modules() if inner is module)
    for name in QUERIES:
        part = dict(module.named_modules()).get(name)
        if isinstance(part, nn.Linear) and part.bias is not None and part.out_features == encoder.width:
            return f"{home}.{name}"
    return None


def replace_by_tree(weights: Tensor, piece_heads: Tensor) -> Tensor:
    """Attention on the tree's head for pieces that have one, the given weights for the others.

    >>> replace_by_tree(torch.full((1, 2, 2), 0.5), torch.tensor([[1, -100]])).tolist()
    [[[0.0, 1.0], [0.5, 0.5]]]
    """
    tree = F.one_hot(piece_heads.clamp(min=0), weights.shape[-1]).to(weights.dtype)
    return torch.where((piece_heads != IGNORED).unsqueeze(-1), tree, weights)


def head_loss(scores: Tensor, piece_heads: Tensor) -> Tensor:
    """Mean cross entropy of (batch, pieces, pieces) scores over pieces with a head that no mask hides; zero if none."""
    right = scores.gather(-1, piece_heads.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    piece_heads = piece_heads.masked_fill(right <= hidden_below(scores), IGNORED)
    total = F.cross_entropy(scores.flatten(0, 1), piece_heads.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (piece_heads != IGNORED).sum().clamp(min=1)
