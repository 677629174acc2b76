"""Batches: texts as pieces, padded and collated; in length buckets, in steps of source and target, or once each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from domadapt.runs.metrics import Truncation
from domadapt.syntax.alignment import IGNORED, Alignment, IntArray, align, first_words, pool_words
from domadapt.syntax.parser import Parse
from domadapt.syntax.trees import UNKNOWN, tree_edges
from domadapt.utils.pairs import parts

PIECE_MULTIPLE = 4  # pad to a multiple: 8 makes a step a tenth longer, 1 many shapes with a set-up each in bf16
BUCKET = 32  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class Example:
    """One tokenised text. Built by :func:`encode`, put into batches by :class:`Collator`."""

    index: int  #: its place in its list
    text: str
    domain: str
    input_ids: list[int]  #: of its pieces
    words: IntArray  #: (words, 2) character ranges
    alignment: Alignment  #: of pieces and words
    parse: Parse | None = None  #: whose words are ``words``
    label: int | None = None  #: its class, for sequence tasks
    word_tags: IntArray | None = None  #: (words,) class of each word, for token tasks
    cut: bool = False  #: whether its end is not read
    segments: list[int] | None = None  #: which text of a pair each piece is of, 0 or 1; None of a single text

    def word(self, number: int) -> str:
        start, end = self.words[number]
        return self.text[start:end]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of a batch. Its words, without padding, are the graph's nodes; what trees give is None without parses."""

    input_ids: Tensor  #: (batch, pieces) piece ids
    attention_mask: Tensor  #: (batch, pieces) 1 for pieces, 0 for padding
    index: Tensor  #: (batch,) position of each text in its list
    words: Tensor  #: (batch,) number of words of each text
    pair_pieces: Tensor  #: (pairs,) index into the flattened (batch * pieces) of each piece-word pair
    pair_nodes: Tensor  #: (pairs,) node of each pair
    node_first_piece: Tensor  #: (nodes,) index into the flattened pieces of each word's first piece; -1 if truncated
    token_type_ids: Tensor | None = None  #: (batch, pieces) 1 for pieces of the second text of a pair; None without
    labels: Tensor | None = None  #: (batch,) class of each text, for sequence tasks
    word_tags: Tensor | None = None  #: (nodes,) class of each word, for token tasks; -100 for truncated words
    piece_heads: Tensor | None = None  #: (batch, pieces) piece to attend to; -100 where undefined
    word_heads: Tensor | None = None  #: (nodes,) head node of each word, a root's being itself
    relations: Tensor | None = None  #: (nodes,) relation id of each word
    edge_index: Tensor | None = None  #: (2, edges) between nodes
    edge_type: Tensor | None = None  #: (edges,) see :func:`domadapt.syntax.trees.tree_edges`
    extra: dict[str, Tensor] = field(default_factory=dict)  #: the methods' own tensors, by ``method/name``

    def node_places(self) -> tuple[Tensor, Tensor]:
        """(nodes,) row of each word's text in the batch, and (nodes,) number of the word in its text."""
        texts = torch.repeat_interleave(self.words)
        starts = self.words.cumsum(0) - self.words
        return texts, torch.arange(len(texts), device=self.words.device) - starts[texts]

    def piece_words(self) -> Tensor:
        """(batch, pieces) number, in its text, of each piece's first word; -1 for special pieces and whitespace."""
        _, numbers = self.node_places()
        return first_words(self.pair_pieces, numbers[self.pair_nodes], self.input_ids.numel()).view_as(self.input_ids)

    def word_states(self, states: Tensor) -> Tensor:
        """(nodes, width) mean of each word's pieces of (batch, pieces, width) states; zeros for a word without one."""
        return pool_words(states, self.pair_pieces, self.pair_nodes, len(self.node_first_piece))

    def text_states(self, states: Tensor) -> Tensor:
        """(batch, width) mean of each text's pieces, special ones included, of (batch, pieces, width) states."""
        mask = self.attention_mask.unsqueeze(-1).to(states.dtype)
        return (states * mask).sum(1) / mask.sum(1)

    def tree(self) -> Tensor:
        """(batch, most words) number, in its text, of each word's head; padding words are roots: their own heads."""
        if self.word_heads is None:
            raise ValueError("these texts came without parses, which a method of this model reads; parse them first")
        texts, numbers = self.node_places()
        starts = self.words.cumsum(0) - self.words
        most = max(1, int(self.words.max()))
        roots = torch.arange(most, device=self.words.device).repeat(len(self.words), 1)
        return roots.index_put((texts, numbers), self.word_heads - starts[texts])

    def to(self, device: torch.device | str) -> "Batch":
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **moved, extra={name: value.to(device) for name, value in self.extra.items()})


def encode(
    texts: Sequence[str],
    words: Sequence[IntArray],
    tokenizer: Any,
    max_length: int,
    parses: Sequence[Parse] | None = None,
    labels: Sequence[int] | None = None,
    word_tags: Sequence[IntArray] | None = None,
    domains: Sequence[str] | None = None,
) -> tuple[list[Example], Truncation]:
    """Tokenise texts and align their pieces with words: examples in order, and what was cut off.

    Pairs are in the tokenizer's own form, the longer text being cut first.
    """
    if not texts:
        return [], Truncation()
    ranges = [parts(text) for text in texts]
    pairs = len(ranges[0]) == 2
    sides = [[text[slice(*ends[side])] for text, ends in zip(texts, ranges, strict=True)] for side in range(1 + pairs)]
    encoded = tokenizer(*sides, truncation=True, max_length=max_length, return_offsets_mapping=True)
    examples, lost, none = [], Truncation(), [None] * len(texts)
    by_text = zip(ranges, parses or none, labels or none, word_tags or none, strict=True)
    for i, (ends, parse, label, tags) in enumerate(by_text):
        offsets = np.asarray(encoded["offset_mapping"][i], dtype=np.int64).reshape(-1, 2)
        segments = [int(side == 1) for side in encoded.sequence_ids(i)] if pairs else None
        if segments is not None:  # special pieces between and behind have no characters, and go with the second text
            offsets = offsets + ends[1][0] * np.array(segments)[:, None]
            segments = list(encoded["token_type_ids"][i]) if "token_type_ids" in encoded else segments
        alignment = align(offsets, words[i])
        if cut := bool(encoded.encodings[i].overflowing):
            lost.texts += 1
            lost.words += int((alignment.word_first_pieces() < 0).sum())
        ids, domain = encoded["input_ids"][i], domains[i] if domains is not None else ""
        examples.append(Example(i, texts[i], domain, ids, words[i], alignment, parse, label, tags, cut, segments))
    return examples, lost


class Collator:
    """Examples to a :class:`Batch`; ``relations``, ids of their names, are needed when examples carry parses."""

    def __init__(self, pad_id: int, relations: dict[str, int] | None = None) -> None:
        self.pad_id = pad_id
        self.relations = relations or {}
        self.extras: dict[str, Callable[[Sequence[Example]], dict[str, Tensor]]] = {}  # add tensors, by owner

    def __call__(self, examples: Sequence[Example]) -> Batch:
        """Pad, flatten words into graph nodes, and build edges."""
        longest = max(len(e.input_ids) for e in examples)
        width = -(-longest // PIECE_MULTIPLE) * PIECE_MULTIPLE
        words = np.array([e.alignment.words for e in examples], dtype=np.int64)
        starts = np.cumsum(words) - words  # first node of each text
        pair_pieces = [e.alignment.pair_pieces + row * width for row, e in enumerate(examples)]
        pair_nodes = [e.alignment.pair_words + start for e, start in zip(examples, starts, strict=True)]
        pieces = [e.alignment.word_first_pieces() for e in examples]
        firsts = [np.where(first >= 0, first + row * width, -1) for row, first in enumerate(pieces)]
        arrays: dict[str, IntArray] = {
            "input_ids": padded([e.input_ids for e in examples], width, self.pad_id),
            "attention_mask": padded([[1] * len(e.input_ids) for e in examples], width, 0),
            "index": np.array([e.index for e in examples], dtype=np.int64),
            "words": words,
            "pair_pieces": np.concatenate(pair_pieces),
            "pair_nodes": np.concatenate(pair_nodes),
            "node_first_piece": np.concatenate(firsts),
        }
        if any(e.segments is not None for e in examples):
            arrays["token_type_ids"] = padded([e.segments or [] for e in examples], width, 0)
        if all(e.label is not None for e in examples):
            arrays["labels"] = np.array([e.label for e in examples], dtype=np.int64)
        if all(e.word_tags is not None for e in examples):  # a mixed batch is an unlabelled one
            tags = np.concatenate([e.word_tags for e in examples if e.word_tags is not None])
            arrays["word_tags"] = np.where(arrays["node_first_piece"] >= 0, tags, IGNORED)
        if all(e.parse is not None for e in examples):
            arrays |= self._syntax(examples, starts, width)
        extra = {f"{owner}/{name}": x for owner, make in self.extras.items() for name, x in make(examples).items()}
        for name, value in extra.items():
            if not isinstance(value, Tensor):
                owner, _, tensor = name.partition("/")
                raise ValueError(f"{owner}.collate(): {tensor}={value!r:.60}; expected a tensor")
        tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
        return Batch(**tensors, extra=extra)

    def _syntax(self, examples: Sequence[Example], starts: IntArray, width: int) -> dict[str, IntArray]:
        parses = [e.parse for e in examples if e.parse is not None]
        piece_heads = [e.alignment.piece_heads(parse.heads) for e, parse in zip(examples, parses, strict=True)]
        ids = [np.array([self.relations.get(name, UNKNOWN) for name in p.relations], dtype=np.int64) for p in parses]
        edge_index, edge_type = tree_edges([p.heads for p in parses], ids, len(self.relations))
        return {
            "piece_heads": padded(piece_heads, width, IGNORED),
            "word_heads": np.concatenate([p.heads + s for p, s in zip(parses, starts, strict=True)]),
            "relations": np.concatenate(ids),
            "edge_index": edge_index,
            "edge_type": edge_type,
        }


def padded(rows: Sequence[Sequence[int] | IntArray], width: int, value: int) -> IntArray:
    """(rows, width) of rows of numbers, with a value behind each."""
    array = np.full((len(rows), width), value, dtype=np.int64)
    for whole, row in zip(array, rows, strict=True):
        whole[: len(row)] = row
    return array


@dataclass(frozen=True, slots=True)
class StepBatches:
    """One training step's batches: labelled text, and unlabelled target text where a method reads it."""

    source: Batch
    target: Batch | None = None
    source_weight: float = 1.0  #: what losses on this process's share count for (:func:`share_of`)
    target_weight: float = 1.0  #: likewise

    def to(self, device: torch.device | str) -> "StepBatches":
        return replace(self, source=self.source.to(device), target=self.target.to(device) if self.target else None)


class BucketSampler(Sampler[list[int]]):
    """Batches of like length in random order, the same for the same seed and epoch.

    Texts are shuffled, cut into runs of ``BUCKET`` batches, sorted by length within a run; then batches are shuffled.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0  #: whose order comes next

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self.seed, self.epoch])
        order = random.permutation(len(self.lengths))
        run = self.batch_size * BUCKET
        batches = []
        for start in range(0, len(order), run):
            part = order[start : start + run]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += [part[i : i + self.batch_size].tolist() for i in range(0, len(part), self.batch_size)]
        for index in random.permutation(len(batches)):
            yield batches[index]


class StepLoader:
    """Pairs each source batch with the next batch of an endless stream of target text.

    Of several processes that train together, each gets its share of a batch (:func:`share_of`). An epoch goes over the
    source once, or in several ``passes``. The target stream goes on from where the last epoch left it, reshuffled at
    each of its ends. Both follow from the next ``epoch``'s number alone: a resumed run sees what it would have seen.
    ``augment`` gives a pass's source examples, counted from 0, in place of ``source``: as many, of other text.
    """

    def __init__(
        self,
        source: Sequence[Example],
        target: Sequence[Example] | None,
        collator: Collator,
        batch_size: int,
        target_batch_size: int,
        seed: int,
        augment: Callable[[int], Sequence[Example]] | None = None,
        passes: int = 1,
    ) -> None:
        self.passes = passes
        self.source, self.target, self.collator, self.augment = source, target or (), collator, augment
        self.batch_size, self.seed = batch_size, seed
        self.target_sampler = BucketSampler([len(e.input_ids) for e in self.target], target_batch_size, seed + 1)
        self.epoch = 0

    def __len__(self) -> int:
        return self.passes * -(-len(self.source) // self.batch_size)

    def __iter__(self) -> Iterator[StepBatches]:
        ranks = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank, world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if ranks else (0, 1)
        target = self._target_batches(self.epoch * len(self))
        whole = self.source[0].word_tags is None  # texts, not words, are classified
        for chosen in self._source_batches():
            source, source_weight = share_of(chosen, rank, world, whole)
            texts, weight = share_of(next(target), rank, world, whole) if self.target else ([], 1.0)
            yield StepBatches(self.collator(source), self.collator(texts) if texts else None, source_weight, weight)

    def _source_batches(self) -> Iterator[list[Example]]:
        for number in range(self.epoch * self.passes, (self.epoch + 1) * self.passes):
            examples = self.augment(number) if self.augment else self.source
            sampler = BucketSampler([len(e.input_ids) for e in examples], self.batch_size, self.seed)
            sampler.epoch = number
            for indices in sampler:
                yield [examples[i] for i in indices]

    def _target_batches(self, step: int) -> Iterator[list[Example]]:
        """The endless stream, from the batch of a step on."""
        done, skipped = divmod(step, max(1, len(self.target_sampler)))
        for epoch in count(done):
            self.target_sampler.epoch = epoch
            for indices in islice(self.target_sampler, skipped, None):
                yield [self.target[i] for i in indices]
            skipped = 0


def share_of(examples: Sequence[Example], rank: int, world: int, whole: bool) -> tuple[list[Example], float]:
    """One process's part of a batch, and its weight.

    Losses are means over rows: words that have a piece, or where texts are classified, ``whole``, texts. Means over
    parts of unlike size, each times its part of the rows times the number of parts, have the mean over the whole batch
    as their mean. A process for which no text is left gets one that counts for nothing, because all must take part in
    every step.
    """
    if world == 1:
        return list(examples), 1.0
    share = list(examples[rank::world])
    if not share:
        return [examples[0]], 0.0
    rows = [1 if whole else int((example.alignment.word_first_pieces() >= 0).sum()) for example in examples]
    return share, world * sum(rows[rank::world]) / max(1, sum(rows))


def in_order(examples: Sequence[Example], collator: Collator, batch_size: int) -> DataLoader[Any]:
    """Every example once, longest first: for evaluation and prediction, where results are put back by index."""
    order = sorted(range(len(examples)), key=lambda i: -len(examples[i].input_ids))
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return DataLoader(examples, batch_sampler=batches, collate_fn=collator)  # type: ignore[arg-type]
