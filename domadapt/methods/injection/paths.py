r"""Opinion words and what they are about are tied by the dependency path between them, on source and target text.

The paths from opinions to aspects are nearly all shared between domains, the aspects are not (Klein et al. 2022). From
the states of an opinion word i and of a word j near it in the tree, the encoder must tell by which of the source's K
best paths, if any, i leads to j:

.. math:: a_i = g(A h_i), \quad b_j = g(B h_j), \quad
          L = -\frac1{|P|} \sum_{(i,j) \in P} \log \mathrm{softmax}\big(W [a_i; b_j; a_i \circ b_j] + c\big)_{r_{ij}},

with g the GELU, P all pairs of an opinion word and another word at most ``longest`` arcs away, and :math:`r_{ij}` the
number of the path where j is a noun that one of the K leads to, else 0. Paths and opinion words are learnt from the
source (:mod:`domadapt.methods.terms`): paths under the trees of training, opinion words under the parser's own, so that
controls know the same. Where texts are classified, words that lean to a class are the opinion words. A stock model is
left.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.data.batches import Example
from domadapt.methods.method import Method, View, in_range
from domadapt.methods.session import Session
from domadapt.methods.terms import frequent_paths, leaning_words, needed_kinds, opinion_words, path_rules
from domadapt.syntax.nouns import is_noun
from domadapt.syntax.trees import Path, paths_from

# Uses of an opinion word in the source, and share of them in opinions: those of path_rules.
FEWEST_USES, LEAST_SHARE = 1, 0.3


class OpinionPaths(Method):
    """Auxiliary prediction of paths from opinion words."""

    reads = frozenset({"parses", "target", "corpus_parses"})

    def __init__(self, paths: int, longest: int, width: int, weight: float) -> None:
        super().__init__({"paths": weight})
        in_range("paths.paths", paths, 1)
        in_range("paths.longest", longest, 1)
        in_range("paths.width", width, 1)
        self.most, self.longest, self.width = paths, longest, width
        self.opinions: frozenset[str] = frozenset()  #: words, in lower case, that a path may begin at
        self.numbers: dict[Path, int] = {}  #: from 1, the most telling one first

    def attach(self, session: Session) -> None:
        super().attach(session)
        self.start = nn.Linear(session.encoder.width, self.width)
        self.end = nn.Linear(session.encoder.width, self.width)
        self.score = nn.Linear(3 * self.width, self.most + 1)

    def prepare(self) -> dict[str, Any]:
        """Learn opinion words and paths from the source, under the trees of training."""
        task, records = self.session.task, self.session.domains.source_train
        parses = [example.parse for example in self.session.source if example.parse is not None]
        if task.kind == "token":
            kinds, real = needed_kinds(self.name, records, parses), self.session.corpora.parses("source")
            self.opinions = opinion_words(records, real, kinds, FEWEST_USES, LEAST_SHARE)
            rules = path_rules(records, parses, kinds, self.opinions, self.most, self.longest)
            paths, shown = [rule.path for rule in rules], [str(rule) for rule in rules]
        else:
            self.opinions = leaning_words(records, parses, task.labels)
            if not self.opinions:
                fix = "expected a parser that tags parts of speech as JJ, VB, RB; leave the method out"
                raise ValueError(f"{self.name}: no adjective, verb or adverb of the source leans to a class; {fix}")
            paths = frequent_paths(records, parses, self.opinions, self.most, self.longest)
            shown = [" ".join(path) for path in paths]
        self.numbers = {path: number for number, path in enumerate(paths, start=1)}
        return {f"{self.name}/opinions": len(self.opinions), f"{self.name}/paths": shown}

    def linked_words(self, example: Example) -> Iterator[tuple[int, int, int]]:
        """Opinion word, another word near it in the tree, number of the path; 0 of one that leads to no noun."""
        if (parse := example.parse) is None:
            return
        opinions = {i for i in range(len(example.words)) if example.word(i).lower() in self.opinions}
        for start, end, path in paths_from(parse, sorted(opinions), self.longest):
            is_term = end not in opinions and is_noun(parse, end, example.text)
            yield start, end, self.numbers.get(path, 0) if is_term else 0

    def memory(self) -> dict[str, Any]:
        return {"opinions": sorted(self.opinions), "paths": [list(path) for path in self.numbers]}

    def recall(self, memory: dict[str, Any]) -> None:
        self.opinions = frozenset(map(str, memory["opinions"]))
        self.numbers = {tuple(map(str, path)): number for number, path in enumerate(memory["paths"], start=1)}

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``pairs``: (3, pairs) node of the opinion word, node of the other word, number of the path."""
        pairs: list[tuple[int, int, int]] = []
        first = 0
        for example in examples:
            pairs += [(first + i, first + j, number) for i, j, number in self.linked_words(example)]
            first += example.alignment.words
        return {"pairs": torch.from_numpy(np.array(pairs, dtype=np.int64).reshape(-1, 3).T.copy())}

    def side_losses(self, view: View) -> dict[str, Tensor]:
        states, batch = view.encoded.states, view.batch
        with torch.autocast(states.device.type, enabled=False):
            words = batch.word_states(states.float())
            pairs = self.own_tensor(batch, "pairs")
            seen = (batch.node_first_piece[pairs[:2]] >= 0).all(0)
            start, end = F.gelu(self.start(words)), F.gelu(self.end(words))
            return {"paths": path_loss(start, end, pairs[:, seen], self.score)}


def path_loss(start: Tensor, end: Tensor, pairs: Tensor, score: Callable[[Tensor], Tensor]) -> Tensor:
    """Mean cross entropy of the path between two words; zero without a pair.

    (nodes, width) views of words as an opinion word, and as what is led to; (3, pairs): opinion word, other, path.

    >>> views, pairs = torch.eye(2), torch.tensor([[0], [1], [0]])
    >>> round(path_loss(views, views, pairs, lambda rows: torch.zeros(len(rows), 4)).item(), 4)  # ln 4
    1.3863
    """
    first, second = start[pairs[0]], end[pairs[1]]
    logits = score(torch.cat([first, second, first * second], dim=-1))
    return F.cross_entropy(logits, pairs[2], reduction="sum") / max(1, pairs.shape[1])
