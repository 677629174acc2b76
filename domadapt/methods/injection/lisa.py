r"""Linguistically-informed self-attention: one attention head, or several, learn to be the parser.

Strubell et al. 2018, https://aclanthology.org/D18-1548. One head of one layer scores every pair
of pieces with a biaffine form over its own queries and keys,

.. math:: s_{ij} = \frac{q_i^\top U k_j + b^\top k_j}{\sqrt d}, \qquad A_i = \mathrm{softmax}_j(s_{ij}),

and learns that each piece attends to the first pieces S(i) of its word's syntactic head, children or siblings, on
source and target text:

.. math:: L = -\frac1{|P|} \sum_{i \in P} \log \sum_{j \in S(i)} A_{ij}.

U starts as the identity and b as zero: step 0 is the plain model. A piece without such words ([CLS], [SEP], whitespace,
a head that was truncated away) attends freely.

Where queries are a linear layer of their own and meet the keys as they are (BERT, RoBERTa, ELECTRA, DistilBERT and
their like), U and b fold into it exactly, :math:`W' = U^\top W_q,\ b' = U^\top b_q + b`: a stock model is left.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.data.batches import Example
from domadapt.methods.heads import check_place, hidden_below, mass_loss, read_heads
from domadapt.methods.method import Method, Step, View, both_sides, in_range, one_of
from domadapt.methods.session import Session
from domadapt.models.attention import AttentionCall
from domadapt.syntax.alignment import IGNORED, IntArray
from domadapt.syntax.trees import word_links

PARENT = "parent"
TARGETS = (PARENT, "child", "sibling")
QUERIES = ("query", "q_lin", "self.query")  # names of the query projection in an attention module


class Lisa(Method):
    """One syntax head, or several.

    Args:
        layer: which layer, counted from 0.
        head: which head of it, counted from 0.
        at_prediction: ``predicted`` (the head's own attention) or ``parser`` (the parser's tree, in training and at
            prediction alike; pieces without a head fall back on the head's own attention; for parents alone).
        weight: of the heads' loss, which is their mean.
        target: which words a word's pieces attend to: ``parent``, ``child`` or ``sibling``.
        heads: several heads, each of them ``{layer, head, target}``, instead of the one above.
    """

    def __init__(
        self, layer: int, head: int, at_prediction: str, weight: float, target: str = PARENT, heads: Any = None
    ) -> None:
        super().__init__({"lisa/head": weight})
        one_of("lisa.at_prediction", at_prediction, "predicted", "parser")
        in_range("lisa.layer", layer, 0)
        in_range("lisa.head", head, 0)
        one_of("lisa.target", target, *TARGETS)
        one: dict[str, Any] = {"layer": layer, "head": head, "target": target}
        self.listed = heads is not None
        self.rows = [one] if heads is None else read_heads("lisa.heads", heads, {"target": TARGETS})
        places = [(row["layer"], row["head"]) for row in self.rows]
        if len({*places}) < len(places):
            raise ValueError(f"lisa.heads={self.rows}: expected each head of a layer once")
        self.by_parser = at_prediction == "parser"
        if self.by_parser and (others := [row for row in self.rows if row["target"] != PARENT]):
            raise ValueError(
                f"lisa.at_prediction=parser: expected target=parent, for a word has one, and any number of others; "
                f"got {others[0]}; take at_prediction=predicted"
            )
        self.reads = frozenset({"parses", "target"} | ({"parses_at_prediction"} if self.by_parser else set()))

    def attach(self, session: Session) -> None:
        super().attach(session)
        encoder = session.encoder
        attention: Any = encoder.attention_layers()[0]
        size = int(getattr(attention, "head_dim", None) or attention.attention_head_size)
        self.heads = [SyntaxHead(**row, size=size) for row in self.rows]
        self.learned = nn.ModuleList(self.heads)
        for place, head in enumerate(self.heads):
            name = f"lisa.heads[{place}]" if self.listed else "lisa"
            check_place(name, head.layer, encoder, head.head)
            encoder.hook_attention(head.layer, partial(self._attend, head), beneath=True)
            encoder.own_scores.add((head.layer, head.head))
        self.projections = [query_projection(encoder, head.layer) for head in self.heads]
        self.folds = all(self.projections) and not self.by_parser
        self.used_at_prediction = not self.folds

    def prepare(self) -> dict[str, Any]:
        """Refuse trees, such as a control's, in which a head has nothing to look at: it would be no control."""
        parses = [e.parse for e in (*self.session.source, *self.session.target) if e.parse is not None]
        for target in sorted({row["target"] for row in self.rows} - {PARENT}):
            if parses and not any(word_links(p.heads, target, np.arange(len(p.heads))).size for p in parses):
                raise ValueError(
                    f"lisa.target={target}: no word of these trees has one; take control=shuffled or control=random"
                )
        return {}

    def _attend(self, syntax: "SyntaxHead", call: AttentionCall) -> Tensor:
        """Every head as it is, then the syntax head's part of the result replaced by its own."""
        result, head = call.inner(), syntax.head  # (batch, pieces, heads, head width)
        if self.folds and not self.training:  # its U and b are in the weights by then
            return result
        call.kept[syntax.scores] = scores = call.scores(head, syntax.changed)
        weights = scores.softmax(-1)
        if self.by_parser and call.batch.piece_heads is not None:
            weights = replace_by_tree(weights, call.batch.piece_heads)
        weights = F.dropout(weights, call.dropout, self.training)
        attended = weights.to(call.value.dtype) @ call.value[:, call.key_head(head)]
        # Not in place: the inner result is needed as it is for its own gradient.
        return torch.cat([result[:, :, :head], attended.unsqueeze(2), result[:, :, head + 1 :]], dim=2)

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``child``, ``sibling``: (3, links) row, piece, a piece that it should attend to; where heads ask for them."""
        if any(example.parse is None for example in examples):
            return {}
        targets = {row["target"] for row in self.rows} - {PARENT}  # parents are in every batch
        return {target: torch.from_numpy(piece_links(examples, target)) for target in sorted(targets)}

    def losses(self, step: Step) -> dict[str, Tensor]:
        """How little of the heads' attention, before dropout, falls where the tree says."""
        return both_sides(step, self.head_loss)

    def head_loss(self, view: View) -> dict[str, Tensor]:
        batch, kept = view.batch, view.encoded.kept
        assert batch.piece_heads is not None
        losses = [
            head_loss(kept[head.scores], batch.piece_heads)
            if head.target == PARENT
            else mass_loss(kept[head.scores], self.own(batch, head.target))
            for head in self.heads
        ]
        return {"lisa/head": torch.stack(losses).mean()}

    def final_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """U and b of each head folded into its query projection, where that is exact."""
        for head, projection in zip(self.heads, self.projections, strict=True) if self.folds else ():
            weights = folded(weights, projection, head)
        return weights


class SyntaxHead(nn.Module):
    """U and b of one head of a layer, of a width, and which words it is to look at."""

    def __init__(self, layer: int, head: int, target: str, size: int) -> None:
        super().__init__()
        self.layer, self.head, self.target = layer, head, target
        self.bilinear = nn.Parameter(torch.eye(size))
        self.bias = nn.Parameter(torch.zeros(size))  # how much a piece is worth attending to, whoever asks
        self.scores = f"lisa/{layer}/{head}"  # of one forward pass, in what it keeps

    def changed(self, query: Tensor) -> Tensor:
        """(..., head width): queries that score keys by the biaffine form when they meet them."""
        return query @ self.bilinear.float() + self.bias.float()


def folded(weights: dict[str, Tensor], projection: str, head: SyntaxHead) -> dict[str, Tensor]:
    """The encoder's weights, left as they are, with a head's U and b in its query projection."""
    name, size = f"{projection}.weight", len(head.bias)
    own = slice(head.head * size, (head.head + 1) * size)
    bilinear, bias = head.bilinear.detach().float(), head.bias.detach().float()
    matrix, offset = weights[name].clone(), weights[f"{projection}.bias"].clone()
    matrix[own] = (bilinear.T @ matrix[own].float()).to(matrix.dtype)
    offset[own] = (bilinear.T @ offset[own].float() + bias).to(offset.dtype)
    return {**weights, name: matrix, f"{projection}.bias": offset}


def piece_links(examples: Sequence[Example], target: str) -> IntArray:
    """(3, links) of a batch: row, piece, first piece of a word that its word is to look at."""
    links = []
    for row, example in enumerate(examples):
        assert example.parse is not None
        read = np.flatnonzero(example.alignment.word_first_pieces() >= 0)
        pairs = example.alignment.link_pieces(word_links(example.parse.heads, target, read), every=True)
        links.append(np.insert(pairs, 0, row, axis=1))
    return np.concatenate(links).T


def query_projection(encoder: Any, layer: int) -> str:
    """The name, in the encoder's state, of a layer's query projection; empty where folding would not be exact.

    Rotary positions come between projection and scores, and some models project queries, keys and values in one.
    """
    if any("rotary" in name for name, _ in encoder.base.named_modules()):
        return ""
    module = encoder.attention_layers()[layer]
    home = next(name for name, found in encoder.named_modules() if found is module)
    for name in QUERIES:
        part = dict(module.named_modules()).get(name)
        if isinstance(part, nn.Linear) and part.bias is not None and part.out_features == encoder.width:
            return f"{home}.{name}"
    return ""


def replace_by_tree(weights: Tensor, piece_heads: Tensor) -> Tensor:
    """Attention on the tree's head for pieces that have one, the given weights for the others.

    >>> replace_by_tree(torch.full((1, 2, 2), 0.5), torch.tensor([[1, -100]])).tolist()
    [[[0.0, 1.0], [0.5, 0.5]]]
    """
    defined = piece_heads != IGNORED
    tree = F.one_hot(piece_heads.clamp(min=0), weights.shape[-1]).to(weights.dtype)
    return torch.where(defined.unsqueeze(-1), tree, weights)


def head_loss(scores: Tensor, piece_heads: Tensor) -> Tensor:
    """Mean cross entropy of (batch, pieces, pieces) scores over pieces with a head that no mask hides; zero if none."""
    right = scores.gather(-1, piece_heads.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    piece_heads = piece_heads.masked_fill(right <= hidden_below(scores), IGNORED)
    total = F.cross_entropy(scores.flatten(0, 1), piece_heads.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (piece_heads != IGNORED).sum().clamp(min=1)
