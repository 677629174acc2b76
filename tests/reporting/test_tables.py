"""Numbers of tables against ones worked out by hand; claims in words need source_only, a neutral control and seeds."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domadapt.auditing.audit import Audit, write_audit
from domadapt.auditing.finding import Finding
from domadapt.reporting import tables
from domadapt.reporting.blocks import Prose, Table, rows_and_notes
from domadapt.reporting.frames import best_adapted, rows
from domadapt.reporting.plots import palette
from domadapt.reporting.sections import cost, data, expected, read_audits, significance
from domadapt.reporting.words import claim, mistakes, verdict, verdict_card
from domadapt.runs.groups import group, read_runs, reference
from domadapt.statistics.compare import compare
from tests.support import finished, grouped, make_metrics, predicted_row


def _cells(text: str, method: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(method))
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def met(scores: dict[str, Any], **changes: Any) -> list[Any]:
    """Metrics of runs: a method's scores, of seed 1 and on."""
    every = {method: of if isinstance(of, tuple) else (of,) for method, of in scores.items()}
    return [make_metrics(m, seed, one, **changes) for m, of in every.items() for seed, one in enumerate(of, start=1)]


def test_numbers_by_hand() -> None:
    scores = {"source_only": (0.40, 0.42, 0.44), "lisa": (0.50, 0.52, 0.54), "in_domain": (0.80, 0.82, 0.84)}
    text = tables.text_table([*met(scores), make_metrics("rnn_from_scratch", 1, 0.1)])
    # Student's t with two degrees of freedom: 4.3027 × 0.02 / √3 = 0.0497. Gap: (0.52 − 0.42) / (0.82 − 0.42) = 0.25.
    assert _cells(text, "lisa")[1:] == ["52.0", "47.0–57.0 (s)", "42.0", "62.0", "60.0", "25 %", "3"]
    assert _cells(text, "source_only")[6] == "0 %" and _cells(text, "in_domain")[-2] == "100 %"
    scratch = _cells(text, "rnn_from_scratch")
    assert (scratch[2], scratch[-2]) == ("- [1]", "-")  # another network is nowhere on the way
    for part in ("in_domain (ceiling: trained on target labels)", "[1] fewer than 3", "not all run with the same"):
        assert part in text


def test_order_of_rows() -> None:
    names = {"in_domain": 0.9, "weak": 0.1, "strong": 0.6, "source_only": 0.4, "rnn_from_scratch": 0.5}
    (pair,) = grouped(met(names))
    assert [row.name for row in rows(pair)] == ["rnn_from_scratch", "source_only", "strong", "weak", "in_domain"]
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": "gnn_shuffled", "lisa": "lisa_shuffled"}}}
    names = {"source_only": 0.4, "gnn": 0.5, "gnn_shuffled": 0.45, "lisa": 0.6, "lisa_shuffled": 0.3}
    (pair,) = grouped(met(names, config=config))
    assert [row.name for row in rows(pair)] == ["source_only", "lisa", "lisa_shuffled", "gnn", "gnn_shuffled"]
    assert len(set(palette([pair]).values())) == 5


CLASSES = {"task": "classification", "headline": "macro_f1", "target_test": {"macro_f1": 0.5, "accuracy": 0.75}}
CLEAN = {"target_test_sizes": {"all": 4, "clean": 3}, "target_test_clean": {"span_f1": 0.3}}

NONE = {"target_test_sizes": {"all": 4, "clean": 0}, "target_test_clean": None}


@pytest.mark.parametrize(
    ("methods", "score", "changes", "there", "absent"),
    [
        (["lisa"], 0.5, {}, r"- \[1\].*\[2\] no comparable run of source_only or in_domain among these", "clean"),
        (["source_only", "lisa"], None, {}, r"\[1\] the target test has no labels", "clean"),
        (["source_only"], 0.5, CLEAN, r"  clean  .*  30\.0  .*clean: on 3 of 4 texts, without test texts", "clean int"),
        (
            ["source_only"],
            0.5,
            NONE,
            r"no clean score \(-\): all test texts are copies of training, dev or",
            "  clean  ",
        ),
        (["source_only"], 0.5, CLASSES, r"accuracy.*  75\.0  ", "a F1"),
        (["source_only"], 0.5, {**CLASSES, "headline": "accuracy"}, "macro F1", "accuracy  "),  # a score stands once
        (["lisa", "lisa"], 0.5, {}, "1 run left out", "lisa.*lisa"),  # the later of two equal runs counts
    ],
)
def test_columns_and_notes(methods: Any, score: Any, changes: Any, there: str, absent: str) -> None:
    text = tables.text_table([make_metrics(method, 1, score, **changes) for method in methods])
    assert re.search(there, text, re.DOTALL), text
    assert not re.search(absent, text, re.DOTALL), text
    assert tables.text_table([]) == "no finished runs"


def test_settings_data_tasks_and_headlines_are_never_averaged_together() -> None:
    run = make_metrics("lisa", 1, 0.5)
    longer = make_metrics("lisa", 1, 0.6, config={**run["config"], "trainer": {"epochs": 9}})
    split = make_metrics("lisa", 1, 0.7, config={**run["config"], "data": {"source": "camera", "split": 2}})
    text = tables.text_table([run, longer, split])
    for name in ("lisa (trainer.epochs=2)", "lisa (trainer.epochs=9)", "camera → laptop (data.split=2)"):
        assert name in text
    classes = {"task": "classification", "target_test": {"macro_f1": 0.7, "accuracy": 0.8}}
    runs = [make_metrics("lisa", 1, 0.7, headline=name, **classes) for name in ("macro_f1", "accuracy")]
    pairs = grouped([make_metrics("lisa", 1, 0.6), *runs])
    statistics = compare(pairs)
    means = {pair.name: score.mean for pair in pairs if (score := statistics.cell(pair.name, "lisa").score)}
    assert means == {
        "camera → laptop (task=extraction, headline=span_f1)": 0.6,
        "camera → laptop (task=classification, headline=macro_f1)": 0.7,
        "camera → laptop (task=classification, headline=accuracy)": 0.8,
    }


def test_what_no_cell_key_counts_splits_no_runs() -> None:
    def run(method: str, seed: int, threads: int, data: dict[str, Any]) -> Any:
        return make_metrics(method, seed, 0.5, config={"trainer": {"epochs": 2, "threads": threads}, "data": data})

    here, bundled = ({"root": root, "folder": "joint_absa"} for root in ("/data", "corpora/data"))
    (pair,) = grouped([run("lisa", 1, 0, here), run("lisa", 2, 1, bundled)])
    assert (pair.name, [m.name for m in pair.methods], pair.methods[0].seeds) == ("camera → laptop", ["lisa"], (1, 2))
    nested = ({"problems": {"first": data}} for data in (here, bundled))
    (pair,) = grouped([run("lisa", seed, 0, data) for seed, data in enumerate(nested)])
    assert [m.seeds for m in pair.methods] == [(0, 1)]
    one, other = grouped([run("lisa", 1, 0, {"root": "/one"}), run("lisa", 1, 0, {"root": "/other"})])
    assert (one.name, other.name) == ("camera → laptop (data.root=/one)", "camera → laptop (data.root=/other)")
    # A setting that came later is null in newer runs, and not there in older ones.
    (pair,) = grouped([run("lisa", 1, 0, {"a": 1}), run("lisa", 2, 0, {"a": 1, "later": None})])
    assert (pair.methods[0].name, pair.methods[0].seeds) == ("lisa", (1, 2))


def test_a_reference_shares_the_backbone_whatever_the_threads() -> None:
    def run(method: str, backbone: str, score: float = 0.5, threads: int = 1) -> Any:
        config = {"backbone": {"name": backbone}, "trainer": {"epochs": 2, "threads": threads}}
        return make_metrics(method, 1, score, config=config)

    (pair,) = grouped([run("lisa", "a"), run("source_only", "a", threads=0), run("source_only", "b")])
    mine, _, lisa = pair.methods
    assert lisa.name == "lisa" and reference(pair, lisa, "source_only") is mine
    runs = [run("source_only", "small", 0.25), run("lisa", "small"), run("source_only", "large", 0.4)]
    assert _cells(tables.text_table([*runs, run("in_domain", "small", 0.75)]), "lisa")[-2].startswith("50 %")
    own = {**run("source_only_b", "b"), "role": "source_only"}
    (pair,) = grouped([run("source_only", "a"), own, run("lisa_b", "b"), run("lisa_c", "c")])
    found = {method.name: reference(pair, method, "source_only") for method in pair.methods}
    assert found["lisa_b"] is not None and found["lisa_b"].name == "source_only_b" and found["lisa_c"] is None


def test_a_reference_is_trained_alike_but_for_epochs_that_an_adaptation_adds() -> None:
    def run(method: str, epochs: int, extra: int = 0) -> Any:
        return make_metrics(method, 1, 0.5, config={"trainer": {"epochs": epochs, "extra_epochs": extra}})

    (pair,) = grouped(
        [run(*one) for one in (("source_only", 1), ("source_only", 2), ("recipe", 1, 2), ("recipe", 2, 2))]
    )
    names = [
        (method.name, reference(pair, method, "source_only")) for method in pair.methods if method.role == "adapted"
    ]
    assert [(name, one and one.name) for name, one in names] == [
        (f"recipe (trainer.epochs={n})", f"source_only (trainer.epochs={n})") for n in (1, 2)
    ]


def test_a_score_is_in_no_case_above_100() -> None:
    text = tables.text_table(met({"source_only": (0.7, 0.8, 0.9), "lisa": (0.1, 0.2, 0.3)}))
    assert _cells(text, "source_only")[2].endswith("–100.0 (s)") and _cells(text, "lisa")[2].startswith("0.0–")


def test_no_gap_between_unlike_test_sets() -> None:
    scores = {"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8}
    sizes = {"source_only": 2000, "lisa": 2000, "in_domain": 400}
    runs = [make_metrics(m, 1, scores[m], target_test_sizes={"all": sizes[m], "clean": sizes[m]}) for m in scores]
    (pair,) = grouped(runs)
    reason = "in_domain was tested on 400 texts, source_only on 2000"
    assert {(r.gap_closed.value, r.gap_closed.reason) for r in rows(pair)} == {(None, reason)}
    table: Any = cost([pair]).blocks[0]
    assert {row[0]: row[4:] for row in table.rows if row[0] != "source_only"} == {
        "lisa": ["+10.0", "1"],
        "in_domain": ["-", "0"],
    }
    assert compare([pair], predictions=False).cell(pair.name, "in_domain").baseline.interval is None
    runs[2], runs[1] = ({**runs[i], "target_test_sizes": runs[j]["target_test_sizes"]} for i, j in ((2, 1), (1, 2)))
    (pair,) = grouped(runs)
    reason = "in_domain was tested on 2000 texts, lisa on 400"
    assert [(r.gap_closed.value is None, r.gap_closed.reason == reason) for r in rows(pair)][1] == (True, True)
    assert [r.gap_closed.value is None for r in rows(pair)] == [False, True, False]


def choice(epoch: int, score: float) -> dict[str, Any]:
    return {"epoch": epoch, "target_test": {"span_f1": score}}


def test_regret_by_hand() -> None:
    runs = [
        make_metrics("lisa", seed, 0.5, selection={
            "validator": "entropy", "epoch": seed, "gap": gap,
            "choices": {"oracle": choice(3, 0.5 + gap), "entropy": choice(seed, 0.5), "source_dev": choice(1, 0.25)},
        })
        for seed, gap in ((1, 0.25), (2, 0.0))
    ]  # fmt: skip
    _, table = tables.regret(grouped([*runs, make_metrics("source_only", 1, 0.5)])).blocks
    assert table.header == ["method", "entropy", "source_dev", "oracle (a bound)", "regret"]
    assert table.rows == [["lisa", "50.0 (1.5)*", "25.0 (1.0)", "62.5 (3.0)", "12.5"]]
    alone = {"validator": "entropy", "epoch": 2, "choices": {"entropy": choice(2, 0.8)}}  # without trainer.regret
    _, table = tables.regret(grouped([*runs, make_metrics("lisa", 3, 0.8, selection=alone)])).blocks
    ((_, own, *others),) = table.rows
    assert own == "60.0 (1.7)*"
    assert [(one.text, one.note) for one in others] == [
        (text, "of 2 of 3 runs, not to be compared") for text in ("25.0 (1.0)", "62.5 (3.0)", "12.5")
    ]
    own = [{"validator": name, "epoch": 2, "choices": {name: choice(2, 0.8)}} for name in ("source_dev", "last")]
    each = [make_metrics(method, 1, 0.8, selection=its) for method, its in zip(("lisa", "recipe"), own, strict=True)]
    assert len(tables.regret(grouped(each)).blocks) == 1  # each has its own alone, which the scores tell
    (block,) = tables.regret(grouped([make_metrics("lisa", 1, 0.5)])).blocks
    assert isinstance(block, Prose) and "No run recorded" in block.text


def test_expected_beside_true() -> None:
    told = {"score": 0.6, "low": 0.5, "high": 0.75, "usual_error": 0.1}
    runs = [make_metrics("gnn", seed, 0.5, expected=told, target_test={"span_f1": 0.5 * seed}) for seed in (1, 2)]
    _, text, table = expected(grouped(runs)).blocks
    assert "off by 25.0 points on average over 2 runs; 1 within their interval" in text.text
    assert [line[2:] for line in table.rows] == [
        ["1", "60.0", "50.0", "75.0", "50.0", "+10.0", "10.0"],
        ["2", "60.0", "50.0", "75.0", "100.0", "-40.0", "10.0"],
    ]


def test_cost_by_hand() -> None:
    def run(method: str, score: float, fit: float, target: str = "a") -> Any:
        seconds = {"build": 1.0, "prepare": 0.0, "fit": fit, "evaluate": 99.0}
        return make_metrics(method, 1, score, seconds=seconds, target=target, counts={"parameters": 7})

    first = [run("source_only", 0.5, 1.0), run("lisa", 0.75, 3.0)]
    first.append(make_metrics("lisa", 2, 0.9, seconds={}, target="a", counts={"parameters": 7}))  # a seed of its own
    pairs = grouped([*first, run("source_only", 0.5, 3.0, "b"), run("lisa", 0.5, 11.0, "b")])
    table = cost(pairs).blocks[0]
    assert table.rows == [["source_only", "3.0", "1.00", "7", "0.0", "2"], ["lisa", "8.0", "2.50", "7", "+12.5", "2"]]


def test_a_share_of_fewer_pairs_says_so() -> None:
    """Of two pairs one has aspects alone."""
    kinds = {"a": ("span_f1", "aspect_f1", "opinion_f1"), "b": ("span_f1", "aspect_f1")}
    levels = {"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8}
    pairs = grouped(
        make_metrics(m, 1, None, target=t, target_test=dict.fromkeys(names, level))
        for t, names in kinds.items()
        for m, level in levels.items()
    )
    table = tables.shares_table(compare(pairs).overall)
    assert table is not None and table.header == ["method", "span F1", "aspect F1", "opinion F1", "pairs"]
    assert rows_and_notes(table)[0] == [["lisa", "25 % [1]", "25 % [1]", "25 % (of 1 pair) [1]", "2"]]
    same = grouped(make_metrics(method, 1, 0.5) for method in levels)
    assert tables.shares_table(compare(same).overall) is None  # there is no gap


def test_heatmap_by_hand() -> None:
    scores = {"source_only": (0.48, 0.50, 0.52), "lisa": (0.58, 0.60, 0.62), "in_domain": (0.88, 0.9, 0.9)}
    pairs = grouped([*met(scores), make_metrics("lisa", 1, 0.5, target="phone")])
    values, gaps = [b for b in tables.heatmap(pairs, compare(pairs)) if isinstance(b, Table)]
    assert gaps.header == ["method", "mean", "camera → laptop", "camera → phone"]
    cells, notes = rows_and_notes(gaps)
    assert cells == [["lisa", "25 (of 1 pair)", "25", "- [1]"]] and "no comparable run" in notes[0]
    assert gaps.rows[0][2][2] == pytest.approx(0.1 / (0.9 - 0.5 - 0.02 / 3), abs=1e-6)  # its shade
    assert values.rows[1:] == [["lisa", "55.0", "60.0", "50.0"], ["in_domain", "", "89.3", ""]]


def test_kinds_of_errors_by_hand(make_run: Any) -> None:
    """Gold 0-4 and 5-9; right and invented, then boundary and missed: halves of two seeds are rounded to even."""
    gold = [(0, 4), (5, 9)]
    for seed, spans in ((1, [(0, 4), (10, 12)]), (2, [(0, 3)])):
        folder = make_run("lisa", seed, 0.5, [predicted_row("Menu lens so.", gold, spans)] * 4)
    line = predicted_row("It broke.", "negative", "positive")
    make_run("gnn", 1, 0.5, [line], task="classification", headline="macro_f1")
    [confused], [table] = map(mistakes, sorted(group(read_runs(folder.parents[1]).runs), key=lambda pair: pair.task))
    assert (confused.header, confused.rows) == (["method", "right", "negative → positive"], [["gnn", "0", "1"]])
    assert table.header == ["method", "right", "boundary", "type", "boundary and type", "missed", "invented"]
    assert table.rows == [["lisa", "2", "2", "0", "0", "4", "2"]]


def test_audits_beside_the_runs(tmp_path: Path) -> None:
    assert read_audits([tmp_path], None) == ([], [])
    for given, message in (("none.json", "audit="), (".", r"no audit\.json in it")):
        with pytest.raises(ValueError, match=message):
            read_audits([], tmp_path / given)
    finding = Finding("duplicates", "severe", 0.5, "Half of the test is in training <b>.", {}, ("a\u202eb",))
    for folder, seconds in (("x", 1.0), ("x/source_only", 2.0)):  # both networks of a run leave the same
        found = Audit("camera", "laptop", {}, {}, (finding,), {"tags": 2}, "Bad.", seconds)
        write_audit(found, tmp_path / folder / "audit.json")
    (tmp_path / "audit.json").write_text("{", encoding="utf-8")
    audits, skipped = read_audits([tmp_path], None)
    assert (len(audits), len(skipped)) == (1, 1)
    (table,) = [block for block in data(audits, skipped).blocks if isinstance(block, Table)]
    assert table.rows == [["severe", "duplicates", "Half of the test is in training <b>."]]
    with pytest.raises(ValueError, match="no audit"):
        read_audits([], tmp_path / "audit.json")


EVERY = 200
PLAIN: dict[int | str, float] = {0: 0.40, 8: 0.44, 32: 0.50, 128: 0.56, "all": 0.60}
BEST: dict[int | str, float] = {0: 0.53, 8: 0.54, 32: 0.56, 128: 0.58, "all": 0.60}


def labelled(way: str, curve: dict[Any, float], seed: int = 1, own: str = "") -> list[Any]:
    """As training writes them: the name says how many labels were asked for, the counts how many these are.

    Unless a benchmark gives them names of its ``own``.
    """
    made = []
    adaptation = {} if way == "source_only" else {"adaptation": {way: {"weight": 1}}}
    for labels, score in curve.items():
        config = {"target_labels": labels, "trainer": {"epochs": 2}, "data": {"source": "camera"}, **adaptation}
        counts = {"target_labels": EVERY if labels == "all" else labels}
        name, role = (f"{way}+{labels}_labels", {"role": "adapted"}) if labels else (way, {})
        made.append(make_metrics(f"{own}{labels}" if own else name, seed, score, config=config, counts=counts, **role))
    return made


def test_methods_that_differ_in_target_labels_are_one_curve() -> None:
    runs = [*labelled("source_only", PLAIN), *labelled("best", BEST)]
    # The ceiling; and a name that says labels, of a run that was given none: neither is one of best's.
    runs += [make_metrics("in_domain", 1, 0.7), make_metrics("best+8_labels", 2, 0.5)]
    (pair,) = grouped(runs)
    table = tables.label_table(pair, tables.label_curves(pair))
    assert [line[0] for line in table.rows] == ["0", "8", "32", "128", "200 (all)"]
    cells, notes = rows_and_notes(table)
    assert (table.header, cells[1][1:]) == (["labels", "source_only", "best"], ["44.0 [1]", "54.0 [1]"])
    assert "fewer than 3 seeds" in notes[0]
    own = labelled("source_only", {8: 0.44, 32: 0.5}, own="mine")
    (named,) = grouped([*own, *labelled("source_only", {0: 0.4, 32: 0.6})])
    (curve,) = tables.label_curves(named).values()
    names = {number: row.method.name for number, row in curve.items()}
    assert names == {0: "source_only", 8: "mine8", 32: "source_only+32_labels"}
    (none,) = grouped([run for way in ("source_only", "best") for run in labelled(way, {0: 0.5})])
    assert tables.label_curves(none) == {} and tables.target_label_sections([none], compare([none])) == []


@pytest.mark.parametrize(
    ("plain", "best", "said"),
    [
        (PLAIN, BEST, "worth between 32 and 128 labels here, by means over seeds: best with none scores 53.0."),
        (PLAIN, {0: 0.53}, "worth between 32 and 128 labels here"),  # an adapted method that never had labels
        ({0: 0.4, 8: 0.55}, BEST, "worth fewer than 8 labels here"),
        ({0: 0.4, 8: 0.41, 128: 0.5}, BEST, "worth more than 128 labels here"),
        ({0: 0.54, 8: 0.6}, BEST, "worth no labels here"),
        ({0: 0.4, 32: 0.53}, BEST, "worth 32 labels here"),
        ({0: 0.4}, BEST, "not known: it takes source_only with and without labels"),
        (PLAIN, {8: 0.5, 32: 0.6}, "not known"),
    ],
)
def test_how_many_labels_adaptation_is_worth(plain: Any, best: Any, said: str) -> None:
    (pair,) = grouped([*labelled("source_only", plain), *labelled("best", best)])
    assert said in tables.adaptation_worth(pair, tables.label_curves(pair))


SEEDS = 8
NOT_SHOWN = "It is not shown that syntax helps: "


def claimed(controls: Any, **levels: float) -> str:
    """The claim of gnn, with scores that seeds change a little."""
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": controls}}}
    noise = np.random.default_rng(0).normal(0, 0.005, (len(levels), SEEDS))
    runs = [
        make_metrics(method, seed, level + noise[number, seed], config=config, curve=[])
        for number, (method, level) in enumerate(levels.items())
        for seed in range(SEEDS)
    ]
    statistics = compare(grouped(runs))
    return claim(next(one for one in statistics.overall if one.method == "gnn"), statistics)


@pytest.mark.parametrize(
    ("controls", "levels", "texts"),
    [
        ("shuffled", {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.4},
         ["this control harms: 10.", "below source_only, so a gain over it measures harm as well",
          f"{NOT_SHOWN}no control that was run is neutral."]),
        (["shuffled", "linear"], {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.4, "linear": 0.5},
         ["this control harms", "So it is shown on this pair that syntax helps, against source_only and linear."]),
        ("linear", {"source_only": 0.55, "gnn": 0.55, "linear": 0.55},
         [f"{NOT_SHOWN}no gain whose interval excludes 0 is shown against source_only and linear"]),
        ("linear", {"source_only": 0.5, "gnn": 0.55, "linear": 0.55}, ["is shown against linear"]),
        ("linear", {"source_only": 0.55, "gnn": 0.55, "linear": 0.545}, ["is shown against source_only"]),
        (["shuffled", "absent"], {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.4},
         ["its control absent was not run"]),
        (["shuffled", "absent"], {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.5},
         [f"{NOT_SHOWN}its control absent was not run, or with several settings."]),
    ],
)  # fmt: skip
def test_a_claim_stands_against_every_control(controls: Any, levels: Any, texts: list[str]) -> None:
    text = claimed(controls, **levels)
    assert all(part in text for part in texts), text


def said(runs: list[Any]) -> str:
    (pair,) = grouped(runs)
    return verdict([pair], compare([pair]).cell(pair.name, best_adapted(pair).name))


@pytest.mark.parametrize(
    ("seeds", "gain", "told"),
    [
        (3, 0.3, ["30.0 points (", ") above source_only", "more than chance is not shown: too few seeds (3)"]),
        (12, 0.1, [") above source_only", "training again would show a difference to source_only"]),
        (12, -0.1, [") below source_only", "training again would show a difference to source_only"]),
    ],
)
def test_a_verdict_needs_seeds(seeds: int, gain: float, told: list[str]) -> None:
    runs = [make_metrics("source_only", seed, 0.5 + seed / 1000) for seed in range(seeds)]
    text = said([*runs, *(make_metrics("lisa", seed, 0.5 + gain + seed / 900) for seed in range(seeds))])
    assert all(part in text for part in told), text


def test_the_best_is_chosen_by_source_dev_and_never_a_control() -> None:
    best_on_target = make_metrics("lisa", 1, 0.9)
    best_on_source = make_metrics("gnn", 1, 0.2, source_dev={"span_f1": 0.8})
    assert said([best_on_target, best_on_source]).startswith("gnn, best of the adapted on source dev, ")
    assert "no labels" in said([make_metrics(name, 1, None) for name in ("source_only", "lisa")])
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": "shuffled"}}}
    dev = {"source_only": 0.6, "gnn": 0.7, "shuffled": 0.8}
    pairs = grouped([make_metrics(m, 1, 0.5, config=config, source_dev={"span_f1": d}) for m, d in dev.items()])
    best = best_adapted(pairs[0])
    assert best is not None and best.name == "gnn"


def test_what_target_labels_have_chosen_is_neither_the_best_nor_what_others_stand_against() -> None:
    high = {"source_dev": {"span_f1": 0.9}}
    roles = {"source_only": "source_only", "lisa": "adapted"}
    runs = [make_metrics(f"{name}+oracle_selection", 1, 0.9, role=role, **high) for name, role in roles.items()]
    (pair,) = grouped([*runs, make_metrics("gnn", 1, 0.5)])
    best = best_adapted(pair)
    assert best is not None and best.name == "gnn" and reference(pair, best, "source_only") is None
    plain = [make_metrics(name, 1, 0.5) for name in ("source_only", "gnn")]
    config = {"target_labels": 8, "data": {"source": "camera"}}
    given = make_metrics("lisa+8_labels", 1, 0.6, config=config, **high)  # better on source dev
    assert said([*plain, given]).startswith("gnn is 0.0 points")
    worse = make_metrics("paths", 1, 0.4, source_dev={"span_f1": 0.1})
    assert said([*plain, given, worse]).startswith("gnn, best of the adapted without target labels on source dev, is")


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ({"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8}, "lisa is 10.0 points (no inter"),
        ({"source_only": 0.4, "lisa": 0.3}, "10.0 points (no interval) below source_only on the target; that it is"),
        ({"source_only": 0.4}, "No adapted method was run"),
        ({"lisa": 0.4}, "can't be compared: "),
        ({"lisa": None}, "The target test has no labels"),
    ],
)
def test_the_card_says_what_came_out(levels: dict[str, Any], sentence: str) -> None:
    pairs = grouped(met(levels, config={"backbone": {"name": "minilm"}, "trainer": {"epochs": 2}}))
    card = verdict_card(pairs, compare(pairs))
    facts = {name: text for name, text, _ in card.items}
    assert sentence in card.sentence and facts["Backbone"] == "minilm"
    assert facts["Runs"].endswith(f"; {3 * len(levels)} s in all")
    if len(levels) == 3:
        assert facts["Target score, %"] == "source_only 40.0 → lisa 50.0 → ceiling 80.0"
        assert (facts["Gap closed"], facts["Model"]) == ("25 %", "not kept beside these runs")


@pytest.mark.parametrize("missing", ["source_only", "in_domain"])
def test_the_card_says_that_scores_are_not_of_the_same_seeds(missing: str) -> None:
    levels = {"source_only": (0.4, 0.4), "lisa": (0.5, 0.5), "in_domain": (0.8, 0.8)}
    pairs = grouped(met(levels | {missing: 0.6}))
    (told,) = [text for name, text, _ in verdict_card(pairs, compare(pairs)).items if name == "Target score, %"]
    assert told.endswith(", not of the same seeds")


def test_the_card_says_that_a_ceiling_was_tested_on_other_texts() -> None:
    runs = met({"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8})
    pairs = grouped([*runs[:2], {**runs[2], "target_test_sizes": {"all": 2, "clean": 2}}])
    (told,) = [text for name, text, _ in verdict_card(pairs, compare(pairs)).items if name == "Target score, %"]
    assert told.endswith("ceiling 80.0, not of the same test texts")


def test_a_network_from_scratch_is_not_called_by_its_tokenizer_and_a_gap_of_no_method_is_no_table() -> None:
    config = {"backbone": {"_target_": "domadapt.models.bilstm.BiLSTM", "name": "minilm"}, "trainer": {"epochs": 2}}
    pairs = grouped(met({"rnn_from_scratch": 0.1, "in_domain": 0.8}, config=config))
    statistics = compare(pairs)
    assert {name: text for name, text, _ in verdict_card(pairs, statistics).items}["Backbone"] == "BiLSTM"
    assert len(tables.heatmap(pairs, statistics)) == 1  # the scores


def test_the_card_tells_of_pairs_with_scores() -> None:
    unscored = [one for name in ("a", "b") for one in met({"source_only": None, "recipe": None}, target=name)]
    pairs = grouped([*met({"source_only": 0.4, "lisa": 0.5}), *unscored])
    assert verdict_card(pairs, compare(pairs)).sentence.startswith("lisa is 10.0 points")


def test_a_mean_over_pairs_says_how_many_have_both() -> None:
    """Of three pairs one has no source_only, and one alone an in_domain."""
    levels = {"a": {"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8}, "b": {"source_only": 0.4, "lisa": 0.6}}
    pairs = grouped([one for name, own in {**levels, "c": {"lisa": 0.9}}.items() for one in met(own, target=name)])
    statistics = compare(pairs)
    card = verdict_card(pairs, statistics)
    assert (
        "lisa is 15.0 points (no interval) above source_only on the target, in the mean over 2 pairs;" in card.sentence
    )
    assert {name: text for name, text, _ in card.items}["Gap closed"] == "25 % (of 1 pair)"
    assert significance(pairs, statistics).blocks[1].rows[0][:2] == ["lisa", "2"]


def test_a_single_run_with_a_labelled_test_gets_its_interval() -> None:
    run = finished("classification")
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    assert "95 % interval over test texts" in tables.text_table([{**metrics, "folder": str(run)}])


RISING = tuple(0.4 + 0.01 * seed for seed in range(7))
HIGHER = tuple(0.05 + 1.01 * score for score in RISING)


def test_a_control_on_fewer_pairs_says_so() -> None:
    config = {"benchmark": {"controls": {"gnn": "linear"}}}
    levels = {"source_only": RISING, "gnn": HIGHER}
    runs = [one for name in "abc" for one in met(levels, target=name, config=config)]
    pairs = grouped([*runs, *met({"linear": RISING[::-1]}, target="a", config=config)])
    statistics = compare(pairs)
    cell = next(one for one in statistics.overall if one.method == "gnn")
    assert "above linear on 1 pair. " in claim(cell, statistics)
    assert "above linear on 1 pair, its control;" in verdict(pairs, cell)


def test_a_p_value_that_could_not_be_small_says_why() -> None:
    scores = {f"m{i}": tuple(s + 0.01 * i + 0.001 * j for j, s in enumerate(RISING[:6])) for i in range(1, 5)}
    pairs = grouped(met({"source_only": RISING[:6], **scores}))
    (table,) = [block for block in significance(pairs, compare(pairs)).blocks if isinstance(block, Table)]
    cells, notes = rows_and_notes(table)
    assert cells[0][3] == "0.125 [2]" and notes[1].startswith("[2] too few seeds (6) to reach p below 0.12 after Holm")
