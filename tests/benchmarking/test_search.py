"""A search is led by the chosen validator, never by a target label."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from domadapt.benchmarking.launching import check_search, objective
from domadapt.config.compose import compose
from domadapt.runs.groups import read_metrics
from tests.support import corpora


class Bound:
    """A validator that is marked as reading target labels."""

    name = "a_bound"
    bound = True


@pytest.mark.skipif(find_spec("optuna") is None, reason="the extra [optuna] is not installed")
def test_optuna_maximises_the_validator_in_metrics_json(tmp_path: Path) -> None:
    arguments = ["train", "-m", *corpora(tmp_path), "sweeper=optuna", "hydra.sweeper.n_trials=3"]
    program = [sys.executable, "-c", "from domadapt.cli.main import main; main()"]
    searched = "trainer.learning_rate=tag(log,interval(1e-4,1e-1))"
    done = subprocess.run([*program, *arguments, searched], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    runs = [read_metrics(path) for path in (tmp_path / "runs").rglob("metrics.json")]
    values = {run.config["trainer"]["learning_rate"]: objective(run) for run in runs}
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
    chosen = next(run for run in runs if run.config["trainer"]["learning_rate"] in values)
    assert objective(chosen) == max(point.source_dev["span_f1"] for point in chosen.curve)


def searching(monkeypatch: pytest.MonkeyPatch, sweeper: str) -> None:
    """As in a job of `-m` with this sweeper."""
    settings = compose("train", with_hydra=True).hydra
    settings.mode = "MULTIRUN"
    settings.runtime.choices["hydra/sweeper"] = sweeper
    monkeypatch.setattr(HydraConfig, "get", staticmethod(lambda: settings))


def test_a_search_by_target_labels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = compose("train")
    cfg.selection = {"_target_": f"{__name__}.Bound"}
    searching(monkeypatch, "basic")
    check_search(cfg, "train")  # a sweep over seeds may print the bound
    searching(monkeypatch, "optuna")
    with pytest.raises(ValueError, match="selection=a_bound: reads target labels"):
        check_search(cfg, "train")
    check_search(compose("train"), "train")


def test_a_search_needs_a_verb_with_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    searching(monkeypatch, "optuna")
    with pytest.raises(ValueError, match="parse has no value to search by"):
        check_search(compose("parse"), "parse")
