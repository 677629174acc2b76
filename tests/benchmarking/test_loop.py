"""Benchmarks: the plan, the table while they run, what is run again and what is not, and the failures at the end."""

import io
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from domadapt.benchmarking.live import LiveTable, logs_above_the_table
from domadapt.benchmarking.loop import benchmark, tell_of_other_hardware
from domadapt.benchmarking.plan import PlannedCell, cells, plan
from domadapt.config.compose import compose
from domadapt.config.overrides import lengthen
from domadapt.runs.key import cell_key
from domadapt.runs.status import Status
from tests.support import corpora, records, write_jsonl


def overrides(folder: Path, *more: str) -> list[str]:
    matrix = ["source_only", "gnn"] if not any("only" in m for m in more) else []
    given = ["experiment=my_matrix", "task=extraction", *corpora(folder), "trainer.epochs=1", "benchmark.seeds=[1,2]"]
    if matrix:
        given.append(f"benchmark.only=[{','.join(matrix)}]")
    return [lengthen(o) for o in (*given, f"paths.cache={folder}/cache", *more) if o != "data=my_files"]


def todo(given: list[str]) -> list[PlannedCell]:
    return cells(compose("benchmark", given), given)


def run(given: list[str]) -> list[dict[str, Any]]:
    return benchmark(compose("benchmark", given), given)


def test_a_benchmark_runs_what_is_not_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    given = overrides(tmp_path)
    first = run(given)
    said = capsys.readouterr().out
    assert [(m["method"], m["seed"]) for m in first] == [("source_only", 1), ("gnn", 1), ("source_only", 2), ("gnn", 2)]
    assert "4 cells: 1 pairs × 2 methods × 2 seeds; launcher in_process, 1 at once\n  4 to run" in said
    assert "no estimate" in said and re.search(r"4 cells in \d+ s; their own times add up to \d+ s", said)
    folders = [cell.folder for cell in todo(given)]
    before = [(folder / "metrics.json").stat().st_mtime_ns for folder in folders]
    (folders[0] / "metrics.json").unlink()
    (folders[0] / "metrics.json").mkdir()
    odd = json.loads((folders[3] / "metrics.json").read_text())
    (folders[3] / "metrics.json").write_text(json.dumps(odd | {"target_test": {"span_f1": float("nan")}}))
    again = run(given)
    said = capsys.readouterr().out
    assert "2 finished: not run again (to force one, delete its folder)\n  2 to run\n  about" in said
    assert "for 2 of them" in said
    for folder, reason in ((folders[0], "unreadable"), (folders[3], "it says NaN")):
        named = [m for m in caplog.messages if m.startswith(f"{folder / 'metrics.json'}: ") and reason in m]
        assert named and "moved to metrics.json.damaged, and the run is made again" in named[0]
    assert [(f / "metrics.json").stat().st_mtime_ns for f in folders[1:3]] == before[1:3]
    assert [m["target_test"] for m in again] == [m["target_test"] for m in first]


def test_a_changed_file_or_setting_makes_new_cells_and_where_they_run_does_not(tmp_path: Path) -> None:
    given = overrides(tmp_path)
    keys = [cell.key for cell in todo(given)]
    assert len(set(keys)) == 4
    same = ["trainer.threads=0", f"paths.runs={tmp_path}/elsewhere", "launcher=joblib", "tracking=csv"]
    assert [cell.key for cell in todo([*given, *same])] == keys
    for other in ("trainer.weight_decay=0.5", "trainer.threads=3", "trainer.threads=2"):  # threads change roundings
        assert not set(keys) & {cell.key for cell in todo([*given, other])}
    write_jsonl(tmp_path / "target.jsonl", records("laptop", 21, 5))
    assert not set(keys) & {cell.key for cell in todo(given)}


def test_a_failed_cell_is_told_at_the_end_and_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = '+benchmark.methods.bad=["trainer.learning_rate=7"]'
    mine = '+benchmark.methods.mine=["trainer.weight_decay=0.5"]'
    given = overrides(tmp_path, bad, mine, "benchmark.only=[bad,mine]", "benchmark.seeds=[1]")
    with pytest.raises(RuntimeError, match=r"1 of 2 cells failed; the same command runs these again") as failed:
        run(given)
    assert "trainer.learning_rate=7: expected a number from 0 to 1" in str(failed.value)
    assert re.search(r"^mine +\d", capsys.readouterr().out, re.MULTILINE)  # as the matrix calls it
    assert json.loads((todo(given)[1].folder / "metrics.json").read_text())["method"] == "mine"


def test_a_cell_is_called_as_the_matrix_calls_it(tmp_path: Path) -> None:
    matrix = {
        "strong": '["injection=gnn","injection.gnn.agreement=0.5"]',
        "few": '["target_labels=8"]',
        "plain": '["method=other"]',
    }
    more = [f"+benchmark.methods.{name}={own}" for name, own in matrix.items()]
    more += ["benchmark.only=[strong,few,plain,gnn]", "benchmark.seeds=[1]"]
    found = todo(overrides(tmp_path, *more))
    names = ["strong", "few+8_labels", "other", "gnn"]
    assert [cell.config.method for cell in found] == names == [cell.folder.parent.name for cell in found]
    assert [compose("train", cell.overrides).method for cell in found] == names  # as its launcher sees it
    assert [cell.method for cell in found] == ["strong", "few", "plain", "gnn"]


def test_what_every_cell_lacks_is_told_once_before_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [o for o in overrides(tmp_path) if not o.startswith("data.source.path")]
    with pytest.raises(ValueError, match=r"data\.source\.path is not set"):
        run(given)
    with pytest.raises(ValueError, match=r"nowhere\.jsonl"):
        run([*given, "data.source.path=nowhere.jsonl"])
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "runs").exists()


def test_matrices_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"benchmark.only=\['lisaa'\]: no such method in the matrix; expected some of"):
        todo(overrides(tmp_path, "benchmark.only=[lisaa]"))
    with pytest.raises(ValueError, match=r"are one and the same run"):
        todo(overrides(tmp_path, '+benchmark.methods.twin=["injection=none"]', "benchmark.only=[twin,source_only]"))
    with pytest.raises(ValueError, match=r"write benchmark.seeds=\[1\] in place of seed=1"):
        todo(overrides(tmp_path, "seed=1"))


def test_the_live_table_says_what_runs_and_what_is_done(tmp_path: Path) -> None:
    found = todo(overrides(tmp_path))
    watch = LiveTable(found, Console(width=100))
    status = Status(found[1].folder, found[1].key)
    with status.during("fit"):
        status.note(0.0, epoch=1, epochs=3, step=20, steps=60)
    names = dict.fromkeys(("source", "target", "method"), "") | {"task": "extraction", "role": "adapted"}
    scores = {"headline": "span_f1", "source_dev": {}, "target_test": {"span_f1": 0.625}}
    metrics = {**names, **scores, "key": found[0].key, "seed": 1, "curve": [], "config": {}, "seconds": {"fit": 3.0}}
    found[0].folder.mkdir(parents=True)
    (found[0].folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    (found[2].folder).mkdir(parents=True)
    (found[2].folder / "metrics.json").write_text('{"half', encoding="utf-8")
    Status(found[3].folder, found[3].key).failed(ValueError("seed"))
    assert [cell.name for cell in watch.look()] == [found[0].name]
    with watch.console.capture() as drawn:
        watch.console.print(watch.table())
    text = drawn.get()
    assert "62.5 ●·" in text and "◐✗" in text and "1 of 4 cells" in text
    assert f"◐ {found[1].name}: fit, epoch 1 of 3, step 20 of 60" in text
    assert "2 started: go on from their last checkpoint" in plan(found, 2, "joblib")


def test_other_corpora_in_the_benchmark_folder_change_no_key(tmp_path: Path) -> None:
    def key() -> str:
        return cell_key(compose("train", ["data=joint_absa", f"data.root={tmp_path}"]))

    for corpus in ("joint_absa", "other"):
        (tmp_path / corpus).mkdir()
        (tmp_path / corpus / "rest.train.jsonl").write_text("{}\n")
    before = key()
    (tmp_path / "other" / "rest.train.jsonl").write_text('{"text": ""}\n')
    assert key() == before
    (tmp_path / "joint_absa" / "rest.train.jsonl").write_text('{"text": ""}\n')
    assert key() != before


def test_cells_that_ran_on_other_hardware_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A launcher's nodes may have what the machine that plans has not, so that it looks for other keys."""
    found = todo(overrides(tmp_path))
    there = {"device": "cuda", "name": "NVIDIA H200", "precision": "bf16-mixed"}
    here = {"key": found[0].key, "hardware": {"device": "cpu", "name": "some", "precision": "32-true"}}
    other = [{"key": "another", "hardware": there}] * 2
    tell_of_other_hardware(found, [here, ValueError("seed"), *other])
    (line,) = caplog.messages
    assert line.endswith("add 'trainer.hardware=cuda NVIDIA H200 bf16-mixed' to see them")


def test_files_count_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the setting that names a file is called. Of code, tests/runs/test_key.py says the same."""
    package = tmp_path / "outside"
    package.mkdir()
    (package / "__init__.py").write_text("from outside.core import Mine\n")
    (package / "core.py").write_text("class Mine: ...\n")
    (tmp_path / "words.csv").write_text("a\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def key() -> str:
        method = f"+injection.mine={{_target_: outside.Mine, lexicon: {tmp_path}/words.csv}}"
        return cell_key(compose("train", ["injection=gnn", method]))

    keys = [key()]
    (tmp_path / "words.csv").write_text("a\nb\n")
    keys.append(key())
    assert len(set(keys)) == 2
    misspelt = compose("train", ["injection=gnn", "+injection.mine={_target_: outsite.Mine}"])
    assert cell_key(misspelt) not in keys


def test_logs_go_to_standard_error_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich replaces it while a table is shown."""
    old, new, handler = io.StringIO(), io.StringIO(), logging.StreamHandler()
    handler.setStream(old)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    monkeypatch.setattr(sys, "stderr", new)
    with logs_above_the_table():
        logging.getLogger().warning("while")
    logging.getLogger().warning("after")
    assert (new.getvalue(), old.getvalue()) == ("while\n", "after\n")
