"""Dependency trees as distances between words: of a text with several sentences, each sentence's tree by itself."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import SILENT, Parse


class Tree(NamedTuple):
    """One sentence's tree.

    Attributes:
        words: (n,) its words, as they are counted in the text.
        distances: (n, n) arcs between two words.
        depths: (n,) arcs to the root.
        counted: (n,) what is no punctuation.
    """

    words: IntArray
    distances: IntArray
    depths: IntArray
    counted: NDArray[np.bool_]


def trees(parse: Parse, shortest: int = 1, longest: int = 1_000_000) -> Iterator[Tree]:
    """The trees of a parse. Words that hang together without reaching a root, as in a circle, are none.

    Args:
        parse: of one text.
        shortest, longest: words of a tree that is wanted.

    >>> words = np.array([[0, 3], [4, 7], [8, 12], [12, 13]])
    >>> parse = Parse(words, np.array([1, 2, 2, 2]), ("det", "nsubj", "ROOT", "punct"), ("DT", "NN", "VBZ", "."))
    >>> tree, = trees(parse)
    >>> tree.distances[0].tolist(), tree.depths.tolist(), tree.counted.tolist()
    ([0, 1, 2, 3], [2, 1, 0, 1], [True, True, True, False])
    """
    own = np.arange(len(parse.heads))
    if not len(own):
        return
    arcs = csr_array((np.ones(len(own)), (own, parse.heads)), shape=(len(own), len(own)))
    count, part = connected_components(arcs, directed=False)
    silent = np.array([relation == SILENT for relation in parse.relations])
    for number in range(count):
        words = np.flatnonzero(part == number)
        roots = np.flatnonzero(parse.heads[words] == words)
        if len(roots) != 1 or not shortest <= len(words) <= longest:
            continue
        distances = shortest_path(arcs[words][:, words], directed=False, unweighted=True).astype(np.int64)
        yield Tree(words, distances, distances[roots[0]], ~silent[words])
