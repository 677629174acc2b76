"""The whole comparison, from run folders to words."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from domadapt.statistics.compare import compare
from domadapt.statistics.resampling import runs_test
from tests.statistics.made import benchmark, run, span_rows, span_scores
from tests.support import grouped

PAIR = "camera → laptops"
TARGETS = tuple("abcdef")


def test_a_cell_says_all_there_is_to_say(tmp_path: Path) -> None:
    found = compare(benchmark(tmp_path, {"lisa": 0.3, "noise": 0.0}, seeds=6, controls={"lisa": "noise"}))
    cell = found.cell(PAIR, "lisa")
    assert cell.score is not None and cell.score.over == "seeds and test items"
    for difference, other in ((cell.baseline, "source_only"), (cell.controls[0], "noise")):
        assert difference.other == other
        interval = difference.interval
        assert interval is not None and interval.low is not None and interval.high is not None
        assert 0 < interval.low < interval.mean < interval.high
        assert difference.again.p == 2 / 64
        assert difference.elsewhere.p is not None and difference.elsewhere.p < 0.01
    # A family of two: what is claimed of lisa, against the baseline and against its control.
    tests = [cell.baseline.again, cell.controls[0].again]
    assert [t.p_holm for t in tests] == [pytest.approx(2 * 2 / 64)] * 2
    assert "after Holm over 2" in cell.baseline.again.reason
    noise = found.cell(PAIR, "noise")
    assert (noise.role, noise.baseline.again.p) == ("control", None)
    assert noise.baseline.again.reason == "nobody claims anything by it, so it is not tested"
    assert found.messages == ()


def test_pairing_makes_the_interval_narrower_than_two_alone(tmp_path: Path) -> None:
    """A model that differs from another on three items is compared on these three."""
    rows = span_rows(np.arange(200) % 2 > 0)
    better = span_rows((np.arange(200) % 2 > 0) | (np.arange(200) < 6))
    runs = [run(tmp_path, rows, span_scores(rows), seed=s) for s in (1, 2, 3)]
    runs += [run(tmp_path, better, span_scores(better), "lisa", "adapted", seed=s) for s in (1, 2, 3)]
    cell = compare(grouped(runs)).cell(PAIR, "lisa")
    alone, paired = cell.score, cell.baseline.interval
    assert alone is not None and paired is not None
    assert (paired.high or 0) - paired.mean < 0.5 * ((alone.high or 0) - alone.mean)


def test_who_has_nobody_to_be_compared_with_says_why(tmp_path: Path) -> None:
    found = compare(benchmark(tmp_path, {"lisa": 0.1, "in_domain": 0.3}, controls={"lisa": "absent"}))
    assert found.cell(PAIR, "source_only").baseline.reason == "is the baseline"
    assert found.cell(PAIR, "source_only").controls == ()
    assert found.cell(PAIR, "lisa").controls[0].reason == "its control absent was not run, or with several settings"
    ceiling = found.cell(PAIR, "in_domain").baseline
    assert ceiling.interval is not None and ceiling.interval.mean > 0
    assert ceiling.again.reason == ceiling.elsewhere.reason == "sees target labels: a bound, not tested"
    assert found.overall[-1].baseline.again.reason == "sees target labels: a bound, not tested"
    with pytest.raises(KeyError):
        found.cell(PAIR, "absent")


def test_a_named_baseline(tmp_path: Path) -> None:
    found = compare(benchmark(tmp_path, {"lisa": 0.1, "gnn": 0.2}), baseline="lisa")
    assert found.cell(PAIR, "gnn").baseline.other == "lisa"
    assert found.cell(PAIR, "lisa").baseline.reason == "is the baseline"
    assert compare(benchmark(tmp_path, {}), baseline="typo").cell(PAIR, "source_only").baseline.reason == (
        "no comparable run of typo"
    )


def test_several_controls(tmp_path: Path) -> None:
    gains = {"lisa": 0.2, "gnn": 0.2, "shuffled": -0.1, "linear": 0.0, "in_domain": 0.3}
    found = compare(benchmark(tmp_path, gains, ("a", "b"), controls={"gnn": ["shuffled", "linear"]}, keep=False))
    roles = {cell.method: cell.role for cell in found.cells}
    assert (roles["shuffled"], roles["linear"], roles["lisa"]) == ("control", "control", "adapted")
    assert [c.other for c in found.cell("camera → a", "gnn").controls] == ["shuffled", "linear"]
    assert {o.method: [c.other for c in o.controls] for o in found.overall if o.controls} == {
        "gnn": ["shuffled", "linear"]
    }


def test_only_common_seeds_are_compared(tmp_path: Path) -> None:
    rows = span_rows(np.ones(4))
    runs = [run(tmp_path, rows, span_scores(rows), seed=s) for s in (1, 2, 3)]
    runs += [run(tmp_path, rows, span_scores(rows), "lisa", "adapted", seed=s) for s in (3, 4)]
    runs += [run(tmp_path, rows, span_scores(rows), "gnn", "adapted", seed=9)]
    runs += [run(tmp_path, None, None, "blind", "adapted", seed=1)]
    found = compare(grouped(runs))
    assert found.cell(PAIR, "lisa").baseline.again.count == 1
    assert found.cell(PAIR, "gnn").baseline.reason == "no seed has a target score of both gnn and source_only"
    assert found.cell(PAIR, "blind").score is None
    assert found.cell(PAIR, "lisa").baseline.elsewhere.p == 1.0  # alike on every item


def test_over_pairs(tmp_path: Path) -> None:
    found = compare(benchmark(tmp_path, {"lisa": 0.3, "noise": 0.0}, TARGETS, seeds=3, count=80))
    lisa = next(o for o in found.overall if o.method == "lisa")
    cells = [found.cell(f"camera → {t}", "lisa") for t in TARGETS]
    gains = [c.baseline.interval.mean for c in cells if c.baseline.interval]
    assert lisa.baseline.interval is not None
    assert lisa.baseline.interval.mean == pytest.approx(np.mean(gains))
    assert (lisa.baseline.again.unit, lisa.baseline.again.count) == ("runs", 18)
    assert lisa.baseline.again.p is not None and lisa.baseline.again.p < 0.001
    assert lisa.baseline.elsewhere.p == runs_test(gains, [1 / 6] * 6, "pairs").p == 2 / 64
    assert lisa.baseline.replicability[0].count is None
    assert lisa.baseline.replicability[0].reason.startswith("too few seeds")
    assert lisa.baseline.replicability[1].count == 6
    assert lisa.baseline.replicability[1].pairs == tuple(f"camera → {t}" for t in TARGETS)
    noise = next(o for o in found.overall if o.method == "noise")
    assert noise.baseline.replicability[1].count == 0


def test_damaged_predictions_spoil_one_run_not_the_comparison(tmp_path: Path) -> None:
    pairs = benchmark(tmp_path, {"lisa": 0.3})
    broken = Path(pairs[0].methods[0].runs[0].folder, "predictions.jsonl")
    broken.write_text("{", encoding="utf-8")
    found = compare(pairs)
    assert found.messages == (next(m for m in found.messages if str(broken) in m),)
    assert all(cell.score is not None for cell in found.cells)


def test_runs_on_different_test_sets_are_not_paired_by_item(tmp_path: Path) -> None:
    rows, other = span_rows(np.ones(6)), span_rows(np.ones(7))
    runs = [run(tmp_path, rows, span_scores(rows)), run(tmp_path, other, span_scores(other), "lisa", "adapted")]
    found = compare(grouped(runs))
    assert found.cell(PAIR, "lisa").baseline.elsewhere.p is None
    assert "2 different test sets" in found.messages[0]


def test_order_of_items_and_of_methods_does_not_matter(tmp_path: Path) -> None:
    pairs = benchmark(tmp_path, {"lisa": 0.1, "gnn": 0.05, "noise": 0.0}, ("a", "b"), spread=0.05)
    before = compare(pairs)
    for pair in pairs:
        for method in pair.methods:
            for one in method.runs:
                file = Path(one.folder, "predictions.jsonl")
                lines = file.read_text(encoding="utf-8").splitlines()
                file.write_text("\n".join(random.Random(1).sample(lines, len(lines))), encoding="utf-8")
    turned = [replace(pair, methods=pair.methods[::-1]) for pair in pairs]
    after = compare(turned)
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
    assert cell.score is not None and (cell.score.over, cell.score.mean) == ("seeds", pytest.approx(means["lisa"]))
    assert cell.baseline.interval is not None
    assert cell.baseline.interval.mean == pytest.approx(means["lisa"] - means["source_only"])
    assert cell.baseline.elsewhere.reason == "not all runs have predictions of the same test items"
    assert found.overall[1].baseline.replicability[0].count == 2
    assert len(found.messages) == 2 and "14 of 14 runs have no predictions.jsonl" in found.messages[0]
    mixed = compare([pairs[0], replace(pairs[1], headline="macro_f1")])
    assert "macro_f1, span_f1" in mixed.messages[-1]
    nothing = compare([])
    assert (nothing.cells, nothing.overall, nothing.messages) == ((), (), ())
