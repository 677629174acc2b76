r"""Opinion words and what they are about attend to each other along the dependency path, at prediction as in training.

What :mod:`~domadapt.methods.injection.paths` supervises is read here: words i and j that one of the source's K most
telling paths joins, opinion to noun, are worth more or less to each head h of each chosen layer,

.. math:: A^h = \mathrm{softmax}_j\Big(\frac{q_i^\top k_j}{\sqrt d} + b^h_{\pi(i,j)}\Big), \qquad
          \pi(i,j) \in \{0, 1 \dots K, -1 \dots -K\},

:math:`\pi` being the number of the path from i to j, less than zero where it leads from j to i, and 0, for which b is
0, where none does. All b start at zero: step 0 is the plain model. Paths and opinion words are learnt from the source
(:mod:`domadapt.methods.opinion_paths`) and are part of the model.

It costs what ``tree_bias`` costs; where opinion words of the target are none of the source's, it says nothing.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from domadapt.data.batches import Batch, Example
from domadapt.methods.heads import layer_rows, read_layers
from domadapt.methods.method import in_range
from domadapt.methods.opinion_paths import PathMethod
from domadapt.methods.setting import Setting
from domadapt.models.attention import AttentionCall
from domadapt.syntax.alignment import between_pieces, words_read


class PathAttention(PathMethod):
    """A learned bias on attention, by the path from an opinion word.

    Args:
        layers: ``all``, or numbers of layers, counted from 0.
        paths: K, how many are told apart.
        longest: arcs of a path.
        rate: learning rate of the biases, times the run's: scalars that start at zero and weigh whole scores need more.

    Raises:
        ValueError: a setting is out of its range.
    """

    reads = frozenset({"parses", "parses_at_prediction"})
    used_at_prediction = True

    def __init__(self, layers: str | list[int], paths: int, longest: int, rate: float) -> None:
        super().__init__("path_attention", paths, longest)
        in_range("path_attention.rate", rate, 0.0, 1e6)
        self.layers, self.rate = read_layers("path_attention.layers", layers), rate

    def attach(self, setting: Setting) -> None:
        """Make the biases, and hook into the layers."""
        super().attach(setting)
        encoder = setting.encoder
        self.row = layer_rows("path_attention.layers", self.layers, encoder)
        self.bias = nn.Parameter(torch.zeros(len(self.row), 2 * self.most, encoder.attention_shape[1]))
        for layer in self.row:
            encoder.hook_attention(layer, self._attend)

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``paths``: (4, paths) row of the text, the word that attends, the one attended to, 1 to 2K for the path."""
        found: list[tuple[int, int, int, int]] = []
        for row, example in enumerate(examples):
            for start, end, number in self.found(example):
                if number:
                    found += [(row, start, end, number), (row, end, start, number + self.most)]
        return {"paths": torch.from_numpy(np.array(found, dtype=np.int64).reshape(-1, 4).T.copy())}

    def _attend(self, call: AttentionCall) -> Tensor:
        name = f"{self.name}/kinds"
        if name not in call.kept:  # once for all layers of a pass
            call.kept[name] = path_kinds(call.batch, self.own(call.batch, "paths"))
        known = self.bias[self.row[call.layer]]
        bias = nn.functional.embedding(call.kept[name], torch.cat([torch.zeros_like(known[:1]), known]))
        return call.inner(mask=call.biased(bias.permute(0, 3, 1, 2)))


def path_kinds(batch: Batch, paths: Tensor) -> Tensor:
    """Which path joins the words of two pieces.

    Args:
        batch: with parses.
        paths: (4, paths) row, word, word, number.

    Returns:
        (batch, pieces, pieces): the number, 0 where there is none.
    """
    batch.tree()  # refuses texts without parses
    words = batch.piece_words()
    most = words_read(words)
    rows, ones, others, numbers = paths[:, (paths[1:3] < most).all(0)]
    kinds = paths.new_zeros(len(words), most, most)
    kinds[rows, ones, others] = numbers
    return between_pieces(kinds, words, 0)
