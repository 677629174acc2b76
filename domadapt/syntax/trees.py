"""Dependency trees as what networks and rules read: edges of a graph, links, groups, distances and paths.

A tree is ``heads``: the head word of each word, a root's being itself. Several sentences in a text are several roots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import PUNCTUATION, Parse

Path = tuple[str, ...]
UNKNOWN = 0  # relation id of a name that training never met
# Relations in few groups, so that a matrix for each can be learnt: after the table of Universal Dependencies
# (https://universaldependencies.org/u/dep/), coarser: core arguments; nominals that say which or where; modifiers that
# are predicates or adverbs; function words; coordination. Names of ClearNLP's scheme have their places, too.
GROUPS = {
    "core": "nsubj obj iobj csubj ccomp xcomp dobj nsubjpass csubjpass dative attr acomp pcomp oprd agent",
    "nominal": "nmod obl appos compound flat nummod pobj poss nounmod nn npadvmod npmod quantmod",
    "modifier": "amod advmod advcl acl relcl neg",
    "function": "det case aux cop mark clf expl auxpass prep prt predet compound:prt det:predet",
    "coordination": "conj cc preconj cc:preconj",
    "other": "",  # punctuation, roots, loose ends, and names that no scheme here has
}


def relation_vocabulary(names: Iterable[str]) -> dict[str, int]:
    """Ids for relation names, sorted so that they do not depend on reading order; 0 is kept for unknown ones."""
    return {name: index for index, name in enumerate(sorted(set(names)), start=1)}


def relation_links(heads: IntArray, relations: Sequence[str], relation: str) -> IntArray:
    """(arcs, 2) dependent and head of the arcs of one relation; ``nsubj`` means ``nsubj:pass`` as well.

    >>> relation_links(np.array([1, 1, 1]), ["nsubj:pass", "root", "obj"], "nsubj").tolist()
    [[0, 1]]
    """
    words = np.array([word for word, name in enumerate(relations) if is_kind_of(name, relation)], dtype=np.int64)
    return np.stack([words, heads[words]], axis=1)


def is_kind_of(name: str, relation: str) -> bool:
    """Whether a relation is another, or a subtype of it.

    >>> is_kind_of("nmod:poss", "nmod"), is_kind_of("nmod", "nmod:poss"), is_kind_of("objx", "obj")
    (True, False, False)
    """
    return name == relation or name.startswith(f"{relation}:")


def tree_edges(heads: Sequence[IntArray], relations: Sequence[IntArray], vocabulary: int) -> tuple[IntArray, IntArray]:
    """One flat graph for a batch of trees: nodes are words, counted through the batch.

    Each arc gives two edges, head to dependent (type = relation) and dependent to head (type = relation + R), so that a
    word hears from both; every node has a self loop (type = 2R), R = vocabulary + 1. Roots add no arc. Given are heads
    and relation ids, 0 for unknown, of each text; given back are (2, edges), row 0 to row 1, and (edges,) types.

    >>> index, kind = tree_edges([np.array([1, 1])], [np.array([1, 2])], vocabulary=2)
    >>> index.tolist(), kind.tolist()
    ([[1, 0, 0, 1], [0, 1, 0, 1]], [1, 4, 6, 6])
    """
    offsets = np.cumsum([0] + [len(h) for h in heads])
    head = np.concatenate([np.asarray(h) + o for h, o in zip(heads, offsets, strict=False)] or [np.empty(0, np.int64)])
    relation = np.concatenate([np.asarray(r) for r in relations] or [np.empty(0, np.int64)])
    word = np.arange(len(head))
    arc = head != word
    sources = np.concatenate([head[arc], word[arc], word])
    targets = np.concatenate([word[arc], head[arc], word])
    size = vocabulary + 1
    kinds = np.concatenate([relation[arc], relation[arc] + size, np.full(len(word), 2 * size)])
    return np.stack([sources, targets]).astype(np.int64), kinds.astype(np.int64)


def group_of(relation: str) -> str:
    """A relation's group: by its whole name, else without its subtype.

    >>> group_of("nsubj:pass"), group_of("compound:prt"), group_of("punct")
    ('core', 'function', 'other')
    """
    names = (relation, relation.partition(":")[0])
    return next((group for name in names for group, known in GROUPS.items() if name in known.split()), "other")


def edge_groups(relations: Mapping[str, int]) -> list[int]:
    """The group of every edge type of :func:`tree_edges`: down, up, and the self loop's own; unknown ones are other.

    >>> edge_groups({"amod": 1, "nsubj": 2})
    [5, 2, 0, 11, 8, 6, 12]
    """
    order = [*GROUPS]
    down = [order.index("other")] * (len(relations) + 1)
    for name, index in relations.items():
        down[index] = order.index(group_of(name))
    return [*down, *(group + len(order) for group in down), 2 * len(order)]


class Tree(NamedTuple):
    """One sentence's tree, of n words."""

    words: IntArray  #: (n,) as they are counted in the text
    distances: IntArray  #: (n, n) arcs between two words
    depths: IntArray  #: (n,) arcs to the root
    counted: NDArray[np.bool_]  #: (n,) what is no punctuation


def trees(parse: Parse, shortest: int = 1, longest: int = 1_000_000) -> Iterator[Tree]:
    """The trees of a parse that have ``shortest`` to ``longest`` words; a circle without a root is none."""
    from scipy.sparse import csr_array  # of no use to a run, which imports this file
    from scipy.sparse.csgraph import connected_components, shortest_path

    indices = np.arange(len(parse.heads))
    if not len(indices):
        return
    arcs = csr_array((np.ones(len(indices)), (indices, parse.heads)), shape=(len(indices), len(indices)))
    count, part = connected_components(arcs, directed=False)
    silent = np.array([relation == PUNCTUATION for relation in parse.relations])
    for number in range(count):
        words = np.flatnonzero(part == number)
        roots = np.flatnonzero(parse.heads[words] == words)
        if len(roots) != 1 or not shortest <= len(words) <= longest:
            continue
        distances = shortest_path(arcs[words][:, words], directed=False, unweighted=True).astype(np.int64)
        yield Tree(words, distances, distances[roots[0]], ~silent[words])


def ancestors(heads: Tensor, first: int) -> Tensor:
    """(batch, first, words) True where the second word is on the way from the first to its root; itself included.

    >>> ancestors(torch.tensor([[0, 0, 1]]), 2)[0].int().tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    batch, words = heads.shape
    result = torch.zeros(batch, first, words, dtype=torch.bool, device=heads.device)
    reached = torch.arange(first, device=heads.device).repeat(batch, 1)
    for _ in range(words):  # an arc up each time, until all are at their roots
        result.scatter_(2, reached.unsqueeze(2), True)
        above = heads.gather(1, reached)
        if torch.equal(above, reached):
            break
        reached = above
    return result


def tree_distances(heads: Tensor, first: int | None = None) -> Tensor:
    """(batch, first, first) arcs on the way between any two words, -1 between trees, of (batch, words) heads.

    These are their depths, less twice the depth of where they meet. ``first`` is how many words are asked for, None for
    all: of long texts only the beginning is read, and a matrix of all of their words would not fit into memory.

    >>> tree_distances(torch.tensor([[1, 1, 1, 3]]))[0].tolist()
    [[0, 1, 2, -1], [1, 0, 1, -1], [2, 1, 0, -1], [-1, -1, -1, 0]]
    """
    with torch.autocast(heads.device.type, enabled=False):  # bf16 counts to 256 alone
        ancestry = ancestors(heads, heads.shape[1] if first is None else first).float()
        shared = ancestry @ ancestry.transpose(1, 2)
        depths = ancestry.sum(-1)
    apart = depths.unsqueeze(2) + depths.unsqueeze(1) - 2 * shared
    return apart.masked_fill(shared == 0, -1).long()


def paths_from(parse: Parse, starts: Iterable[int], longest: int) -> Iterator[tuple[int, int, Path]]:
    """Start, word and path of every other word at most ``longest`` arcs from a start, nearest first; ``^`` leads up.

    >>> words, relations = np.array([[0, 3], [4, 8], [9, 12], [13, 18]]), ("det", "nsubj", "cop", "ROOT")
    >>> parse = Parse(words, np.array([1, 3, 3, 3]), relations, ("DT", "NN", "VBZ", "JJ"))
    >>> [(end, way) for _, end, way in paths_from(parse, [3], 2)]
    [(1, ('nsubj',)), (2, ('cop',)), (0, ('nsubj', 'det'))]
    """
    arcs: list[list[tuple[int, str]]] = [[] for _ in parse.relations]
    for word, head in enumerate(parse.heads.tolist()):
        if head != word:
            arcs[word].append((head, f"^{parse.relations[word]}"))
            arcs[head].append((word, parse.relations[word]))
    for start in starts:
        known, edge = {start}, {start: Path()}  # in a tree one path leads to each word
        for _ in range(longest):
            edge = {word: (*path, name) for at, path in edge.items() for word, name in arcs[at] if word not in known}
            known |= edge.keys()
            yield from ((start, word, path) for word, path in edge.items())
