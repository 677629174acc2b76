"""Ranks and tests against the example of Demšar (2006)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domadapt.statistics.compare import mean_ranks, rank

METHODS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
# Table 6: AUC on 14 data sets. Voting's 0.97501 is printed as 0.975, but ranked before the other 0.975.
AUC = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
PAIRS = [f"p{i:02}" for i in range(14)]


def test_published_mean_ranks_and_friedman() -> None:
    ranks = mean_ranks(AUC)
    assert ranks.round(3).tolist() == [3.143, 2.000, 2.893, 1.964]
    # The paper's formula (section 3.2.1).
    paper = 12 * 14 / (4 * 5) * ((ranks**2).sum() - 4 * 5**2 / 4)
    assert paper == pytest.approx(9.28, abs=0.01)
    found = rank(METHODS, PAIRS, AUC)
    assert found.p is not None and 0.005 < found.p < 0.03  # chi-squared: 0.017 with, 0.026 without a correction of ties


def test_published_critical_difference() -> None:
    found = rank(METHODS, PAIRS, AUC)
    assert found.methods == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
    assert found.critical_difference == pytest.approx(1.25, abs=0.005)
    # 'The Nemenyi test is not powerful enough': best and worst differ by 1.18, less than 1.25.
    assert min(min(row) for row in found.pairwise) > 0.05
    # Table 5: the same with q = 2.343 for three and 2.728 for five methods.
    for width, critical in ((3, 2.343), (5, 2.728)):
        wide = np.arange(width) + 0.01 * np.random.default_rng(0).random((14, width))
        cd = rank([str(i) for i in range(width)], PAIRS, wide).critical_difference
        assert cd == pytest.approx(critical * (width * (width + 1) / (6 * 14)) ** 0.5, rel=1e-3)


def test_friedman_by_enumeration() -> None:
    # Three methods, three pairs, always the same order: of 6^3 ways to order, 6 are as extreme.
    found = rank(["a", "b", "c"], PAIRS[:3], np.tile([0.3, 0.2, 0.1], (3, 1)))
    assert found.p == pytest.approx(6 / 216)
    assert found.mean_ranks == (1, 2, 3)


@pytest.mark.parametrize(
    ("width", "count", "reason"),
    [
        (2, 14, "2 methods on the same pairs: ranking needs 3"),
        (0, 0, "0 methods"),
        (3, 0, "no pair has all methods"),
        (3, 1, "too few pairs (1)"),
        (3, 2, "too few pairs (2): with 3 methods Friedman's test gives no p below 0.17"),
    ],
)
def test_what_cannot_be_ranked_is_said(width: int, count: int, reason: str) -> None:
    scores = np.random.default_rng(0).random((count, width))
    found = rank([str(i) for i in range(width)], PAIRS[:count], scores)
    assert found.reason.startswith(reason)
    assert (found.p, found.critical_difference, found.pairwise) == (None, None, ())


def test_no_difference_is_said() -> None:
    found = rank(["a", "b", "c"], PAIRS[:6], np.random.default_rng(0).random((6, 3)))
    assert found.reason.startswith("Friedman's test finds no difference")
    assert (found.pairwise, found.critical_difference) == ((), None)
    same = rank(["a", "b", "c"], PAIRS, np.ones((14, 3)))
    assert same.reason == "all methods have the same scores"


def test_pairs_that_share_a_network_are_one_observation() -> None:
    same = np.tile([0.3, 0.2, 0.1], (6, 1))
    networks = [{"a"}, {"a"}, {"b"}, {"b"}, {"c"}, {"c"}]
    assert rank(["a", "b", "c"], PAIRS[:6], same, networks).p == rank(["a", "b", "c"], PAIRS[:3], same[:3]).p
    few = rank(["a", "b", "c"], PAIRS[:6], same, [{"a"}] * 6)
    assert few.reason.startswith("too few pairs (6, of which only 1 share no network)")


@given(st.permutations(range(4)), st.permutations(range(14)))
@settings(max_examples=4, deadline=None)
def test_order_of_methods_and_pairs_does_not_matter(methods: list[int], pairs: list[int]) -> None:
    one = rank(METHODS, PAIRS, AUC)
    other = rank([METHODS[i] for i in methods], [PAIRS[i] for i in pairs], AUC[np.ix_(pairs, methods)])
    assert (one.methods, one.mean_ranks, one.p) == (other.methods, other.mean_ranks, other.p)
    assert one.pairwise == pytest.approx(np.array(other.pairwise))
