"""On how many pairs is a gain real, and on which.

Dror, Baumer, Bogomolov and Reichart (2017), Replicability Analysis for Natural Language Processing,
https://aclanthology.org/Q17-1033: counting the pairs with p < 0.05 counts too many; partial conjunction tests (is there
a gain on at least u of N pairs?) give a count that is too high at most once in twenty times.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from domadapt.statistics.correction import holm
from domadapt.statistics.items import FloatArray
from domadapt.statistics.permutation import ALPHA
from domadapt.statistics.results import Replicability


def bonferroni(p_values: Sequence[float]) -> FloatArray:
    """p-values of 'a gain on at least u pairs', u = 1 ... N; holds for any dependence between pairs.

    Args:
        p_values: (N,) one-sided, one a pair.

    >>> bonferroni([0.01, 0.5, 0.02]).round(3).tolist()
    [0.03, 0.04, 0.5]
    """
    ordered = np.sort(np.asarray(p_values, dtype=float))
    return np.maximum.accumulate(np.minimum(1.0, ordered * np.arange(len(ordered), 0, -1)))


def fisher(p_values: Sequence[float]) -> FloatArray:
    """The same by Fisher's combination of the N - u + 1 largest p-values; holds for independent pairs.

    Args:
        p_values: (N,) one-sided, one a pair.

    >>> fisher([0.01, 0.5]).round(3).tolist()
    [0.031, 0.5]
    """
    ordered = np.sort(np.asarray(p_values, dtype=float))
    found = [stats.combine_pvalues(ordered[u:], method="fisher").pvalue for u in range(len(ordered))]
    return np.maximum.accumulate(found)


def replicability(p_values: Mapping[str, float], smallest: Mapping[str, float], unit: str) -> Replicability:
    """Count and name the pairs with a gain.

    Args:
        p_values: one-sided, of each pair that could be tested.
        smallest: what each pair's test could at best have given.
        unit: of these tests.

    Returns:
        The count; or a reason where no p-values, however small, could have made it more than 0.
    """
    names = list(p_values)
    if not names:
        return Replicability(None, None, (), 0, unit, f"no pair could be tested over {unit}")
    values, best = [p_values[n] for n in names], [smallest[n] for n in names]
    by_fisher = int((fisher(values) <= ALPHA).sum()) if fisher(best)[0] <= ALPHA else None
    if bonferroni(best)[0] > ALPHA:
        reason = (
            f"{len(names)} pairs, and no test over {unit} could give p below {min(best):.2g}: "
            f"{ALPHA / len(names):.2g} is needed to count one"
        )
        return Replicability(None, by_fisher, (), len(names), unit, reason)
    count = int((bonferroni(values) <= ALPHA).sum())
    which = tuple(n for n, p in zip(names, holm(values), strict=True) if p <= ALPHA)
    return Replicability(count, by_fisher, which, len(names), unit)
