"""Benchmarks and sweeps: the plan, what is not run again, failures at the end; shared networks; every launcher."""

import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.errors import MissingConfigException
from safetensors.torch import load_file

import domadapt
from domadapt.benchmarking import loop
from domadapt.benchmarking.launching import check_search, jobs_at_once, launch, picklable
from domadapt.benchmarking.loop import PlannedCell, Progress, Sweep, benchmark, cells, plan, with_distinct_names
from domadapt.config.compose import LESS_MEMORY, compose, settings, to_builtin, user_error
from domadapt.config.overrides import lengthen
from domadapt.methods.method import Method, Step, in_range
from domadapt.runs.key import cell_key
from domadapt.runs.status import Busy, Status
from domadapt.training.build import run_config
from domadapt.training.distributed import threads_of_a_job
from domadapt.training.module import AdaptationModule
from tests.support import Command, corpora, edit, make_metrics, records, write_jsonl


def overrides(folder: Path, *more: str) -> list[str]:
    given = ["experiment=my_matrix", "task=extraction", *corpora(folder), "trainer.epochs=1", "benchmark.seeds=[1,2]"]
    given += ["benchmark.only=[source_only,gnn]", f"paths.cache={folder}/cache", *more]
    return [o.removeprefix("data.") for o in given if o != "data=my_files"]  # as people write them


def todo(given: list[str]) -> list[PlannedCell]:
    return cells(settings(compose("benchmark", given), "benchmark"), given)


def run(given: list[str]) -> list[dict[str, Any]]:
    return benchmark(settings(compose("benchmark", given), "benchmark"), given)


def test_a_benchmark_runs_what_is_not_finished(tmp_path: Path, capsys: Any, caplog: Any) -> None:
    given = overrides(tmp_path)
    first = run(given)
    said = capsys.readouterr().out
    assert [(m["method"], m["seed"]) for m in first] == [("source_only", 1), ("gnn", 1), ("source_only", 2), ("gnn", 2)]
    assert "4 cells: 1 pair × 2 methods × 2 seeds; launcher in_process, 1 at once\n  4 to run" in said
    assert "no estimate" in said and re.search(r"4 cells in \d.*; their own times add up to \d", said)
    folders = [cell.folder for cell in todo(given)]
    before = [(folder / "metrics.json").stat().st_mtime_ns for folder in folders]
    (folders[0] / "metrics.json").unlink()
    (folders[0] / "metrics.json").mkdir()
    edit(folders[3] / "metrics.json", lambda odd: odd.update(target_test={"span_f1": float("nan")}))
    again = run(given)
    said = capsys.readouterr().out
    assert "2 finished: not run again (to force one, move its folder)\n  2 to run\n  about" in said
    assert "for 2 of them" in said
    for folder, reason in ((folders[0], "unreadable"), (folders[3], "it says NaN")):
        named = [m for m in caplog.messages if m.startswith(f"{folder / 'metrics.json'}: ") and reason in m]
        assert named and "moved to metrics.json.damaged, and the run is made again" in named[0]
    assert [(f / "metrics.json").stat().st_mtime_ns for f in folders[1:3]] == before[1:3]
    assert [m["target_test"] for m in again] == [m["target_test"] for m in first]


def test_the_cells_of_a_pair_do_not_repeat_its_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(overrides(tmp_path, "max_length=4", "benchmark.only=[source_only]"))
    cut = [message for message in caplog.messages if "longer than max_length=4" in message]
    assert cut and len(cut) == len(set(cut))


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


def test_a_setting_that_follows_the_seed_is_that_of_each_cell(tmp_path: Path) -> None:
    for cell in (found := todo(overrides(tmp_path, "trainer.min_steps=${seed}", "benchmark.only=[source_only]"))):
        assert cell.config["trainer"]["min_steps"] == cell.seed
        assert cell.key == cell_key(compose("train", cell.overrides))  # as its launcher sees it
    assert len(found) == 2


def test_controls_of_the_command_line_are_those_of_every_cell(tmp_path: Path) -> None:
    """A report reads them in the runs."""
    given = [
        "benchmark.controls={gnn: [gnn@linear]}",
        "+benchmark.controls.mine=[gnn@linear]",
        "~benchmark.controls.lisa",
    ]
    for cell in todo(overrides(tmp_path, *given)):
        assert cell.config["benchmark"]["controls"] == {"gnn": ["gnn@linear"], "mine": ["gnn@linear"]}
        assert compose("train", cell.overrides).benchmark == cell.config["benchmark"]  # as its launcher sees it


def test_what_every_cell_lacks_is_told_once_before_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [o for o in overrides(tmp_path) if not o.startswith("source.path")]
    with pytest.raises(ValueError, match=r"data\.source\.path is not set"):
        run(given)
    with pytest.raises(ValueError, match=r"nowhere\.jsonl"):
        run([*given, "data.source.path=nowhere.jsonl"])
    assert capsys.readouterr().out == "" and not (tmp_path / "runs").exists()


def test_a_folder_of_runs_that_can_not_be_made_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeError, match=r"file/runs: Not a directory; name a folder that can be") as failed:
        run(overrides(tmp_path, f"paths.runs={tmp_path}/file/runs"))
    assert "launcher" not in str(failed.value)


def test_matrices_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"benchmark.only=\['lisaa'\]: no such method in the matrix; expected some of"):
        todo(overrides(tmp_path, "benchmark.only=[lisaa]"))
    again = ['+benchmark.methods.again=["trainer.epochs=1"]', "benchmark.only=[source_only,again]", "trainer.epochs=2"]
    found = r"^source_to_target source_only seed 1, source_to_target again seed 1 are one and .* command line replace"
    with pytest.raises(ValueError, match=found):  # of both seeds
        todo(overrides(tmp_path, *again, "benchmark.seeds=[1,2]"))
    with pytest.raises(ValueError, match=r"write benchmark.seeds=\[1\] in place of seed=1"):
        todo(overrides(tmp_path, "seed=1"))


def test_it_is_told_which_cells_have_ended(tmp_path: Path) -> None:
    found = todo(overrides(tmp_path))
    watch = Progress(found)
    status = Status(found[1].folder, found[1].key)
    with status.during("fit"):
        status.note(0.0, epoch=1, epochs=3, step=20, steps=60)
    metrics = make_metrics("source_only", 1, 0.625, key=found[0].key, seconds={"fit": 3.0})
    for folder, text in ((found[0].folder, json.dumps(metrics)), (found[2].folder, '{"half')):
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(text, encoding="utf-8")
    Status(found[3].folder, found[3].key).failed(ValueError("seed"))
    assert [*watch.look()] == [f"{found[0].name}: span_f1 62.5, 3 s", f"{found[3].name}: failed: ValueError: seed"]
    assert [*watch.look()] == [] and [*watch.ended] == [found[0].folder]
    assert "2 started or failed: go on from their last checkpoint, if there is one" in plan(found, 2, "joblib")


def test_what_finished_before_its_launcher_stopped_has_not_failed(tmp_path: Path, monkeypatch: Any) -> None:
    found = todo(overrides(tmp_path))

    def stopped(jobs: list[Any], wait: bool) -> list[Any]:
        found[0].folder.mkdir(parents=True)
        metrics = json.dumps(make_metrics("source_only", 1, 0.625, key=found[0].key))
        (found[0].folder / "metrics.json").write_text(metrics, encoding="utf-8")
        return [loop.Stopped("the launcher stopped")] * len(jobs)

    monkeypatch.setattr(loop, "launch", stopped)
    _, failure = loop.sweep(found)
    told = str(failure)
    assert "3 of 4 cells failed" in told and told.count("the launcher stopped") == 1 and found[0].key not in told
    assert found[0].state() == loop.FINISHED
    Status(found[0].folder, found[0].key)._write({})  # killed before it has tidied up
    assert found[0].state() == loop.STARTED


def test_cells_that_ran_on_other_hardware_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A launcher's nodes may have what the machine that plans has not, so that it looks for other keys."""
    found = todo(overrides(tmp_path))
    there = {"device": "cuda", "name": "NVIDIA H200", "precision": "bf16-mixed"}
    here = {"key": found[0].key, "hardware": {"device": "cpu", "name": "some", "precision": "32-true"}}
    other = [{"key": "another", "hardware": there}] * 2
    loop.tell_of_other_hardware(found, [here, ValueError("seed"), *other])
    (line,) = caplog.messages
    assert line.endswith("add 'trainer.hardware=cuda NVIDIA H200 bf16-mixed' to see them")


@pytest.fixture
def sweeping(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs `domadapt train -m` on a small problem."""
    monkeypatch.setattr(Sweep, "command", ())
    given = [*corpora(tmp_path), "trainer.epochs=1", f"paths.cache={tmp_path}/cache"]
    return lambda *overrides, code=0: command("train", "-m", *given, *overrides, code=code)


def test_a_grid_has_a_plan_one_table_and_its_failures(sweeping: Command, tmp_path: Path) -> None:
    out, err = sweeping("seed=-2,1", code=2)
    assert out.startswith("2 cells: 1 pair × 1 method × 2 seeds; launcher in_process, 1 at once\n  2 to run\n")
    assert out.count("span_f1 on the target test") == 1
    assert "domadapt train: 1 of 2 cells failed; the same command runs these again, and no other:" in err
    assert "seed=-2: expected a whole number" in err
    (metrics,) = (tmp_path / "runs").rglob("metrics.json")
    written = metrics.stat().st_mtime_ns
    out, err = sweeping("seed=1,-2", code=2)
    assert metrics.stat().st_mtime_ns == written
    assert "seed=-2: expected a whole number" in err and not out, "what is left fails, and is told before the plan"
    assert "domadapt train -m data=my_files" in metrics.read_text(encoding="utf-8")  # the command as it was typed


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["seed=1,2", "trainer.learning_rte=0.1,0.2"], "trainer.learning_rte: there is no such setting; did you mean"),
        (["injection=none,lisaa"], "injection=lisaa: there is no such option"),
        (["seed=1,1"], "are one and the same run"),
        (["seed=1,2", "paths.run=one"], "one: one folder for 2 runs; give paths.runs=FOLDER"),
        (["trainer.learning_rate=interval(0,1)"], "does not support sweep type"),
    ],
)
def test_a_senseless_grid_is_one_line(sweeping: Command, tmp_path: Path, overrides: list[str], told: str) -> None:
    out, err = sweeping(*overrides, code=2)
    assert (out, err.count("\n")) == ("", 1), err
    assert told in err and not (tmp_path / "runs").exists()


def test_cells_are_called_what_tells_them_apart(tmp_path: Path) -> None:
    def names(*settings: str) -> list[str]:
        given = [(*corpora(tmp_path), setting) for setting in settings]
        configs = [compose("train", one) for one in given]
        found = [PlannedCell(c.method, c.seed, one, to_builtin(c)) for c, one in zip(configs, given, strict=True)]
        return [cell.method for cell in with_distinct_names(found)]

    assert names("injection=none", "injection=gnn", "seed=2") == ["source_only", "gnn", "source_only"]
    rates = ["source_only (trainer.learning_rate=0.1)", "source_only (trainer.learning_rate=0.2)"]
    assert names("trainer.learning_rate=0.1", "trainer.learning_rate=0.2") == rates


def searching(monkeypatch: pytest.MonkeyPatch, sweeper: str) -> None:
    """As in a job of `-m` with this sweeper."""
    settings = compose("train", with_hydra=True).hydra
    settings.mode = "MULTIRUN"
    settings.runtime.choices["hydra/sweeper"] = sweeper
    monkeypatch.setattr(HydraConfig, "get", staticmethod(lambda: settings))


def test_a_search_by_target_labels_or_by_no_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = compose("train", ["selection=oracle"])
    searching(monkeypatch, "basic")
    check_search(cfg, "train")  # a sweep over seeds may print the bound
    searching(monkeypatch, "optuna")
    with pytest.raises(ValueError, match="selection=oracle: reads target labels"):
        check_search(cfg, "train")
    with pytest.raises(ValueError, match="selection=last: its value is the number of the epoch"):
        check_search(compose("train", ["selection=last"]), "train")
    check_search(compose("train"), "train")
    with pytest.raises(ValueError, match="parse has no value to search by"):
        check_search(compose("parse"), "parse")


class Shrink(Method):
    """A method of the source alone: small weights."""

    def losses(self, step: Step) -> dict[str, torch.Tensor]:
        return {"shrink": sum((p**2).sum() for p in self.session.encoder.parameters())}


class ReadsTarget(Shrink):
    reads = frozenset({"corpus_parses"})


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry a training step, whatever the run."""
    made: list[int] = []
    real = AdaptationModule.training_step

    def counted(self: AdaptationModule, *args: Any) -> torch.Tensor:
        made.append(self.global_step)
        return real(self, *args)

    monkeypatch.setattr(AdaptationModule, "training_step", counted)
    return made


def paired(folder: Path, target: str, *more: str, cache: str = "cache") -> dict[str, Any]:
    """Metrics of a run to one of several targets, the source always the same."""
    given = [o for o in corpora(folder) if not o.startswith("data.target.")]
    for part, shift in (("path", 5), ("test_path", 6)):
        file = write_jsonl(folder / f"{target}-{part}.jsonl", records(target, 20, shift + len(target)))
        given.append(f"data.target.{part}={file}")
    given += [f"data.target.name={target}", "paths.share_networks=true", "trainer.precision=32", "trainer.threads=1"]
    given.append("trainer.regret=true")
    return domadapt.train([*given, f"paths.cache={folder}/{cache}", f"paths.run={folder}/{cache}-{target}", *more])


def method(name: str) -> str:
    return f"+injection.shrink={{_target_: {__name__}.{name}, weights: {{shrink: 0.001}}}}"


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with corpora, cache and run of one target, to be copied; and its metrics."""
    folder = tmp_path_factory.mktemp("laptop")
    return folder, paired(folder, "laptop")


@pytest.mark.parametrize("more", [[], [method("Shrink")]], ids=["no method", "a method of the source"])
def test_two_targets_train_one_network_and_have_own_scores(tmp_path: Path, steps: list[int], more: list[str]) -> None:
    first = paired(tmp_path, "laptop", *more)
    trained = len(steps)
    second = paired(tmp_path, "phone", *more)
    assert trained and len(steps) == trained, "the second target trains nothing"
    alone = paired(tmp_path, "phone", *more, cache="another")
    assert len(steps) == 2 * trained
    assert first["training"] == second["training"] == alone["training"]
    for one, other in zip(first["curve"], second["curve"], strict=True):
        assert one["losses"] == other["losses"] and one["source_dev"] == other["source_dev"]
        assert one["validators"]["entropy"] != other["validators"]["entropy"], "on its own target text"
    files = [tmp_path / name / "model/encoder/model.safetensors" for name in ("cache-laptop", "cache-phone")]
    weights = [load_file(file) for file in files]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    # It is what would have come of training.
    for name in ("curve", "selection", "target_test", "target_test_clean", "source_dev", "calibration", "counts"):
        assert second[name] == alone[name], name
    assert "fit" in first["seconds"] and "fit" not in second["seconds"]


@pytest.mark.parametrize("more", [["adaptation=masked_lm"], [method("ReadsTarget")], ["paths.share_networks=false"]])
def test_what_reads_the_target_is_trained_for_every_target(tmp_path: Path, steps: list[int], more: list[str]) -> None:
    first = paired(tmp_path, "laptop", *more)
    trained = len(steps)
    second = paired(tmp_path, "phone", *more)
    assert len(steps) == 2 * trained
    shared = "share_networks" not in more[0]
    assert (first["training"] is None) == shared == (second["training"] is None)
    assert len(list((tmp_path / "cache").glob("network-*"))) == 4 * shared


@pytest.mark.parametrize("changed", ["seed", "source", "damaged"])
def test_another_network_is_not_taken(
    laptop: tuple[Path, dict[str, Any]], tmp_path: Path, steps: list[int], changed: str, monkeypatch: Any
) -> None:
    (folder, first), more = laptop, []
    shutil.copytree(folder / "cache", tmp_path / "cache")
    if changed == "seed":
        more = ["seed=2"]
    elif changed == "source":
        monkeypatch.setattr("tests.support.OPINIONS", ["fine", "dull", "superb", "weak", "lovely"])
    else:
        [*_, last] = sorted((tmp_path / "cache").glob("network-*"))
        last.write_bytes(last.read_bytes()[:-100])
    second = paired(tmp_path, "phone", *more)
    assert len(steps) == first["curve"][-1]["step"]
    assert (second["training"] == first["training"]) == (changed == "damaged")


def repaired(folder: Path, *more: str, cache: str) -> dict[str, Any]:
    """Metrics of a run with its own folder, as paths name it by its key."""
    given = [*corpora(folder), "trainer.threads=1", "task=classification", f"paths.cache={folder}/{cache}"]
    return domadapt.train([*given, f"paths.runs={folder}/{cache}-runs", *more])


@pytest.mark.parametrize("more", [[], ["adaptation=masked_lm"], ["train_on=target"]])
def test_a_repaired_test_needs_no_training(tmp_path: Path, steps: list[int], monkeypatch: Any, more: list[str]) -> None:
    before = repaired(tmp_path, *more, "paths.share_networks=true", cache="cache")
    trained = len(steps)
    mended = records("laptop", 12, 6)
    mended[0]["label"] = "negative" if mended[0]["label"] == "positive" else "positive"
    monkeypatch.setattr("tests.support.records", lambda name, n, by=0: mended if n == 12 else records(name, n, by))
    scored = repaired(tmp_path, *more, "paths.share_networks=true", cache="cache")
    assert trained and len(steps) == trained
    assert len(list((tmp_path / "cache").glob("network-*-epoch=*"))) == 2
    alone = repaired(tmp_path, *more, cache="another")
    assert len(steps) == 2 * trained
    assert not list((tmp_path / "another").glob("network-*")), "a single run keeps none unasked"
    assert before["target_test"] != scored["target_test"]
    for name in ("curve", "selection", "target_test", "target_test_clean", "source_dev", "calibration", "key"):
        assert scored[name] == alone[name], name


def test_a_benchmark_that_is_over_leaves_no_network_in_the_cache(tmp_path: Path) -> None:
    """Each epoch's weights are shared by its pairs, and of no use after them."""
    pairs = 'benchmark.pairs=["target.name=laptop","target.name=phone"]'  # a method's short names are understood, too
    given = [*corpora(tmp_path), "experiment=my_matrix", "benchmark.seeds=[1]", "benchmark.only=[source_only]", pairs]
    given += ['benchmark.methods.source_only=["source.name=camera"]', f"paths.cache={tmp_path}/cache"]
    overrides = [lengthen(override) for override in given]  # pairs on the command line share unasked, too
    done = benchmark(settings(compose("benchmark", overrides), "benchmark"), overrides)
    assert len(done) == 2 and done[0]["training"] == done[1]["training"]
    assert "fit" not in done[1]["seconds"], "the second took it from the first"
    assert not list((tmp_path / "cache").glob("network-*"))


def ceiling(folder: Path, source: str, *more: str, cache: str = "cache") -> tuple[dict[str, Any], Path]:
    """Its metrics and its run folder, for a pair of this source and the one target."""
    if not (folder / f"{source}.jsonl").exists():
        corpora(folder)
        write_jsonl(folder / f"{source}.jsonl", records(source, 24, len(source)))
    run, given = folder / cache / f"{source}-run", [o for o in corpora(folder) if not o.startswith("data.source.")]
    given += [f"data.source.path={folder}/{source}.jsonl", f"data.source.name={source}", "trainer.epochs=1"]
    return domadapt.train([*given, "train_on=target", f"paths.run={run}", f"paths.cache={folder}/{cache}", *more]), run


def test_two_pairs_with_one_target_train_one_ceiling(tmp_path: Path) -> None:
    first, first_run = ceiling(tmp_path, "camera")
    second, second_run = ceiling(tmp_path, "phone")
    alone, alone_run = ceiling(tmp_path, "phone", cache="another_cache")
    assert "copied_from" not in first and "copied_from" not in alone
    assert (first["method"], first["role"]) == ("in_domain", "in_domain")
    assert second["copied_from"] == str(first_run)
    assert (first["source"], second["source"], alone["source"]) == ("camera", "phone", "phone")
    # It is what would have come of training.
    assert second["key"] == alone["key"] != first["key"]
    for name in ("target_test", "target_test_clean", "source_dev", "selection", "calibration", "counts", "role"):
        assert second[name] == alone[name], name
    for name in ("predictions.jsonl", "model/encoder/model.safetensors", "model/domadapt.json"):
        assert (second_run / name).read_bytes() == (alone_run / name).read_bytes(), name
    assert "fit" in first["seconds"] and "fit" not in second["seconds"]
    assert json.loads((second_run / "metrics.json").read_text())["config"]["data"]["source"]["name"] == "phone"


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora, cache and run of a ceiling, to be copied."""
    ceiling(folder := tmp_path_factory.mktemp("camera"), "camera")
    return folder


CHANGED = ("test.jsonl", "labelled.jsonl", "target.jsonl", "seed", "deleted", "damaged")


@pytest.mark.parametrize("changed", ["nothing", *CHANGED])
def test_what_would_change_the_ceiling_is_not_taken(
    camera: Path, tmp_path: Path, changed: str, monkeypatch: Any
) -> None:
    shutil.copytree(camera, tmp_path, dirs_exist_ok=True)
    first_run, more = tmp_path / "cache" / "camera-run", []
    [note] = (tmp_path / "cache").glob("ceiling-*.json")
    note.write_text(json.dumps({"folder": str(first_run)}), encoding="utf-8")
    if changed == "seed":
        more = ["seed=2"]
    elif changed == "deleted":
        (first_run / "metrics.json").unlink()
    elif changed == "damaged":
        with (first_run / "model" / "encoder" / "model.safetensors").open("r+b") as weights:
            weights.seek(-4, 2)
            weights.write(b"\0\0\0\0")
    elif changed != "nothing":
        written = write_jsonl

        def write(path: Path, rows: list[dict[str, Any]]) -> Path:
            return written(path, rows[:-1] if path.name == changed else rows)

        monkeypatch.setattr("tests.support.write_jsonl", write)
    second, _ = ceiling(tmp_path, "phone", *more)
    assert ("copied_from" in second) == (changed == "nothing")


# Two that must succeed, around one that must fail and stop nothing.
SEEDS = (1, -2, 3)


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [*corpora(tmp_path_factory.mktemp("problem")), "trainer.epochs=1", "trainer.threads=1"]


@pytest.fixture(scope="module")
def in_process(problem: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    runs = tmp_path_factory.mktemp("runs")
    return launch([[*problem, f"seed={seed}", f"paths.runs={runs}"] for seed in SEEDS])


# Their results go into a file: what a launcher prints is its own affair.
PROGRAM = """
import sys, json, pathlib
from domadapt.benchmarking.launching import launch

if __name__ == "__main__":
    results = launch(json.loads(sys.argv.pop()))
    told = [f"{type(r).__name__}: {r}" if isinstance(r, Exception) else r for r in results]
    pathlib.Path(sys.argv.pop()).write_text(json.dumps(told))
"""


def without_clock(metrics: dict[str, Any]) -> dict[str, Any]:
    left_out = ("seconds", "config", "attempts", "written", "command")
    left_out += ("expected",)  # tests/conftest.py changes it here alone
    return {k: v for k, v in metrics.items() if k not in left_out}


def launched(problem: list[str], folder: Path, launcher: str, *settings: str) -> list[Any]:
    """Metrics or errors of the same jobs through a launcher; skipped where it is not installed."""
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    jobs = [[*problem, *settings, f"launcher={launcher}", f"seed={s}", f"paths.runs={folder}/runs"] for s in SEEDS]
    # In a process of its own: what ray and submitit start there, ends with it.
    command = [sys.executable, "-c", PROGRAM, str(folder / "results.json"), json.dumps(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "runs").rglob("metrics.json"))) == 2
    assert not (folder / "outputs").exists() and not (folder / "multirun").exists()
    return json.loads((folder / "results.json").read_text())  # type: ignore[no-any-return]


def the_same(found: list[Any], in_process: list[Any]) -> bool:
    """As one after the other in this process."""
    error = "ValueError: seed=-2: expected a whole number from 0 to 4294967295"
    finished = [without_clock(json.loads(json.dumps(in_process[i]))) for i in (0, 2)]
    return [without_clock(found[0]), found[1], without_clock(found[2])] == [finished[0], error, finished[1]]


def test_joblib_runs_the_same(problem: list[str], in_process: list[Any], tmp_path: Path) -> None:
    assert the_same(launched(problem, tmp_path, "joblib", "hydra.launcher.n_jobs=2"), in_process)


@pytest.mark.parametrize(
    ("overrides", "threads", "at_once"),
    [
        (["launcher=in_process"], 0, 1),
        (["launcher=joblib", "hydra.launcher.n_jobs=3"], 2, 3),
        (["launcher=joblib", "hydra.launcher.n_jobs=-1"], 1, 8),
        (["launcher=joblib", "hydra.launcher.n_jobs=20"], 1, 20),
        (["launcher=submitit"], 0, 64),
        (["launcher=submitit_local"], 0, None),  # not known
        (["launcher=ray"], 0, None),
    ],
)
def test_jobs_that_share_a_machine_share_its_cores(
    monkeypatch: Any, overrides: Any, threads: int, at_once: Any
) -> None:
    launcher = overrides[0].removeprefix("launcher=")
    extra = launcher.partition("_")[0]
    if extra in ("ray", "submitit"):
        pytest.importorskip(f"hydra_plugins.hydra_{extra}_launcher")
    assert threads_of_a_job() == 0  # outside of a sweep: torch's choice
    monkeypatch.setattr("joblib.cpu_count", lambda *_, **__: 8)
    monkeypatch.setattr("joblib.effective_n_jobs", lambda jobs: 8 if jobs == -1 else jobs)
    assert jobs_at_once(overrides) == (at_once, launcher)
    settings = compose("train", overrides, with_hydra=True).hydra
    monkeypatch.setattr(HydraConfig, "initialized", staticmethod(lambda: True))
    monkeypatch.setattr(HydraConfig, "get", staticmethod(lambda: settings))
    assert threads_of_a_job() == threads


def test_a_plan_divides_by_no_guess(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("domadapt.benchmarking.loop.estimate", lambda todo: [150.0] * 4)
    todo = [PlannedCell("source_only", 1, (), to_builtin(compose("train", [f"paths.runs={tmp_path}"])))] * 4
    said = plan(todo, None, "ray")
    assert said.startswith("4 cells; launcher")  # not 1 pair × 1 method × 1 seed: they differ otherwise
    assert "launcher ray, as many at once as there is room for" in said
    assert "about 10 min for 4 of them, one after the other" in said
    assert plan(todo, 2, "joblib").endswith("about 5 min for 4 of them")


def test_an_absent_launcher_is_an_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    error = MissingConfigException("Could not find it", "hydra/launcher/ray", ["basic"])
    assert user_error(error, "train") == "launcher=ray is an extra: pip install 'domadapt[ray]'"
    error = MissingConfigException("Could not find it", "hydra/launcher/rai", ["basic"])
    assert "expected one of basic" in str(user_error(error, "train"))


def test_torch_s_own_errors_keep_their_traceback_and_want_of_memory_names_the_settings() -> None:
    with pytest.raises(RuntimeError, match="allocate") as raised:
        torch.empty(10**15)
    assert str(user_error(raised.value, "train")).endswith("4000000000000000 bytes; try " + LESS_MEMORY["train"])
    said = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79 GiB"
    assert user_error(RuntimeError(said), "predict") == f"{said.partition('. GPU')[0]}; try batch_size=8"
    assert user_error(RuntimeError("expected device cuda:0 but got device cpu"), "train") is None
    assert user_error(Busy("another process runs this cell"), "train") == "another process runs this cell"


def test_an_error_that_can_not_be_pickled_is_told_in_the_same_words() -> None:
    class Local(ValueError):
        """Which a pickle can't find again."""

    found = picklable(Local("seed=x"))
    assert (type(found), str(found)) == (ValueError, "seed=x")


def test_an_error_that_a_strangers_file_causes_names_its_line_wherever_it_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reshape") as theirs:
        np.zeros(3).reshape(2)
    with pytest.raises(ValueError, match="expected") as ours:
        in_range("mine.share", 2, 0, 1)
    for raised, place in ((theirs, r" \(test_loop\.py:\d+\)"), (ours, "")):
        Status(tmp_path, "key").failed(raised.value)
        told = user_error(pickle.loads(pickle.dumps(picklable(raised.value))), "train")  # of another process
        assert told and re.fullmatch(re.escape(str(raised.value)) + place, told)
        assert json.loads((tmp_path / "status.json").read_text())["error"] == f"ValueError: {told}"


def test_a_number_that_no_file_of_a_run_holds_is_refused_before_it_is_trained_with(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^most=inf: the files of a run hold no such number"):
        run_config(compose("train", [*corpora(tmp_path), "+adaptation.mine.most=inf"]))
