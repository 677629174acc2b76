"""The whole comparison, from run folders to words; shares of the gap by hand and by Fieller's formula."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from domadapt.runs.groups import Pair
from domadapt.statistics.compare import Share, compare, share
from domadapt.statistics.resampling import mean_of, runs_test
from tests.statistics.made import benchmark, run, span_rows, span_scores
from tests.support import grouped, make_metrics

PAIR = "camera → laptops"
TARGETS = tuple("abcdef")


def test_a_cell_says_all_there_is_to_say(tmp_path: Path) -> None:
    found = compare(benchmark(tmp_path, {"lisa": 0.3, "noise": 0.0}, seeds=6, controls={"lisa": "noise"}))
    cell = found.cell(PAIR, "lisa")
    assert cell.score is not None and cell.score.units == "seeds and test items"
    for difference, other in ((cell.baseline, "source_only"), (cell.controls[0], "noise")):
        assert difference.other == other
        interval = difference.interval
        assert 0 < interval.low < interval.mean < interval.high
        assert difference.retraining.p == 2 / 64
        assert difference.new_data.p is not None and difference.new_data.p < 0.01
    # A family of two: what is claimed of lisa, against the baseline and against its control.
    tests = [cell.baseline.retraining, cell.controls[0].retraining]
    assert [t.p_holm for t in tests] == [pytest.approx(2 * 2 / 64)] * 2
    assert "after Holm over 2" in cell.baseline.retraining.reason
    noise = found.cell(PAIR, "noise")
    assert (noise.role, noise.baseline.retraining.p) == ("control", None)
    assert noise.baseline.retraining.reason == "nobody claims anything by it, so it is not tested"
    assert found.messages == ()


def test_pairing_makes_the_interval_narrower_than_two_alone(tmp_path: Path) -> None:
    """A model that differs from another on three items is compared on these three."""
    rows = span_rows(np.arange(200) % 2 > 0)
    better = span_rows((np.arange(200) % 2 > 0) | (np.arange(200) < 6))
    runs = [run(tmp_path, rows, span_scores(rows), seed=s) for s in (1, 2, 3)]
    runs += [run(tmp_path, better, span_scores(better), "lisa", seed=s) for s in (1, 2, 3)]
    cell = compare(grouped(runs)).cell(PAIR, "lisa")
    alone, paired = cell.score, cell.baseline.interval
    assert (paired.high or 0) - paired.mean < 0.5 * ((alone.high or 0) - alone.mean)


def test_who_has_nobody_to_be_compared_with_says_why_and_a_baseline_can_be_named(tmp_path: Path) -> None:
    found = compare(benchmark(tmp_path, {"lisa": 0.1, "in_domain": 0.3}, controls={"lisa": "absent"}))
    assert found.cell(PAIR, "source_only").baseline.reason == "is the baseline"
    assert found.cell(PAIR, "source_only").controls == ()
    assert found.cell(PAIR, "lisa").controls[0].reason == "its control absent was not run, or with several settings"
    ceiling = found.cell(PAIR, "in_domain").baseline
    assert ceiling.interval is not None and ceiling.interval.mean > 0
    assert ceiling.retraining.reason == ceiling.new_data.reason == "sees target labels: a bound, not tested"
    assert found.overall[-1].baseline.retraining.reason == "sees target labels: a bound, not tested"
    with pytest.raises(KeyError):
        found.cell(PAIR, "absent")
    found = compare(benchmark(tmp_path, {"lisa": 0.1, "gnn": 0.2}), baseline="lisa")
    assert found.cell(PAIR, "gnn").baseline.other == "lisa"
    assert found.cell(PAIR, "lisa").baseline.reason == "is the baseline"
    assert compare(benchmark(tmp_path, {}), "typo").cell(PAIR, "source_only").baseline.reason.endswith("run of typo")


def test_a_mean_over_pairs_that_mixes_settings_is_told(tmp_path: Path) -> None:
    def told(epochs: int) -> tuple[str, ...]:
        cells = [("lisa", "a", 2), ("lisa", "b", epochs), ("gnn", "a", 2), ("gnn", "b", 2)]
        made = [run(tmp_path, None, {"span_f1": 0.5}, m, 1, t, {"trainer": {"epochs": e}}) for m, t, e in cells]
        return compare(grouped(made), predictions=False).messages

    mixes = "not run with the same settings on all pairs (trainer.epochs): means over pairs mix these"
    assert told(9) == (f"lisa: {mixes}",)
    assert told(2) == ()


def test_a_pair_without_target_labels_counts_in_no_mean(tmp_path: Path) -> None:
    rows = span_rows(np.arange(60) % 2 > 0)
    made = [(method, seed) for method in ("source_only", "lisa") for seed in (1, 2, 3)]
    runs = [run(tmp_path, rows, span_scores(rows), *one) for one in made]
    runs += [run(tmp_path, None, None, *one, target="unlabelled") for one in made]
    found = compare(grouped(runs))
    assert [cell.pairs for cell in found.overall] == [(PAIR,)] * 2
    assert found.cell("camera → unlabelled", "lisa").score is None


def test_several_controls(tmp_path: Path) -> None:
    gains = {"lisa": 0.2, "gnn": 0.2, "shuffled": -0.1, "linear": 0.0, "in_domain": 0.3}
    found = compare(benchmark(tmp_path, gains, ("a", "b"), controls={"gnn": ["shuffled", "linear"]}, keep=False))
    roles = {cell.method: cell.role for cell in found.cells}
    assert (roles["shuffled"], roles["linear"], roles["lisa"]) == ("control", "control", "adapted")
    assert [c.other for c in found.cell("camera → a", "gnn").controls] == ["shuffled", "linear"]
    controls = {o.method: [c.other for c in o.controls] for o in found.overall if o.controls}
    assert controls == {"gnn": ["shuffled", "linear"]}


def test_only_common_seeds_are_compared(tmp_path: Path) -> None:
    rows = span_rows(np.ones(4))
    runs = [run(tmp_path, rows, span_scores(rows), seed=s) for s in (1, 2, 3)]
    runs += [run(tmp_path, rows, span_scores(rows), "lisa", seed=s) for s in (3, 4)]
    runs += [run(tmp_path, rows, span_scores(rows), "gnn", seed=9)]
    runs += [run(tmp_path, None, None, "blind", seed=1)]
    found = compare(grouped(runs))
    assert found.cell(PAIR, "lisa").baseline.retraining.count == 1
    assert (
        found.cell(PAIR, "gnn").baseline.reason
        == "no seed has a target score of both gnn and source_only on one test set"
    )
    assert found.cell(PAIR, "blind").score is None
    assert found.cell(PAIR, "lisa").baseline.new_data.p == 1.0  # alike on every item


def test_over_pairs(tmp_path: Path) -> None:
    found = compare(benchmark(tmp_path, {"lisa": 0.3, "noise": 0.0}, TARGETS, seeds=3, count=80))
    lisa = next(o for o in found.overall if o.method == "lisa")
    cells = [found.cell(f"camera → {t}", "lisa") for t in TARGETS]
    gains = [c.baseline.interval.mean for c in cells if c.baseline.interval]
    assert lisa.baseline.interval.mean == pytest.approx(np.mean(gains))
    assert (lisa.baseline.retraining.unit, lisa.baseline.retraining.count) == ("runs", 18)
    assert lisa.baseline.retraining.p is not None and lisa.baseline.retraining.p < 0.001
    assert lisa.baseline.new_data.p == runs_test(gains, "pairs").p == 2 / 64
    assert lisa.baseline.replicability[0].count is None
    assert lisa.baseline.replicability[0].reason.startswith("too few seeds")
    assert lisa.baseline.replicability[1].count == 6
    noise = next(o for o in found.overall if o.method == "noise")
    assert noise.baseline.replicability[1].count == 0


def test_damaged_predictions_spoil_one_run_and_unlike_test_sets_are_not_paired(tmp_path: Path) -> None:
    pairs = benchmark(tmp_path, {"lisa": 0.3})
    broken = Path(pairs[0].methods[0].runs[0].folder, "predictions.jsonl")
    broken.write_text("{", encoding="utf-8")
    found = compare(pairs)
    assert found.messages == (next(m for m in found.messages if str(broken) in m),)
    assert all(cell.score is not None for cell in found.cells)
    rows, other = span_rows(np.ones(6)), span_rows(np.ones(7))
    runs = [run(tmp_path, rows, span_scores(rows)), run(tmp_path, other, span_scores(other), "lisa")]
    found = compare(grouped(runs))
    assert found.cell(PAIR, "lisa").baseline.new_data.p is found.cell(PAIR, "lisa").baseline.interval is None
    assert "2 test sets" in found.messages[0]


def test_order_of_items_and_of_methods_does_not_matter(tmp_path: Path) -> None:
    pairs = benchmark(tmp_path, {"lisa": 0.1, "gnn": 0.05, "noise": 0.0}, ("a", "b"), spread=0.05)
    before = compare(pairs)
    for pair in pairs:
        for method in pair.methods:
            for one in method.runs:
                file = Path(one.folder, "predictions.jsonl")
                lines = file.read_text(encoding="utf-8").splitlines()
                file.write_text("\n".join(random.Random(1).sample(lines, len(lines))), encoding="utf-8")
    after = compare([replace(pair, methods=pair.methods[::-1]) for pair in pairs])
    for cell in before.cells:
        assert after.cell(cell.pairs[0], cell.method) == cell
    assert {o.method: o for o in after.overall} == {o.method: o for o in before.overall}


def test_pairs_with_one_test_set_draw_the_same_items(tmp_path: Path) -> None:
    """Two sources, one target: their errors on it go together, so a second pair narrows the mean less."""
    rows = span_rows(np.random.default_rng(0).random(100) < 0.5)
    runs = [run(tmp_path, rows, span_scores(rows), seed=1) | {"source": s} for s in ("a", "b")]
    found = compare(grouped(runs))
    one, both = found.cells[0].score, found.overall[0].score
    assert one is not None and both is not None and one.high and both.high
    assert both.high - both.mean == pytest.approx(one.high - one.mean)


def test_without_predictions_seeds_are_compared(tmp_path: Path) -> None:
    pairs = benchmark(tmp_path, {"lisa": 0.4}, ("a", "b"), seeds=7, count=40, keep=False)
    found = compare(pairs)
    cell, means = found.cells[1], {m.name: np.mean([r.score() for r in m.runs]) for m in pairs[0].methods}
    assert cell.score is not None and (cell.score.units, cell.score.mean) == ("seeds", pytest.approx(means["lisa"]))
    assert cell.baseline.interval.mean == pytest.approx(means["lisa"] - means["source_only"])
    assert cell.baseline.new_data.reason == "not all runs have predictions of the same test items"
    assert found.overall[1].baseline.replicability[0].count == 2
    assert len(found.messages) == 2 and "14 of 14 runs have no predictions.jsonl" in found.messages[0]
    mixed = compare([pairs[0], replace(pairs[1], headline="macro_f1")])
    assert "macro_f1, span_f1" in mixed.messages[-1]
    nothing = compare([])
    assert (nothing.cells, nothing.overall, nothing.messages) == ((), (), ())


def pair(folder: Path, scores: dict[str, tuple[float, ...]], **changes: Any) -> list[Pair]:
    return grouped(
        run(folder, None, {"span_f1": v, "aspect_f1": v / 2}, m, seed, **changes)
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
            "in_domain − source_only is 0.5 points, too few for a share: fewer than 3",
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


def test_ends_are_fiellers() -> None:
    """In closed form, as in Fieller (1954), where the only draws are seeds."""
    rng = np.random.default_rng(0)
    gain, gap = rng.normal(0.1, 0.02, 5), rng.normal(0.3, 0.04, 5)
    found = share("f1", [(mean_of(gain.tolist()), mean_of(gap.tolist()))]).value
    cov, t = np.cov(gain, gap) / 5, stats.t.ppf(0.975, 4)
    a, b, c = gap.mean() ** 2 - t**2 * cov[1, 1], gain.mean() * gap.mean() - t**2 * cov[0, 1], gain.mean() ** 2
    root = (b**2 - a * (c - t**2 * cov[0, 0])) ** 0.5
    assert [found.low, found.high] == pytest.approx([(b - root) / a, (b + root) / a], abs=1e-5)


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
        assert found.value is not None and found.value.units == "seeds and test items"
        assert found.value.low < found.value.mean < found.value.high


def test_what_target_labels_have_chosen_is_not_tested() -> None:
    """A bound among the tests would make all others' corrected p-values larger."""
    low = [0.4 + 0.01 * seed for seed in range(7)]
    levels = {"source_only": 0.0, "lisa": 0.05, "lisa+oracle_selection": 0.06}
    found = compare(
        grouped(make_metrics(m, i, s + up * (1 + s)) for m, up in levels.items() for i, s in enumerate(low))
    )
    tests = {cell.method: cell.baseline.retraining for cell in found.cells}
    assert tests["lisa"].p_holm == tests["lisa"].p == 2**-6
    assert tests["lisa+oracle_selection"].p is None and "a bound" in tests["lisa+oracle_selection"].reason


def test_predictions_that_count_no_kind_are_not_called_missing(tmp_path: Path) -> None:
    made = run(tmp_path, span_rows(np.ones(4, bool)), {"span_f1": 1.0})
    (message,) = compare(grouped([made])).messages
    assert "1 of 1 runs have no kind of label that metrics.json counts" in message
