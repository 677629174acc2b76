"""How well predicted distances between words, and predicted depths, tell a sentence's tree.

The scores of Hewitt & Manning 2019 (https://aclanthology.org/N19-1419).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import rankdata

from domadapt.syntax.trees import Tree

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Known:
    """What trees a probe has found.

    Attributes:
        uuas: share of arcs, punctuation aside, that are in the minimum spanning tree of the predicted distances.
        distance: Spearman's correlation of predicted and true distances from each word, mean of its means a length.
        root: share of sentences whose root has the least predicted depth of all words, punctuation aside.
        depth: Spearman's correlation of predicted and true depths, mean of its means a length.
        trees: how many sentences that is of.
    """

    uuas: float
    distance: float
    root: float
    depth: float
    trees: int


def linear(trees: Sequence[Tree]) -> Known:
    """What the order of words finds without any state: words are as far apart as they stand, and the first is the root.

    >>> from domadapt.syntax.parser import Parse
    >>> from domadapt.syntax.trees import trees as read
    >>> words = np.array([[0, 1], [2, 3], [4, 5], [6, 7]])
    >>> chain = Parse(words, np.array([0, 0, 1, 2]), ("ROOT", "obj", "amod", "obl"), ("", "", "", ""))
    >>> found = linear(list(read(chain)))
    >>> found.uuas, round(found.distance, 3), found.root
    (1.0, 1.0, 1.0)
    """
    places = (tree.words.astype(np.float64) for tree in trees)
    return score(((np.abs(place[:, None] - place), place) for place in places), trees)


def score(predicted: Iterable[tuple[FloatArray, FloatArray]], trees: Sequence[Tree]) -> Known:
    """Compare predictions with trees; not a number where there is nothing to compare.

    Args:
        predicted: of each tree, distances (n, n) and depths (n,).
        trees: two words at least each.
    """
    right = arcs = roots = rooted = 0
    distance, depth = dict[int, list[float]](), dict[int, list[float]]()
    for (far, deep), tree in zip(predicted, trees, strict=True):
        size = len(tree.words)
        distance.setdefault(size, []).append(float(np.mean(spearman(far, tree.distances))))
        depth.setdefault(size, []).append(float(spearman(deep[None], tree.depths[None])[0]))
        spanning, true = spanning_tree(far, tree.counted), tree.distances == 1
        right += sum(bool(true[i, j]) for i, j in spanning)
        arcs += int(true[np.ix_(tree.counted, tree.counted)].sum()) // 2
        counted = np.flatnonzero(tree.counted)
        if (tree.depths[counted] == 0).any():
            rooted += 1
            roots += int(tree.depths[counted[deep[counted].argmin()]] == 0)
    return Known(_share(right, arcs), _each_length(distance), _share(roots, rooted), _each_length(depth), len(trees))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _each_length(found: dict[int, list[float]]) -> float:
    return float(np.mean([np.mean(values) for values in found.values()])) if found else float("nan")


def spanning_tree(distances: FloatArray, counted: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Edges of the minimum spanning tree over the words that count.

    >>> far = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 2.0], [9.0, 2.0, 0.0]])
    >>> spanning_tree(far, np.array([True, True, True])), spanning_tree(far, np.array([True, False, True]))
    ([(0, 1), (1, 2)], [(0, 2)])
    """
    places = np.flatnonzero(counted)
    # To scipy, 0 is no edge. One more on every edge changes no spanning tree, for all have as many.
    found = minimum_spanning_tree(distances[np.ix_(places, places)] + 1).tocoo()
    return [(int(places[i]), int(places[j])) for i, j in zip(found.row, found.col, strict=True)]


def spearman(one: NDArray[np.generic], other: NDArray[np.generic]) -> FloatArray:
    """(rows,) Spearman's rank correlation, row by row; 0 where a row is all the same.

    >>> spearman(np.array([[1, 2, 3], [1, 2, 3], [1, 1, 1]]), np.array([[2, 4, 9], [9, 4, 2], [1, 2, 3]])).tolist()
    [1.0, -1.0, 0.0]
    """
    a, b = (rankdata(values, axis=1) for values in (one, other))
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    spread = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    result: FloatArray = np.divide((a * b).sum(1), spread, out=np.zeros(len(a)), where=spread > 0)
    return result
