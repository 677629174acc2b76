"""Words to pieces and back, by character offsets.

Three index spaces meet here and nowhere else: *words* (the parser's or the corpus owner's tokens), *pieces* (the
backbone's subword tokens) and *graph nodes* (words, flattened over a batch). Names say which one an index is in.

A word and a piece belong together when their character ranges overlap, many to many: a byte-level tokenizer gives one
emoji several pieces with the same range, a Unigram piece may reach over two words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # words are found without it
    from torch import Tensor

IntArray = NDArray[np.int64]
IGNORED = -100  # the index that torch's cross entropy leaves out
UNREAD = "word left out: the backbone has no subword of it (a control character, say)"  # a warning


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of overlapping pieces and words of one text, sorted by piece, then word."""

    pair_pieces: IntArray  #: (pairs,) piece index of each pair
    pair_words: IntArray  #: (pairs,) word index of each pair
    pieces: int  #: number of pieces, special ones included
    words: int  #: number of words, those lost to truncation included

    def word_first_pieces(self) -> IntArray:
        """(words,) first piece of each word; -1 where no piece is left of it (truncated, or whitespace)."""
        first = np.full(self.words, -1, dtype=np.int64)
        first[self.pair_words[::-1]] = self.pair_pieces[::-1]  # the last write wins, so the first pair stays
        return first

    def piece_words(self) -> IntArray:
        """(pieces,) first word of each piece; -1 for special pieces and pieces of whitespace."""
        word = np.full(self.pieces, -1, dtype=np.int64)
        word[self.pair_pieces[::-1]] = self.pair_words[::-1]
        return word

    def piece_heads(self, word_heads: IntArray) -> IntArray:
        """(pieces,) the piece each piece should attend to under a dependency tree, or :data:`IGNORED`.

        Every piece of a word points to the first piece of the word's head; a root is its own head, so its pieces point
        to the root's first piece (Strubell et al. 2018 let the root attend to itself). Special pieces, pieces of
        whitespace and pieces whose head was truncated away are ignored.

        >>> pairs = align([(0, 0), (0, 5), (6, 8), (8, 11), (0, 0)], [(0, 5), (6, 11)])
        >>> pairs.piece_heads(np.array([1, 1])).tolist()
        [-100, 2, 2, 2, -100]
        """
        first = self.word_first_pieces()
        heads = np.full(self.pieces, IGNORED, dtype=np.int64)
        words = self.piece_words()
        inside = words >= 0
        target = first[word_heads[words[inside]]]
        heads[inside] = np.where(target >= 0, target, IGNORED)
        return heads

    def link_pieces(self, links: IntArray) -> IntArray:
        """(piece links, 2) of (links, 2) between words that have pieces: from first piece to first piece, each once.

        >>> pairs = align([(0, 0), (0, 5), (6, 8), (8, 11), (0, 0)], [(0, 5), (6, 11)])
        >>> pairs.link_pieces(np.array([[1, 0], [0, 1]])).tolist()
        [[1, 2], [2, 1]]
        """
        first = self.word_first_pieces()
        return np.unique(first[links[(first[links] >= 0).all(axis=1)]], axis=0)


def align(piece_offsets: object, word_offsets: object) -> Alignment:
    """Pair the pieces and words of one text that share at least one character, by (pieces, 2) and (words, 2) ranges.

    Ends are exclusive; words are sorted and do not overlap. An empty range (special pieces) belongs to no word.
    """
    pieces = np.asarray(piece_offsets, dtype=np.int64).reshape(-1, 2)
    words = np.asarray(word_offsets, dtype=np.int64).reshape(-1, 2)
    starts, ends = words[:, 0], words[:, 1]
    if len(words) and ((ends < starts).any() or (starts[1:] < ends[:-1]).any()):
        raise ValueError(f"words must be sorted and must not overlap, got {words.tolist()[:20]}")
    # A zero-width word can share no character; leave it out of the search and put its index back afterwards.
    solid = np.flatnonzero(ends > starts)
    low = np.searchsorted(ends[solid], pieces[:, 0], side="right")  # first word that ends after the piece starts
    high = np.searchsorted(starts[solid], pieces[:, 1], side="left")  # first word that starts at or after its end
    counts = np.where(pieces[:, 1] > pieces[:, 0], np.maximum(high - low, 0), 0)
    pair_pieces = np.repeat(np.arange(len(pieces)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return Alignment(pair_pieces, solid[np.repeat(low, counts) + within], len(pieces), len(words))


def unread_words(text: str, words: IntArray, alignment: Alignment) -> int:
    """How many of a text's words have no piece, whitespace aside: parsers take the second of two spaces for a word.

    >>> unread_words("a  b", np.array([[0, 1], [2, 3], [3, 4]]), align([(0, 1)], [(0, 1), (2, 3), (3, 4)]))
    1
    """
    bare = words[alignment.word_first_pieces() < 0]
    return sum(not text[start:end].isspace() for start, end in bare.tolist())


def pool_words(states: Tensor, pair_pieces: Tensor, pair_words: Tensor, nodes: int) -> Tensor:
    """(nodes, width) mean of each word's piece states, (batch, pieces, width); zeros for a node without pieces.

    (pairs,) ``pair_pieces`` index the flattened (batch * pieces), ``pair_words`` graph nodes.

    >>> import torch
    >>> pool_words(torch.tensor([[[1.0], [3.0]]]), torch.tensor([0, 1]), torch.tensor([0, 0]), 2).tolist()
    [[2.0], [0.0]]
    """
    flat = states.reshape(-1, states.shape[-1])
    total = flat.new_zeros(nodes, flat.shape[-1]).index_add(0, pair_words, flat.index_select(0, pair_pieces))
    count = flat.new_zeros(nodes).index_add(0, pair_words, flat.new_ones(len(pair_words)))
    return total / count.clamp(min=1).unsqueeze(1)


def first_words(pair_pieces: Tensor, pair_words: Tensor, pieces: int) -> Tensor:
    """(pieces,) first word or node of each piece, -1 for none, on the pairs' device: :meth:`Alignment.piece_words`.

    >>> import torch
    >>> first_words(torch.tensor([1, 2, 2]), torch.tensor([0, 0, 1]), 4).tolist()
    [-1, 0, 0, -1]
    """
    none = pair_words.new_full((pieces,), -1)
    return none.scatter_reduce(0, pair_pieces, pair_words, "amin", include_self=False)


def words_read(piece_words: Tensor) -> int:
    """How many words, from the first, have a piece in some text of a batch, of (batch, pieces) their words; 1 at least.

    >>> import torch
    >>> words_read(torch.tensor([[-1, 0, 0, -1], [-1, 0, 2, -1]]))
    3
    """
    return 1 + max(0, int(piece_words.max()))


def between_pieces(words: Tensor, piece_words: Tensor, otherwise: float) -> Tensor:
    """(batch, pieces, pieces) what holds between two words, between their pieces; ``otherwise`` where one has none.

    Of (batch, words, words), of those that have pieces at least, and (batch, pieces) word of each piece, -1 for none.

    >>> import torch
    >>> between_pieces(torch.tensor([[[0, 1], [1, 0]]]), torch.tensor([[-1, 0, 0, 1]]), 9).tolist()
    [[[9, 9, 9, 9], [9, 0, 0, 1], [9, 0, 0, 1], [9, 1, 1, 0]]]
    """
    import torch

    known, places = piece_words >= 0, piece_words.clamp(min=0)
    rows = torch.arange(len(places), device=places.device).view(-1, 1, 1)
    between = words[rows, places.unsqueeze(2), places.unsqueeze(1)]
    return between.masked_fill(~(known.unsqueeze(2) & known.unsqueeze(1)), otherwise)
