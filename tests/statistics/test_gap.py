"""Shares of the gap against numbers by hand, Fieller's formula, and their promise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from domadapt.runs.groups import Pair
from domadapt.statistics.compare import compare, share
from domadapt.statistics.resampling import mean_of
from domadapt.statistics.results import Share
from tests.statistics.made import benchmark, run, span_rows, span_scores
from tests.support import grouped

PAIR = "camera → laptops"
BARS = ("source_only", "lisa", "in_domain")


def pair(folder: Path, scores: dict[str, tuple[float, ...]], **changes: Any) -> list[Pair]:
    def role(method: str) -> str:
        return method if method in BARS and method != "lisa" else "adapted"

    return grouped(
        run(folder, None, {"span_f1": v, "aspect_f1": v / 2}, m, role(m), seed, **changes)
        for m, values in scores.items()
        for seed, v in enumerate(values)
    )


def headline(pairs: list[Pair], method: str = "lisa") -> Share:
    return compare(pairs).cell(PAIR, method).shares[0]


def test_a_gap_hidden_by_two_intervals_is_shown_by_pairs(tmp_path: Path) -> None:
    """Seeds differ by 10 points, but in_domain is 2 above source_only at each of them."""
    scores = {"source_only": (0.4, 0.5, 0.6), "lisa": (0.41, 0.51, 0.61), "in_domain": (0.421, 0.519, 0.62)}
    found = headline(pair(tmp_path, scores))
    assert found.gap is not None and found.gap.mean == pytest.approx(0.02) and (found.gap.low or 0) > 0
    assert found.value is not None and found.value.mean == pytest.approx(0.5)
    # By hand: Student's t with two degrees of freedom of 0.021, 0.019 and 0.02.
    half = stats.t.ppf(0.975, 2) * np.std([0.021, 0.019, 0.02], ddof=1) / 3**0.5
    assert found.gap.high == pytest.approx(0.02 + half)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ({"lisa": (0.5,)}, "no comparable run of source_only or in_domain"),
        ({"lisa": (0.5,), "source_only": (0.4,)}, "no comparable run of in_domain"),
        ({"lisa": (0.5,), "source_only": (0.8,), "in_domain": (0.8,)}, "in_domain is not better than source_only"),
        (
            {"source_only": (0.4, 0.5, 0.6), "lisa": (0.41, 0.51, 0.61), "in_domain": (0.45, 0.5, 0.61)},
            "no gap to close is shown: in_domain − source_only is +2.0 points, -",
        ),
        (
            {"source_only": (0.4,), "lisa": (0.5,), "in_domain": (0.405,)},
            "in_domain − source_only is 0.5 points, too few for a share of them: fewer than 3",
        ),
    ],
)
def test_a_share_that_means_nothing_says_why(tmp_path: Path, scores: dict[str, tuple[float, ...]], reason: str) -> None:
    found = headline(pair(tmp_path, scores))
    assert found.value is None and found.reason.startswith(reason)


def test_of_seeds_that_all_three_have_and_without_an_interval_it_says_so(tmp_path: Path) -> None:
    scores = {"source_only": (0.4, 0.5), "lisa": (0.5, 0.6, 0.9), "in_domain": (0.8, 0.9)}
    found = headline(pair(tmp_path, scores))
    assert found.value is not None and (found.value.mean, found.value.low) == (pytest.approx(0.25), None)
    assert found.reason.startswith("no interval stands behind this share: fewer than 3 seeds")


def test_the_bars_themselves_are_0_and_1(tmp_path: Path) -> None:
    pairs = pair(tmp_path, {"source_only": (0.4, 0.41, 0.39), "in_domain": (0.8, 0.83, 0.81)})
    for method, value in (("source_only", 0.0), ("in_domain", 1.0)):
        found = headline(pairs, method).value
        assert found is not None
        assert [found.low, found.mean, found.high] == pytest.approx([value] * 3, abs=1e-6)


def test_ends_are_fiellers() -> None:
    """In closed form, as in Fieller (1954), where the only draws are seeds."""
    rng = np.random.default_rng(0)
    gain, gap = rng.normal(0.1, 0.02, 5), rng.normal(0.3, 0.04, 5)
    found = share("f1", [(mean_of(gain.tolist()), mean_of(gap.tolist()))]).value
    cov, t = np.cov(gain, gap) / 5, stats.t.ppf(0.975, 4)
    a, b, c = gap.mean() ** 2 - t**2 * cov[1, 1], gain.mean() * gap.mean() - t**2 * cov[0, 1], gain.mean() ** 2
    root = (b**2 - a * (c - t**2 * cov[0, 0])) ** 0.5
    assert found is not None
    assert [found.low, found.high] == pytest.approx([(b - root) / a, (b + root) / a], abs=1e-5)


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    rng, hits, shown = np.random.default_rng(0), 0, 0
    for _ in range(150):
        noise = rng.normal(0, 0.03, (3, 4))  # of the method, source_only and in_domain
        gain, gap = 0.1 + noise[0] - noise[1], 0.2 + noise[2] - noise[1]
        found = share("f1", [(mean_of(gain.tolist()), mean_of(gap.tolist()))]).value
        if found is not None and found.low is not None and found.high is not None:
            shown += 1
            hits += found.low <= 0.5 <= found.high
    assert shown > 100
    assert hits / shown >= 0.9


def test_over_pairs_it_is_the_mean_gain_over_the_mean_gap(tmp_path: Path) -> None:
    one = {"source_only": (0.4, 0.4, 0.41), "lisa": (0.5, 0.5, 0.51), "in_domain": (0.6, 0.6, 0.61)}  # 0.1 of 0.2
    other = {"source_only": (0.3, 0.3, 0.31), "lisa": (0.3, 0.3, 0.31), "in_domain": (0.9, 0.9, 0.91)}  # none of 0.6
    pairs = [*pair(tmp_path, one, target="a"), *pair(tmp_path, other, target="b")]
    lisa = next(o for o in compare(pairs).overall if o.method == "lisa")
    assert [(s.score, s.pairs) for s in lisa.shares] == [("span_f1", 2), ("aspect_f1", 2)]
    for found in lisa.shares:
        assert found.value is not None and found.value.mean == pytest.approx(0.1 / 0.8)


def test_span_types_have_intervals_over_items_too(tmp_path: Path) -> None:
    gains = {"lisa": 0.1, "in_domain": 0.4}
    cell = compare(benchmark(tmp_path, gains, count=200, spread=0.02)).cell(PAIR, "lisa")
    assert [s.score for s in cell.shares] == ["span_f1", "aspect_f1", "opinion_f1"]
    for found in cell.shares:
        assert found.value is not None and found.value.over == "seeds and test items"
        assert found.value.low is not None and found.value.high is not None
        assert found.value.low < found.value.mean < found.value.high


def test_other_sizes_of_test_are_told(tmp_path: Path) -> None:
    rows = span_rows(np.ones(4))
    runs = [run(tmp_path, None, span_scores(rows), m, "adapted" if m == "lisa" else m) for m in BARS]
    for number, one in enumerate(runs):
        one["target_test_sizes"] = {"all": 4 + (number == 2), "clean": 4}
    assert headline(grouped(runs)).reason == "in_domain was tested on 5 texts, source_only on 4"
