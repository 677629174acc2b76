"""Which heads follow which relation, and what is lost without them.

The five patterns of attention maps: vertical, diagonal, vertical and diagonal, block, heterogeneous.

Kovaleva, Romanov, Rogers and Rumshisky (2019), Revealing the Dark Secrets of BERT, https://arxiv.org/abs/1908.08593.
There a network learnt them from 400 maps that people had sorted; here they follow from three shares of a map's
attention, each less what even attention would put there, so that short texts look like long ones:

- v, on the two most attended pieces (in most maps [CLS], [SEP] or a full stop);
- d, of the rest, on each piece's neighbours and itself;
- b, on the piece's own sentence, of texts with several sentences, special pieces aside.

Where v + d is at least a half, the map is vertical, diagonal, or both, if each of them is at least a fifth. Else it is
a block where b is at least a half, and heterogeneous if not. Of fewer than eight pieces two are too many of all.

Attention heads as parsers: how often a head's most attended word is the syntactic head, by relation.

Clark, Khandelwal, Levy and Manning (2019), What Does BERT Look At?, https://arxiv.org/abs/1906.04341. A head is read in
both directions: a word points to its syntactic head, or is pointed to by it. What it is measured against is the best
fixed offset, such as 'the next word', of the same relation.

One pass over both models' attention maps: heads against relations, patterns, and how fine-tuning changed the "
"maps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import rankdata

from domadapt.analysis.subject import MODELS, Subject, all_weights, by_words
from domadapt.data.batches import Batch, Example
from domadapt.data.loaders import in_order
from domadapt.methods.session import Session
from domadapt.models.pretrained import UnreadableLayer
from domadapt.syntax.parser import SILENT, Parse
from domadapt.syntax.trees import Tree
from domadapt.utils.work import progress

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


FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Known:
    """How well predicted distances between words, and predicted depths, tell a sentence's tree.

    The scores of Hewitt & Manning 2019 (https://aclanthology.org/N19-1419).

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


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Patterns:
    """Shares of the five patterns.

    Attributes:
        shares: by side and model, (layers, patterns) of all maps of a layer, patterns as :data:`PATTERNS` names them.
        several: by side, texts of several sentences: only theirs can be blocks.
        texts: by side, those long enough for a pattern.
    """

    shares: dict[str, dict[str, tuple[tuple[float, ...], ...]]]
    several: dict[str, int]
    texts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """What fine-tuning did.

    Attributes:
        maps: by side, (layers, heads) mean cosine of a head's map before with that after; 1 is no change. None where
            attention can't be reached.
        weights: by part (embeddings, layers from 0) the size of the change of its weights, relative to theirs before.
            None where layers have no weights of their own.
    """

    maps: dict[str, tuple[tuple[float, ...], ...]] | None
    weights: dict[str, float] | None


def read_maps(subject: Subject) -> tuple[Heads, Patterns, Change]:
    """Read both sides' texts once with both models.

    Raises:
        ValueError: the two have not the same number of heads.
    """
    tallies: dict[str, dict[str, Tally]] = {model: {} for model in MODELS}
    shares: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {}
    cosines: dict[str, tuple[tuple[float, ...], ...]] = {}
    several, sizes = dict[str, int](), dict[str, int]()
    layers = len(subject.after.encoder.attention_layers())
    for side, given in subject.sides().items():
        own = [Tally(), Tally()]
        counts, cosine, long, split = np.zeros((2, 0, len(PATTERNS))), np.zeros(0), 0, 0
        for example, maps in stream(subject, given.examples, f"{side} attention"):
            if not counts.size:
                counts, cosine = np.zeros((2, len(maps[0]), len(PATTERNS))), np.zeros(len(maps[0]))
            assert example.parse is not None
            piece_words = example.alignment.piece_words()
            sentences = sentences_of(piece_words, example.parse.heads)
            read = example.alignment.word_first_pieces() >= 0
            sized = len(sentences) >= SHORTEST
            long, split = long + sized, split + (sized and len(set(sentences.tolist()) - {-1}) > 1)
            for place, one in enumerate(maps):
                own[place].add(by_words(one, piece_words, len(example.words)), example.parse, read)
                if sized:
                    counts[place, np.arange(len(one)), patterns(one, sentences)] += 1
            cosine += cosine_of(*maps)
        for model, tally in zip(MODELS, own, strict=True):
            tallies[model][side] = tally
        texts = max(len(given.examples), 1)
        by_layer = counts.reshape(2, layers, -1, len(PATTERNS)).mean(2) / max(long, 1) if counts.size else counts
        shares[side] = {model: rounded(by_layer[place]) for place, model in enumerate(MODELS)}
        cosines[side] = rounded(cosine.reshape(layers, -1) / texts)
        several[side], sizes[side] = split, long
    change = Change(cosines, weight_change(subject.before, subject.after))
    return heads_of(tallies, layers), Patterns(shares, several, sizes), change


def stream(
    subject: Subject, examples: list[Example], title: str
) -> Iterator[tuple[Example, list[NDArray[np.float32]]]]:
    """Each text with both models' maps, (heads of all layers, pieces, pieces) without padding; memory stays flat."""
    if not examples:
        return
    loader = in_order(examples, subject.after.collator, subject.batch_size)
    with torch.no_grad(), all_weights(subject.before.encoder) as before, all_weights(subject.after.encoder) as after:
        for batch in progress(loader, title, len(loader), "batch"):
            found = [_maps(s, batch, kept) for s, kept in ((subject.before, before), (subject.after, after))]
            if found[0].shape != found[1].shape:
                raise ValueError(f"model={subject.name}: has {found[1].shape[1]} heads, {subject.backbone} has "
                                 f"{found[0].shape[1]}: the two can't be compared head by head")  # fmt: skip
            for row, place in enumerate(batch.index.tolist()):
                count = len(examples[place].input_ids)
                yield examples[place], [maps[row, :, :count, :count] for maps in found]


def _maps(session: Session, batch: Batch, kept: list[torch.Tensor]) -> NDArray[np.float32]:
    kept.clear()
    session.encoder(batch.to(session.device))
    return torch.cat(kept, dim=1).float().cpu().numpy()


def cosine_of(before: NDArray[np.float32], after: NDArray[np.float32]) -> Array:
    """(heads,) cosine of each head's flattened maps.

    >>> maps = np.eye(2, dtype=np.float32)[None]
    >>> cosine_of(maps, maps).round(3).tolist(), cosine_of(maps, maps[:, ::-1]).tolist()
    ([1.0], [0.0])
    """
    a, b = (x.reshape(len(x), -1).astype(np.float64) for x in (before, after))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(1) / np.maximum(norms, 1e-12))


def weight_change(before: Session, after: Session) -> dict[str, float] | None:
    """By part, the Euclidean size of the change of all its weights, divided by their size before.

    Returns:
        None where no layer has weights of its own.
    """
    try:
        parts = [list(s.encoder.layers()) for s in (before, after)]
    except UnreadableLayer:
        return None
    found = {
        "embeddings": relative(before.encoder.base.get_input_embeddings(), after.encoder.base.get_input_embeddings())
    }
    return found | {f"layer {i}": relative(a, b) for i, (a, b) in enumerate(zip(*parts, strict=True))}


def relative(before: torch.nn.Module, after: torch.nn.Module) -> float:
    """||after - before|| / ||before|| over the weights that both have.

    >>> one, two = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    >>> with torch.no_grad(): _ = one.weight.fill_(2), two.weight.fill_(3)
    >>> relative(one, two)
    0.5
    """
    ours = {name: p.detach().double().cpu() for name, p in before.named_parameters()}
    theirs = {name: p.detach().double().cpu() for name, p in after.named_parameters() if name in ours}
    moved = sum(float(((theirs[name] - ours[name]) ** 2).sum()) for name in theirs)
    size = sum(float((ours[name] ** 2).sum()) for name in theirs)
    return round((moved / size) ** 0.5, 6) if size else 0.0


def rounded(values: Array) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers as a file holds them."""
    return tuple(tuple(round(float(x), 4) for x in row) for row in values)
