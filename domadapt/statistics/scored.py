"""What is known of one pair's runs: their scores, and their scores on resampled test items."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domadapt.runs.groups import Method, Pair
from domadapt.runs.metrics import Metrics
from domadapt.statistics.bootstrap import Sample, plus, resampled_scores, sample
from domadapt.statistics.items import FloatArray, Items, read_items

Run = tuple[str, int]  # method's name and seed


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """One pair's runs.

    Attributes:
        pair: as grouped.
        runs: every run by method and seed.
        items: counts per test item, of every run with readable predictions.
        resampled: (resamples,) scores by name on the same resamples of the test items, for the runs in ``items``.
    """

    pair: Pair
    runs: dict[Run, Metrics]
    items: dict[Run, Items]
    resampled: dict[tuple[str, Run], FloatArray]

    def known(self, method: Method, seed: int, name: str = "") -> bool:
        """Whether a run has a score, the headline unless named."""
        run = self.runs.get((method.name, seed))
        return run is not None and run.score(name or self.pair.headline) is not None

    def seeds(self, *methods: Method) -> list[int]:
        """Seeds that all these methods have a score for."""
        return [s for s in methods[0].seeds if all(self.known(m, s) for m in methods)]

    def sample(self, method: Method, other: Method | None = None) -> Sample | None:
        """A method's mean, or its mean difference to another over common seeds; None without any."""
        methods = (method,) if other is None else (method, other)
        if not (seeds := self.seeds(*methods)):
            return None
        own = self.over(method, seeds, self.pair.headline, methods)
        return own if other is None else plus(own, self.over(other, seeds, self.pair.headline, methods), -1.0)

    def over(self, method: Method, seeds: Sequence[int], name: str, beside: Sequence[Method]) -> Sample:
        """A method's mean over given seeds, on resampled items where all methods beside it have them."""
        runs = [(method.name, seed) for seed in seeds]
        same = self.same_items(seeds, *beside) and all((name, run) in self.resampled for run in runs)
        items = np.stack([self.resampled[name, run] for run in runs], axis=1) if same else None
        networks = [frozenset((self.runs[run].network,)) for run in runs]
        values = [self.runs[run].score(name) or 0.0 for run in runs]
        return sample(values, items, self.pair.name, seeds, networks)

    def same_items(self, seeds: Sequence[int], *methods: Method) -> bool:
        """Whether all these runs have predictions of one and the same test set."""
        found = [self.items.get((m.name, seed)) for m in methods for seed in seeds]
        return all(found) and len({items.digest for items in found if items}) == 1


def score_names(pair: Pair) -> list[str]:
    """The headline, then F1 of each span type."""
    if pair.task == "classification":
        return [pair.headline]
    names = {n for method in pair.methods for run in method.runs for n in run.target_test or () if n.endswith("_f1")}
    return [pair.headline, *sorted(names - {pair.headline})]


def scored(pair: Pair, predictions: bool = True) -> tuple[ScoredPair, list[str]]:
    """Read a pair's scores and predictions.

    Args:
        pair: whose runs know their folders.
        predictions: read them; without, only the scores are known.

    Returns:
        What is known, and one message for each kind of thing that is missing, with counts.
    """
    runs = {(method.name, run.seed): run for method in pair.methods for run in method.runs}
    items, missing, messages = dict[Run, Items](), list[str](), list[str]()
    with_score = [name for name, run in runs.items() if run.score(pair.headline) is not None and predictions]
    for name in with_score:
        try:
            found = read_items(runs[name])
        except ValueError as error:  # damaged predictions: the scores still count
            messages.append(str(error))
            continue
        if isinstance(found, str):
            missing.append(runs[name].folder)
        else:
            items[name] = found
    if missing:
        messages.append(
            f"{pair.name}: {len(missing)} of {len(with_score)} runs have no predictions.jsonl ({missing[0]} ...), "
            f"so nothing is said about other test items for them"
        )
    by_set: dict[str, list[Run]] = {}
    for name, counts in items.items():
        by_set.setdefault(counts.digest, []).append(name)
    if len(by_set) > 1:
        messages.append(
            f"{pair.name}: predictions are of {len(by_set)} different test sets; runs are compared within each"
        )
    resampled = dict[tuple[str, Run], FloatArray]()
    for score in score_names(pair):
        for names in by_set.values():
            own = {n: items[n] if score == pair.headline else items[n].only(score.removesuffix("_f1")) for n in names}
            if all(own.values()):
                drawn = resampled_scores([part for part in own.values() if part])
                resampled |= {(score, name): column for name, column in zip(own, drawn.T, strict=True)}
    return ScoredPair(pair, runs, items, resampled), messages
