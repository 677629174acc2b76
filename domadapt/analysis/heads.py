"""Attention heads as parsers: how often a head's most attended word is the syntactic head, by relation.

Clark, Khandelwal, Levy and Manning (2019), What Does BERT Look At?, https://arxiv.org/abs/1906.04341. A head is read in
both directions: a word points to its syntactic head, or is pointed to by it. What it is measured against is the best
fixed offset, such as 'the next word', of the same relation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from domadapt.syntax.parser import SILENT, Parse

REACH = 10  # words that an offset may span
ALL = "all"  # relations together
FEWEST = 20  # words of a relation that an accuracy is told of
DIRECTIONS = ("to", "from")  # the word attends to its head; the head attends to the word
Weights = NDArray[np.float32]
Bools = NDArray[np.bool_]
OFFSETS = tuple(offset for offset in range(-REACH, REACH + 1) if offset)

# Clark et al. 2019, tables 1 and 2, BERT-base on the Wall Street Journal, in percent: best head, best offset. Their
# Stanford names, and what Universal Dependencies calls the same arc; there a preposition hangs on its noun.
PUBLISHED = {
    "det": ("det", 94.3, 51.7),
    "dobj": ("obj", 86.8, 40.0),
    "pobj": ("case", 76.3, 34.6),
    "amod": ("amod", 75.6, 68.3),
    "aux": ("aux", 81.1, 71.5),
    "nsubj": ("nsubj", 58.5, 45.5),
    "all": (ALL, 34.7, 26.7),
}


@dataclass(slots=True)
class Tally:
    """Counts over texts, by relation.

    Attributes:
        words: that have the relation to another word.
        offsets: (offsets,) how many have their head at each of :data:`OFFSETS`.
        hits: (directions, heads of all layers) how many of them each head finds.
    """

    words: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    hits: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def add(self, weights: Weights, parse: Parse, read: Bools) -> None:
        """Count one text.

        Args:
            weights: (heads, words, words) attention between words, attending word in rows.
            parse: of the text.
            read: (words,) of which a piece is left.
        """
        chosen, heads = arcs(parse, read)
        found = np.stack([pointed(weights, chosen) == heads, pointed(weights.transpose(0, 2, 1), chosen) == heads])
        apart = (heads - chosen)[None] == np.array(OFFSETS)[:, None]
        names = np.array(parse.relations)[chosen]
        for name in (*np.unique(names).tolist(), ALL):
            own = np.ones(len(chosen), dtype=bool) if name == ALL else names == name
            self.words[name] = self.words.get(name, 0) + int(own.sum())
            self.hits[name] = self.hits.get(name, 0) + found[..., own].sum(-1)
            self.offsets[name] = self.offsets.get(name, 0) + apart[:, own].sum(-1)

    def accuracy(self, relation: str) -> NDArray[np.float64]:
        """(directions, heads) share of the relation's words whose head is found."""
        return np.asarray(self.hits[relation] / max(self.words[relation], 1))

    def offset_accuracy(self, relation: str) -> NDArray[np.float64]:
        """(offsets,) share of the relation's words whose head is so far away."""
        return np.asarray(self.offsets[relation] / max(self.words[relation], 1))


def arcs(parse: Parse, read: Bools) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words that hang on another word, punctuation aside, and their heads; both read by the model."""
    own = np.arange(len(parse.heads))
    inner = (parse.heads != own) & (np.array(parse.relations, dtype=object) != SILENT) & read
    inner &= read[parse.heads] if len(own) else inner
    return own[inner], parse.heads[inner]


def pointed(weights: Weights, words: NDArray[np.int64]) -> NDArray[np.int64]:
    """(heads, words) the other word that each of these words attends to most.

    >>> weights = np.array([[[0.9, 0.0, 0.1], [0.2, 0.5, 0.3], [0.0, 0.1, 0.9]]], np.float32)
    >>> pointed(weights, np.array([0, 1, 2])).tolist()
    [[2, 2, 1]]
    """
    rows = weights[:, words].copy()
    rows[:, np.arange(len(words)), words] = -1.0  # a word is not its own head
    return np.asarray(rows.argmax(-1), dtype=np.int64) if rows.shape[-1] else np.zeros(rows.shape[:2], np.int64)


@dataclass(frozen=True, slots=True)
class Best:
    """A head, the best for a relation on source text, and how often it is right.

    Attributes:
        layer, head: counted from 0.
        direction: of :data:`DIRECTIONS`.
        accuracy: by side; None where a side has too few words of the relation.
    """

    layer: int
    head: int
    direction: str
    accuracy: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation.

    Attributes:
        name: as the parser calls it.
        words: by side.
        offset: the best on source text: 1 is the next word.
        offset_accuracy: its accuracy by side.
        best: by model, over all layers.
        by_layer: by model, in each layer.
        grid: by model, (layers, heads) accuracy on source text, in the better direction.
    """

    name: str
    words: dict[str, int]
    offset: int
    offset_accuracy: dict[str, float | None]
    best: dict[str, Best]
    by_layer: dict[str, tuple[Best, ...]]
    grid: dict[str, tuple[tuple[float, ...], ...]]


@dataclass(frozen=True, slots=True)
class Heads:
    """What the heads of both models know of the relations that the source has enough of, the commonest first."""

    relations: tuple[Relation, ...]
    layers: int
    heads: int


def heads_of(tallies: Mapping[str, Mapping[str, Tally]], layers: int) -> Heads:
    """Choose the best heads on source text, and see what they do on both sides.

    Args:
        tallies: by model and side, source first.
        layers: of the models.
    """
    first = next(iter(tallies.values()))
    source, *_ = first
    names = [name for name, count in first[source].words.items() if count >= FEWEST]
    names.sort(key=lambda name: (name != ALL, -first[source].words[name]))
    relations = tuple(_relation(name, tallies, source, layers) for name in names)
    count = next((len(r.grid[m][0]) for r in relations for m in r.grid), 0)
    return Heads(relations, layers, count)


def _relation(name: str, tallies: Mapping[str, Mapping[str, Tally]], source: str, layers: int) -> Relation:
    by_side = next(iter(tallies.values()))
    offset = int(by_side[source].offset_accuracy(name).argmax())
    best, by_layer, grid = {}, {}, {}
    for model, sides in tallies.items():
        accuracy = {side: _shaped(t, name, layers) for side, t in sides.items()}
        on_source = accuracy[source]
        assert on_source is not None
        by_layer[model] = tuple(_best(accuracy, on_source, layer) for layer in range(layers))
        best[model] = max(by_layer[model], key=lambda one: one.accuracy[source] or 0.0)
        grid[model] = tuple(tuple(round(float(x), 4) for x in row) for row in on_source.max(0))
    return Relation(
        name,
        {side: tally.words.get(name, 0) for side, tally in by_side.items()},
        OFFSETS[offset],
        {s: _rounded(t.offset_accuracy(name)[offset]) if _enough(t, name) else None for s, t in by_side.items()},
        best,
        by_layer,
        grid,
    )


def _shaped(tally: Tally, name: str, layers: int) -> NDArray[np.float64] | None:
    """(directions, layers, heads)"""
    return tally.accuracy(name).reshape(2, layers, -1) if _enough(tally, name) else None


def _best(accuracy: Mapping[str, NDArray[np.float64] | None], chosen_on: NDArray[np.float64], layer: int) -> Best:
    direction, head = np.unravel_index(chosen_on[:, layer].argmax(), chosen_on[:, layer].shape)
    found = {s: None if a is None else _rounded(a[direction, layer, head]) for s, a in accuracy.items()}
    return Best(layer, int(head), DIRECTIONS[int(direction)], found)


def _enough(tally: Tally, name: str) -> bool:
    return tally.words.get(name, 0) >= FEWEST


def _rounded(value: float) -> float:
    return round(float(value), 4)


def head_name(layer: int, head: int) -> str:
    """As the papers write it, counted from 0.

    >>> head_name(3, 5)
    '3-5'
    """
    return f"{layer}-{head}"


def names_of(relations: Sequence[Relation]) -> dict[str, Relation]:
    """By name."""
    return {relation.name: relation for relation in relations}
