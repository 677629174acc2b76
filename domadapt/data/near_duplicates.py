"""Texts that are nearly the same, found exactly: rare pieces find candidates, Jaccard similarity decides."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domadapt.data.normal import identity

SHINGLE: Final = 5  # bytes, of the text without case and whitespace
SIMILAR: Final = 0.8  # Jaccard similarity of two texts' shingles from which they are near duplicates
LONGEST: Final = 10_000  # bytes compared of a text

Shingles = NDArray[np.int64]


def shingles(key: str) -> Shingles:
    """Overlapping pieces of a text's first 10,000 bytes, each as a number, ascending.

    Returns:
        (different pieces,) the five bytes of each; of a shorter text its bytes and length.

    >>> [int(piece).to_bytes(5, "big") for piece in shingles("abcdef")]
    [b'abcde', b'bcdef']
    """
    content = key.encode()[:LONGEST]
    if len(content) < SHINGLE:
        return np.array([int.from_bytes(content, "big") + ((len(content) + 1) << 8 * SHINGLE)])
    pieces = np.lib.stride_tricks.sliding_window_view(np.frombuffer(content, np.uint8), SHINGLE)
    return np.unique(pieces @ (1 << 8 * np.arange(SHINGLE)[::-1]))


def similar_pairs(keys: Sequence[str]) -> list[tuple[int, int, float]]:
    """Every pair of texts whose shingles have a Jaccard similarity of at least 0.8.

    Two such texts share at least 0.8 of the larger one's shingles. So among the rarest fifth of each one's there is one
    that both have, and only texts that share one of these are compared (prefix filtering: Chaudhuri, Ganti and Kaushik
    2006; Bayardo, Ma and Srikant 2007, "Scaling Up All Pairs Similarity Search").

    Args:
        keys: texts, as :func:`~domadapt.data.normal.identity` gives them.

    Returns:
        Positions, the smaller first, and similarity; ascending.

    >>> [(a, b) for a, b, _ in similar_pairs(["thebatterylastsfortwodays", "ahinge", "batterylastsfortwodays"])]
    [(0, 2)]
    """
    if not keys:
        return []
    cut = [shingles(key) for key in keys]
    _, number, often = np.unique(np.concatenate(cut), return_inverse=True, return_counts=True)
    rarity = np.argsort(np.argsort(often, kind="stable"))[number]
    found = []
    with_piece: dict[int, list[int]] = defaultdict(list)
    for position, ranks in enumerate(np.split(rarity, np.cumsum([len(c) for c in cut])[:-1])):
        most = len(ranks) - math.ceil(SIMILAR * len(ranks) - 1e-9) + 1  # so many without a common one: not similar
        candidates: set[int] = set()
        for piece in np.sort(ranks)[:most].tolist():
            candidates.update(with_piece[piece])
            with_piece[piece].append(position)
        for other in candidates:
            similarity = jaccard(cut[other], cut[position])
            if similarity >= SIMILAR:
                found.append((other, position, similarity))
    return sorted(found)


def jaccard(a: Shingles, b: Shingles) -> float:
    """Shared pieces among all of two texts; 0.0 where their numbers alone forbid 0.8.

    >>> jaccard(shingles("abcdef"), shingles("abcdefg"))
    0.0
    >>> jaccard(shingles("abcdefghi"), shingles("abcdefgh"))
    0.8
    """
    if min(len(a), len(b)) < SIMILAR * max(len(a), len(b)):
        return 0.0
    together = np.sort(np.concatenate([a, b]), kind="stable")
    shared = int((together[1:] == together[:-1]).sum())
    return shared / (len(together) - shared)


def groups(texts: Sequence[str]) -> list[list[int]]:
    """Positions of texts that are copies or near copies of each other, near copies of near copies included.

    >>> groups(["It works!", "The battery lasts for two days.", "it works", "Battery lasts for two days"])
    [[0, 2], [1, 3]]
    """
    positions: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        positions.setdefault(identity(text), []).append(position)
    copies = [*positions.values()]
    member = {i: [i] for i in range(len(copies))}  # of the group that each kind of text is in; one list a group
    for a, b, _ in similar_pairs([*positions]):
        if member[a] is not member[b]:
            member[a] += member[b]
            member |= dict.fromkeys(member[b], member[a])
    merged = {id(group): group for group in member.values()}.values()
    return sorted(sorted(position for i in group for position in copies[i]) for group in merged)
