"""The same cells through every launcher."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from domadapt.benchmarking.launching import launch, portable
from domadapt.data.records import DataError, Location
from tests.support import corpora

# Two that must succeed, around one that must fail and stop nothing.
SEEDS = (1, -2, 3)


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [*corpora(tmp_path_factory.mktemp("problem")), "trainer.epochs=1", "trainer.threads=0"]


def results(problem: list[str], runs: Path, launcher: str, *more: str) -> list[Any]:
    return launch([[*problem, *more, f"launcher={launcher}", f"seed={seed}", f"paths.runs={runs}"] for seed in SEEDS])


@pytest.fixture(scope="module")
def in_process(problem: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return results(problem, tmp_path_factory.mktemp("runs"), "in_process")


def without_clock(metrics: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in metrics.items() if k not in ("seconds", "config", "attempts")}


def test_one_failed_job_stops_no_other(in_process: list[Any]) -> None:
    first, failed, last = in_process
    assert (first["seed"], last["seed"]) == (1, 3)
    assert isinstance(failed, ValueError)
    assert "seed=-2: expected a whole number" in str(failed)


def test_joblib_runs_the_same(problem: list[str], in_process: list[Any], tmp_path: Path) -> None:
    found = results(problem, tmp_path, "joblib", "hydra.launcher.n_jobs=2")
    for expected, metrics in ((in_process[0], found[0]), (in_process[2], found[2])):
        assert without_clock(metrics) == without_clock(expected)
    assert isinstance(found[1], ValueError)
    assert len(list(tmp_path.rglob("metrics.json"))) == 2


def test_inside_a_verb_the_users_config_dir_holds_for_the_jobs(problem: list[str], tmp_path: Path) -> None:
    (tmp_path / "conf/experiment").mkdir(parents=True)
    (tmp_path / "conf/experiment/own.yaml").write_text("# @package _global_\nmethod: my_own_name\n")
    program = """
import sys, json, hydra
from domadapt.benchmarking.launching import launch
from domadapt.resolvers import register

def job(cfg):
    print(json.dumps([metrics["method"] for metrics in launch(json.loads(jobs))]))

register()
jobs = sys.argv.pop()
hydra.main(version_base="1.3", config_path="pkg://domadapt.conf", config_name="benchmark")(job)()
"""
    jobs = [[*problem, "experiment=own", "launcher=joblib", f"paths.run={tmp_path}/{n}", f"seed={n}"] for n in (1, 2)]
    command = [sys.executable, "-c", program, f"--config-dir={tmp_path}/conf", "hydra/job_logging=stdout"]
    done = subprocess.run([*command, json.dumps(jobs)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == ["my_own_name"] * 2


def test_an_error_that_can_not_be_pickled_is_told_in_the_same_words() -> None:
    error = DataError(Location(Path("a.csv"), 3), "label", "x", "a class", "name one")
    found = portable(error)
    assert isinstance(found, ValueError)
    assert str(found) == str(error)
