"""Intervals against plain loops, Student's t and their promise; and copies of one network are no evidence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from domadapt.runs.groups import Pair
from domadapt.statistics.compare import compare
from domadapt.statistics.items import ItemCounts, f1
from domadapt.statistics.resampling import (
    Mean,
    connected,
    interval,
    mean_of,
    mean_over_pairs,
    resampled_scores,
    runs_test,
)
from tests.statistics.made import benchmark, run
from tests.support import grouped


def made_items(rng: np.random.Generator, count: int, digest: str = "d", average: str = "macro") -> ItemCounts:
    return ItemCounts(digest, rng.integers(0, 3, size=(count, 2, 3)).astype(np.float32), average)


def coins(right: np.ndarray) -> ItemCounts:
    """One kind; a wrong item is a false positive and a false negative, so that F1 is the share of right ones."""
    counts = np.stack([right, 1 - right, 1 - right], axis=-1)[:, None, :]
    return ItemCounts("coins", counts.astype(np.float32), "macro")


def test_resampled_scores_have_the_spread_of_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    runs = [made_items(rng, 50), made_items(rng, 50, average="micro")]
    fast = resampled_scores(runs, 3000)
    slow = np.empty((3000, 2))
    for r in range(3000):
        chosen = rng.integers(50, size=50)
        for c, one in enumerate(runs):
            slow[r, c] = f1(one.counts[chosen].sum(axis=0), one.average)
    assert fast.mean(axis=0) == pytest.approx(slow.mean(axis=0), abs=0.004)
    assert fast.std(axis=0) == pytest.approx(slow.std(axis=0), rel=0.06)
    assert np.corrcoef(fast.T)[0, 1] == pytest.approx(np.corrcoef(slow.T)[0, 1], abs=0.06)


def test_a_run_is_resampled_alike_beside_other_runs_and_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (made_items(rng, 30) for _ in range(3))
    whole = resampled_scores([a, b, c])
    assert (whole[:, 2] == resampled_scores([c, a])[:, 0]).all()
    monkeypatch.setattr("domadapt.statistics.resampling.CHUNK", 7 * 30)
    assert (resampled_scores([a, b, c]) == whole).all()
    with pytest.raises(ValueError, match="different test sets"):
        resampled_scores([a, made_items(rng, 5, "other")])


def test_what_is_not_drawn_is_said() -> None:
    values = [0.40, 0.42, 0.44]
    found = interval(mean_of(values, None, "pair"))
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert (found.low, found.high, found.over) == (pytest.approx(low), pytest.approx(high), "seeds")
    assert "no predictions" in found.reason
    few = interval(mean_of([0.5, 0.6], None, "pair"))
    assert (few.low, few.high, few.over) == (None, None, "") and "fewer than 3 seeds" in few.reason
    runs = [made_items(np.random.default_rng(seed), 20) for seed in range(3)]
    with_items = mean_of([r.score for r in runs], resampled_scores(runs), "a")
    assert interval(mean_over_pairs([with_items, mean_of([0.1, 0.2, 0.4], None, "b")])).over == "seeds"
    assert interval(mean_over_pairs([with_items, mean_of([0.1], None, "b")])).low is None


def test_standard_error_of_a_known_case() -> None:
    # ItemCounts alone: the mean of 400 coins, two seeds that answer alike. By hand: 1.96 * sqrt(0.25 / 400) = 0.049.
    one = coins(np.arange(400) % 2)
    found = interval(mean_of([0.5, 0.5], resampled_scores([one, one]), "pair"))
    assert found.over == "test items"
    assert "training again is not in it" in found.reason
    assert found.high - found.mean == pytest.approx(0.049, rel=0.06)


@pytest.mark.parametrize(("spread", "seeds"), [(0.0, 3), (0.3, 3), (0.8, 3), (0.8, 5)])
def test_it_covers_the_truth_as_often_as_it_says(spread: float, seeds: int) -> None:
    """ItemCounts and seeds are both random; percentiles cover 80 % at a spread of 0.8 and 3 seeds, 88 % at 5."""
    rng, hits, trials = np.random.default_rng(0), 0, 150
    for _ in range(trials):
        easy, good = rng.standard_normal(120), spread * rng.standard_normal(seeds)
        right = rng.random((seeds, 120)) < 1 / (1 + np.exp(-(easy + good[:, None])))
        runs = [coins(r.astype(int)) for r in right]
        found = interval(mean_of([r.score for r in runs], resampled_scores(runs, 300), "pair"))
        hits += found.low <= 0.5 <= found.high  # the truth by symmetry
    assert hits / trials >= 0.90


def test_the_mean_over_pairs_adds_up_variances() -> None:
    a, b = mean_of([0.1, 0.2, 0.3], None, "a"), mean_of([0.5, 0.6, 0.7], None, "b")
    found = interval(mean_over_pairs([a, b]))
    # By hand: each mean has variance 0.01 / 3; that of their mean is half of it; 2 + 2 degrees of freedom.
    half = stats.t.ppf(0.975, 4) * (0.01 / 6) ** 0.5
    assert found.mean == pytest.approx(0.4)
    assert found.high - found.mean == pytest.approx(half)


TARGETS = tuple("abcde")


@given(st.lists(st.sets(st.integers(0, 8), min_size=1, max_size=3), min_size=1, max_size=10))
@settings(max_examples=50, deadline=None)
def test_connected_is_what_walking_finds(keys: list[set[int]]) -> None:
    found = connected(keys)
    for start in range(len(keys)):
        reached = {start}
        while more := {i for i in range(len(keys)) if any(keys[i] & keys[j] for j in reached)} - reached:
            reached |= more
        assert {i for i in range(len(keys)) if found[i] == found[start]} == reached


def trained(rng: np.random.Generator, seeds: int, shared: bool) -> Mean:
    """No method changes anything: each network has its own quality, which all targets see with a little noise."""
    quality = rng.standard_normal(seeds)
    parts = []
    for target in TARGETS:
        values = quality + 0.2 * rng.standard_normal(seeds)
        keys = [frozenset((f"{'' if shared else target}{seed}",)) for seed in range(seeds)]
        parts.append(mean_of(values.tolist(), None, target, range(seeds), keys))
    return mean_over_pairs(parts)


@pytest.mark.parametrize("shared", [True, False])
def test_the_interval_holds_as_often_as_it_says(shared: bool) -> None:
    """Told apart, one network's five scores look like five trainings, and the truth is missed far too often."""
    rng, hits, trials = np.random.default_rng(0), 0, 400
    for _ in range(trials):
        found = interval(trained(rng, 4, shared))
        assert found.low is not None and found.high is not None
        hits += found.low <= 0 <= found.high
    if shared:
        assert 0.92 <= hits / trials <= 0.98
    else:
        assert hits / trials < 0.75


@pytest.mark.parametrize("shared", [True, False])
def test_p_values_are_small_as_often_as_they_say(shared: bool) -> None:
    rng, small, trials = np.random.default_rng(1), 0, 150 if shared else 40
    for _ in range(trials):
        together = trained(rng, 7, shared)
        sums = together.sums(together.blocks)
        assert len(sums) == (7 if shared else 7 * len(TARGETS))
        small += (runs_test(sums, [1.0] * len(sums), "runs").p or 0.0) <= 0.05
    assert small / trials < 0.1 if shared else small / trials > 0.2


def test_a_slow_reference_agrees() -> None:
    """Draw whole seeds, each with its scores on all pairs, in a plain loop."""
    rng = np.random.default_rng(0)
    scores, items = rng.random((3, 5)), rng.random((2000, 3, 5))
    keys = [frozenset((str(seed),)) for seed in range(5)]
    parts = [mean_of(scores[p].tolist(), items[:, p], str(p), range(5), keys) for p in range(3)]
    found = interval(mean_over_pairs(parts))
    draws = [items[r][:, rng.integers(5, size=5)].mean() for r in range(2000)]
    seeds_part = scores.mean(axis=0).var(ddof=1) / 5
    total = np.var(draws, ddof=1) + seeds_part / 5
    half = stats.t.ppf(0.975, total**2 / (seeds_part**2 / 4)) * total**0.5
    assert (found.high or 0) - found.mean == pytest.approx(half, rel=0.08)


def copies(folder: Path, **key: Any) -> list[Pair]:
    """Seven seeds of two methods that read no target, each scored on five targets."""
    rng, made = np.random.default_rng(0), []
    for method, role in (("source_only", "source_only"), ("lisa", "adapted")):
        for seed in range(7):
            score = rng.random()
            for target in TARGETS:
                one = run(folder, None, {"span_f1": score}, method, role, seed, target)
                made.append(one | dict.fromkeys(key, f"{method}{seed}"))
    return grouped(made)


def test_a_whole_comparison_counts_networks(tmp_path: Path) -> None:
    lisa = compare(copies(tmp_path, training=True)).overall[1]
    single = compare(copies(tmp_path)[:1]).cell("camera → a", "lisa")
    assert (lisa.baseline.again.count, lisa.baseline.again.p) == (7, single.baseline.again.p)
    assert lisa.baseline.interval is not None and single.baseline.interval is not None
    assert lisa.baseline.interval.low == pytest.approx(single.baseline.interval.low)
    assert lisa.baseline.elsewhere.p is None
    assert "too few pairs (1)" in lisa.baseline.elsewhere.reason
    assert "5 pairs, but those that share a network count as one" in lisa.baseline.elsewhere.reason
    apart = compare(copies(tmp_path)).overall[1].baseline
    assert apart.again.count == 35 and apart.again.p is not None and apart.again.p < (lisa.baseline.again.p or 0.0)


def test_runs_without_a_key_are_one_network_by_their_learning_curve(tmp_path: Path) -> None:
    pairs = benchmark(tmp_path, {"lisa": 0.1}, ("a", "b"), seeds=2, keep=False)
    runs = [one for pair in pairs for method in pair.methods for one in method.runs]
    assert len({one.network for one in runs}) == len(runs) == 8
    content = run(tmp_path, None, None) | {"curve": [{"epoch": 1, "losses": {"task": 0.123456789}}]}
    (one,), (other,) = ([m.runs[0] for m in grouped([content | {"target": t}])[0].methods] for t in "ab")
    assert one.network == other.network
    assert replace(one, seed=9).network != one.network
    assert replace(one, ceiling="c").network == replace(other, ceiling="c", seed=9).network == "c"
