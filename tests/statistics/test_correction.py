"""Holm's correction and the count of pairs with a gain: worked examples, the authors', and its promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domadapt.statistics.resampling import correction, holm, replicability
from domadapt.statistics.results import Significance


def test_worked_by_hand() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04, times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04; the last may not be below 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holland_and_copenhaver() -> None:
    """Demšar (2006), section 3.2.2: p-values 0.016, 0.018 and 0.607 of three comparisons with a control against
    0.05 / 3 = 0.017, 0.025, 0.05: Holm rejects the first two."""
    assert [p <= 0.05 for p in holm([0.607, 0.016, 0.018])] == [False, True, True]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_in_any_order_between_p_and_holm(p_values: list[float]) -> None:
    found = holm(p_values)
    assert all(p <= q <= min(1, p * len(p_values)) * (1 + 1e-12) for p, q in zip(p_values, found, strict=True))
    assert holm(p_values[::-1]) == pytest.approx(found[::-1])


def test_only_what_was_tested_is_counted() -> None:
    words = Significance(None, None, "seeds", 3, "too few seeds")
    table = [Significance(0.001, None, "seeds", 12), words, Significance(0.02, None, "seeds", 12)]
    correct = correction(table)
    found = [correct(test) for test in table]
    assert [t.p_holm for t in found] == [0.002, None, 0.02]
    assert found[1] is words


def test_a_table_too_large_for_its_seeds_says_so() -> None:
    test = Significance(1 / 32, None, "seeds", 6)
    found = correction([test, test])(test)
    assert found.p_holm == 1 / 16
    assert found.reason == "too few seeds (6) to reach p below 0.062 after Holm over 2"
    assert correction([test])(test).reason == ""


NAMES = [f"dataset{i}" for i in range(1, 7)]
AUTHORS = [0.168, 0.297, 0.357, 0.019, 0.218, 0.001]


def test_the_authors_example() -> None:
    """github.com/rtmdrr/replicability-analysis-NLP, README: Bonferroni 1, Holm rejects dataset 6."""
    found = replicability(NAMES, AUTHORS, [1e-4] * 6, "test items")
    assert (found.count, found.pairs, found.of) == (1, ("dataset6",), 6)


def holm_by_steps(p_values: list[float]) -> set[int]:
    """Holm (1979): from the smallest on, reject while p <= 0.05 / (those left)."""
    rejected: set[int] = set()
    for i in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        if p_values[i] * (len(p_values) - len(rejected)) > 0.05:
            break
        rejected.add(i)
    return rejected


@given(st.lists(st.floats(0.0001, 1), min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_count_is_holms_in_any_order(p_values: list[float], random: object) -> None:
    named = list(zip([str(i) for i in range(len(p_values))], p_values, strict=True))
    random.shuffle(named)  # type: ignore[attr-defined]
    names, values = [n for n, _ in named], [p for _, p in named]
    found = replicability(names, values, [1e-4] * len(values), "test items")
    rejected = {names[i] for i in holm_by_steps(values)}
    assert found.count == len(rejected) == len(found.pairs)
    assert set(found.pairs) == rejected


def test_it_says_too_many_at_most_once_in_twenty() -> None:
    """Two real gains among six pairs: how often is the count above two?"""
    rng, above = np.random.default_rng(0), 0
    for _ in range(300):
        p = [0.0001, 0.0001, *rng.random(4)]
        found = replicability(NAMES, p, [1e-4] * 6, "test items")
        above += (found.count or 0) > 2
    assert above / 300 <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_too_few_seeds_say_so() -> None:
    found = replicability(NAMES, [1 / 8] * 6, [1 / 8] * 6, "seeds")
    assert (found.count, found.pairs) == (None, ())
    assert found.reason == (
        "too few seeds: no test over them could give p below 0.12, and 0.0083 is needed to count one of 6 pairs"
    )


def test_no_pairs() -> None:
    assert replicability([], [], [], "seeds").reason == "no pair could be tested over seeds"
