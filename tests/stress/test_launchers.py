# ruff: noqa: F811 - fixtures are imported
"""Launchers beyond joblib, two processes stopped and resumed, jobs of a user's --config-dir, and a search by Optuna."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from domadapt.runs.groups import load
from domadapt.runs.metrics import objective
from tests.benchmarking.test_loop import in_process, launched, problem, the_same  # noqa: F401
from tests.support import StoppedAt, corpora
from tests.test_ranks import LISA, as_one, fitted


@pytest.mark.parametrize(
    ("launcher", "settings"), [("submitit_local", []), ("ray", ["hydra.launcher.ray.init.num_cpus=2"])]
)
def test_another_launcher_runs_the_same(
    problem: list[str], in_process: list[Any], tmp_path: Path, launcher: str, settings: list[str]
) -> None:
    assert the_same(launched(problem, tmp_path, launcher, *settings), in_process)


def test_inside_a_verb_the_users_config_dir_holds_for_the_jobs(problem: list[str], tmp_path: Path) -> None:
    (tmp_path / "conf/experiment").mkdir(parents=True)
    (tmp_path / "conf/experiment/own.yaml").write_text("# @package _global_\nmethod: my_own_name\n")
    program = """
import sys, json, hydra
from domadapt.benchmarking.launching import launch
from domadapt.config.resolvers import register

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


@pytest.mark.skipif(find_spec("optuna") is None, reason="the extra [optuna] is not installed")
def test_optuna_maximises_the_validator_in_metrics_json(tmp_path: Path) -> None:
    arguments = ["train", "-m", *corpora(tmp_path), "sweeper=optuna", "hydra.sweeper.n_trials=3"]
    program = [sys.executable, "-c", "from domadapt.cli.main import main; main()"]
    searched = "trainer.learning_rate=tag(log,interval(1e-4,1e-1))"
    done = subprocess.run([*program, *arguments, searched], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    runs = [load(path) for path in (tmp_path / "runs").rglob("metrics.json")]
    values = {run["config"]["trainer"]["learning_rate"]: objective(run) for run in runs}
    assert len(values) == 3  # one a trial
    best = OmegaConf.load(tmp_path / "runs/optimization_results.yaml")
    assert best.best_value == max(values.values())
    assert values[best.best_params["trainer.learning_rate"]] == best.best_value
    # Nobody is led by a target score on the screen, and what the libraries below say of themselves is left out.
    for line in ("target test", "alembic", "Study name", "Launching", "[I "):
        assert line not in done.stdout + done.stderr
    assert (
        len([line for line in done.stdout.splitlines() if "trainer.learning_rate=" in line and ": source_dev " in line])
        == 3
    )
    assert "kept in" in done.stdout and "optimization_results.yaml" in done.stdout
    # It is the validator's value, and no score on the target.
    chosen = next(run for run in runs if run["config"]["trainer"]["learning_rate"] in values)
    assert objective(chosen) == max(line["source_dev"]["span_f1"] for line in chosen["curve"])


def test_two_processes_that_are_started_anew_are_as_one(problem: list[str], tmp_path: Path) -> None:
    one, two = as_one(problem, tmp_path, "auto")
    assert one == two


def test_resumed_with_two_processes_it_has_the_same_weights(tmp_path: Path) -> None:
    given = corpora(tmp_path)
    # With dropout, so that the random numbers of both must go on where they were.
    whole, expected = fitted(given, tmp_path / "whole", *LISA, "trainer.devices=2", dropout=True)
    with pytest.raises(ValueError, match="^pulled the plug"):  # as one process would have said it
        fitted(given, tmp_path / "cut", *LISA, "trainer.devices=2", dropout=True, status=StoppedAt)
    resumed, found = fitted(given, tmp_path / "cut", *LISA, "trainer.devices=2", dropout=True)
    assert resumed.curve == whole.curve
    for name, weights in expected.items():
        assert torch.equal(found[name], weights), name
