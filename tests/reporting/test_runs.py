"""Run folders: found at any depth, refused or counted by name when broken, shown under another validator."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domadapt.runs.groups import group, read_runs, reselect
from domadapt.runs.metrics import Calibration
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


def test_found_at_any_depth_once_and_broken_ones_are_counted(make_run: Any, tmp_path: Path) -> None:
    folder = make_run("source_only", 1, 0.5)
    found = read_runs([tmp_path, folder, folder / "metrics.json"])
    assert ([run.folder for run in found.runs], found.skipped) == ([str(folder)], ())
    broken = tmp_path / "runs" / "broken"
    broken.mkdir()
    (broken / "metrics.json").write_text("{", encoding="utf-8")
    found = read_runs(tmp_path / "runs")
    assert (len(found.runs), len(found.skipped)) == (1, 1) and str(broken / "metrics.json") in found.skipped[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not whole JSON"),
        ('{"format": 1, "source": "cam', "not whole JSON"),
        ("[" * 100_000, "not whole JSON"),
        ("[1]", "holds a list, expected an object"),
        ('{"format": 99}', "format 99, expected 1"),
        ('{"format": 1}', "lacks source, target"),
        (b"\xff\xfe", "unreadable"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    (tmp_path / "metrics.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"metrics\.json.*{message}.*run that cell again"):
        read_runs(tmp_path)


def test_a_field_of_another_kind_is_named(make_run: Any) -> None:
    with pytest.raises(ValueError, match="lacks curve, config, or has something else"):
        read_runs(make_run("lisa", 1, 0.5, config="a string", curve=None))


@pytest.mark.parametrize(("name", "message"), [("absent", "no such folder"), (".", "no metrics.json there")])
def test_nothing_there(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_runs(tmp_path / name)


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
    code, _, err = command("report", "runs", "selection=entropy", "formats=[markdown,csv]")
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
