"""Intervals by bootstrap, paired tests by permutation, and corrections for several tests.

What may change sides if the method changes nothing? Three units, three questions:

- **Seeds** (of one pair) or **runs** (of all pairs). If the method changed nothing, either of the two runs of one seed
  could have been called the method: their scores may be swapped. A small p says: training again would show a difference
  on this pair (over all runs: on at least one of these pairs). This is what a claim about a *method* needs. It assumes
  that different seeds, and one seed on different pairs, train independently of each other.
- **Pairs**. If the method helped on as many pairs as it harmed, a pair's mean difference may change its sign. A small p
  says: other pairs drawn like these would show it, too. Pairs that share a domain are not drawn independently: with
  them the p-value is too small by an unknown amount.
- **Test items** (approximate randomisation: Yeh 2000, https://aclanthology.org/C00-2137). If the *trained models* were
  equally good, both sides' answers to one item may be swapped, those of all its seeds together, because seeds see the
  same items. A small p says: these models differ on other texts of this kind. So do two seeds of one method (in 13 of
  45 comparisons under ``results/aspect_opinion``): it is no evidence for a method.

Swapping n pairs of numbers gives 2^n results, so no two-sided p below 2^-(n-1): below 6 there is a reason in words.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, log2
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from domadapt.statistics.items import FloatArray, ItemCounts, f1

LEVEL = 0.95
ALPHA = 0.05
RESAMPLES = 2000  # the standard error is right to 2 %
SWAPS = 9999  # p-values down to 0.0001
TIE = 1e-12  # differences nearer than this are ties
FEWEST_SEEDS = 3  # two seeds' spread says next to nothing: an interval from it would be 13 standard errors wide
CHUNK = 4_000_000  # weights held at a time, 16 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds and its 95 % interval."""

    mean: float
    low: float | None
    high: float | None
    units: str  #: what was drawn again: ``seeds and test items``, ``seeds`` or ``test items``; empty without ends
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Significance:
    """A paired permutation test, two-sided unless said otherwise."""

    p: float | None  #: None where none below 0.05 could be reached, or nothing could be tested
    p_holm: float | None  #: the same after Holm's correction over the table
    unit: str  #: what changes sides under the null hypothesis: ``seeds``, ``test items``, ``runs`` or ``pairs``
    count: int
    reason: str = ""  #: why ``p`` is None; beside a ``p``, why ``p_holm`` could not have been below 0.05


@dataclass(frozen=True, slots=True)
class Replicability:
    """On how many pairs a gain is real (Dror et al. 2017), by one-sided tests.

    ``count`` is a lower bound, right with 95 % confidence by Bonferroni's combination, which allows any dependence
    between pairs; None where the tests could not have found any.
    """

    count: int | None
    pairs: int
    reason: str = ""


def components(keys: Sequence[Collection[object]]) -> list[int]:
    """Numbers from 0, by first appearance: the same for entries with a key in common, directly or through others."""
    joined: list[tuple[set[object], list[int]]] = []
    for place, entry in enumerate(keys):
        met = [part for part in joined if part[0] & set(entry)]
        joined = [part for part in joined if not part[0] & set(entry)]
        joined.append((set(entry).union(*(k for k, _ in met)), [place, *(i for _, indices in met for i in indices)]))
    label = {place: min(places) for _, places in joined for place in places}
    order = sorted(set(label.values()))
    return [order.index(label[place]) for place in range(len(keys))]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over seeds, of one pair or several; its interval is from drawing both seeds and test items again.

    Seeds and items are crossed: every seed's model answers every item. Each resample draws seeds with replacement and,
    independently, items with replacement, the same for all models of a test set, so that differences are paired. This
    is slightly too careful (Owen 2007, The pigeonhole bootstrap, https://doi.org/10.1214/07-AOAS122).

    With few seeds, percentiles of these draws are too bold: they cover 80 % at 3 seeds and 88 % at 5 where they say
    95 %. So the draws give the standard error (seeds' part made unbiased, ``n - 1`` in place of ``n``) and Student's t
    the ends, with Satterthwaite's degrees of freedom, as Hesterberg (2015,
    https://doi.org/10.1080/00031305.2015.1089789) advises for small samples: 93 % to 99 % from 3 seeds on.

    Over pairs, units that share a network, on either side of a difference, are drawn together and count once for the
    degrees of freedom: copies are no evidence. A network that reads no target is the same for all targets of its source
    and seed, and a ceiling for all sources of its target.
    """

    values: FloatArray  #: (units,) on the test items as they are; a unit is one seed on one pair
    weights: FloatArray  #: (units,) that add up to 1
    units: tuple[tuple[str, int], ...]  #: pair and seed
    networks: tuple[frozenset[str], ...]  #: (units,) keys of what was scored; those that share one are drawn together
    items: FloatArray | None  #: (resamples, units) values on resampled test items; None where only the scores are known

    @property
    def value(self) -> float:
        return float(np.average(self.values, weights=self.weights))  # exact where all values are the same

    @property
    def blocks(self) -> list[int]:
        """(units,) numbers, the same for units that share a network."""
        return components(self.networks)

    @property
    def groups(self) -> list[int]:
        """(units,) numbers, the same for units of pairs that share a network, with any seed."""
        return components([{pair, block} for (pair, _), block in zip(self.units, self.blocks, strict=True)])

    @property
    def addends(self) -> list[float]:
        """(units,) what each adds to the mean."""
        return [float(x) for x in self.values * self.weights]

    def sums(self, labels: Sequence[int]) -> list[float]:
        """What the units of each label add to the mean."""
        return [float(x) for x in np.bincount(labels, self.addends)]


def generator(*names: object) -> np.random.Generator:
    """A fixed generator: the same names, the same numbers, whatever else is computed before."""
    digest = hashlib.sha256("\0".join(map(str, names)).encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32).tolist())


def resampled_scores(runs: Sequence[ItemCounts], resamples: int = RESAMPLES) -> FloatArray:
    """(resamples, runs): every run's score on the same resamples of the test items.

    Runs on one test set get the same draws in every call, whatever pair they belong to.
    """
    if len({run.digest for run in runs}) != 1:
        raise ValueError("runs of different test sets: expected one digest; resample each test set by itself")
    count = len(runs[0].counts)
    table = np.concatenate([run.counts.reshape(count, -1) for run in runs], axis=1)
    ends = np.cumsum([0, *(run.counts[0].size for run in runs)])
    rng, scores = generator(runs[0].digest), []
    step = max(1, CHUNK // max(1, count))
    for start in range(0, resamples, step):
        weights = resample_counts(rng, min(step, resamples - start), count).astype(np.float32)
        totals = weights @ table  # whole numbers far below 2^24: exact in float32
        parts = (totals[:, a:b].reshape(len(totals), -1, 3) for a, b in pairwise(ends))
        scores.append(np.stack([f1(part, run.average) for part, run in zip(parts, runs, strict=True)], axis=1))
    return np.concatenate(scores)


def resample_counts(rng: np.random.Generator, rows: int, count: int) -> npt.NDArray[np.int64]:
    """(rows, count) how often each of ``count`` things came when as many were drawn with replacement, row by row."""
    places = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * count).reshape(rows, count)


def mean_of(
    scores: Sequence[float],
    resampled: FloatArray | None = None,
    pair: str = "",
    seeds: Sequence[int] = (),
    networks: Sequence[frozenset[str]] = (),
) -> Mean:
    """One method's, or one difference's, mean over the seeds of one pair, from (seeds,) scores.

    Of (resamples, seeds) scores on resampled items, where there are any. Without ``networks``, each seed is its own.
    """
    count = len(scores)
    units = tuple((pair, seed) for seed in (seeds or range(count)))
    keys = tuple(networks) or tuple(frozenset((f"{pair} {seed}",)) for _, seed in units)
    return Mean(np.asarray(scores, dtype=float), np.full(count, 1 / count), units, keys, resampled)


def mean_over_pairs(means: Sequence[Mean]) -> Mean:
    """The mean of pairs' means, the pairs as they are, each counting the same; without items where one has none."""
    items = [m.items for m in means if m.items is not None]
    return Mean(
        np.concatenate([m.values for m in means]),
        np.concatenate([m.weights for m in means]) / len(means),
        tuple(unit for m in means for unit in m.units),
        tuple(keys for m in means for keys in m.networks),
        np.concatenate(items, axis=1) if len(items) == len(means) else None,
    )


def plus(one: Mean, other: Mean, factor: float) -> Mean:
    """``one + factor * other``, unit by unit."""
    items = None if one.items is None or other.items is None else one.items + factor * other.items
    networks = tuple(a | b for a, b in zip(one.networks, other.networks, strict=True))
    return Mean(one.values + factor * other.values, one.weights, one.units, networks, items)


def score_interval(mean: Mean) -> Interval:
    """The 95 % interval of a score, which lies between 0 and 1; without ends at 0 and 1, which draws only repeat."""
    found = interval(mean)
    if found.low is None or found.high is None:
        return found
    if found.low == found.high in (0.0, 1.0):
        return Interval(found.mean, None, None, "", f"a score of {100 * found.mean:.0f} is so however items are drawn")
    return replace(found, low=max(0.0, found.low), high=min(1.0, found.high))


def interval(mean: Mean) -> Interval:
    """The 95 % interval; without ends where there is nothing to draw from, and the reason says what was not drawn."""
    few = f"fewer than {FEWEST_SEEDS} seeds"
    spread = _spread(mean)
    if not spread and mean.items is None:
        return Interval(mean.value, None, None, "", f"{few}, and test items are not drawn for this score")
    total = sum(variance for variance, _ in spread)
    if mean.items is not None:
        # Drawing n seeds from n gives (n - 1) / n of their mean's variance: the rest is added.
        total = float(_draws(mean, bool(spread)).var(ddof=1)) + sum(variance / n for variance, n in spread)
    uncertain = sum(variance**2 / (n - 1) for variance, n in spread)
    degrees = total**2 / uncertain if uncertain > 0 else np.inf
    half = float(stats.t.ppf(0.5 + LEVEL / 2, degrees)) * total**0.5
    if not spread:
        over, reason = "test items", f"{few}: of these trained models; training again is not in it"
    elif mean.items is None:
        over, reason = "seeds", "test items are not drawn for this score: on this test set as it is"
    else:
        over, reason = "seeds and test items", ""
    return Interval(mean.value, mean.value - half, mean.value + half, over, reason)


def _spread(mean: Mean) -> list[tuple[float, int]]:
    """Of seeds: what each group of pairs adds to the variance of the mean, and how many trainings that is known from.

    Empty where a pair, or a group, has too few. Pairs that share no network train independently of each other.
    """
    pairs, blocks, groups = np.array([pair for pair, _ in mean.units]), np.array(mean.blocks), np.array(mean.groups)
    off = mean.values.copy()
    for pair in np.unique(pairs):
        inside = pairs == pair
        if inside.sum() < FEWEST_SEEDS:
            return []
        off[inside] -= np.average(off[inside], weights=mean.weights[inside])
    parts = []
    for group in np.unique(groups):
        inside = groups == group
        names, places = np.unique(blocks[inside], return_inverse=True)
        if len(names) < FEWEST_SEEDS:
            return []
        sums = np.bincount(places, (off * mean.weights)[inside])
        parts.append((float((sums**2).sum()) * len(names) / (len(names) - 1), len(names)))
    return parts


def _draws(mean: Mean, seeds: bool) -> FloatArray:
    """(resamples,) the mean on resampled items and, if asked, with the seeds drawn again, block by block."""
    assert mean.items is not None
    if not seeds:
        return np.asarray(mean.items @ mean.weights)
    pairs = np.array(components([{pair} for pair, _ in mean.units]))
    blocks, groups = np.array(mean.blocks), np.array(mean.groups)
    times = np.empty(mean.items.shape)  # how often each unit was drawn
    for group in np.unique(groups):
        inside = groups == group
        names, places = np.unique(blocks[inside], return_inverse=True)
        # The same seeds of two methods are drawn alike.
        rng = generator("seeds", *(unit for unit, chosen in zip(mean.units, inside, strict=True) if chosen))
        times[:, inside] = resample_counts(rng, len(mean.items), len(names))[:, places]
    weights = times * mean.weights
    for pair in range(pairs.max() + 1):
        inside = pairs == pair
        sums = weights[:, inside].sum(axis=1, keepdims=True)
        # A pair of which no seed was drawn, possible only where pairs were run with different seeds, stays as it is.
        stays = np.full(weights[:, inside].shape, 1 / inside.sum())
        scaled = np.divide(weights[:, inside], sums, out=stays, where=sums > 0)
        weights[:, inside] = scaled * mean.weights[inside].sum()
    return np.asarray((weights * mean.items).sum(axis=1))


def sign_flip(differences: Sequence[float], alternative: Literal["two-sided", "greater"] = "two-sided") -> float:
    """p-value of a sum of paired differences when each may change its sign; exact up to 13 of them."""
    if len(differences) == 1:  # scipy wants two: one that never counts changes nothing
        differences = [*differences, 0.0]

    def statistic(values: FloatArray, axis: int) -> FloatArray:
        return np.asarray(values.sum(axis=axis).round(12))

    result = stats.permutation_test(
        (np.sort(np.asarray(differences, dtype=float)),),  # random swaps must not depend on the caller's order
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=SWAPS,
        alternative=alternative,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def runs_test(differences: Sequence[float], unit: str, copies: int = 0) -> Significance:
    """Two-sided test of paired differences, or words where there are too few; ``copies`` share a network with these."""
    count = len(differences)
    smallest = smallest_p(count)
    if smallest > ALPHA:
        needed = ceil(log2(2 / ALPHA))
        few = f"too few {unit} ({count}): swapping them gives no p below {smallest:.2g}, {needed} are needed for 0.05"
        note = f"; {count + copies} {unit}, but those that share a network count as one" if copies else ""
        return Significance(None, None, unit, count, few + note)
    return Significance(sign_flip(differences), None, unit, count)


def smallest_p(count: int) -> float:
    """The smallest two-sided p-value that so many paired differences can give."""
    return float(min(1.0, max(2.0 ** (1 - count), 1 / (SWAPS + 1))))


def items_test(comparisons: Sequence[tuple[Sequence[ItemCounts], Sequence[ItemCounts]]]) -> list[tuple[float, float]]:
    """Approximate randomisation over test items, several comparisons on the same swaps.

    Each is the runs of a method and of another by seed, all on one test set. Given back are the p-values of the
    difference of mean scores: two-sided, and that the method is better.
    """
    first = comparisons[0][0][0]
    count = len(first.counts)
    sides = [[np.stack([run.counts for run in runs], axis=1) for runs in comparison] for comparison in comparisons]
    table = np.concatenate([(b - a).reshape(count, -1) for a, b in sides], axis=1)
    ends = np.cumsum([0, *(a[0].size for a, _ in sides)])
    averages = [method[0].average for method, _ in comparisons]
    totals = [(a.sum(axis=0, dtype=np.float64), b.sum(axis=0, dtype=np.float64)) for a, b in sides]
    observed = [_difference(a, b, average) for (a, b), average in zip(totals, averages, strict=True)]
    beyond = np.zeros((len(sides), 2))
    rng, step = generator("swaps", first.digest), max(1, CHUNK // max(1, count))
    for start in range(0, SWAPS, step):
        rows = min(step, SWAPS - start)
        swapped = rng.integers(2, size=(rows, count), dtype=np.uint8).astype(np.float32) @ table
        for i, ((a, b), average) in enumerate(zip(totals, averages, strict=True)):
            moved = swapped[:, ends[i] : ends[i + 1]].reshape(rows, *a.shape)
            other = _difference(a + moved, b - moved, average)
            beyond[i] += (np.abs(other) >= abs(observed[i]) - TIE).sum(), (other >= observed[i] - TIE).sum()
    return [(float(two), float(one)) for two, one in (beyond + 1) / (SWAPS + 1)]


def _difference(method: FloatArray, other: FloatArray, average: str) -> FloatArray:
    return np.asarray(f1(method, average).mean(axis=-1) - f1(other, average).mean(axis=-1))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979), in the order given.

    Sorted, they are those of 'at least u of the effects are real', u = 1 ... N, by Bonferroni's combination of the
    largest, whatever the dependence between them (Dror et al. 2017).

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    values = np.asarray(p_values, dtype=float)
    order, result = np.argsort(values, kind="stable"), np.empty(len(values))
    result[order] = np.maximum.accumulate(np.minimum(1.0, values[order] * np.arange(len(values), 0, -1)))
    return [float(p) for p in result]


def correction(family: Sequence[Significance]) -> Callable[[Significance], Significance]:
    """What gives each test of one family, all with the same unit, its ``p_holm``; those without a p-value stay."""
    tested = [test.p for test in family if test.p is not None]
    after = dict(zip(tested, holm(tested), strict=True))
    counts = [test.count for test in family if test.p is not None]
    least = dict(zip(counts, holm([smallest_p(count) for count in counts]), strict=True))

    def corrected(test: Significance) -> Significance:
        if test.p is None:
            return test
        smallest = least[test.count]  # where all p-values are as small as they can be
        few = f"too few {test.unit} ({test.count}) to reach p below {smallest:.2g} after Holm over {len(tested)}"
        return replace(test, p_holm=after[test.p], reason=few if smallest > ALPHA else "")

    return corrected


def replicability(p_values: Sequence[float], smallest: Sequence[float], unit: str) -> Replicability:
    """Count the pairs with a gain.

    Dror, Baumer, Bogomolov and Reichart (2017), Replicability Analysis for Natural Language Processing,
    https://aclanthology.org/Q17-1033: counting the pairs with p < 0.05 counts too many; partial conjunction tests (is
    there a gain on at least u of N pairs?) give a count that is too high at most once in twenty times. One-sided
    p-values go in, and the ``smallest`` that each test could have given.

    >>> replicability([0.01, 0.5, 0.02], [0.001] * 3, "test items").count
    2
    """
    pairs = len(p_values)
    if not pairs:
        return Replicability(None, 0, f"no pair could be tested over {unit}")
    if min(holm(smallest)) > ALPHA:
        needed = f"{ALPHA / pairs:.2g} is needed to count one of {pairs} pairs"
        reason = f"too few {unit}: no test over them could give p below {min(smallest):.2g}, and {needed}"
        return Replicability(None, pairs, reason)
    return Replicability(sum(p <= ALPHA for p in holm(p_values)), pairs)
