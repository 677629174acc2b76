"""The best dependency tree of arc scores: exact, with one root."""

import numpy as np
from numpy.typing import NDArray

from domadapt.syntax.alignment import IntArray

FloatArray = NDArray[np.float64]


def best_tree(scores: FloatArray) -> IntArray:
    """The tree with the greatest sum of scores, of those with one root (Chu & Liu 1965, Edmonds 1967).

    Args:
        scores: (words, words) finite score of each word's arc to each head; on the diagonal, of being the root.

    Returns:
        (words,) head of each word, the root's being itself.

    >>> best_tree(np.array([[1.0, 9.0], [9.0, 0.0]])).tolist()  # each the other's head would be a circle
    [0, 0]
    """
    scores = np.asarray(scores, dtype=np.float64)
    words = len(scores)
    if words == 0:
        return np.zeros(0, dtype=np.int64)
    own = np.arange(words)
    # A price on every root above all that arcs can differ by: one root is needed, and a second never pays.
    price = 1.0 + words * float(np.ptp(scores))
    table = np.full((words + 1, words + 1), -np.inf)  # node 0 is above the root
    table[1:, 1:] = scores
    table[own + 1, own + 1] = -np.inf
    table[1:, 0] = scores[own, own] - price
    heads = _arborescence(table)[1:]
    return np.where(heads == 0, own, heads - 1)


def _arborescence(table: FloatArray) -> IntArray:
    """(nodes,) best head of each node, without circles; all lead to node 0, whose own is 0."""
    heads: IntArray = table.argmax(axis=1)
    heads[0] = 0
    circle = _circle(heads)
    if circle is None:
        return heads
    # The circle becomes one node, the last. Who enters it at a word takes that word's arc in the circle away.
    rest = np.setdiff1d(np.arange(len(table)), circle)
    entering = table[np.ix_(circle, rest)] - table[circle, heads[circle]][:, None]
    leaving = table[np.ix_(rest, circle)]
    small = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    small[:-1, :-1] = table[np.ix_(rest, rest)]
    small[-1, :-1] = entering.max(axis=0)
    small[:-1, -1] = leaving.max(axis=1)
    found = _arborescence(small)
    above = np.append(rest, -1)[found]  # in the table's numbers; -1 is the circle
    heads[rest] = np.where(above[:-1] >= 0, above[:-1], circle[leaving.argmax(axis=1)])
    entry = entering[:, found[-1]].argmax()
    heads[circle[entry]] = above[-1]
    return heads


def _circle(heads: IntArray) -> IntArray | None:
    """The nodes of one circle, if there is one."""
    state = np.zeros(len(heads), dtype=np.int64)  # the walk on which a node was first met
    state[0] = -1
    for start in range(1, len(heads)):
        node = start
        while state[node] == 0:
            state[node] = start
            node = int(heads[node])
        if state[node] == start:
            circle = [node]
            while (node := int(heads[node])) != circle[0]:
                circle.append(node)
            return np.array(circle)
    return None
