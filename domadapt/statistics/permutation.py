"""Paired permutation tests: what may change sides if the method changes nothing.

Three units, three questions:

- **Seeds** (of one pair) or **runs** (of all pairs). If the method changed nothing, the two runs of one seed came from
  the same procedure, and either could have been called the method: their scores may be swapped, seed by seed. Test set
  and training data are as they are. A small p says: training again would show a difference on this pair (over all runs:
  on at least one of these pairs). This is what a claim about a *method* needs. It assumes that different seeds, and one
  seed on different pairs, train independently of each other.
- **Pairs**. If the method helped on as many pairs as it harmed, a pair's mean difference may change its sign. A small p
  says: other pairs drawn like these would show it, too. Pairs that share a domain are not drawn independently: with
  them the p-value is too small by an unknown amount.
- **Test items** (approximate randomisation: Yeh 2000, https://aclanthology.org/C00-2137). If the *trained models* were
  equally good, both sides' answers to one item may be swapped, those of all its seeds together, because seeds see the
  same items. A small p says: these models differ on other texts of this kind. Two seeds of one method differ in this
  sense, too (in 13 of 45 comparisons of one method's seeds under ``results/aspect_opinion``, p was below 0.05): it is
  no evidence for a method, and the more items, the smaller this p for a difference that is noise of training.

Swapping n pairs of numbers gives 2^n results, so no two-sided p below 2^-(n-1): below 6 there is a reason in words.
"""

from collections.abc import Sequence
from math import ceil, log2
from typing import Literal

import numpy as np
from scipy import stats

from domadapt.statistics.bootstrap import CHUNK, generator
from domadapt.statistics.items import CountArray, FloatArray, Items, f1
from domadapt.statistics.results import Significance

ALPHA = 0.05
RESAMPLES = 9999  # p-values down to 0.0001
SAME = 1e-12  # differences nearer than this are ties


def sign_flip(
    differences: Sequence[float], weights: Sequence[float], alternative: Literal["two-sided", "greater"] = "two-sided"
) -> float:
    """p-value of a weighted sum of paired differences when each may change its sign; exact up to 13 of them.

    Args:
        differences: method less other.
        weights: how much each counts, such as 1 / number.
        alternative: ``greater`` asks only whether the method is better.

    >>> sign_flip([1.0, 2.0, 3.0], [1 / 3] * 3), sign_flip([1.0, 2.0, 3.0], [1 / 3] * 3, "greater")
    (0.25, 0.125)
    """
    if len(differences) == 1:  # scipy wants two: one that never counts changes nothing
        differences, weights = [*differences, 0.0], [*weights, 0.0]
    order = np.lexsort((weights, differences))  # a fixed one: random swaps must not depend on the caller's
    scale = np.asarray(weights, dtype=float)[order]

    def statistic(values: FloatArray, axis: int) -> FloatArray:
        return np.asarray((values * scale).sum(axis=axis).round(12))

    result = stats.permutation_test(
        (np.asarray(differences, dtype=float)[order],),
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        alternative=alternative,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def runs_test(differences: Sequence[float], weights: Sequence[float], unit: str) -> Significance:
    """Two-sided test of paired differences, or words where there are too few.

    Args:
        differences: method less other, one a unit.
        weights: as in :func:`sign_flip`.
        unit: what the differences are of: ``seeds``, ``runs`` or ``pairs``.

    >>> runs_test([0.01, 0.02, 0.03], [1 / 3] * 3, "seeds").reason
    'too few seeds (3): swapping them gives no p below 0.25, 6 are needed for 0.05'
    """
    count = len(differences)
    smallest = reachable(count)
    if smallest > ALPHA:
        needed = ceil(log2(2 / ALPHA))
        few = f"too few {unit} ({count}): swapping them gives no p below {smallest:.2g}, {needed} are needed for 0.05"
        return Significance(None, None, unit, count, few)
    return Significance(sign_flip(differences, weights), None, unit, count)


def reachable(count: int) -> float:
    """The smallest two-sided p-value that so many paired differences can give.

    >>> reachable(6)
    0.03125
    """
    return float(min(1.0, max(2.0 ** (1 - count), 1 / (RESAMPLES + 1))))


def items_test(comparisons: Sequence[tuple[Sequence[Items], Sequence[Items]]]) -> list[tuple[float, float]]:
    """Approximate randomisation over test items, several comparisons on the same swaps.

    Args:
        comparisons: method and other, each one run a seed, the seeds in the same order; all on one test set.

    Returns:
        For each, the p-value two-sided and the one that asks only whether the method is better. The statistic is the
        difference of the mean scores over seeds.
    """
    if not comparisons:
        return []
    first = comparisons[0][0][0]
    count = len(first.counts)
    sides = [(_stacked(method), _stacked(other)) for method, other in comparisons]
    table = np.concatenate([(b - a).reshape(count, -1) for a, b in sides], axis=1)
    ends = np.cumsum([0, *(a[0].size for a, _ in sides)])
    averages = [method[0].average for method, _ in comparisons]
    totals = [(a.sum(axis=0, dtype=np.float64), b.sum(axis=0, dtype=np.float64)) for a, b in sides]
    observed = [_difference(a, b, average) for (a, b), average in zip(totals, averages, strict=True)]
    beyond = np.zeros((len(sides), 2))
    rng, step = generator("swaps", first.digest), max(1, CHUNK // max(1, count))
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        swapped = rng.integers(2, size=(rows, count), dtype=np.uint8).astype(np.float32) @ table
        for i, ((a, b), average) in enumerate(zip(totals, averages, strict=True)):
            moved = swapped[:, ends[i] : ends[i + 1]].reshape(rows, *a.shape)
            found = _difference(a + moved, b - moved, average)
            beyond[i] += (np.abs(found) >= abs(observed[i]) - SAME).sum(), (found >= observed[i] - SAME).sum()
    return [(float(two), float(one)) for two, one in (beyond + 1) / (RESAMPLES + 1)]


def _stacked(runs: Sequence[Items]) -> CountArray:
    """(items, seeds, kinds, 3)."""
    return np.stack([run.counts for run in runs], axis=1)


def _difference(method: FloatArray, other: FloatArray, average: str) -> FloatArray:
    return np.asarray(f1(method, average).mean(axis=-1) - f1(other, average).mean(axis=-1))
