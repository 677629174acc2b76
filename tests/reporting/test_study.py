"""The selection study as a verb and as a section, and finished runs shown under another validator."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domadapt.reporting.report import report
from domadapt.reporting.rescored import rescored
from domadapt.reporting.study import study, verdict
from domadapt.runs.groups import group
from domadapt.runs.metrics import Calibration
from domadapt.runs.reading import read_runs
from domadapt.runs.reselect import reselect
from domadapt.selection.storage import save_evidence
from domadapt.selection.validator import Evidence
from domadapt.statistics.choices import Choices
from domadapt.statistics.selection_study import selection_study
from domadapt.tasks.rows import Rows
from tests.support import Command

Write = Callable[..., Path]
PICKS = {"source_dev": 2, "entropy": 1, "oracle": 1}


@pytest.fixture
def write(make_run: Any) -> Write:
    """A run of two epochs, the first better by ``loss``: source_dev takes the second, entropy the first."""

    def make(method: str, seed: int, score: float, loss: float = 0.125, rows: Any = None, **changes: Any) -> Path:
        tests = {1: {"span_f1": score + loss}, 2: {"span_f1": score}}
        choices = {name: {"epoch": epoch, "target_test": tests[epoch]} for name, epoch in PICKS.items()}
        curve = [
            {"epoch": epoch, "step": epoch, "losses": {"task": 0.5}, "source_dev": {"span_f1": 0.7 + epoch / 100},
             "validators": {"source_dev": epoch / 10, "entropy": -epoch / 10}} for epoch in (1, 2)
        ]  # fmt: skip
        selection = {"validator": "source_dev", "epoch": 2, "gap": loss, "choices": choices}
        made: Path = make_run(method, seed, score, rows, selection=selection, curve=curve, **changes)
        return made

    return make


def test_validators_that_lose_the_same_are_all_named() -> None:
    scores = {"source_dev": 0.5, "bnm": 0.75, "infomax": 0.75, "oracle": 0.75}
    runs = [Choices("c", *pair, "extraction", "gnn", 1, "bert", scores, {}, {}) for pair in (("a", "b"), ("b", "a"))]
    assert "bnm and infomax lose least, 0.0 points" in verdict(*selection_study(runs))


def test_a_run_as_another_validator_would_have_left_it(write: Write, row: Any) -> None:
    folder = write("gnn", 1, 0.5, rows=[row("The lens.", [(4, 8)], [])], calibration={"error": 0.1, "bins": []})
    before = read_runs(folder).runs
    [run], [words] = reselect(before, "entropy")
    assert run.target_test == {"span_f1": 0.625}
    assert (run.selection.validator, run.selection.epoch, run.selection.gap) == ("entropy", 1, 0.0)
    assert run.source_dev == {"span_f1": 0.71}
    assert (run.calibration, run.target_test_clean, run.source_test) == (Calibration(), None, None)
    assert not Path(run.folder, "predictions.jsonl").exists()
    assert "1 of 1 runs keep another epoch" in words and "not shown" in words
    assert before == read_runs(folder).runs  # nothing is changed in place

    [same], [words] = reselect(before, "source_dev")
    assert "0 of 1 runs keep another epoch" in words and "not shown" not in words
    assert same == replace(before[0], target_test={"span_f1": 0.5}, source_dev={"span_f1": 0.72}, config=same.config)


def test_what_is_dropped_is_dropped_for_every_seed(write: Write) -> None:
    """A mean over the seeds that happen to keep their epoch would stand beside one over all."""
    write("gnn", 1, 0.5)
    folder = write("gnn", 2, 0.5)
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["selection"]["choices"]["entropy"]["epoch"] = 2
    (folder / "metrics.json").write_text(json.dumps(metrics))
    write("lisa", 1, 0.5, source="tv")
    shown, _ = reselect(read_runs(folder.parents[1]).runs, "entropy")
    assert all(run.target_test_clean is None for run in shown if run.method == "gnn")
    kept, _ = reselect(read_runs(folder).runs, "entropy")
    assert kept[0].target_test_clean


def test_the_bound_is_marked_and_an_unknown_name_is_refused(write: Write) -> None:
    runs = read_runs(write("gnn", 1, 0.5)).runs
    assert reselect(runs, "oracle")[0][0].method == "gnn+oracle_selection"
    with pytest.raises(ValueError, match="selection=x: no such validator .* there are source_dev, entropy, oracle"):
        reselect(runs, "x")


def test_runs_that_differ_in_who_chose_are_one(write: Write) -> None:
    config = {"seed": 1, "method": "gnn", "data": {"source": "camera"}}
    for number, name in enumerate(("SourceDev", "Entropy")):
        write("gnn", number, 0.5, config={**config, "selection": {"_target_": name}})
    runs = [replace(run, seed=1) for run in read_runs(write("lisa", 1, 0.5).parents[1]).runs]
    assert len(next(iter(group(runs))).methods) == 3
    [pair] = group(reselect(runs, "entropy")[0])
    assert [method.name for method in pair.methods] == ["gnn", "lisa"] and pair.repeated == 1


def test_the_report_shows_another_validators_scores(write: Write, tmp_path: Path, command: Command) -> None:
    write("source_only", 1, 0.25)
    write("gnn", 1, 0.5)
    code, _, err = command("report", "runs", "selection=entropy", "formats=[markdown,csv]", "attention=false")
    assert (code, err) == (0, "")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Shown as entropy would have chosen" in text
    with (tmp_path / "report.runs.csv").open(newline="") as file:
        assert {r["method"]: r["score"] for r in csv.DictReader(file)} == {"source_only": "0.375", "gnn": "0.625"}
    for name, told in (
        ("no", "selection=no: there is no such option; expected one of bnm, corr_c, "),
        ("infomax", "selection=infomax: no such validator scored these runs; there are source_dev, entropy, oracle"),
    ):
        code, _, err = command("report", "runs", f"selection={name}")
        assert code == 2 and err.count("\n") == 1
        assert told in err


def test_the_study_as_a_verb(write: Write, tmp_path: Path, command: Command) -> None:
    for source, target, loss in (("a", "b", 0.125), ("b", "a", 0.0625)):
        for number, method in enumerate(("source_only", "gnn", "in_domain")):
            folder = write(method, 1, 0.25 + number / 8, loss, source=source, target=target)
            folder.parent.rename(folder.parents[1] / f"{source}-{method}")
    code, out, _ = command("study", "runs", "output=out/study.md")
    assert code == 0
    assert "4 runs of gnn and source_only: entropy loses least, 0.0 points" in out
    assert "the choice elsewhere falls on entropy for 2 of 2 and loses 0.0 points there" in out
    assert "source_dev throughout loses 9.4: less on 2, more on 0, the same on 0" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["source_dev", "31.2", "9.4", "12.5", "-", "0.0", "(2", "choices)"] in lines
    assert ["a", "→", "b", "0.0", "12.5", "0.0", "(entropy)"] in lines
    assert "entropy loses least" in (tmp_path / "out/study.md").read_text(encoding="utf-8")
    assert (tmp_path / "out/study.svg").read_bytes().count(b"<svg") == 1
    with (tmp_path / "out/study.csv").open(newline="", encoding="utf-8") as file:
        found = {(r["pair"], r["validator"]): r for r in csv.DictReader(file)}
    assert found["all", "source_dev"]["regret"] == str((0.125 + 0.0625) / 2)
    assert found["a → b", "source_dev"]["regret"] == "0.125"
    assert found["a → b", "entropy"]["chosen_elsewhere"] == "entropy"
    assert found["all", "chosen elsewhere"]["regret"] == "0.0"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["methods=[lisa]"], "methods=['lisa']: no such methods among these runs; there are gnn, in_domain"),
        (["methods=[]"], "nothing to study"),
        (["output=runs"], "output=runs: is a folder; expected a file's name, such as runs/study.md"),
    ],
)
def test_what_cannot_be_studied_is_one_line(write: Write, command: Command, arguments: list[str], told: str) -> None:
    write("in_domain", 1, 0.5)
    write("gnn", 1, 0.5)
    code, _, err = command("study", *arguments)
    assert code == 2 and err.count("\n") == 1
    assert told in err


def test_settings_alone_are_a_study_and_a_section(make_run: Any, tmp_path: Path, command: Command) -> None:
    def tried(source: str, target: str) -> None:
        for layer in (1, 2):
            config = {"data": {"source": source}, "injection": {"lisa": {"layer": layer}}}
            folder = make_run(f"{source}{layer}", 1, 0.25 * layer, config=config, source=source, target=target)
            metrics = json.loads((folder / "metrics.json").read_text())
            (folder / "metrics.json").write_text(json.dumps(metrics | {"method": "lisa", "role": "adapted"}))

    tried("tv", "radio")
    code, _, err = command("study", "runs")  # no pair to choose on
    assert code == 2 and "nothing to study" in err
    tried("radio", "tv")
    (tmp_path / "study.svg").write_text("of another study")
    code, out, _ = command("study", "runs")
    assert code == 0 and "lisa has 50.0 (50.0 at best)." in out
    assert (tmp_path / "study.md").is_file() and not (tmp_path / "study.svg").exists()
    with (tmp_path / "study.csv").open(newline="") as file:
        assert {line["setting"] for line in csv.DictReader(file)} == {"injection.lisa.layer=2"}
    code, _, err = command("report", "runs", "formats=[markdown]", "attention=false")
    assert (code, err) == (0, "")
    assert "Settings chosen on other pairs" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_section_of_a_report_without_choices_says_so(make_run: Any, tmp_path: Path) -> None:
    make_run("gnn", 1, 0.5)
    report(tmp_path / "runs", tmp_path / "report.html", ["markdown"], attention=False)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "No run of source-only or of an adapted method recorded what two validators" in text


def test_the_study_is_the_same_bytes_every_time(write: Write, tmp_path: Path) -> None:
    write("gnn", 1, 0.5)
    first, second = (study(tmp_path / "runs", tmp_path / name) for name in ("1.md", "2.md"))
    assert first.replace("1.md", "2.md") == second
    for suffix in (".md", ".csv", ".svg"):
        assert (tmp_path / f"1{suffix}").read_bytes() == (tmp_path / f"2{suffix}").read_bytes()


def test_validators_that_came_later_are_asked_from_kept_evidence(write: Write, tmp_path: Path) -> None:
    """Two runs kept what validators saw; the study scores them with the validators of today."""
    dice = np.random.default_rng(0)

    def rows(right: float, classes: bool) -> Rows:
        truth = dice.integers(2, size=60)
        sure = np.where(np.arange(2) == truth[:, None], right, 1 - right).astype(np.float32)
        features = (np.eye(4)[truth] + dice.normal(0, 0.1, (60, 4))).astype(np.float16)
        return Rows(sure, features, np.arange(60), np.zeros(60, np.int64), truth if classes else truth * 0 - 1)

    for source, target in (("a", "b"), ("b", "a")):
        folder = write("gnn", 1, 0.5, source=source, target=target)
        folder = folder.rename(folder.with_name(f"{source}{target}"))
        metrics = json.loads((folder / "metrics.json").read_text())
        metrics["selection"]["target_curve"] = [0.625, 0.5]
        (folder / "metrics.json").write_text(json.dumps(metrics))
        for epoch, right in ((1, 0.9), (2, 0.6)):  # the first is surer
            parts = {"source": rows(right, True), "target": rows(right, False), "train": rows(right, True)}
            kept = Evidence({"span_f1": 0.5}, "span_f1", **parts, epoch=epoch)
            save_evidence(kept, folder / "evidence" / f"epoch={epoch}.npz")
    shown, lacking = rescored(read_runs(tmp_path / "runs").runs)
    assert lacking == []
    for run in shown:
        assert {"bnm", "mano", "reverse", "ensemble", "importance_weighted"} <= run.selection.choices.keys()
        assert run.selection.choices["bnm"].epoch == 1
        assert run.selection.choices["bnm"].target_test == {"span_f1": 0.625}
        assert run.selection.choices["entropy"].epoch == 1  # as it was written
    told = study(tmp_path / "runs", tmp_path / "study.md")
    assert "bnm" in told
    assert "weights learnt elsewhere" in told
    assert "not asked" not in told
    shutil.rmtree(folder / "evidence")
    assert "not asked, for want of kept evidence (trainer.keep_evidence=true): bnm (1 of 2 runs)" in study(
        tmp_path / "runs", tmp_path / "study.md"
    )
