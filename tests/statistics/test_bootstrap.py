"""The interval against a loop that does what its docstring says, against Student's t, and against its promise."""

import numpy as np
import pytest
from scipy import stats

from domadapt.statistics.items import ItemCounts, f1
from domadapt.statistics.resampling import interval, mean_of, mean_over_pairs, resampled_scores


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


def test_a_slow_reference_agrees() -> None:
    """Crossed draws in a plain loop, the same correction, the same t: ends agree to the noise of resampling."""
    rng = np.random.default_rng(3)
    runs = [coins((rng.random(80) < p).astype(int)) for p in (0.5, 0.6, 0.8, 0.65)]
    scores = [run.score for run in runs]
    fast = interval(mean_of(scores, resampled_scores(runs), "pair"))
    draws = []
    for _ in range(4000):
        items, seeds = rng.integers(80, size=80), rng.integers(4, size=4)
        draws.append(np.mean([f1(runs[s].counts[items].sum(axis=0)) for s in seeds]))
    seeds_part = np.var(scores, ddof=1) / 4
    total = np.var(draws, ddof=1) + seeds_part / 4
    half = stats.t.ppf(0.975, total**2 / (seeds_part**2 / 3)) * total**0.5
    assert fast.over == "seeds and test items"
    assert (fast.high or 0) - fast.mean == pytest.approx(half, rel=0.08)


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
