"""Examples in an order: length buckets, steps of source and target, once each for evaluation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from domadapt.data.batches import Batch, Collator, Example

BUCKET = 32  # batches that are sorted by length together


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

    >>> sampler = BucketSampler([3, 9, 4, 8], batch_size=2, seed=0)
    >>> sorted(sorted(batch) for batch in sampler)
    [[0, 2], [1, 3]]
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
    source once, or in several ``passes`` where it is small. The target stream goes on from where the last epoch left
    it, reshuffled at each of its ends. Both follow from the next ``epoch``'s number alone: a resumed run
    sees what it would have seen. ``target`` is None when no method reads target text; ``augment`` gives a pass's source
    examples, counted from 0, in place of ``source``: as many, of other text.
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
        for chosen in self._source_batches():
            source, source_weight = share_of(chosen, rank, world)
            texts, weight = share_of(next(target), rank, world) if self.target else ([], 1.0)
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


def share_of(examples: Sequence[Example], rank: int, world: int) -> tuple[list[Example], float]:
    """One process's part of a batch, and its weight.

    Losses are means over rows: tagged words, classified texts, or pieces. Means over parts of unlike size, each times
    its part of the rows times the number of parts, have the mean over the whole batch as their mean. A process for
    which no text is left gets one that counts for nothing, because all must take part in every step.
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
