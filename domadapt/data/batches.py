"""Texts to batches: tokenise once, sort into length buckets, pad, and build graph edges."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from domadapt.syntax.alignment import IGNORED, Alignment, IntArray, align
from domadapt.syntax.graphs import UNKNOWN, tree_edges
from domadapt.syntax.parser import Parse

PIECE_MULTIPLE = 8  # pad to a multiple of it: few distinct shapes, each of which costs a set-up in bf16
BUCKET = 32  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class Example:
    """One tokenised text. Built by :func:`encode`, put into batches by :class:`Collator`."""

    index: int
    input_ids: list[int]
    words: IntArray  # (words, 2) character ranges
    alignment: Alignment
    parse: Parse | None = None
    label: int | None = None
    word_tags: IntArray | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of a batch. Words are counted through the batch, without padding: they are the graph's nodes.

    Attributes:
        input_ids: (batch, pieces) piece ids.
        attention_mask: (batch, pieces) 1 for pieces, 0 for padding.
        index: (batch,) position of each text in its list.
        words: (batch,) number of words of each text.
        pair_pieces: (pairs,) index into the flattened (batch * pieces) of each piece-word pair.
        pair_nodes: (pairs,) node of each pair.
        node_first_piece: (nodes,) index into the flattened pieces of each word's first piece; -1 if truncated.
        labels: (batch,) class of each text, for sequence tasks.
        word_tags: (nodes,) class of each word, for token tasks; -100 for truncated words.
        piece_heads: (batch, pieces) piece to attend to; -100 where undefined. None without parses.
        word_heads: (nodes,) head node of each word, a root's being itself. None without parses.
        relations: (nodes,) relation id of each word. None without parses.
        edge_index: (2, edges) between nodes. None without parses.
        edge_type: (edges,) see :func:`domadapt.syntax.graphs.tree_edges`. None without parses.
    """

    input_ids: Tensor
    attention_mask: Tensor
    index: Tensor
    words: Tensor
    pair_pieces: Tensor
    pair_nodes: Tensor
    node_first_piece: Tensor
    labels: Tensor | None = None
    word_tags: Tensor | None = None
    piece_heads: Tensor | None = None
    word_heads: Tensor | None = None
    relations: Tensor | None = None
    edge_index: Tensor | None = None
    edge_type: Tensor | None = None

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value.to(device) for name, value in values.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Step:
    """One training step's batches: labelled text, and unlabelled target text where a method reads it.

    Attributes:
        source_weight: what the losses of this process's share count for, so that their mean over all processes is the
            loss of the whole batch; 1 with one process.
        target_weight: the same of the target batch.
    """

    source: Batch
    target: Batch | None = None
    source_weight: float = 1.0
    target_weight: float = 1.0

    def to(self, device: torch.device | str) -> "Step":
        """The same step on another device."""
        return replace(self, source=self.source.to(device), target=self.target.to(device) if self.target else None)


@dataclass(slots=True)
class Truncation:
    """What did not fit into ``max_pieces``: counted, never silent."""

    texts: int = 0
    words: int = 0


def encode(
    texts: Sequence[str],
    words: Sequence[IntArray],
    tokenizer: Any,
    max_pieces: int,
    parses: Sequence[Parse] | None = None,
    labels: Sequence[int] | None = None,
    word_tags: Sequence[IntArray] | None = None,
) -> tuple[list[Example], Truncation]:
    """Tokenise texts and align their pieces with words.

    Args:
        texts: the texts.
        words: per text (words, 2) character ranges.
        tokenizer: a fast tokenizer.
        max_pieces: longest sequence, special pieces included.
        parses: per text its parse, whose words are ``words``.
        labels: per text its class.
        word_tags: per text (words,) class of each word.

    Returns:
        Examples in order, and what was cut off.
    """
    if not texts:
        return [], Truncation()
    encoded = tokenizer(list(texts), truncation=True, max_length=max_pieces, return_offsets_mapping=True)
    examples, cut = [], Truncation()
    for i, (ids, offsets) in enumerate(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)):
        alignment = align(offsets, words[i])
        if encoded.encodings[i].overflowing:
            cut.texts += 1
            cut.words += int((alignment.word_first_pieces() < 0).sum())
        examples.append(
            Example(
                i,
                ids,
                words[i],
                alignment,
                parses[i] if parses is not None else None,
                labels[i] if labels is not None else None,
                word_tags[i] if word_tags is not None else None,
            )
        )
    return examples, cut


class Collator:
    """Examples to a :class:`Batch`.

    Args:
        pad_id: the tokenizer's padding id.
        relations: ids of relation names; needed when examples carry parses.
    """

    def __init__(self, pad_id: int, relations: dict[str, int] | None = None) -> None:
        self.pad_id = pad_id
        self.relations = relations or {}

    def __call__(self, examples: Sequence[Example]) -> Batch:
        """Pad, flatten words into graph nodes, and build edges."""
        longest = max(len(e.input_ids) for e in examples)
        width = -(-longest // PIECE_MULTIPLE) * PIECE_MULTIPLE
        ids = np.full((len(examples), width), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(examples), width), dtype=np.int64)
        for row, e in enumerate(examples):
            ids[row, : len(e.input_ids)] = e.input_ids
            mask[row, : len(e.input_ids)] = 1
        words = np.array([e.alignment.words for e in examples], dtype=np.int64)
        starts = np.cumsum(words) - words  # first node of each text
        pair_pieces = [e.alignment.pair_pieces + row * width for row, e in enumerate(examples)]
        pair_nodes = [e.alignment.pair_words + start for e, start in zip(examples, starts, strict=True)]
        firsts = []
        for row, e in enumerate(examples):
            first = e.alignment.word_first_pieces()
            firsts.append(np.where(first >= 0, first + row * width, -1))
        arrays: dict[str, IntArray] = {
            "input_ids": ids,
            "attention_mask": mask,
            "index": np.array([e.index for e in examples], dtype=np.int64),
            "words": words,
            "pair_pieces": np.concatenate(pair_pieces),
            "pair_nodes": np.concatenate(pair_nodes),
            "node_first_piece": np.concatenate(firsts),
        }
        if all(e.label is not None for e in examples):
            arrays["labels"] = np.array([e.label for e in examples], dtype=np.int64)
        if all(e.word_tags is not None for e in examples):  # a mixed batch is an unlabelled one
            tags = np.concatenate([e.word_tags for e in examples if e.word_tags is not None])
            arrays["word_tags"] = np.where(arrays["node_first_piece"] >= 0, tags, IGNORED)
        if all(e.parse is not None for e in examples):
            arrays |= self._syntax(examples, starts, width)
        return Batch(**{name: torch.from_numpy(value) for name, value in arrays.items()})

    def _syntax(self, examples: Sequence[Example], starts: IntArray, width: int) -> dict[str, IntArray]:
        parses = [e.parse for e in examples if e.parse is not None]
        piece_heads = np.full((len(examples), width), IGNORED, dtype=np.int64)
        for row, (e, parse) in enumerate(zip(examples, parses, strict=True)):
            piece_heads[row, : len(e.input_ids)] = e.alignment.piece_heads(parse.heads)
        ids = [np.array([self.relations.get(name, UNKNOWN) for name in p.relations], dtype=np.int64) for p in parses]
        edge_index, edge_type = tree_edges([p.heads for p in parses], ids, len(self.relations))
        return {
            "piece_heads": piece_heads,
            "word_heads": np.concatenate([p.heads + s for p, s in zip(parses, starts, strict=True)]),
            "relations": np.concatenate(ids),
            "edge_index": edge_index,
            "edge_type": edge_type,
        }


class BucketSampler(Sampler[list[int]]):
    """Batches of like length in random order, the same for the same seed and epoch.

    Texts are shuffled, cut into runs of ``BUCKET`` batches, and sorted by length within a run; then the batches are
    shuffled. Every text comes once an epoch.

    Args:
        lengths: pieces of each text.
        batch_size: texts a batch.
        seed: order.

    >>> sampler = BucketSampler([3, 9, 4, 8], batch_size=2, seed=0)
    >>> sorted(sorted(batch) for batch in sampler)
    [[0, 2], [1, 3]]
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

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

    Of several processes that train together, each gets its share of the same batches: see :func:`share_of`.

    One pass is one epoch of the source. The target stream goes on from where the last epoch left it, reshuffled at
    each of its own ends. Both follow from the number of the epoch alone: a resumed run sees what it would have seen.

    Args:
        source: labelled examples.
        target: unlabelled examples; None when no method reads target text.
        collator: makes batches.
        batch_size: source texts a step.
        target_batch_size: target texts a step.
        seed: order of both.

    Attributes:
        epoch: which pass comes next.
    """

    def __init__(
        self,
        source: Sequence[Example],
        target: Sequence[Example] | None,
        collator: Collator,
        batch_size: int,
        target_batch_size: int,
        seed: int,
    ) -> None:
        self.source, self.target, self.collator = source, target or (), collator
        self.sampler = BucketSampler([len(e.input_ids) for e in source], batch_size, seed)
        self.target_sampler = BucketSampler([len(e.input_ids) for e in self.target], target_batch_size, seed + 1)
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Step]:
        self.sampler.set_epoch(self.epoch)
        ranks = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank, world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if ranks else (0, 1)
        target = self._target_batches(self.epoch * len(self))
        for indices in self.sampler:
            source, source_weight = share_of([self.source[i] for i in indices], rank, world)
            if not self.target:
                yield Step(self.collator(source), None, source_weight)
                continue
            texts, target_weight = share_of(next(target), rank, world)
            yield Step(self.collator(source), self.collator(texts), source_weight, target_weight)

    def _target_batches(self, step: int) -> Iterator[list[Example]]:
        """The endless stream, from the batch of a step on."""
        done, skipped = divmod(step, max(1, len(self.target_sampler)))
        for epoch in count(done):
            self.target_sampler.set_epoch(epoch)
            for indices in islice(self.target_sampler, skipped, None):
                yield [self.target[i] for i in indices]
            skipped = 0


def share_of(examples: Sequence[Example], rank: int, world: int) -> tuple[list[Example], float]:
    """One process's part of a batch, and its weight.

    Losses are means over rows: tagged words, classified texts, or pieces. Means over parts of unlike size, each times
    its part of the rows times the number of parts, have the mean over the whole batch as their mean. A process for
    which no text is left gets one that counts for nothing, because all must take part in every step.

    Args:
        examples: the whole batch.
        rank: of the process.
        world: number of processes.
    """
    if world == 1:
        return list(examples), 1.0
    own = list(examples[rank::world])
    if not own:
        return [examples[0]], 0.0
    return own, world * sum(map(_rows, own)) / max(1, sum(map(_rows, examples)))


def _rows(example: Example) -> int:
    if example.word_tags is not None:
        return int((example.alignment.word_first_pieces() >= 0).sum())
    return 1 if example.label is not None else len(example.input_ids)


def in_order(examples: Sequence[Example], collator: Collator, batch_size: int) -> DataLoader[Any]:
    """Every example once, longest first: for evaluation and prediction, where results are put back by index."""
    order = sorted(range(len(examples)), key=lambda i: -len(examples[i].input_ids))
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return DataLoader(examples, batch_sampler=batches, collate_fn=collator)  # type: ignore[arg-type]
