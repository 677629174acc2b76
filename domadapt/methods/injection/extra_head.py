r"""An attention head beside the pretrained ones, whose scores the parse shapes, at prediction as in training.

LIBERT (Pereg et al. 2020, https://aclanthology.org/2020.coling-main.158) adds to one layer a head with its
own queries, keys and values, and multiplies its attention by the parents' matrix P of the dependency tree:

.. math:: \mathrm{head} = \Big(\mathrm{softmax}\big(\tfrac{QK^\top}{\sqrt d}\big) \circ P\Big) V, \qquad
          \mathrm{output} = W_o\,[\text{pretrained heads}] + W_e\,\mathrm{head}.

:math:`P_{ij} = 1` where the word of piece j is the syntactic head of the word of piece i; a root is its own. A piece
without a word ([CLS], [SEP], whitespace) gets nothing. With ``shape: bias`` arcs are an offer, no filter:
:math:`\mathrm{softmax}(QK^\top/\sqrt d + bP)\,V`, b learned. :math:`W_e` starts at zero: step 0 is the plain model.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.data.batches import Batch
from domadapt.methods.method import Method, in_range, one_of
from domadapt.methods.session import Session
from domadapt.methods.units import check_place
from domadapt.models.contracts import additive_mask
from domadapt.syntax.alignment import between_pieces, words_read

START = 3.0  # of b: an arc outweighs 20 pieces that are not one


class ExtraHead(Method):
    """One more head in one layer."""

    reads = frozenset({"parses", "parses_at_prediction"})
    used_at_prediction = True

    def __init__(self, layer: int, shape: str, arcs: str, rate_factor: float) -> None:
        super().__init__()
        in_range("extra_head.layer", layer, 0)
        in_range("extra_head.rate_factor", rate_factor, 0.0, 1e6)
        one_of("extra_head.shape", shape, "product", "bias")
        one_of("extra_head.arcs", arcs, "parents", "children", "both")
        self.layer, self.product, self.arcs, self.rate_factor = layer, shape == "product", arcs, rate_factor

    def attach(self, session: Session) -> None:
        super().attach(session)
        encoder = session.encoder
        check_place("extra_head.layer", self.layer, encoder)
        config = encoder.model.config
        size = int(getattr(config, "head_dim", None) or encoder.width // config.num_attention_heads)
        self.query, self.key, self.value = (nn.Linear(encoder.width, size) for _ in range(3))
        self.output = nn.Linear(size, encoder.width, bias=False)
        nn.init.zeros_(self.output.weight)
        if not self.product:
            self.bias = nn.Parameter(torch.tensor(START))
        encoder.hook_attention_output(self.layer, self._beside)

    def _beside(self, states: Tensor, batch: Batch, kept: dict[str, Tensor]) -> Tensor:
        """(batch, pieces, width): the head's part of the layer's output."""
        arcs = piece_arcs(batch, self.arcs)
        query, key, value = self.query(states), self.key(states), self.value(states)
        scores = (query @ key.transpose(1, 2)).float() / math.sqrt(query.shape[-1])
        if not self.product:
            scores = scores + self.bias * arcs
        weights = (scores + additive_mask(batch.attention_mask.bool(), scores.dtype).unsqueeze(1)).softmax(-1)
        if self.product:
            weights = weights * arcs
        added: Tensor = self.output(weights.to(value.dtype) @ value)
        return added


def piece_arcs(batch: Batch, kind: str) -> Tensor:
    """(batch, pieces, pieces) True from a word's pieces to its parent's (a root's: its own), children's, or both."""
    words = batch.piece_words()
    most = words_read(words)
    heads = batch.tree()[:, :most].clamp(max=most)  # a parent that was cut off is nobody's
    parents = F.one_hot(heads, most + 1)[..., :most].bool()
    children = parents.transpose(1, 2)
    arcs = {"parents": parents, "children": children, "both": parents | children}[kind]
    return between_pieces(arcs, words, False)
