r"""Attention knows how far apart words are in the dependency tree, at prediction as in training.

Each head h of each chosen layer learns what a distance is worth to it,

.. math:: A^h = \mathrm{softmax}_j\Big(\frac{q_i^\top k_j}{\sqrt d} + b^h_{\delta(i,j)}\Big), \qquad
          \delta(i,j) \in \{0, \dots, m, \text{beyond}, \text{no tree}\}.

:math:`\delta` counts the arcs between the words of two pieces: 0 within a word, *beyond* above m and between sentences,
*no tree* where a piece has no word ([CLS], [SEP], whitespace). All b start at zero: step 0 is the plain model. With a
mask of k, as in Li et al. 2021 (https://aclanthology.org/2021.findings-acl.57; by relations in Bai et al. 2021,
Syntax-BERT), pairs farther apart than k do not attend to each other; pieces without a word reach all.
"""

import torch
from torch import Tensor, nn

from domadapt.data.batches import Batch
from domadapt.methods.method import Method, in_range
from domadapt.methods.session import Session
from domadapt.methods.units import check_place
from domadapt.models.contracts import AttentionCall
from domadapt.syntax.alignment import between_pieces, words_read
from domadapt.syntax.trees import tree_distances


class TreeBias(Method):
    """A learned bias on attention, by distance in the tree."""

    reads = frozenset({"parses", "parses_at_prediction"})
    used_at_prediction = True

    def __init__(self, layers: str | list[int], max_distance: int, mask: bool | int, rate_factor: float) -> None:
        super().__init__()
        in_range("tree_bias.max_distance", max_distance, 1)
        in_range("tree_bias.rate_factor", rate_factor, 0.0, 1e6)
        if mask is not False and (type(mask) is not int or not 1 <= mask <= max_distance):
            raise ValueError(f"tree_bias.mask={mask!r}: expected false, or a whole number from 1 to {max_distance}")
        self.layers = [*layers] if isinstance(layers, list) and all(type(layer) is int for layer in layers) else []
        if layers != "all" and (not self.layers or len({*self.layers}) < len(self.layers)):
            expected = "expected all, or different numbers of layers, such as [0,3]"
            raise ValueError(f"tree_bias.layers={layers!r}: {expected}")
        self.max_distance, self.mask, self.rate_factor = max_distance, mask, rate_factor

    def attach(self, session: Session) -> None:
        super().attach(session)
        encoder = session.encoder
        for layer in self.layers:
            check_place("tree_bias.layers", layer, encoder)
        self.row = {layer: row for row, layer in enumerate(self.layers or range(encoder.attention_shape[0]))}
        self.bias = nn.Parameter(torch.zeros(len(self.row), self.max_distance + 3, encoder.attention_shape[1]))
        for layer in self.row:
            encoder.hook_attention(layer, self._attend)

    def _attend(self, call: AttentionCall) -> Tensor:
        name = f"{self.name}/kinds"
        if name not in call.kept:  # once for all layers of a pass
            call.kept[name] = distance_kinds(call.batch, self.max_distance)
        kinds = call.kept[name]
        mask = call.biased(nn.functional.embedding(kinds, self.bias[self.row[call.layer]]).permute(0, 3, 1, 2))
        if self.mask is not False:
            far = (kinds > self.mask) & (kinds <= self.max_distance + 1)
            mask = mask.masked_fill(far.unsqueeze(1), torch.finfo(mask.dtype).min)
        return call.inner(mask=mask)


def distance_kinds(batch: Batch, most: int) -> Tensor:
    """(batch, pieces, pieces) how far apart two pieces' words are: to ``most``, + 1 beyond, + 2 without a word."""
    words = batch.piece_words()
    apart = tree_distances(batch.tree(), words_read(words))
    return between_pieces(apart.masked_fill((apart < 0) | (apart > most), most + 1), words, most + 2)
