"""Permutation tests against enumeration, libraries and the null hypothesis; Holm's correction; pairs with a gain."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from domadapt.statistics.items import ItemCounts, f1
from domadapt.statistics.resampling import (
    correction,
    holm,
    items_test,
    reachable,
    replicability,
    runs_test,
    sign_flip,
)
from domadapt.statistics.results import Significance


def made(counts: np.ndarray, average: str = "macro", digest: str = "d") -> ItemCounts:
    return ItemCounts(digest, counts.astype(np.float32), average)


def test_fishers_darwin_data() -> None:
    """Fisher (1935, The Design of Experiments, section 21): of Darwin's 15 pairs of plants, 1726 of the 32768 sign
    changes give a sum as far from 0 as the one observed, 314: p = 5.267 percent."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sum(eighths) == 314
    extreme = sum(abs(np.dot(signs, eighths)) >= 314 for signs in product((-1, 1), repeat=15))
    assert extreme == 1726
    # 15 are more than are enumerated: 9,999 random ones.
    assert sign_flip(eighths, [1 / 15] * 15) == pytest.approx(1726 / 32768, abs=0.007)


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 4)), min_size=1, max_size=7),
    st.randoms(use_true_random=False),
)
@settings(max_examples=30, deadline=None)
def test_sign_flip_is_full_enumeration_in_any_order(rows: list[tuple[int, int]], random: object) -> None:
    differences, weights = zip(*rows, strict=True)
    sums = [
        sum(s * d * w for s, d, w in zip(signs, differences, weights)) for signs in product((-1, 1), repeat=len(rows))
    ]
    observed = sum(d * w for d, w in rows)
    assert sign_flip(differences, weights, "greater") == pytest.approx(np.mean([s >= observed for s in sums]))
    assert sign_flip(differences, weights) == pytest.approx(np.mean([abs(s) >= abs(observed) for s in sums]))
    random.shuffle(rows)  # type: ignore[attr-defined]
    differences, weights = zip(*rows, strict=True)
    assert sign_flip(differences, weights, "greater") == pytest.approx(np.mean([s >= observed for s in sums]))


def test_random_swaps_do_not_depend_on_the_order() -> None:
    differences = np.random.default_rng(0).normal(0.3, 1, size=20)
    assert sign_flip(differences, [0.05] * 20) == sign_flip(differences[::-1], [0.05] * 20)
    assert sign_flip(differences, [0.05] * 20) == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.03)


def test_too_few_say_so_in_words_and_six_are_enough() -> None:
    for count in range(1, 6):
        found = runs_test([0.1] * count, [1 / count] * count, "seeds")
        assert (found.p, found.p_holm, found.unit, found.count) == (None, None, "seeds", count)
        assert found.reason.startswith(f"too few seeds ({count})") and "6 are needed" in found.reason
    found = runs_test([0.1, 0.2, 0.3, 0.1, 0.1, 0.2], [1 / 6] * 6, "pairs")
    assert (found.p, found.reason) == (2 / 64, "")
    for count in (2, 6, 13):
        assert sign_flip([1.0] * count, [1.0] * count) == reachable(count)


def counts_of(right: list[int]) -> np.ndarray:
    return np.array([[[r, 1 - r, 1 - r]] for r in right])


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_items_against_enumeration_of_all_swaps(average: str) -> None:
    """Two seeds, two kinds: swaps carry both seeds' answers to an item."""
    rng = np.random.default_rng(0)
    sides = [[made(rng.integers(0, 3, size=(9, 2, 3)), average) for _ in range(2)] for _ in range(2)]

    def statistic(swap: tuple[int, ...]) -> float:
        flags = np.array(swap)[:, None, None]
        method = [np.where(flags, b.counts, a.counts) for a, b in zip(*sides, strict=True)]
        other = [np.where(flags, a.counts, b.counts) for a, b in zip(*sides, strict=True)]
        return float(np.mean([f1(m.sum(0), average) for m in method]) - np.mean([f1(o.sum(0), average) for o in other]))

    every = np.array([statistic(swap) for swap in product((0, 1), repeat=9)])
    observed = statistic((0,) * 9)
    two, one = items_test([(sides[0], sides[1])])[0]
    assert two == pytest.approx(np.mean(np.abs(every) >= abs(observed) - 1e-12), abs=0.02)
    assert one == pytest.approx(np.mean(every >= observed - 1e-12), abs=0.02)


def test_identical_models_have_p_one_and_neighbours_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (made(rng.integers(0, 3, size=(20, 2, 3))) for _ in range(3))
    alone = items_test([([a], [b])])
    assert items_test([([c], [c]), ([a], [b])]) == [(1.0, 1.0), *alone]
    assert items_test([]) == []
    monkeypatch.setattr("domadapt.statistics.resampling.CHUNK", 700 * 20)
    assert items_test([([a], [b])]) == alone


def test_under_the_null_p_values_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domadapt.statistics.resampling.SWAPS", 499)
    rng, small = np.random.default_rng(0), []
    for trial in range(120):
        a, b = (made(counts_of(rng.integers(0, 2, size=60).tolist()), digest=str(trial)) for _ in range(2))
        small.append(items_test([([a], [b])])[0][0] <= 0.1)
    assert 0.02 <= np.mean(small) <= 0.17  # 0.1, less a little for ties, give or take three standard errors


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
