"""Attention: read from a model, against trees, in patterns, and how fine-tuning changed it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from domadapt.analysis.subject import MODELS, Subject, arcs
from domadapt.data.batches import Example, encode
from domadapt.data.loaders import in_order
from domadapt.methods.session import Session
from domadapt.models.pretrained import UnreadableLayer
from domadapt.syntax.parser import SILENT, Parse
from domadapt.utils.work import progress

if TYPE_CHECKING:
    from domadapt.inference.model import Model

Maps = NDArray[np.float32]  # (heads, pieces or words, the same), attending one in rows
Array = NDArray[np.float64]
Places = NDArray[np.int64]
Grid = tuple[tuple[float, ...], ...]  # rows of numbers as a file holds them
LEAST = 0.1  # share of a word's attention that is drawn


@dataclass(frozen=True, slots=True)
class Attention:
    """One head's attention over texts.

    Attributes:
        layer: counted from 0: the last one that syntax was put into, else the last.
        head: counted from 0: the one of that layer that puts most attention on the words' syntactic heads.
        heads: how many the layer has.
        weights: per text (words, words), attending word in rows; what a row lacks to 1 goes to special pieces.
    """

    layer: int
    head: int
    heads: int
    weights: tuple[Maps, ...]


def read_attention(loaded: "Model", layer: int | None, texts: Sequence[str], parses: Sequence[Parse]) -> Attention:
    """Read a loaded model's attention.

    Args:
        loaded: on the CPU, in float32.
        layer: counted from 0; None for the last one with a hook, else the last.
    """
    session, encoder = loaded.session, loaded.session.encoder
    words = [parse.words for parse in parses]
    trees = parses if loaded.parses else None
    examples, _ = encode(texts, words, encoder.tokenizer, session.max_pieces, trees)
    at = max(encoder.attention_hooks, default=len(encoder.attention_layers()) - 1) if layer is None else layer
    with torch.no_grad(), recorded(encoder, [at]) as kept:
        encoder(session.collator(examples))
    pieces = kept[0].numpy()
    every = [by_words(pieces[i], e.alignment.piece_words(), len(words[i])) for i, e in enumerate(examples)]
    head = most_syntactic(every, parses)
    return Attention(at, head, pieces.shape[1], tuple(weights[head] for weights in every))


def syntax_layer(model: Path) -> int | None:
    """The last layer that an injection trained and left behind in stock weights; None where none says its layer."""
    description = json.loads((model / "domadapt.json").read_text(encoding="utf-8"))
    trained: list[Any] = []
    for config in description.get("left_behind", {}).values():
        heads = config.get("heads")
        trained += heads if isinstance(heads, list) else [config]
    layers = [one.get("layer") for one in trained if isinstance(one, dict)]
    return max((layer for layer in layers if isinstance(layer, int) and layer >= 0), default=None)


@contextmanager
def recorded(encoder: Any, layers: Iterable[int]) -> Iterator[list[Any]]:
    """Within it, weights of these layers of an encoder are kept, in their order; whoever reads them clears the list."""
    kept: list[Any] = []
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(encoder.hooked(layer, keeper(kept)))
        yield kept


def keeper(kept: list[Any]) -> Callable[[Any], Any]:
    """A hook that appends a layer's weights, (batch, heads, pieces, pieces), at each call.

    Attention is linear in its values, whatever computes it. With the identity for values, what comes out are the
    weights: of stock attention and of any injection's hook alike.
    """

    def keep(call: Any) -> Any:
        identity = torch.eye(call.key.shape[2], dtype=call.value.dtype, device=call.value.device)
        weights = call.inner(value=identity.expand(*call.key.shape[:3], -1), dropout=0.0)
        kept.append(weights.transpose(1, 2))
        return call.inner()

    return keep


def by_words(pieces: Maps, piece_words: Places, words: int) -> Maps:
    """(heads, words, words) from (heads, pieces, pieces): the mean of a word's pieces attends, the sum is attended.

    >>> weights = np.array([[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]], dtype=np.float32)
    >>> by_words(weights, np.array([0, 0, 1]), 2).tolist()
    [[[0.375, 0.625], [1.0, 0.0]]]
    """
    count = len(piece_words)  # the rest is padding
    membership = (piece_words[:, None] == np.arange(words)).astype(np.float32)
    rows = membership / np.maximum(membership.sum(0), 1)
    return np.asarray(rows.T @ pieces[:, :count, :count] @ membership)


def most_syntactic(weights: Sequence[Maps], parses: Sequence[Parse]) -> int:
    """The head with the highest mean attention from words to their syntactic heads."""
    pairs = [arcs(parse) for parse in parses]
    sums = [one[:, words, heads].sum(1) for one, (words, heads) in zip(weights, pairs, strict=True)]
    return int(np.sum(sums, axis=0).argmax())


def as_parse(weights: Maps, parse: Parse) -> tuple[Parse, int, int]:
    """Each word's most attended word drawn like its head, the weight in percent like the relation.

    Args:
        weights: (words, words) of one text.

    Returns:
        The drawing's arcs, how many words look most at their syntactic head, and of how many that have one.
    """
    best = weights.argmax(1).astype(np.int64) if len(weights) else np.zeros(0, dtype=np.int64)
    shares = zip(parse.relations, weights.max(1, initial=0.0), strict=True)
    names = tuple(SILENT if relation == SILENT or x < LEAST else f"{100 * x:.0f}" for relation, x in shares)
    words, heads = arcs(parse)
    return Parse(parse.words, best, names, parse.tags), int((best[words] == heads).sum()), len(words)


PATTERNS = ("vertical", "diagonal", "vertical and diagonal", "block", "heterogeneous")
LINES, EACH, BLOCK = 0.5, 0.2, 0.5
COLUMNS, SHORTEST = 2, 8


def patterns(maps: Maps, sentences: Places) -> Places:
    """(heads,) number of each map's pattern in :data:`PATTERNS`.

    Kovaleva, Romanov, Rogers and Rumshisky (2019), Revealing the Dark Secrets of BERT,
    https://arxiv.org/abs/1908.08593. There a network learnt them from 400 maps that people had sorted; here they follow
    from three shares of a map's attention, each less what even attention would put there, so that short texts look like
    long ones: v, on the two most attended pieces (in most maps [CLS], [SEP] or a full stop); d, of the rest, on each
    piece's neighbours and itself; b, on the piece's own sentence, of texts with several sentences, special pieces
    aside. Where v + d is at least a half, the map is vertical, diagonal, or both, if each of them is at least a fifth.
    Else it is a block where b is at least a half, and heterogeneous if not. Of fewer than eight pieces two are too many
    of all.

    Args:
        maps: (heads, pieces, pieces) of one text of at least :data:`SHORTEST` pieces, without padding.
        sentences: (pieces,) number of the sentence that a piece is in, -1 for special pieces.

    >>> [PATTERNS[i] for i in patterns(np.stack([np.eye(9), np.eye(9)[[0] * 9]]), np.zeros(9, np.int64))]
    ['diagonal', 'vertical']
    """
    lines = vertical_diagonal(maps)
    named = np.where(lines.min(0) >= EACH, 2, np.where(lines[0] > lines[1], 0, 1))
    rest = np.where(block(maps, sentences) >= BLOCK, 3, 4)
    return np.asarray(np.where(lines.sum(0) >= LINES, named, rest), dtype=np.int64)


def vertical_diagonal(maps: Maps) -> Array:
    """(2, heads) v and d."""
    size = maps.shape[-1]
    columns = np.argsort(-maps.sum(1), axis=-1, kind="stable")[:, :COLUMNS]  # (heads, columns)
    upright = np.zeros(maps.shape[::2], dtype=bool)  # (heads, pieces)
    np.put_along_axis(upright, columns, True, -1)
    near = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) <= 1
    beside = near[None] & ~upright[:, None, :]
    on_columns = np.take_along_axis(maps, columns[:, None, :], -1).sum(-1).mean(-1)
    on_lines = (maps * beside).sum(-1).mean(-1)
    even, even_lines = COLUMNS / size, beside.mean((1, 2))
    d = beyond(on_lines / np.maximum(1 - on_columns, 1e-9), even_lines / (1 - even)) * (1 - on_columns)
    return np.stack([beyond(on_columns, even), d])


def block(maps: Maps, sentences: Places) -> Array:
    """(heads,) b; 0 of one sentence."""
    inside = sentences >= 0
    if len(np.unique(sentences[inside])) < 2:
        return np.zeros(len(maps))
    inner = maps[:, inside][:, :, inside]
    inner = inner / np.maximum(inner.sum(-1, keepdims=True), 1e-9)
    same = sentences[inside][:, None] == sentences[inside]
    return beyond((inner * same).sum(-1).mean(-1), same.mean())


def beyond(share: Any, even: Any) -> Array:
    """A share, less what even attention would give: from 0 (that, or less) to 1 (all there is).

    >>> beyond(0.5, 0.25).round(2).item(), beyond(0.1, 0.25).item()
    (0.33, 0.0)
    """
    return np.asarray(np.clip((share - even) / np.maximum(1 - even, 1e-9), 0.0, 1.0), dtype=np.float64)


def sentences_of(piece_words: Places, heads: Places) -> Places:
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


REACH = 10  # words that an offset may span
ALL = "all"  # relations together
FEWEST = 20  # words of a relation that an accuracy is told of
DIRECTIONS = ("to", "from")  # the word attends to its head; the head attends to the word
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
    """Heads as parsers, counted over texts, by relation: how often the most attended word is the syntactic head.

    Clark, Khandelwal, Levy and Manning (2019), What Does BERT Look At?, https://arxiv.org/abs/1906.04341. A head is
    read in both directions: a word points to its syntactic head, or is pointed to by it. What it is measured against is
    the best fixed offset, such as 'the next word', of the same relation.

    Attributes:
        words: that have the relation to another word.
        offsets: (offsets,) how many have their head at each of :data:`OFFSETS`.
        hits: (directions, heads of all layers) how many of them each head finds.
    """

    words: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, Places] = field(default_factory=dict)
    hits: dict[str, Places] = field(default_factory=dict)

    def add(self, weights: Maps, parse: Parse, read: NDArray[np.bool_]) -> None:
        """Count one text.

        Args:
            weights: (heads, words, words) attention between words.
            read: (words,) of which a piece is left.
        """
        chosen, heads = arcs(parse, read)
        hits = np.stack([pointed(weights, chosen) == heads, pointed(weights.transpose(0, 2, 1), chosen) == heads])
        apart = (heads - chosen)[None] == np.array(OFFSETS)[:, None]
        names = np.array(parse.relations)[chosen]
        for name in (*np.unique(names).tolist(), ALL):
            mask = np.ones(len(chosen), dtype=bool) if name == ALL else names == name
            self.words[name] = self.words.get(name, 0) + int(mask.sum())
            self.hits[name] = self.hits.get(name, 0) + hits[..., mask].sum(-1)
            self.offsets[name] = self.offsets.get(name, 0) + apart[:, mask].sum(-1)

    def shares(self, counted: Mapping[str, Places], relation: str) -> Array | None:
        """Of hits or offsets, the shares of the relation's words; None of too few."""
        words = self.words.get(relation, 0)
        return np.asarray(counted[relation] / words) if words >= FEWEST else None


def pointed(weights: Maps, words: Places) -> Places:
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
    grid: dict[str, Grid]


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
    counted = next(iter(tallies.values()))["source"].words
    names = [name for name, count in counted.items() if count >= FEWEST]
    names.sort(key=lambda name: (name != ALL, -counted[name]))
    relations = tuple(_relation(name, tallies, layers) for name in names)
    return Heads(relations, layers, next((len(rows[0]) for r in relations for rows in r.grid.values()), 0))


def _relation(name: str, tallies: Mapping[str, Mapping[str, Tally]], layers: int) -> Relation:
    sides = next(iter(tallies.values()))
    offsets = {side: tally.shares(tally.offsets, name) for side, tally in sides.items()}
    offset = int(np.argmax(_known(offsets["source"])))
    best, by_layer, grid = {}, {}, {}
    for model, by_side in tallies.items():
        shares = {side: tally.shares(tally.hits, name) for side, tally in by_side.items()}
        shaped = {side: None if x is None else x.reshape(2, layers, -1) for side, x in shares.items()}
        source = _known(shaped["source"])
        by_layer[model] = tuple(_best(shaped, source, layer) for layer in range(layers))
        best[model] = max(by_layer[model], key=lambda one: one.accuracy["source"] or 0.0)
        grid[model] = rounded(source.max(0))
    return Relation(
        name,
        {side: tally.words.get(name, 0) for side, tally in sides.items()},
        OFFSETS[offset],
        {side: None if x is None else round(float(x[offset]), 4) for side, x in offsets.items()},
        best,
        by_layer,
        grid,
    )


def _best(shares: Mapping[str, Array | None], source: Array, layer: int) -> Best:
    """Of (directions, layers, heads) shares."""
    direction, head = np.unravel_index(source[:, layer].argmax(), source[:, layer].shape)
    accuracy = {s: None if x is None else round(float(x[direction, layer, head]), 4) for s, x in shares.items()}
    return Best(layer, int(head), DIRECTIONS[int(direction)], accuracy)


def _known(shares: Array | None) -> Array:
    assert shares is not None, "relations are those that the source has enough of"
    return shares


@dataclass(frozen=True, slots=True)
class Patterns:
    """Shares of the five patterns.

    Attributes:
        shares: by side and model, (layers, patterns) of all maps of a layer, patterns as :data:`PATTERNS` names them.
        several: by side, texts of several sentences: only theirs can be blocks.
        texts: by side, those long enough for a pattern.
    """

    shares: dict[str, dict[str, Grid]]
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

    maps: dict[str, Grid] | None
    weights: dict[str, float] | None


def read_maps(subject: Subject) -> tuple[Heads, Patterns, Change]:
    """Read both sides' texts once with both models: heads against relations, patterns, and what changed.

    Raises:
        ValueError: the two have not the same number of heads.
    """
    tallies: dict[str, dict[str, Tally]] = {model: {} for model in MODELS}
    shares, cosines, several, texts = (
        dict[str, dict[str, Grid]](),
        dict[str, Grid](),
        dict[str, int](),
        dict[str, int](),
    )
    layers = len(subject.after.encoder.attention_layers())
    for side, given in subject.sides().items():
        for model in MODELS:
            tallies[model][side] = Tally()
        counts, cosine, long, split = np.zeros((2, 0, len(PATTERNS))), np.zeros(0), 0, 0
        for example, maps in stream(subject, given.examples, f"{side} attention"):
            if not counts.size:
                counts, cosine = np.zeros((2, len(maps[0]), len(PATTERNS))), np.zeros(len(maps[0]))
            assert example.parse is not None
            piece_words = example.alignment.piece_words()
            sentences = sentences_of(piece_words, example.parse.heads)
            sized = len(sentences) >= SHORTEST
            long, split = long + sized, split + (sized and len({*sentences.tolist()} - {-1}) > 1)
            for place, (model, one) in enumerate(zip(MODELS, maps, strict=True)):
                words = by_words(one, piece_words, len(example.words))
                tallies[model][side].add(words, example.parse, example.alignment.word_first_pieces() >= 0)
                if sized:
                    counts[place, np.arange(len(one)), patterns(one, sentences)] += 1
            cosine += cosine_of(*maps)
        by_layer = counts.reshape(2, layers, -1, len(PATTERNS)).mean(2) / max(long, 1) if counts.size else counts
        shares[side] = {model: rounded(by_layer[place]) for place, model in enumerate(MODELS)}
        cosines[side] = rounded(cosine.reshape(layers, -1) / max(len(given.examples), 1))
        several[side], texts[side] = split, long
    change = Change(cosines, weight_change(subject.before, subject.after))
    return heads_of(tallies, layers), Patterns(shares, several, texts), change


def stream(subject: Subject, examples: list[Example], title: str) -> Iterator[tuple[Example, list[Maps]]]:
    """Each text with both models' maps, (heads of all layers, pieces, pieces) without padding; memory stays flat."""
    if not examples:
        return
    loader = in_order(examples, subject.after.collator, subject.batch_size)
    sessions = subject.before, subject.after
    with torch.no_grad(), ExitStack() as stack:
        lists = [
            stack.enter_context(recorded(session.encoder, range(len(session.encoder.attention_layers()))))
            for session in sessions
        ]
        for batch in progress(loader, title, len(loader), "batch"):
            both: list[Maps] = []
            for session, kept in zip(sessions, lists, strict=True):
                kept.clear()
                session.encoder(batch.to(session.device))
                both.append(torch.cat(kept, dim=1).float().cpu().numpy())
            if both[0].shape != both[1].shape:
                raise ValueError(f"model={subject.name}: has {both[1].shape[1]} heads, {subject.backbone} has "
                                 f"{both[0].shape[1]}: the two can't be compared head by head")  # fmt: skip
            for row, place in enumerate(batch.index.tolist()):
                count = len(examples[place].input_ids)
                yield examples[place], [maps[row, :, :count, :count] for maps in both]


def cosine_of(before: Maps, after: Maps) -> Array:
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
        parts = [
            {"embeddings": s.encoder.base.get_input_embeddings()}
            | {f"layer {i}": layer for i, layer in enumerate(s.encoder.layers())}
            for s in (before, after)
        ]
    except UnreadableLayer:
        return None
    return {name: relative(part, parts[1][name]) for name, part in parts[0].items()}


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


def rounded(values: Array) -> Grid:
    """Rows of numbers as a file holds them."""
    return tuple(tuple(round(float(x), 4) for x in row) for row in values)
