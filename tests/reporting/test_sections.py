"""Numbers of the report's sections, against ones worked out by hand."""

from pathlib import Path
from typing import Any

import pytest

from domadapt.reporting.blocks import Figure, Table, Text
from domadapt.reporting.cards import Audits, data, expected, published_and_clean, read_audits
from domadapt.reporting.cost import cost, costs
from domadapt.reporting.examples import best_adapted, calibration, mistakes, pooled
from domadapt.reporting.plots import heatmap
from domadapt.reporting.rows import rows
from domadapt.reporting.svg import palette
from domadapt.reporting.tables import rank_svg, regret, regret_table, text_table
from domadapt.reporting.words import significance, verdict_card
from domadapt.runs.groups import group, read_runs
from domadapt.statistics.compare import compare
from domadapt.statistics.results import Ranking
from tests.support import grouped


def choice(epoch: int, score: float) -> dict[str, Any]:
    return {"epoch": epoch, "target_test": {"span_f1": score}}


def test_regret_by_hand(make_metrics: Any) -> None:
    runs = [
        make_metrics("lisa", seed, 0.5, selection={
            "validator": "entropy", "epoch": seed, "gap": gap,
            "choices": {"oracle": choice(3, 0.5 + gap), "entropy": choice(seed, 0.5), "source_dev": choice(1, 0.25)},
        })
        for seed, gap in ((1, 0.25), (2, 0.0))
    ]  # fmt: skip
    (pair,) = grouped(runs)
    table = regret_table(pair)
    assert table is not None
    assert table.header == ["method", "entropy", "source_dev", "oracle (a bound)", "regret"]
    assert table.rows == [["lisa", "50.0 (1.5)*", "25.0 (1.0)", "62.5 (3.0)", "12.5"]]


def test_old_runs_have_no_regret(make_metrics: Any) -> None:
    section = regret(grouped([make_metrics("lisa", 1, 0.5)]))
    (block,) = section.blocks
    assert isinstance(block, Text)
    assert "No run recorded" in block.text


def test_seeds_bins_are_pooled_by_their_counts(make_metrics: Any) -> None:
    def bins(*parts: tuple[float, float, int]) -> dict[str, Any]:
        return {"error": 0.25, "bins": [{"confidence": c, "accuracy": a, "count": n} for c, a, n in parts]}

    runs = [
        make_metrics("lisa", 1, 0.5, calibration=bins((0.5, 0.0, 0), (0.75, 0.5, 1), (1.0, 1.0, 4))),
        make_metrics("lisa", 2, 0.5, calibration=bins((0.75, 1.0, 3))),
    ]
    (pair,) = grouped(runs)
    assert pooled(pair.methods[0]) == [(0.75, 0.875, 4), (1.0, 1.0, 4)]
    figure, table = calibration(pair, palette([pair]))
    assert isinstance(figure, Figure) and isinstance(table, Table)
    assert table.rows == [["lisa", "25.0", "-", "-", "-", "-", "8"]]


def test_expected_beside_true_and_seeds_that_agree(make_run: Any, row: Any) -> None:
    """Two seeds: one right on both spans, the other on one of two; each expected 60."""
    told = {"score": 0.6, "low": 0.5, "high": 0.75, "usual_error": 0.1}
    gold = [(0, 4), (5, 9)]
    for seed, found in ((1, gold), (2, [(0, 4), (10, 12)])):
        folder = make_run(
            "gnn", seed, 0.5, [row("Menu lens so.", gold, found)], expected=told, target_test={"span_f1": 0.5 * seed}
        )
    runs = read_runs(folder.parents[1]).runs
    section = expected(group(runs))
    _, summary, table, agree = section.blocks
    assert isinstance(summary, Text) and isinstance(table, Table) and isinstance(agree, Table)
    assert "off by 25.0 points on average over 2 runs; 1 within their interval" in summary.text
    assert [line[2:] for line in table.rows] == [
        ["1", "60.0", "50.0", "75.0", "50.0", "+10.0", "10.0"],
        ["2", "60.0", "50.0", "75.0", "100.0", "-40.0", "10.0"],
    ]
    assert [line[1:] for line in agree.rows] == [["gnn", "50.0", "75.0"]]


def test_cost_by_hand(make_metrics: Any) -> None:
    def run(method: str, score: float, fit: float, target: str) -> dict[str, Any]:
        seconds = {"build": 1.0, "prepare": 0.0, "fit": fit, "evaluate": 99.0}
        found: dict[str, Any] = make_metrics(method, 1, score, seconds=seconds, target=target, counts={"parameters": 7})
        return found

    pairs = grouped([run("source_only", 0.5, 1.0, "a"), run("lisa", 0.75, 3.0, "a"),
                   run("source_only", 0.5, 3.0, "b"), run("lisa", 0.5, 11.0, "b")])  # fmt: skip
    base, lisa = costs(pairs)
    assert (base.seconds, base.times, base.gain) == (3.0, 1.0, 0.0)
    assert (lisa.seconds, lisa.times, lisa.gain, lisa.parameters, lisa.pairs) == (8.0, 2.5, 0.125, 7.0, 2)
    assert not any(isinstance(block, Figure) for block in cost(pairs, palette(pairs)).blocks)  # two dots
    pairs = grouped([run("source_only", 0.5, 1.0, "a"), run("lisa", 0.75, 3.0, "a"), run("gnn", 0.75, 4.0, "a")])
    assert any(isinstance(block, Figure) for block in cost(pairs, palette(pairs)).blocks)


def test_heatmap_by_hand(make_metrics: Any) -> None:
    scores = {"source_only": (0.48, 0.50, 0.52), "lisa": (0.58, 0.60, 0.62), "in_domain": (0.88, 0.9, 0.9)}
    runs = [make_metrics(m, seed, v) for m, values in scores.items() for seed, v in enumerate(values)]
    runs.append(make_metrics("lisa", 1, 0.5, target="phone"))
    pairs = grouped(runs)
    values, gaps = [b for b in heatmap(pairs, compare(pairs)) if isinstance(b, Table)]
    assert gaps.header == ["method", "mean", "camera → laptop", "camera → phone"]
    assert gaps.rows == [["lisa", "25", "25", "- [1]"]]
    assert gaps.shades[0, 2] == pytest.approx(0.1 / (0.9 - 0.5 - 0.02 / 3), abs=1e-6)
    assert "no comparable run" in gaps.notes[0]
    assert values.rows[1:] == [["lisa", "55.0", "60.0", "50.0"], ["in_domain", "", "89.3", ""]]


def test_significance_prints_reasons_in_place_of_p(make_metrics: Any) -> None:
    runs = [make_metrics(m, seed, v + seed / 100) for m, v in (("source_only", 0.5), ("lisa", 0.6)) for seed in (1, 2)]
    pairs = grouped(runs)
    (table,) = [b for b in significance(pairs, compare(pairs)).blocks if isinstance(b, Table)]
    (row,) = table.rows
    assert row[:2] == ["lisa", "+10.0"]
    assert row[3].startswith("- [")
    assert any("seeds" in note for note in table.notes)


def test_critical_difference_is_drawn() -> None:
    same = ((1.0, 0.5, 0.01), (0.5, 1.0, 0.5), (0.01, 0.5, 1.0))
    ranking = Ranking(("lisa", "lisa ", "<b>"), ("a", "b"), (1.0, 2.0, 3.0), 0.01, 1.5, same)
    svg = rank_svg(ranking, "ranks")
    assert "&lt;b&gt;" in svg
    assert "lisa" in svg
    assert "\u200b" not in svg
    assert svg == rank_svg(ranking, "ranks")


def test_published_and_clean_side_by_side(make_metrics: Any) -> None:
    changes = {"target_test_sizes": {"all": 4, "clean": 3}, "target_test_clean": {"span_f1": 0.25}}
    table = published_and_clean(grouped([make_metrics("lisa", 1, 0.5, **changes)]))
    assert isinstance(table, Table)
    assert table.rows == [["camera → laptop: lisa", "4", "3", "50.0", "25.0", "-25.0"]]


def test_kinds_of_errors_by_hand(make_run: Any, row: Any) -> None:
    """Gold 0-4 and 5-9; right and invented, then boundary and missed: halves of two seeds are rounded to even."""
    gold = [(0, 4), (5, 9)]
    for seed, found in ((1, [(0, 4), (10, 12)]), (2, [(0, 3)])):
        folder = make_run("lisa", seed, 0.5, [row("Menu lens so.", gold, found)] * 4)
    (pair,) = group(read_runs(folder.parents[1]).runs)
    table = mistakes(pair)
    assert table is not None
    assert table.header == ["method", "right", "boundary", "type", "boundary and type", "missed", "invented"]
    assert table.rows == [["lisa", "2", "2", "0", "0", "4", "2"]]


def test_confusions_of_labels(make_run: Any, row: Any) -> None:
    line = row("It broke.", [], [])
    line["gold"]["label"], line["predicted"]["label"] = "negative", "positive"
    folder = make_run("lisa", 1, 0.5, [line], task="classification", headline="macro_f1")
    (pair,) = group(read_runs(folder.parents[1]).runs)
    table = mistakes(pair)
    assert table is not None
    assert (table.header, table.rows) == (["method", "right", "negative → positive"], [["lisa", "0", "1"]])


def test_controls_stand_beside_their_method(make_metrics: Any) -> None:
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": "gnn_shuffled", "lisa": "lisa_shuffled"}}}
    scores = {"source_only": 0.4, "gnn": 0.5, "gnn_shuffled": 0.45, "lisa": 0.6, "lisa_shuffled": 0.3}
    (pair,) = grouped([make_metrics(name, 1, score, config=config) for name, score in scores.items()])
    order = [row.method.name for row in rows(pair)]
    assert order == ["source_only", "lisa", "lisa_shuffled", "gnn", "gnn_shuffled"]
    colors = palette([pair])
    assert len(set(colors.values())) == 5


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8}, "lisa, best on source dev, is 10.0 points better than"),
        ({"source_only": 0.4, "lisa": 0.3}, "10.0 points worse than source_only on the target; that it is more than"),
        ({"source_only": 0.4}, "No adapted method was run"),
        ({"lisa": 0.4}, "can't be compared: "),
        ({"lisa": None}, "The target test has no labels"),
    ],
)
def test_the_card_says_what_came_out(make_metrics: Any, levels: dict[str, Any], said: str) -> None:
    changes = {"config": {"backbone": {"name": "minilm"}, "trainer": {"epochs": 2}}}
    pairs = grouped([make_metrics(name, 1, score, **changes) for name, score in levels.items()])
    card = verdict_card(pairs, compare(pairs))
    facts = dict(card.items)
    assert said in card.sentence
    assert facts["Backbone"] == "minilm"
    assert facts["Runs"].endswith(f"; {3 * len(levels)} s in all")
    if len(levels) == 3:
        assert facts["Target score, %"] == "source_only 40.0 → lisa 50.0 → ceiling 80.0"
        assert facts["Gap closed"] == "25 %"
        assert facts["Model"] == "not kept beside these runs"


def test_audits_beside_the_runs(tmp_path: Path, make_metrics: Any) -> None:
    storage = pytest.importorskip("domadapt.auditing.audit", reason="the audit room is not here yet")
    from domadapt.auditing.audit import Audit
    from domadapt.auditing.finding import Finding

    found = Finding("duplicates", "severe", 0.5, "Half of the test is in training <b>.", {}, ("a\u202eb",))
    storage.write_audit(Audit("camera", "laptop", {}, {}, (found,), {"tags": 2}, "Bad."), tmp_path / "x" / "audit.json")
    (tmp_path / "audit.json").write_text("{", encoding="utf-8")
    audits = read_audits([tmp_path], None)
    assert (len(audits.audits), len(audits.skipped)) == (1, 1)
    section = data(grouped([make_metrics("lisa", 1, 0.5)]), audits)
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert table.rows == [["severe", "duplicates", "Half of the test is in training <b>."]]
    with pytest.raises(ValueError, match="no audit"):
        read_audits([], tmp_path / "audit.json")


def test_audit_that_is_not_there(tmp_path: Path) -> None:
    assert read_audits([tmp_path], None) == Audits()
    with pytest.raises(ValueError, match="audit="):
        read_audits([], tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"no audit\.json in that folder"):
        read_audits([], tmp_path)


def test_a_control_is_never_the_method_that_a_report_names(make_metrics: Any) -> None:
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": "gnn_shuffled"}}}
    dev = {"source_only": 0.6, "gnn": 0.7, "gnn_shuffled": 0.8, "lisa": 0.65}
    (pair,) = grouped([make_metrics(m, 1, 0.5, config=config, source_dev={"span_f1": d}) for m, d in dev.items()])
    best = best_adapted(pair)
    assert best is not None and best.name == "gnn"


def test_a_column_of_intervals_needs_one(make_metrics: Any) -> None:
    sizes = {"all": 4, "clean": 3}
    runs = [make_metrics("source_only", seed, 0.5 + seed / 100, target_test_sizes=sizes) for seed in range(3)]
    few, many = text_table(runs[:2]), text_table(runs)
    assert "clean interval" not in few and "  clean  " in few
    assert "clean interval" in many
