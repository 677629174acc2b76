"""Counts give back the stored score; intervals and tests against loops and simulations; copies are no evidence."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from domadapt.runs.groups import Pair, typed
from domadapt.statistics import resampling
from domadapt.statistics.compare import compare
from domadapt.statistics.items import ItemCounts, f1, read_items
from domadapt.statistics.resampling import (
    Significance,
    interval,
    items_test,
    mean_of,
    mean_over_pairs,
    resampled_scores,
    score_interval,
    sign_flip,
)
from domadapt.tasks.task import class_scores
from tests.statistics.made import f1_slow, run, span_rows, span_scores
from tests.support import grouped, predicted_row


def made_items(rng: np.random.Generator, count: int, digest: str = "d", average: str = "macro") -> ItemCounts:
    return ItemCounts(digest, rng.integers(0, 3, size=(count, 2, 3)).astype(np.float32), average)


def coins(right: np.ndarray, digest: str = "coins") -> ItemCounts:
    """One kind; a wrong item is a false positive and a false negative, so that F1 is the share of right ones."""
    counts = np.stack([right, 1 - right, 1 - right], axis=-1)[:, None, :]
    return ItemCounts(digest, counts.astype(np.float32), "macro")


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
    assert (found.low, found.high, found.units) == (pytest.approx(low), pytest.approx(high), "seeds")
    assert "test items are not drawn" in found.reason
    few = interval(mean_of([0.5, 0.6], None, "pair"))
    assert (few.low, few.high, few.units) == (None, None, "") and "3 seeds, and test items are not" in few.reason
    runs = [made_items(np.random.default_rng(seed), 20) for seed in range(3)]
    with_items = mean_of([r.score for r in runs], resampled_scores(runs), "a")
    assert interval(mean_over_pairs([with_items, mean_of([0.1, 0.2, 0.4], None, "b")])).units == "seeds"
    assert interval(mean_over_pairs([with_items, mean_of([0.1], None, "b")])).low is None


def test_two_intervals_by_hand() -> None:
    # ItemCounts alone: the mean of 400 coins, two seeds that answer alike. By hand: 1.96 * sqrt(0.25 / 400) = 0.049.
    one = coins(np.arange(400) % 2)
    found = interval(mean_of([0.5, 0.5], resampled_scores([one, one]), "pair"))
    assert found.units == "test items" and "training again is not in it" in found.reason
    assert found.high - found.mean == pytest.approx(0.049, rel=0.06)
    a, b = mean_of([0.1, 0.2, 0.3], None, "a"), mean_of([0.5, 0.6, 0.7], None, "b")
    found = interval(mean_over_pairs([a, b]))
    # By hand: each mean has variance 0.01 / 3; that of their mean is half of it; 2 + 2 degrees of freedom.
    half = stats.t.ppf(0.975, 4) * (0.01 / 6) ** 0.5
    assert (found.mean, found.high - found.mean) == pytest.approx((0.4, half))


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


@given(st.lists(st.sets(st.integers(0, 8), min_size=1, max_size=3), min_size=1, max_size=10))
@settings(max_examples=50, deadline=None)
def test_connected_is_what_walking_finds(keys: list[set[int]]) -> None:
    found = resampling.components(keys)
    for start in range(len(keys)):
        reached = {start}
        while more := {i for i in range(len(keys)) if any(keys[i] & keys[j] for j in reached)} - reached:
            reached |= more
        assert {i for i in range(len(keys)) if found[i] == found[start]} == reached


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
    for method in ("source_only", "lisa"):
        for seed in range(7):
            score = rng.random()
            for target in "abcde":
                one = run(folder, None, {"span_f1": score}, method, seed, target)
                made.append(one | dict.fromkeys(key, f"{method}{seed}"))
    return grouped(made)


def test_a_whole_comparison_counts_networks(tmp_path: Path) -> None:
    lisa = compare(copies(tmp_path, training=True)).overall[1]
    single = compare(copies(tmp_path)[:1]).cell("camera → a", "lisa")
    assert (lisa.baseline.retraining.count, lisa.baseline.retraining.p) == (7, single.baseline.retraining.p)
    assert lisa.baseline.interval.low == pytest.approx(single.baseline.interval.low)
    assert lisa.baseline.new_data.p is None and "too few pairs (1)" in lisa.baseline.new_data.reason
    assert "5 pairs, but those that share a network count as one" in lisa.baseline.new_data.reason
    apart = compare(copies(tmp_path)).overall[1].baseline
    many, few = apart.retraining, lisa.baseline.retraining
    assert many.count == 35 and many.p is not None and many.p < (few.p or 0.0)


def test_runs_without_a_key_are_one_network_by_their_learning_curve(tmp_path: Path) -> None:
    content = run(tmp_path, None, None) | {"curve": [{"epoch": 1, "losses": {"task": 0.123456789}}]}
    (one,), (other,) = ([m.runs[0] for m in grouped([content | {"target": t}])[0].methods] for t in "ab")
    assert one.network == other.network != replace(one, seed=9).network
    assert replace(one, ceiling="c").network == replace(other, ceiling="c", seed=9).network == "c"


def test_fishers_darwin_data_and_random_swaps_in_any_order() -> None:
    """Fisher (1935, The Design of Experiments, section 21): of Darwin's 15 pairs of plants, 1726 of the 32768 sign
    changes give a sum as far from 0 as the one observed, 314: p = 5.267 percent."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sum(eighths) == 314
    extreme = sum(abs(np.dot(signs, eighths)) >= 314 for signs in product((-1, 1), repeat=15))
    assert extreme == 1726
    # 15 are more than are enumerated: 9,999 random ones.
    assert sign_flip(eighths) == pytest.approx(1726 / 32768, abs=0.007)
    differences = np.random.default_rng(0).normal(0.3, 1, size=20)
    assert sign_flip(differences / 20) == sign_flip(differences[::-1] / 20)
    assert sign_flip(differences / 20) == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.03)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=7), st.randoms())
@settings(max_examples=30, deadline=None)
def test_sign_flip_is_full_enumeration_in_any_order(differences: list[int], random: object) -> None:
    sums = [np.dot(signs, differences) for signs in product((-1, 1), repeat=len(differences))]
    observed = sum(differences)
    assert sign_flip(differences, "greater") == pytest.approx(np.mean([s >= observed for s in sums]))
    assert sign_flip(differences) == pytest.approx(np.mean([abs(s) >= abs(observed) for s in sums]))
    random.shuffle(differences)  # type: ignore[attr-defined]
    assert sign_flip(differences, "greater") == pytest.approx(np.mean([s >= observed for s in sums]))


def test_too_few_say_so_in_words_and_six_are_enough() -> None:
    for count in range(1, 6):
        found = resampling.runs_test([0.1] * count, "seeds")
        assert (found.p, found.p_holm, found.unit, found.count) == (None, None, "seeds", count)
        assert found.reason.startswith(f"too few seeds ({count})") and "6 are needed" in found.reason
    found = resampling.runs_test([0.1, 0.2, 0.3, 0.1, 0.1, 0.2], "pairs")
    assert (found.p, found.reason) == (2 / 64, "")
    for count in (2, 6, 13):
        assert sign_flip([1.0] * count) == resampling.smallest_p(count)


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_items_against_enumeration_of_all_swaps(average: str) -> None:
    """Two seeds, two kinds: swaps carry both seeds' answers to an item."""
    rng = np.random.default_rng(0)
    sides = [[made_items(rng, 9, average=average) for _ in range(2)] for _ in range(2)]

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
    a, b, c = (made_items(rng, 20) for _ in range(3))
    alone = items_test([([a], [b])])
    assert items_test([([c], [c]), ([a], [b])]) == [(1.0, 1.0), *alone]
    monkeypatch.setattr("domadapt.statistics.resampling.CHUNK", 700 * 20)
    assert items_test([([a], [b])]) == alone


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_in_any_order_between_p_and_holm(p_values: list[float]) -> None:
    found = resampling.holm(p_values)
    assert all(p <= q <= min(1, p * len(p_values)) * (1 + 1e-12) for p, q in zip(p_values, found, strict=True))
    assert resampling.holm(p_values[::-1]) == pytest.approx(found[::-1])


def test_only_what_was_tested_is_counted_and_a_table_too_large_for_its_seeds_says_so() -> None:
    words = Significance(None, None, "seeds", 3, "too few seeds")
    table = [Significance(0.001, None, "seeds", 12), words, Significance(0.02, None, "seeds", 12)]
    found = [*map(resampling.correction(table), table)]
    assert [t.p_holm for t in found] == [0.002, None, 0.02] and found[1] is words
    test = Significance(1 / 32, None, "seeds", 6)
    twice = resampling.correction([test, test])(test)
    assert twice.p_holm == 1 / 16
    assert twice.reason == "too few seeds (6) to reach p below 0.062 after Holm over 2"
    assert resampling.correction([test])(test).reason == ""
    # Of more seeds, the other may come first, and Holm leaves this one as it is.
    beside = resampling.correction([Significance(0.0002, None, "seeds", 20), test])(test)
    assert (beside.p_holm, beside.reason) == (1 / 32, "")


def test_the_authors_example_and_too_few_seeds() -> None:
    """github.com/rtmdrr/replicability-analysis-NLP, README: Bonferroni 1, Holm rejects dataset 6."""
    found = resampling.replicability([0.168, 0.297, 0.357, 0.019, 0.218, 0.001], [1e-4] * 6, "test items")
    assert (found.count, found.pairs) == (1, 6)
    found = resampling.replicability([1 / 8] * 6, [1 / 8] * 6, "seeds")
    assert found.count is None
    assert "no test over them could give p below 0.12, and 0.0083 is needed to count one of 6 pairs" in found.reason
    assert resampling.replicability([], [], "seeds").reason == "no pair could be tested over seeds"


def test_it_says_too_many_at_most_once_in_twenty() -> None:
    """Two real gains among six pairs: how often is the count above two?"""
    rng, above = np.random.default_rng(0), 0
    for _ in range(300):
        p = [0.0001, 0.0001, *rng.random(4)]
        found = resampling.replicability(p, [1e-4] * 6, "test items")
        above += (found.count or 0) > 2
    assert above / 300 <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


totals_of_kinds = st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=1, max_size=4)


@given(totals_of_kinds, st.sampled_from(["macro", "micro"]))
def test_f1_is_the_harmonic_mean_of_precision_and_recall(totals: list[list[int]], average: str) -> None:
    assert f1(np.array(totals), average) == pytest.approx(f1_slow(np.array(totals), average), abs=1e-12)


def read(run_: dict) -> ItemCounts:
    found = read_items(typed(run_))
    assert isinstance(found, ItemCounts), found
    return found


def test_spans_give_the_stored_score_of_either_average(tmp_path: Path) -> None:
    rows = span_rows(np.arange(40) % 3 > 0)
    rows[0]["predicted"]["spans"].append({"start": 7, "end": 8, "type": "unscored"})
    scores = span_scores(rows)
    found = read(run(tmp_path, rows, scores))
    assert found.score == pytest.approx(scores["span_f1"], abs=1e-12)
    assert found.counts.shape == (40, 2, 3) and found.counts[1].tolist() == [[1, 0, 0], [1, 0, 0]]
    scores["span_f1"] = f1_slow(found.counts.sum(axis=0), "micro")
    assert read(run(tmp_path, rows, scores, config={"task": {"average": "micro"}})).average == "micro"


@pytest.mark.parametrize(("headline", "shape"), [("macro_f1", (9, 3, 3)), ("accuracy", (9, 1, 3))])
def test_class_scores_are_read_and_compared_by_items(tmp_path: Path, headline: str, shape: tuple[int, ...]) -> None:
    """Each run predicts another class that no gold label has; their counts have one shape all the same."""
    gold = list("aabbbcaab")
    runs = []
    for method, found in (("source_only", "abbbccdac"), ("lisa", "aabbbeaab")):
        scores = class_scores(gold, list(found), list("abcde"))
        for seed in (1, 2, 3):
            made = [predicted_row(f"t{i}", *sides) for i, sides in enumerate(zip(gold, found, strict=True))]
            runs.append(run(tmp_path, made, scores, method, seed, task="classification", headline=headline))
        items = read(runs[-1])
        assert items.score == pytest.approx(scores[headline], abs=1e-12) and items.counts.shape == shape
        drawn = class_scores(gold[:3], list(found[:3]), list("abcde"))  # without the third class
        assert f1(items.counts[:3].sum(axis=0), items.average) == pytest.approx(drawn[headline])
    found = compare(grouped(runs))
    assert found.messages == () and found.cell("camera → laptops", "lisa").baseline.new_data.count == 9


def test_what_is_missing_or_of_another_run_is_said(tmp_path: Path) -> None:
    assert read_items(typed(run(tmp_path, None, None))) == "the target test has no labels"
    assert "no predictions.jsonl" in str(read_items(typed(run(tmp_path, None, {"span_f1": 0.5}))))
    rows = span_rows(np.ones(4))
    with pytest.raises(ValueError, match="not of one run"):
        read_items(typed(run(tmp_path, rows, {**span_scores(rows), "span_f1": 0.5})))


def test_other_gold_labels_are_another_test_set_and_another_order_is_none(tmp_path: Path) -> None:
    rows = span_rows(np.arange(30) % 2 > 0)
    one, other = (read(run(tmp_path / str(i), each, span_scores(rows))) for i, each in enumerate((rows, rows[::-1])))
    assert one.digest == other.digest and (one.counts == other.counts).all()
    for row in rows:
        row["gold"]["spans"] = row["predicted"]["spans"] = row["gold"]["spans"][:1]
    scores = {name: value for name, value in span_scores(rows).items() if "opinion" not in name} | {"span_f1": 1.0}
    assert one.digest != read(run(tmp_path / "b", rows, scores)).digest


WORDY = '{"spans": [{"start": "0", "end": 1, "type": "a"}]}'


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "predictions.jsonl:2: not a prediction"),
        ('{"id": "1", "text": "x"}', "KeyError: 'gold'"),
        ('{"id": "1", "text": "x", "gold": null, "predicted": null}', "TypeError"),
        ('{"id": "1", "text": "x", "gold": {"spans": [{"start": [], "end": 1, "type": "a"}]}}', "TypeError"),
        (f'{{"id": "1", "text": "x", "gold": {WORDY}, "predicted": {WORDY}}}', "'str' object cannot"),
        ("[" * 100_000, "RecursionError"),
        ('{"text": "caf\xe9"}', "not a prediction"),  # and not UTF-8
    ],
)
def test_damaged_predictions_are_refused_by_line(tmp_path: Path, line: str, error: str) -> None:
    rows = span_rows(np.ones(1))
    made = run(tmp_path, rows, span_scores(rows))
    with Path(made["folder"], "predictions.jsonl").open("a", encoding="latin-1") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"predictions.jsonl:2") as caught:
        read_items(typed(made))
    assert error in str(caught.value)


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_a_score_that_every_draw_repeats_has_no_interval(right: float) -> None:
    items = ItemCounts("", np.full((20, 1, 3), [right, 1 - right, 1 - right]), "macro")
    found = score_interval(mean_of([items.score], resampled_scores([items])))
    assert (found.mean, found.low, found.high) == (right, None, None) and "however items are drawn" in found.reason
