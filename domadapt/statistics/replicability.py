"""On how many pairs is a gain real, and on which.

Dror, Baumer, Bogomolov and Reichart (2017), Replicability Analysis for Natural Language Processing,
https://aclanthology.org/Q17-1033: counting the pairs with p < 0.05 counts too many; partial conjunction tests (is there
a gain on at least u of N pairs?) give a count that is too high at most once in twenty times.
"""

from collections.abc import Sequence

import numpy as np

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


def replicability(
    names: Sequence[str], p_values: Sequence[float], smallest: Sequence[float], unit: str
) -> Replicability:
    """Count and name the pairs with a gain.

    Args:
        names: (N,) of the pairs that could be tested.
        p_values: (N,) one-sided.
        smallest: (N,) what each pair's test could at best have given.
        unit: of these tests.

    Returns:
        The count; or a reason where no p-values, however small, could have made it more than 0.

    >>> replicability(["a", "b", "c"], [0.01, 0.5, 0.02], [0.001] * 3, "test items").pairs
    ('a', 'c')
    """
    if not names:
        return Replicability(None, (), 0, unit, f"no pair could be tested over {unit}")
    if bonferroni(smallest)[0] > ALPHA:
        reason = (
            f"too few {unit}: no test over them could give p below {min(smallest):.2g}, "
            f"and {ALPHA / len(names):.2g} is needed to count one of {len(names)} pairs"
        )
        return Replicability(None, (), len(names), unit, reason)
    count = int((bonferroni(p_values) <= ALPHA).sum())
    # Bonferroni's combination of the largest p-values is Holm's correction: the count says how many, the order which.
    real = set(np.argsort(p_values, kind="stable")[:count].tolist())
    which = tuple(name for i, name in enumerate(names) if i in real)
    return Replicability(count, which, len(names), unit)
