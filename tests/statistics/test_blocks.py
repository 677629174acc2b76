"""Copies are no evidence: one network scored on many targets narrows no interval and shrinks no p-value."""

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
from domadapt.statistics.resampling import Mean, connected, interval, mean_of, mean_over_pairs, runs_test
from tests.statistics.made import benchmark, run
from tests.support import grouped

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
