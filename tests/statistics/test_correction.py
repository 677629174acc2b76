"""Holm's correction against worked examples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domadapt.statistics.resampling import corrected, holm
from domadapt.statistics.results import Significance


def test_worked_by_hand() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04, times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04; the last may not be below 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holland_and_copenhaver() -> None:
    """Demšar (2006), section 3.2.2: p-values 0.016, 0.018 and 0.607 of three comparisons with a control against
    0.05 / 3 = 0.017, 0.025, 0.05: Holm rejects the first two."""
    assert [p <= 0.05 for p in holm([0.607, 0.016, 0.018])] == [False, True, True]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=10, deadline=None)  # statsmodels collects garbage in every call
def test_in_any_order_between_p_and_bonferroni(p_values: list[float]) -> None:
    found = holm(p_values)
    assert all(p <= q <= min(1, p * len(p_values)) * (1 + 1e-12) for p, q in zip(p_values, found, strict=True))
    assert holm(p_values[::-1]) == pytest.approx(found[::-1])


def test_only_what_was_tested_is_counted() -> None:
    words = Significance(None, None, "seeds", 3, "too few seeds")
    table = [Significance(0.001, None, "seeds", 12), words, Significance(0.02, None, "seeds", 12)]
    found = corrected(table)
    assert [t.p_holm for t in found] == [0.002, None, 0.02]
    assert found[1] is words


def test_a_table_too_large_for_its_seeds_says_so() -> None:
    found = corrected([Significance(1 / 32, None, "seeds", 6)] * 2)
    assert [t.p_holm for t in found] == [1 / 16, 1 / 16]
    assert found[0].reason == "too few seeds (6) to reach p below 0.062 after Holm over 2"
    assert corrected([Significance(1 / 32, None, "seeds", 6)])[0].reason == ""


def test_nothing_to_correct() -> None:
    assert holm([]) == [] and corrected([]) == []
