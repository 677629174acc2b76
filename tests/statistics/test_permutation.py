"""Tests small enough to enumerate by hand, against libraries, and under the null hypothesis."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from domadapt.statistics.items import ItemCounts, f1
from domadapt.statistics.resampling import items_test, reachable, runs_test, sign_flip


def made(counts: np.ndarray, average: str = "macro", digest: str = "d") -> ItemCounts:
    return ItemCounts(digest, counts.astype(np.float32), average)


def test_enumerated_by_hand() -> None:
    # |±1 ±2 ±4| >= |1 + 2 - 4| = 1 for all 8 signs; 1 + 2 + 4 = 7 for 2 of them; 7 one-sided for 1.
    assert sign_flip([1, 2, -4], [1, 1, 1]) == 1.0
    assert (sign_flip([3], [1], "greater"), sign_flip([-3], [1], "greater"), sign_flip([3], [1])) == (0.5, 1.0, 1.0)
    assert sign_flip([1, 2, 4], [1, 1, 1]) == 2 / 8
    assert sign_flip([1, 2, 4], [1, 1, 1], "greater") == 1 / 8
    # Sums of ±1 ±2 ±4 that are at least 5: 7, 5. With the weights 1, 2, 1: sums of ±1 ±4 ±4 at least 9: one.
    assert sign_flip([-1, 2, 4], [1, 1, 1], "greater") == 2 / 8
    assert sign_flip([1, 2, 4], [1, 2, 1], "greater") == 1 / 8


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


def test_items_enumerated_by_hand() -> None:
    # The method is right on items 0-7, the other on none of them; both are right on 8 and 9. Swapping gives a
    # difference as large only if none or all of the 8 change sides: p = 2 / 256, one-sided 1 / 256.
    method, other = made(counts_of([1] * 10)), made(counts_of([0] * 8 + [1] * 2))
    two, one = items_test([([method], [other])])[0]
    assert two == pytest.approx(2 / 256, abs=0.003)
    assert one == pytest.approx(1 / 256, abs=0.002)
    assert items_test([([other], [method])])[0][1] == 1.0


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
