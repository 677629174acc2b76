"""Methods ranked over pairs: Friedman's test and critical differences.

Demšar (2006), Statistical Comparisons of Classifiers over Multiple Data Sets, https://jmlr.org/papers/v7/demsar06a.html.
"""

from collections.abc import Collection, Sequence
from math import factorial

import numpy as np
from scipy import stats

from domadapt.statistics.blocks import connected
from domadapt.statistics.items import FloatArray
from domadapt.statistics.permutation import ALPHA, RESAMPLES
from domadapt.statistics.results import Ranking

FEWEST_METHODS = 3  # two are compared by a paired test


def mean_ranks(scores: FloatArray) -> FloatArray:
    """Mean rank of each method over pairs; 1 is best, ties share their mean rank.

    Args:
        scores: (pairs, methods), higher is better.

    >>> mean_ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]])).tolist()
    [1.0, 2.25, 2.75]
    """
    return np.asarray(stats.rankdata(-scores, axis=1).mean(axis=0))


def rank(
    methods: Sequence[str], pairs: Sequence[str], scores: FloatArray, networks: Sequence[Collection[str]] = ()
) -> Ranking:
    """Rank methods and test whether they differ.

    Args:
        methods: names.
        pairs: names.
        scores: (pairs, methods), higher is better.
        networks: (pairs,) that were ranked there; pairs that share one are one observation.

    Returns:
        Best first. Pairwise tests only where Friedman's test says that any differ. Its p-value is that of its
        permutation test (exact where enumeration is possible), because chi-squared is far off on a handful of pairs.
    """
    count, width = len(pairs), len(methods)
    if width < FEWEST_METHODS:
        return _untested(methods, pairs, (), f"{width} methods on the same pairs: ranking needs {FEWEST_METHODS}")
    if not count:
        return _untested(methods, pairs, (), "no pair has all methods")
    ranks = mean_ranks(scores)
    order = sorted(range(width), key=lambda i: (ranks[i], methods[i]))
    groups = np.array(connected(networks or [{name} for name in pairs]))
    units = int(groups.max()) + 1
    names, ranks, scores = [methods[i] for i in order], ranks[order], scores[:, order]
    smallest = max(1 / factorial(width) ** (units - 1), 1 / (RESAMPLES + 1))
    if smallest > ALPHA:
        few = f"too few pairs ({_apart(count, units)})"
        reason = f"{few}: with {width} methods Friedman's test gives no p below {smallest:.2g}"
        return _untested(names, pairs, ranks.tolist(), reason)
    if (np.ptp(scores, axis=1) == 0).all():
        return _untested(names, pairs, ranks.tolist(), "all methods have the same scores")
    own = stats.rankdata(-scores, axis=1)
    together = np.stack([own[groups == group].sum(axis=0) for group in range(units)])
    p = _friedman_p(together[np.lexsort(together.T)])  # random swaps must not depend on the caller's order
    if p > ALPHA:
        reason = f"Friedman's test finds no difference between methods (p = {p:.2g}), so none are told apart"
        return Ranking(tuple(names), tuple(pairs), tuple(ranks.tolist()), p, None, (), reason)
    error = (width * (width + 1) / (6 * units)) ** 0.5  # of a difference of mean ranks
    difference = float(stats.studentized_range.ppf(1 - ALPHA, width, np.inf)) / 2**0.5 * error
    apart = np.abs(ranks[:, None] - ranks) / error * 2**0.5
    nemenyi = tuple(map(tuple, stats.studentized_range.sf(apart, width, np.inf).tolist()))
    return Ranking(tuple(names), tuple(pairs), tuple(ranks.tolist()), p, difference, nemenyi)


def _apart(pairs: int, units: int) -> str:
    return str(pairs) if pairs == units else f"{pairs}, of which only {units} share no network"


def _friedman_p(ranks: FloatArray) -> float:
    """Of ranks, summed over the pairs that share a network: their methods can only be swapped together."""
    expected = ranks.mean()

    def statistic(*columns: FloatArray, axis: int) -> FloatArray:
        # Friedman's chi-squared up to a factor that swapping within pairs does not change.
        return np.asarray(sum((column.mean(axis=axis) - expected) ** 2 for column in columns).round(12))

    result = stats.permutation_test(
        tuple(ranks.T),
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        alternative="greater",
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def _untested(methods: Sequence[str], pairs: Sequence[str], ranks: Sequence[float], reason: str) -> Ranking:
    return Ranking(tuple(methods), tuple(pairs), tuple(ranks), None, None, (), reason)
