"""What is known of one pair's runs: their scores, and their scores on resampled test items."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domadapt.runs.groups import Method, Pair
from domadapt.statistics.bootstrap import Sample, resampled_scores, sample
from domadapt.statistics.items import FloatArray, Items, read_items

Run = tuple[str, int]  # method's name and seed


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """One pair's runs.

    Attributes:
        pair: as grouped.
        scores: headline on the target test, of every run that has one.
        items: counts per test item, of every run with readable predictions.
        resampled: (resamples,) scores on the same resamples of the test items, for the runs in ``items``.
    """

    pair: Pair
    scores: dict[Run, float]
    items: dict[Run, Items]
    resampled: dict[Run, FloatArray]

    def seeds(self, *methods: Method) -> list[int]:
        """Seeds that all these methods have a score for."""
        return [s for s in methods[0].seeds if all((m.name, s) in self.scores for m in methods)]

    def sample(self, method: Method, other: Method | None = None) -> Sample | None:
        """A method's mean, or its mean difference to another over common seeds; None without any."""
        methods = (method,) if other is None else (method, other)
        seeds = self.seeds(*methods)
        if not seeds:
            return None
        resampled = None
        if self.same_items(seeds, *methods):
            columns = [np.stack([self.resampled[m.name, seed] for seed in seeds], axis=1) for m in methods]
            resampled = columns[0] - columns[1] if other else columns[0]
        # One seed's runs are paired within a pair; different pairs train independently.
        return sample(self.values(seeds, method, other), resampled, self.pair.name, *seeds)

    def values(self, seeds: Sequence[int], method: Method, other: Method | None = None) -> list[float]:
        """(seeds,) scores, or differences."""
        return [self.scores[method.name, seed] - (self.scores[other.name, seed] if other else 0.0) for seed in seeds]

    def same_items(self, seeds: Sequence[int], *methods: Method) -> bool:
        """Whether all these runs have predictions of one and the same test set."""
        found = [self.items.get((m.name, seed)) for m in methods for seed in seeds]
        return all(found) and len({items.digest for items in found if items}) == 1


def scored(pair: Pair) -> tuple[ScoredPair, list[str]]:
    """Read a pair's scores and predictions.

    Args:
        pair: whose runs know their folders.

    Returns:
        What is known, and one message for each kind of thing that is missing, with counts.
    """
    scores, items, missing, messages = dict[Run, float](), dict[Run, Items](), list[str](), list[str]()
    for method in pair.methods:
        for run in method.runs:
            score = run.score(pair.headline)
            if score is None:
                continue
            scores[method.name, run.seed] = score
            try:
                found = read_items(run)
            except ValueError as error:  # damaged predictions: the scores still count
                messages.append(str(error))
                continue
            if isinstance(found, str):
                missing.append(run.folder)
            else:
                items[method.name, run.seed] = found
    if missing:
        messages.append(
            f"{pair.name}: {len(missing)} of {len(scores)} runs have no predictions.jsonl ({missing[0]} ...), "
            f"so nothing is said about other test items for them"
        )
    by_set: dict[str, list[Run]] = {}
    for name, counts in items.items():
        by_set.setdefault(counts.digest, []).append(name)
    if len(by_set) > 1:
        messages.append(
            f"{pair.name}: predictions are of {len(by_set)} different test sets; runs are compared within each"
        )
    resampled = {
        name: column
        for names in by_set.values()
        for name, column in zip(names, resampled_scores([items[name] for name in names]).T, strict=True)
    }
    return ScoredPair(pair, scores, items, resampled), messages
