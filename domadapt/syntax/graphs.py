"""Dependency trees as graph edges, built where batches are collated."""

from collections.abc import Iterable, Sequence

import numpy as np

from domadapt.syntax.alignment import IntArray

UNKNOWN = 0  # relation id of a name that training never met


def relation_vocabulary(names: Iterable[str]) -> dict[str, int]:
    """Ids for relation names, sorted so that they do not depend on reading order; 0 is kept for unknown ones.

    >>> relation_vocabulary(["obj", "nsubj", "obj"])
    {'nsubj': 1, 'obj': 2}
    """
    return {name: index for index, name in enumerate(sorted(set(names)), start=1)}


def edge_types(relations: int) -> int:
    """Number of edge types for a vocabulary of ``relations`` names: down, up, and the self loop.

    >>> edge_types(2)
    7
    """
    return 2 * (relations + 1) + 1


def word_links(heads: IntArray, target: str, among: IntArray) -> IntArray:
    """Each word with the words that it is to look at: its head, its dependents, or those of the same head.

    Args:
        heads: (words,) head word, a root's being itself.
        target: ``parent`` (a root's is itself), ``child`` or ``sibling`` (roots have none).
        among: the words that count, such as those that truncation has left.

    Returns:
        (links, 2) words, the looking one first.

    >>> heads = np.array([1, 1, 1])
    >>> word_links(heads, "child", np.arange(3)).tolist(), word_links(heads, "sibling", np.arange(3)).tolist()
    ([[1, 0], [1, 2]], [[0, 2], [2, 0]])
    """
    if target == "parent":
        return np.stack([among, heads[among]], axis=1)
    inner = among[heads[among] != among]
    if target == "child":
        return np.stack([heads[inner], inner], axis=1)
    same = heads[inner][:, None] == heads[inner][None, :]
    np.fill_diagonal(same, False)
    links: IntArray = inner[np.argwhere(same)]
    return links


def relation_links(heads: IntArray, relations: Sequence[str], relation: str) -> IntArray:
    """The arcs of one relation.

    Args:
        heads: (words,) head word, a root's being itself.
        relations: (words,) name of each word's arc.
        relation: a name; its subtypes count, too, so that ``nsubj`` means ``nsubj:pass`` as well.

    Returns:
        (arcs, 2) words, the dependent first.

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

    Each arc gives two edges, head to dependent (type = relation) and dependent to head (type = relation + R), so that
    a word hears from both; every node has a self loop (type = 2R), R = vocabulary + 1. Roots add no arc.

    Args:
        heads: per text (words,) head word, a root's being itself.
        relations: per text (words,) relation id, 0 for unknown.
        vocabulary: number of known relation names.

    Returns:
        ``edge_index`` (2, edges), from row 0 to row 1, and ``edge_type`` (edges,).

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
