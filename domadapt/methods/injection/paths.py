r"""Opinion words and what they are about are tied by the dependency path between them, on source and on target text.

The paths that lead from opinions to aspects are nearly all shared between domains, the aspects are not. So from the
states of an opinion word i and of a word j near it in the tree, the encoder must tell by which of the source's K most
telling paths, if any, i leads to j:

.. math:: a_i = g(A h_i), \quad b_j = g(B h_j), \quad
          L = -\frac1{|P|} \sum_{(i,j) \in P} \log \mathrm{softmax}\big(W [a_i; b_j; a_i \circ b_j] + c\big)_{r_{ij}},

with g the GELU, P all pairs of an opinion word and another word that at most ``longest`` arcs part from it, and
:math:`r_{ij}` the number of the path where j is a noun that one of the K leads to, else 0.

Paths and opinion words are learnt from the source (:mod:`domadapt.methods.opinion_paths`); where texts are classified,
words that lean to a class are the opinion words. The loss needs no labels, only parses: it is the same on both sides.
Nothing of it is needed to predict: the model left behind is a stock one.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.data.batches import Batch, Example
from domadapt.methods.method import Step, both_sides, in_range
from domadapt.methods.opinion_paths import PathMethod
from domadapt.methods.setting import Setting
from domadapt.models.output import Output
from domadapt.syntax.alignment import pool_words


class OpinionPaths(PathMethod):
    """Auxiliary prediction of paths from opinion words.

    Args:
        paths: K, how many are told apart.
        longest: arcs of a path.
        width: of the two views of a word.
        weight: of the loss.
    """

    reads = frozenset({"parses", "target"})

    def __init__(self, paths: int, longest: int, width: int, weight: float) -> None:
        super().__init__("paths", paths, longest, {"paths": weight})
        in_range("paths.width", width, 1)
        self.width = width

    def attach(self, setting: Setting) -> None:
        """Make the scorer."""
        super().attach(setting)
        self.start = nn.Linear(setting.encoder.width, self.width)
        self.end = nn.Linear(setting.encoder.width, self.width)
        self.score = nn.Linear(3 * self.width, self.most + 1)

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``pairs``: (3, pairs) node of the opinion word, node of the other word, number of the path."""
        found: list[tuple[int, int, int]] = []
        first = 0
        for example in examples:
            found += [(first + i, first + j, number) for i, j, number in self.found(example)]
            first += example.alignment.words
        return {"pairs": torch.from_numpy(np.array(found, dtype=np.int64).reshape(-1, 3).T.copy())}

    def losses(self, step: Step) -> dict[str, Tensor]:
        """On both sides."""
        return both_sides(step, lambda view: {"paths": self.batch_loss(view.encoded, view.batch)})

    def batch_loss(self, output: Output, batch: Batch) -> Tensor:
        """The loss on one side."""
        with torch.autocast(output.states.device.type, enabled=False):
            words = pool_words(output.states.float(), batch.pair_pieces, batch.pair_nodes, len(batch.node_first_piece))
            pairs = self.own(batch, "pairs")
            seen = (batch.node_first_piece[pairs[:2]] >= 0).all(0)
            return path_loss(F.gelu(self.start(words)), F.gelu(self.end(words)), pairs[:, seen], self.score)


def path_loss(start: Tensor, end: Tensor, pairs: Tensor, score: Callable[[Tensor], Tensor]) -> Tensor:
    """Mean cross entropy of the path between two words; zero without a pair.

    Args:
        start, end: (nodes, width) views of each word as an opinion word, and as what is led to.
        pairs: (3, pairs) opinion word, other word, number of the path between them.
        score: (pairs, 3 * width) to (pairs, paths + 1).

    >>> views, pairs = torch.eye(2), torch.tensor([[0], [1], [0]])
    >>> round(path_loss(views, views, pairs, lambda rows: torch.zeros(len(rows), 4)).item(), 4)  # ln 4
    1.3863
    """
    first, second = start[pairs[0]], end[pairs[1]]
    logits = score(torch.cat([first, second, first * second], dim=-1))
    return F.cross_entropy(logits, pairs[2], reduction="sum") / max(1, pairs.shape[1])
