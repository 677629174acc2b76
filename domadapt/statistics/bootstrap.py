"""Intervals from drawing both seeds and test items again.

Seeds and items are crossed: every seed's model answers every item. Each resample draws seeds with replacement and,
independently, items with replacement, the same for all models of a test set, so that differences are paired. This is
slightly too careful (Owen 2007, The pigeonhole bootstrap, https://doi.org/10.1214/07-AOAS122).

With few seeds, percentiles of these draws are too bold all the same: in a simulation with seeds that vary much, they
cover 80 % at 3 seeds and 88 % at 5 where they say 95 %, and BCa does no better on 3 values. So the draws give the
standard error (seeds' part made unbiased, ``n - 1`` in place of ``n``) and Student's t the ends, with Satterthwaite's
degrees of freedom, as Hesterberg (2015, https://doi.org/10.1080/00031305.2015.1089789) advises for small samples: 93 %
to 99 % from 3 seeds on.

Over pairs, units that share a network are drawn together and count once for the degrees of freedom: see
:mod:`domadapt.statistics.blocks`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import stats

from domadapt.statistics.blocks import connected
from domadapt.statistics.items import FloatArray, Items, f1
from domadapt.statistics.results import Interval

LEVEL = 0.95
RESAMPLES = 2000  # the standard error is right to 2 %
FEWEST_SEEDS = 3  # two seeds' spread says next to nothing: an interval from it would be 13 standard errors wide
CHUNK = 4_000_000  # weights held at a time, 16 MB


@dataclass(frozen=True, slots=True)
class Sample:
    """A weighted mean of runs, or of differences of runs, and what is needed to draw it again.

    Attributes:
        values: (units,) on the test items as they are; a unit is one seed on one pair.
        weights: (units,) that add up to 1.
        units: (units,) pair and seed.
        networks: (units,) keys of the networks that were scored; units with one in common are drawn together.
        items: (resamples, units) values on resampled test items; None where only the scores are known.
    """

    values: FloatArray
    weights: FloatArray
    units: tuple[tuple[str, int], ...]
    networks: tuple[frozenset[str], ...]
    items: FloatArray | None

    @property
    def mean(self) -> float:
        """As it is."""
        return float(np.average(self.values, weights=self.weights))  # exact where all values are the same

    @property
    def blocks(self) -> list[int]:
        """(units,) numbers, the same for units that share a network."""
        return connected(self.networks)

    @property
    def groups(self) -> list[int]:
        """(units,) numbers, the same for units of pairs that share a network, with any seed."""
        return connected([{pair, block} for (pair, _), block in zip(self.units, self.blocks, strict=True)])

    def sums(self, labels: Sequence[int]) -> list[float]:
        """What the units of each label add to the mean."""
        return [float(x) for x in np.bincount(labels, self.values * self.weights)]


def generator(*names: object) -> np.random.Generator:
    """A fixed generator: the same names, the same numbers, whatever else is computed before."""
    digest = hashlib.sha256("\0".join(map(str, names)).encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32).tolist())


def resampled_scores(runs: Sequence[Items], resamples: int = RESAMPLES) -> FloatArray:
    """Every run's score on the same resamples of the test items.

    Args:
        runs: on one test set (the same ``digest``).
        resamples: how many.

    Returns:
        (resamples, runs). Runs on one test set get the same draws in every call, whatever pair they belong to.

    Raises:
        ValueError: the runs are of different test sets.
    """
    if len({run.digest for run in runs}) != 1:
        raise ValueError("runs of different test sets: expected one digest; resample each test set by itself")
    count = len(runs[0].counts)
    table = np.concatenate([run.counts.reshape(count, -1) for run in runs], axis=1)
    ends = np.cumsum([0, *(run.counts[0].size for run in runs)])
    rng, scores = generator(runs[0].digest), []
    step = max(1, CHUNK // max(1, count))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(np.float32)
        totals = weights @ table  # whole numbers far below 2^24: exact in float32
        parts = (totals[:, a:b].reshape(rows, -1, 3) for a, b in pairwise(ends))
        scores.append(np.stack([f1(part, run.average) for part, run in zip(parts, runs, strict=True)], axis=1))
    return np.concatenate(scores)


def sample(
    scores: Sequence[float],
    resampled: FloatArray | None = None,
    pair: str = "",
    seeds: Sequence[int] = (),
    networks: Sequence[frozenset[str]] = (),
) -> Sample:
    """One method's, or one difference's, mean over the seeds of one pair.

    Args:
        scores: (seeds,) on the test items as they are.
        resampled: (resamples, seeds) on resampled items; None where only the scores are known.
        pair: its name.
        seeds: theirs; counted from 0 if not given.
        networks: (seeds,) keys of what was scored; without them, each is a network of its own.
    """
    count = len(scores)
    units = tuple((pair, seed) for seed in (seeds or range(count)))
    own = tuple(networks) or tuple(frozenset((f"{pair} {seed}",)) for _, seed in units)
    return Sample(np.asarray(scores, dtype=float), np.full(count, 1 / count), units, own, resampled)


def mean_over_pairs(samples: Sequence[Sample]) -> Sample:
    """The mean of several pairs' samples, the pairs as they are, each counting the same.

    Args:
        samples: one a pair, at least one. Where one has no resampled items, the mean has none.
    """
    items = [s.items for s in samples if s.items is not None]
    return Sample(
        np.concatenate([s.values for s in samples]),
        np.concatenate([s.weights for s in samples]) / len(samples),
        tuple(unit for s in samples for unit in s.units),
        tuple(keys for s in samples for keys in s.networks),
        np.concatenate(items, axis=1) if len(items) == len(samples) else None,
    )


def plus(one: Sample, other: Sample, factor: float) -> Sample:
    """``one + factor * other``, unit by unit.

    Args:
        one, other: of the same units.
        factor: how many times the other counts.
    """
    items = None if one.items is None or other.items is None else one.items + factor * other.items
    networks = tuple(a | b for a, b in zip(one.networks, other.networks, strict=True))
    return Sample(one.values + factor * other.values, one.weights, one.units, networks, items)


def interval(sample: Sample) -> Interval:
    """The 95 % interval of a sample.

    Returns:
        Without ends where there is nothing to draw from; ``reason`` says what could not be drawn.
    """
    few = f"fewer than {FEWEST_SEEDS} seeds"
    spread = _spread(sample)
    if not spread and sample.items is None:
        return Interval(sample.mean, None, None, "", f"{few}, and no predictions read to draw test items from")
    total = sum(variance for variance, _ in spread)
    if sample.items is not None:
        # Drawing n seeds from n gives (n - 1) / n of their mean's variance: the rest is added.
        total = float(_draws(sample, bool(spread)).var(ddof=1)) + sum(variance / n for variance, n in spread)
    uncertain = sum(variance**2 / (n - 1) for variance, n in spread)
    degrees = total**2 / uncertain if uncertain > 0 else np.inf
    half = float(stats.t.ppf(0.5 + LEVEL / 2, degrees)) * total**0.5
    if not spread:
        over, reason = "test items", f"{few}: of these trained models; training again is not in it"
    elif sample.items is None:
        over, reason = "seeds", "no predictions to draw test items from: on this test set as it is"
    else:
        over, reason = "seeds and test items", ""
    return Interval(sample.mean, sample.mean - half, sample.mean + half, over, reason)


def _spread(sample: Sample) -> list[tuple[float, int]]:
    """Of seeds: what each group of pairs adds to the variance of the mean, and how many trainings that is known from.

    Empty where a pair, or a group, has too few. Pairs that share no network train independently of each other.
    """
    pairs, blocks, groups = np.array([pair for pair, _ in sample.units]), np.array(sample.blocks), sample.groups
    off = sample.values.copy()
    for pair in np.unique(pairs):
        own = pairs == pair
        if own.sum() < FEWEST_SEEDS:
            return []
        off[own] -= np.average(off[own], weights=sample.weights[own])
    found = []
    for group in sorted(set(groups)):
        own = np.array(groups) == group
        names, places = np.unique(blocks[own], return_inverse=True)
        if len(names) < FEWEST_SEEDS:
            return []
        sums = np.bincount(places, (off * sample.weights)[own])
        found.append((float((sums**2).sum()) * len(names) / (len(names) - 1), len(names)))
    return found


def _draws(sample: Sample, seeds: bool) -> FloatArray:
    """(resamples,) the mean on resampled items and, if asked, with the seeds drawn again, block by block."""
    assert sample.items is not None
    if not seeds:
        return np.asarray(sample.items @ sample.weights)
    count = len(sample.items)
    pairs = np.array(connected([{pair} for pair, _ in sample.units]))
    blocks, groups = np.array(sample.blocks), np.array(sample.groups)
    times = np.empty(sample.items.shape)  # how often each unit was drawn
    for group in sorted(set(groups.tolist())):
        own = groups == group
        names, places = np.unique(blocks[own], return_inverse=True)
        # The same seeds of two methods are drawn alike.
        rng = generator("seeds", *(unit for unit, inside in zip(sample.units, own, strict=True) if inside))
        drawn = rng.integers(len(names), size=(count, len(names))) + len(names) * np.arange(count)[:, None]
        often = np.bincount(drawn.ravel(), minlength=count * len(names)).reshape(count, len(names))
        times[:, own] = often[:, places]
    weights = times * sample.weights
    for pair in range(pairs.max() + 1):
        own = pairs == pair
        sums = weights[:, own].sum(axis=1, keepdims=True)
        # A pair of which no seed was drawn, possible only where pairs were run with different seeds, stays as it is.
        scaled = np.divide(weights[:, own], sums, out=np.full(weights[:, own].shape, 1 / own.sum()), where=sums > 0)
        weights[:, own] = scaled * sample.weights[own].sum()
    return np.asarray((weights * sample.items).sum(axis=1))
