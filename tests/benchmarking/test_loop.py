"""Benchmarks and sweeps: the plan, what is run again and what is not, failures at the end; what may lead a search."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hydra.core.hydra_config import HydraConfig

from domadapt.benchmarking.launching import check_search
from domadapt.benchmarking.loop import Watch, benchmark, tell_of_other_hardware, told_apart
from domadapt.benchmarking.plan import PlannedCell, cells, plan
from domadapt.benchmarking.sweep import Sweep
from domadapt.config.compose import compose, to_builtin
from domadapt.config.overrides import lengthen
from domadapt.runs.status import Status
from tests.support import Command, corpora, records, write_jsonl


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


def test_a_benchmark_runs_what_is_not_finished(tmp_path: Path, capsys: Any, caplog: Any) -> None:
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


def test_a_failed_cell_is_told_last_and_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        "strong": '["injection=gnn","injection.gnn.agreement_weight=0.5"]',
        "few": '["target_labels=8"]',
        "plain": '["method=other"]',
    }
    more = [f"+benchmark.methods.{name}={own}" for name, own in matrix.items()]
    more += ["benchmark.only=[strong,few,plain,gnn]", "benchmark.seeds=[1]"]
    found = todo(overrides(tmp_path, *more))
    names = ["strong", "few+8_labels", "other", "gnn"]
    assert [cell.config["method"] for cell in found] == names == [cell.folder.parent.name for cell in found]
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


def test_it_is_told_which_cells_have_ended(tmp_path: Path) -> None:
    found = todo(overrides(tmp_path))
    watch = Watch(found)
    status = Status(found[1].folder, found[1].key)
    with status.during("fit"):
        status.note(0.0, epoch=1, epochs=3, step=20, steps=60)
    names = dict.fromkeys(("source", "target", "method"), "") | {"task": "extraction", "role": "adapted"}
    scores = {"headline": "span_f1", "source_dev": {}, "target_test": {"span_f1": 0.625}}
    metrics = {**names, **scores, "key": found[0].key, "seed": 1, "curve": [], "config": {}, "seconds": {"fit": 3.0}}
    for folder, text in ((found[0].folder, json.dumps(metrics)), (found[2].folder, '{"half')):
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(text, encoding="utf-8")
    Status(found[3].folder, found[3].key).failed(ValueError("seed"))
    assert [*watch.look()] == [f"{found[0].name}: span_f1 62.5, 3 s", f"{found[3].name}: failed: ValueError: seed"]
    assert [*watch.look()] == [] and [*watch.ended] == [found[0].folder]
    assert "2 started: go on from their last checkpoint" in plan(found, 2, "joblib")


def test_cells_that_ran_on_other_hardware_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A launcher's nodes may have what the machine that plans has not, so that it looks for other keys."""
    found = todo(overrides(tmp_path))
    there = {"device": "cuda", "name": "NVIDIA H200", "precision": "bf16-mixed"}
    here = {"key": found[0].key, "hardware": {"device": "cpu", "name": "some", "precision": "32-true"}}
    other = [{"key": "another", "hardware": there}] * 2
    tell_of_other_hardware(found, [here, ValueError("seed"), *other])
    (line,) = caplog.messages
    assert line.endswith("add 'trainer.hardware=cuda NVIDIA H200 bf16-mixed' to see them")


@pytest.fixture
def sweeping(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs `domadapt train -m` on a small problem."""
    monkeypatch.setattr(Sweep, "command", ())
    given = [*corpora(tmp_path), "trainer.epochs=1", f"paths.cache={tmp_path}/cache"]
    return lambda *overrides: command("train", "-m", *given, *overrides)


def test_a_grid_has_a_plan_one_table_and_its_failures(sweeping: Command, tmp_path: Path) -> None:
    code, out, err = sweeping("seed=-2,1")
    assert code == 2
    assert out.startswith("2 cells: 1 pairs × 1 methods × 2 seeds; launcher in_process, 1 at once\n  2 to run\n")
    assert out.count("span_f1 on the target test") == 1
    assert "domadapt train: 1 of 2 cells failed; the same command runs these again, and no other:" in err
    assert "seed=-2: expected a whole number" in err
    (metrics,) = (tmp_path / "runs").rglob("metrics.json")
    written = metrics.stat().st_mtime_ns
    code, out, err = sweeping("seed=1,-2")
    assert (code, metrics.stat().st_mtime_ns) == (2, written)
    assert "seed=-2: expected a whole number" in err and not out, "what is left fails, and is told before the plan"
    assert "domadapt train -m data=my_files" in metrics.read_text(encoding="utf-8")  # the command as it was typed


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["seed=1,2", "trainer.learning_rte=0.1,0.2"], "trainer.learning_rte: there is no such setting; did you mean"),
        (["injection=none,lisaa"], "injection=lisaa: there is no such option"),
        (["seed=1,1"], "are one and the same run"),
        (["trainer.learning_rate=interval(0,1)"], "does not support sweep type"),
    ],
)
def test_a_senseless_grid_is_one_line(sweeping: Command, tmp_path: Path, overrides: list[str], told: str) -> None:
    code, out, err = sweeping(*overrides)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert told in err
    assert not (tmp_path / "runs").exists()


def test_cells_are_called_what_tells_them_apart(tmp_path: Path) -> None:
    def names(*settings: str) -> list[str]:
        given = [(*corpora(tmp_path), setting) for setting in settings]
        configs = [compose("train", one) for one in given]
        found = [PlannedCell(c.method, c.seed, one, to_builtin(c)) for c, one in zip(configs, given, strict=True)]
        return [cell.method for cell in told_apart(found)]

    assert names("injection=none", "injection=gnn", "seed=2") == ["source_only", "gnn", "source_only"]
    rates = ["source_only (trainer.learning_rate=0.1)", "source_only (trainer.learning_rate=0.2)"]
    assert names("trainer.learning_rate=0.1", "trainer.learning_rate=0.2") == rates


class Bound:
    """A validator that is marked as reading target labels."""

    name = "a_bound"
    uses_target_labels = True


def searching(monkeypatch: pytest.MonkeyPatch, sweeper: str) -> None:
    """As in a job of `-m` with this sweeper."""
    settings = compose("train", with_hydra=True).hydra
    settings.mode = "MULTIRUN"
    settings.runtime.choices["hydra/sweeper"] = sweeper
    monkeypatch.setattr(HydraConfig, "get", staticmethod(lambda: settings))


def test_a_search_by_target_labels_or_by_no_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = compose("train")
    cfg.selection = {"_target_": f"{__name__}.Bound"}
    searching(monkeypatch, "basic")
    check_search(cfg, "train")  # a sweep over seeds may print the bound
    searching(monkeypatch, "optuna")
    with pytest.raises(ValueError, match="selection=a_bound: reads target labels"):
        check_search(cfg, "train")
    check_search(compose("train"), "train")
    with pytest.raises(ValueError, match="parse has no value to search by"):
        check_search(compose("parse"), "parse")
