"""Methods ranked over pairs: Friedman's test and critical differences.

Demšar (2006), Statistical Comparisons of Classifiers over Multiple Data Sets, https://jmlr.org/papers/v7/demsar06a.html.
"""

from collections.abc import Sequence
from math import factorial

import numpy as np
from scipy import stats

from domadapt.statistics.items import FloatArray
from domadapt.statistics.permutation import ALPHA, RESAMPLES, reachable
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


def rank(methods: Sequence[str], pairs: Sequence[str], scores: FloatArray) -> Ranking:
    """Rank methods and test whether they differ.

    Args:
        methods: names.
        pairs: names.
        scores: (pairs, methods), higher is better.

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
    scores = scores[sorted(range(count), key=lambda i: pairs[i])]  # random swaps must not depend on the caller's order
    names, ranks, scores = [methods[i] for i in order], ranks[order], scores[:, order]
    smallest = max(1 / factorial(width) ** (count - 1), 1 / (RESAMPLES + 1))
    if smallest > ALPHA:
        reason = f"too few pairs ({count}): with {width} methods Friedman's test gives no p below {smallest:.2g}"
        return _untested(names, pairs, ranks.tolist(), reason)
    if (np.ptp(scores, axis=1) == 0).all():
        return _untested(names, pairs, ranks.tolist(), "all methods have the same scores")
    statistic = float(stats.friedmanchisquare(*scores.T).statistic)
    p = _friedman_p(scores)
    if p > ALPHA:
        reason = f"Friedman's test finds no difference between methods (p = {p:.2g}), so none are told apart"
        return Ranking(tuple(names), tuple(pairs), tuple(ranks.tolist()), statistic, p, None, (), (), reason)
    import scikit_posthocs

    studentized = float(stats.studentized_range.ppf(1 - ALPHA, width, np.inf))
    difference = studentized / 2**0.5 * (width * (width + 1) / (6 * count)) ** 0.5
    nemenyi = scikit_posthocs.posthoc_nemenyi_friedman(scores).to_numpy()
    wilcoxon: tuple[tuple[float, ...], ...] = ()
    if reachable(count) * width * (width - 1) / 2 <= ALPHA:
        wilcoxon = _rows(_wilcoxon_holm(scores))
    return Ranking(
        tuple(names), tuple(pairs), tuple(ranks.tolist()), statistic, p, difference, _rows(nemenyi), wilcoxon
    )


def _friedman_p(scores: FloatArray) -> float:
    ranks = stats.rankdata(-scores, axis=1)
    expected = (scores.shape[1] + 1) / 2

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


def _wilcoxon_holm(scores: FloatArray) -> FloatArray:
    from domadapt.statistics.correction import holm

    above = np.triu_indices(scores.shape[1], 1)
    found = [
        1.0 if not (scores[:, i] - scores[:, j]).any() else float(stats.wilcoxon(scores[:, i], scores[:, j]).pvalue)
        for i, j in zip(*above, strict=True)
    ]
    result = np.ones((scores.shape[1],) * 2)
    result[above] = holm(found)
    return np.minimum(result, result.T)


def _rows(matrix: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.minimum(matrix, 1.0).tolist())


def _untested(methods: Sequence[str], pairs: Sequence[str], ranks: Sequence[float], reason: str) -> Ranking:
    return Ranking(tuple(methods), tuple(pairs), tuple(ranks), None, None, None, (), (), reason)
