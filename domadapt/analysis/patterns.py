"""The five patterns of attention maps: vertical, diagonal, vertical and diagonal, block, heterogeneous.

Kovaleva, Romanov, Rogers and Rumshisky (2019), Revealing the Dark Secrets of BERT, https://arxiv.org/abs/1908.08593.
There a network learnt them from 400 maps that people had sorted; here they follow from three shares of a map's
attention, each less what even attention would put there, so that short texts look like long ones:

- v, on the two most attended pieces (in most maps [CLS], [SEP] or a full stop);
- d, of the rest, on each piece's neighbours and itself;
- b, on the piece's own sentence, of texts with several sentences, special pieces aside.

Where v + d is at least a half, the map is vertical, diagonal, or both, if each of them is at least a fifth. Else it is
a block where b is at least a half, and heterogeneous if not. Of fewer than eight pieces two are too many of all.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PATTERNS = ("vertical", "diagonal", "vertical and diagonal", "block", "heterogeneous")
LINES, EACH, BLOCK = 0.5, 0.2, 0.5
COLUMNS, SHORTEST = 2, 8
Maps = NDArray[np.float32]
Shares = NDArray[np.float64]


def patterns(maps: Maps, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
    """(heads,) number of each map's pattern in :data:`PATTERNS`.

    Args:
        maps: (heads, pieces, pieces) of one text of at least :data:`SHORTEST` pieces, without padding; attending piece
            in rows.
        sentences: (pieces,) number of the sentence that a piece is in, -1 for special pieces.

    >>> [PATTERNS[i] for i in patterns(np.stack([np.eye(9), np.eye(9)[[0] * 9]]), np.zeros(9, np.int64))]
    ['diagonal', 'vertical']
    """
    lines = vertical_diagonal(maps)
    v, d = lines
    both = lines.min(0) >= EACH
    named = np.where(both, 2, np.where(v > d, 0, 1))
    rest = np.where(block(maps, sentences) >= BLOCK, 3, 4)
    return np.asarray(np.where(lines.sum(0) >= LINES, named, rest), dtype=np.int64)


def vertical_diagonal(maps: Maps) -> Shares:
    """(2, heads) v and d."""
    size = maps.shape[-1]
    columns = np.argsort(-maps.sum(1), axis=-1, kind="stable")[:, :COLUMNS]  # (heads, columns)
    upright = np.zeros(maps.shape[::2], dtype=bool)  # (heads, pieces)
    np.put_along_axis(upright, columns, True, -1)
    near = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) <= 1
    beside = near[None] & ~upright[:, None, :]
    found = np.take_along_axis(maps, columns[:, None, :], -1).sum(-1).mean(-1)
    on_lines = (maps * beside).sum(-1).mean(-1)
    even, even_lines = COLUMNS / size, beside.mean((1, 2))
    v = beyond(found, even)
    d = beyond(on_lines / np.maximum(1 - found, 1e-9), even_lines / (1 - even)) * (1 - found)
    return np.stack([v, d])


def block(maps: Maps, sentences: NDArray[np.int64]) -> Shares:
    """(heads,) b; 0 of one sentence."""
    inside = sentences >= 0
    if len(np.unique(sentences[inside])) < 2:
        return np.zeros(len(maps))
    inner = maps[:, inside][:, :, inside]
    inner = inner / np.maximum(inner.sum(-1, keepdims=True), 1e-9)
    same = sentences[inside][:, None] == sentences[inside]
    return beyond((inner * same).sum(-1).mean(-1), same.mean())


def beyond(found: Any, even: Any) -> Shares:
    """A share, less what even attention would give: from 0 (that, or less) to 1 (all there is).

    >>> beyond(0.5, 0.25).round(2).item(), beyond(0.1, 0.25).item()
    (0.33, 0.0)
    """
    return np.asarray(np.clip((found - even) / np.maximum(1 - even, 1e-9), 0.0, 1.0), dtype=np.float64)


def sentences_of(piece_words: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """(pieces,) the root of the tree that a piece's word is in; -1 for special pieces.

    Args:
        piece_words: (pieces,) first word of each piece, -1 where there is none.
        heads: (words,) head of each word, a root's being itself.

    >>> sentences_of(np.array([-1, 0, 1, 2, -1]), np.array([1, 1, 2])).tolist()
    [-1, 1, 1, 2, -1]
    """
    roots = heads.copy()
    for _ in range(len(roots).bit_length()):  # doubling: each step reaches twice as far
        roots = roots[roots]
    return np.where(piece_words >= 0, roots[piece_words] if len(roots) else -1, -1)
