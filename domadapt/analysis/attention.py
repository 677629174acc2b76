"""Attention: read from a model, and against trees."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from domadapt.analysis.subject import MODELS, Subject, arcs
from domadapt.data.batches import Example, encode, in_order
from domadapt.inference.description import read_description
from domadapt.methods.session import Session
from domadapt.syntax.parser import PUNCTUATION, Parse
from domadapt.utils.work import progress

Maps = NDArray[np.float32]  # (heads, pieces or words, the same), attending one in rows
Places = NDArray[np.int64]
DRAWN_FROM = 0.1  # share of a word's attention that is drawn


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of a layer's head that puts most of it on the words' syntactic heads; both are counted from 0."""

    layer: int
    head: int
    weights: Maps  #: (words, words), attending word in rows; what a row lacks to 1 goes to special pieces


def read_attention(session: Session, layer: int | None, text: str, parse: Parse) -> Attention:
    """Attention of a loaded model on the CPU, in a layer; with None in the last one with a hook, else the last."""
    encoder, trees = session.encoder, [parse] if session.parses_at_prediction else None
    [example], _ = encode([text], [parse.words], encoder.tokenizer, session.max_length, trees)
    at = max(encoder.attention_hooks, default=len(encoder.attention_layers()) - 1) if layer is None else layer
    with torch.no_grad(), record_weights(encoder, [at]) as weights:
        encoder(session.collator([example]))
    maps = word_maps(weights[0][0].numpy(), example.alignment.piece_words(), len(parse.words))
    head = most_syntactic(maps, parse)
    return Attention(at, head, maps[head])


def syntax_layer(model: Path) -> int | None:
    """The last layer that an injection trained and left behind in stock weights; None where none says its layer."""
    trained: list[Any] = []
    for config in read_description(model).left_behind.values():
        heads = config.get("heads")
        trained += heads if isinstance(heads, list) else [config]
    layers = [entry.get("layer") for entry in trained if isinstance(entry, dict)]
    return max((layer for layer in layers if isinstance(layer, int) and layer >= 0), default=None)


@contextmanager
def record_weights(encoder: Any, layers: Iterable[int]) -> Iterator[list[Any]]:
    """Within it, weights of these layers of an encoder are kept, in their order; whoever reads them clears the list."""
    layer_weights: list[Any] = []

    def keep(call: Any) -> Any:
        # Attention is linear in its values, whatever computes it. With the identity for values, what comes out are the
        # weights, (batch, heads, pieces, pieces): of stock attention and of any injection's hook alike.
        identity = torch.eye(call.key.shape[2], dtype=call.value.dtype, device=call.value.device)
        weights = call.inner(value=identity.expand(*call.key.shape[:3], -1), dropout=0.0)
        layer_weights.append(weights.transpose(1, 2))
        return call.inner()

    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(encoder.hooked(layer, keep))
        yield layer_weights


def word_maps(pieces: Maps, piece_words: Places, words: int) -> Maps:
    """(heads, words, words) from (heads, pieces, pieces): the mean of a word's pieces attends, the sum is attended.

    >>> weights = np.array([[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]], dtype=np.float32)
    >>> word_maps(weights, np.array([0, 0, 1]), 2).tolist()
    [[[0.375, 0.625], [1.0, 0.0]]]
    """
    count = len(piece_words)  # the rest is padding
    membership = (piece_words[:, None] == np.arange(words)).astype(np.float32)
    rows = membership / np.maximum(membership.sum(0), 1)
    return np.asarray(rows.T @ pieces[:, :count, :count] @ membership)


def most_syntactic(weights: Maps, parse: Parse) -> int:
    """The head with the highest mean attention from words to their syntactic heads."""
    words, heads = arcs(parse)
    return int(weights[:, words, heads].sum(1).argmax())


def as_parse(weights: Maps, parse: Parse) -> tuple[Parse, int, int]:
    """Each word's most attended other word, by (words, words) weights, drawn like its head, its percentage like a
    relation.

    And how many words look more at their syntactic head than at any other word, of how many that have one and are read:
    a word that was cut off looks at nothing.

    >>> parse = Parse(np.array([[0, 3], [4, 9]]), np.array([1, 1]), ("det", "ROOT"), ("", ""))
    >>> seen, agree, of = as_parse(np.array([[0.7, 0.2], [0.1, 0.4]], np.float32), parse)
    >>> seen.heads.tolist(), seen.relations, agree, of
    ([1, 0], ('20', '10'), 1, 1)
    """
    best = most_attended(weights[None], np.arange(len(weights)))[0]
    shares = weights[np.arange(len(weights)), best]
    names = tuple(
        PUNCTUATION if relation == PUNCTUATION or share < DRAWN_FROM else f"{100 * share:.0f}"
        for relation, share in zip(parse.relations, shares, strict=True)
    )
    words, heads = arcs(parse, weights.max(1, initial=0.0) > 0)
    return Parse(parse.words, best, names, parse.tags), int((best[words] == heads).sum()), len(words)


REACH = 10  # words that an offset may span
ALL = "all"  # relations together
FEWEST_WORDS = 20  # words of a relation that an accuracy is told of
DIRECTIONS = ("to", "from")  # the word attends to its head; the head attends to the word
OFFSETS = tuple(offset for offset in range(-REACH, REACH + 1) if offset)


@dataclass(slots=True)
class Tally:
    """Heads as parsers, counted over texts, by relation: how often the most attended word is the syntactic head.

    Clark, Khandelwal, Levy and Manning (2019), What Does BERT Look At?, https://arxiv.org/abs/1906.04341. A head is
    read in both directions: a word points to its syntactic head, or is pointed to by it. What it is measured against is
    the best fixed offset, such as 'the next word', of the same relation.
    """

    words: dict[str, int] = field(default_factory=dict)  #: that have the relation to another word
    offsets: dict[str, Places] = field(default_factory=dict)  #: how many have their head at each of OFFSETS
    hits: dict[str, Places] = field(default_factory=dict)  #: (directions, heads of all layers) that each head finds

    def add(self, weights: Maps, parse: Parse, read: NDArray[np.bool_]) -> None:
        """Count one text: (heads, words, words) attention; (words,) of which words a piece is left."""
        chosen, heads = arcs(parse, read)
        hits = np.stack([most_attended(maps, chosen) == heads for maps in (weights, weights.transpose(0, 2, 1))])
        apart = (heads - chosen)[None] == np.array(OFFSETS)[:, None]
        names = np.array(parse.relations)[chosen]
        for name in (*np.unique(names).tolist(), ALL):
            mask = np.ones(len(chosen), dtype=bool) if name == ALL else names == name
            self.words[name] = self.words.get(name, 0) + int(mask.sum())
            self.hits[name] = self.hits.get(name, 0) + hits[..., mask].sum(-1)
            self.offsets[name] = self.offsets.get(name, 0) + apart[:, mask].sum(-1)

    def share(self, counted: Mapping[str, Places], relation: str, place: int) -> float | None:
        """Of hits or offsets, one's share of the relation's words; None of too few."""
        words = self.words.get(relation, 0)
        return round(float(counted[relation].ravel()[place] / words), 4) if words >= FEWEST_WORDS else None


def most_attended(weights: Maps, words: Places) -> Places:
    """(heads, words) the other word that each of these words attends to most."""
    rows = weights[:, words].copy()
    rows[:, np.arange(len(words)), words] = -1.0  # a word is not its own head
    return np.asarray(rows.argmax(-1), dtype=np.int64) if rows.shape[-1] else np.zeros(rows.shape[:2], np.int64)


@dataclass(frozen=True, slots=True)
class Best:
    """A head, the best for a relation on source text, and how often it is right."""

    layer: int
    head: int
    direction: str  #: of DIRECTIONS
    accuracy: dict[str, float | None]  #: by side; None where it has too few words of the relation


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation, as the parser calls it."""

    name: str
    words: dict[str, int]  #: by side
    offset: int  #: the best on source text: 1 is the next word
    offset_accuracy: dict[str, float | None]  #: by side
    best: dict[str, Best]  #: by model, over all layers


def heads_of(tallies: Mapping[str, Mapping[str, Tally]], layers: int) -> tuple[Relation, ...]:
    """What the best heads on source text do, by relation, the commonest first; tallies are by model and side."""
    sides, relations = next(iter(tallies.values())), list[Relation]()
    counted = sides["source"].words
    for name in sorted(counted, key=lambda name: (name != ALL, -counted[name])):
        if counted[name] < FEWEST_WORDS:
            continue
        best = {}
        for model, by_side in tallies.items():
            source = by_side["source"].hits[name].reshape(2, layers, -1)
            place = int(source.argmax())
            direction, layer, head = np.unravel_index(place, source.shape)
            accuracy = {side: tally.share(tally.hits, name, place) for side, tally in by_side.items()}
            best[model] = Best(int(layer), int(head), DIRECTIONS[int(direction)], accuracy)
        words = {side: tally.words.get(name, 0) for side, tally in sides.items()}
        offset = int(sides["source"].offsets[name].argmax())
        right = {side: tally.share(tally.offsets, name, offset) for side, tally in sides.items()}
        relations.append(Relation(name, words, OFFSETS[offset], right, best))
    return tuple(relations)


def read_heads(subject: Subject) -> tuple[Relation, ...]:
    """Read both sides' texts once with both models: heads against relations."""
    tallies = {model: {side: Tally() for side in subject.sides()} for model in MODELS}
    for side, given in subject.sides().items():
        for example, maps in attention_maps(subject, given.examples, f"{side} attention"):
            assert example.parse is not None
            piece_words, read = example.alignment.piece_words(), example.alignment.word_first_pieces() >= 0
            for model, model_maps in zip(MODELS, maps, strict=True):
                tallies[model][side].add(word_maps(model_maps, piece_words, len(example.words)), example.parse, read)
    return heads_of(tallies, len(subject.after.encoder.attention_layers()))


def attention_maps(subject: Subject, examples: list[Example], title: str) -> Iterator[tuple[Example, list[Maps]]]:
    """Each text with both models' maps, (heads of all layers, pieces, pieces) without padding; memory stays flat."""
    loader = in_order(examples, subject.after.collator, subject.batch_size)
    sessions = subject.before, subject.after
    with torch.no_grad(), ExitStack() as stack:
        encoders = [(session.encoder, len(session.encoder.attention_layers())) for session in sessions]
        lists = [stack.enter_context(record_weights(encoder, range(layers))) for encoder, layers in encoders]
        for batch in progress(loader, title, len(loader), "batch"):
            both: list[Maps] = []
            for session, weights in zip(sessions, lists, strict=True):
                weights.clear()
                session.encoder(batch.to(session.device))
                both.append(torch.cat(weights, dim=1).float().cpu().numpy())
            if both[0].shape != both[1].shape:
                raise ValueError(f"model={subject.name}: has {both[1].shape[1]} heads, {subject.backbone} has "
                                 f"{both[0].shape[1]}: the two can't be compared head by head")  # fmt: skip
            for row, place in enumerate(batch.index.tolist()):
                count = len(examples[place].input_ids)
                yield examples[place], [maps[row, :, :count, :count] for maps in both]
