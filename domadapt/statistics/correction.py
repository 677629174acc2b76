"""Holm's correction over a table of tests."""

from collections.abc import Sequence
from dataclasses import replace

from domadapt.statistics.permutation import ALPHA, reachable
from domadapt.statistics.results import Significance


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979), by statsmodels.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(p_values, alpha=ALPHA, method="holm")[1]] if p_values else []


def corrected(table: Sequence[Significance]) -> list[Significance]:
    """The same tests with ``p_holm``, those without a p-value as they are.

    Args:
        table: one family: tests with the same unit; those that nobody claims anything by have no p-value.

    Returns:
        In the same order. Where the correction leaves no way below 0.05, ``reason`` says so.
    """
    tested = [i for i, test in enumerate(table) if test.p is not None]
    values = holm([p for test in table if (p := test.p) is not None])
    result, many = list(table), len(tested)
    for i, value in zip(tested, values, strict=True):
        smallest = reachable(table[i].count) * many
        reason = f"too few {table[i].unit} ({table[i].count}) to reach p below {smallest:.2g} after Holm over {many}"
        result[i] = replace(table[i], p_holm=value, reason=reason if smallest > ALPHA else "")
    return result
