"""`domadapt train -m`: plan, table, failures at the end; a search is led by the validator, never by a target label."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig

from domadapt.benchmarking.launching import check_search
from domadapt.benchmarking.loop import told_apart
from domadapt.benchmarking.plan import PlannedCell
from domadapt.benchmarking.sweep import Sweep
from domadapt.config.compose import compose
from tests.support import Command, corpora


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
def test_a_grid_that_makes_no_sense_is_one_line(
    sweeping: Command, tmp_path: Path, overrides: list[str], told: str
) -> None:
    code, out, err = sweeping(*overrides)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert told in err
    assert not (tmp_path / "runs").exists()


def test_cells_are_called_what_tells_them_apart(tmp_path: Path) -> None:
    def names(*settings: str) -> list[str]:
        given = [(*corpora(tmp_path), setting) for setting in settings]
        configs = [compose("train", one) for one in given]
        found = [PlannedCell(c.method, c.seed, one, c) for c, one in zip(configs, given, strict=True)]
        return [cell.method for cell in told_apart(found)]

    assert names("injection=none", "injection=gnn", "seed=2") == ["source_only", "gnn", "source_only"]
    rates = ["source_only (trainer.learning_rate=0.1)", "source_only (trainer.learning_rate=0.2)"]
    assert names("trainer.learning_rate=0.1", "trainer.learning_rate=0.2") == rates


@pytest.mark.skipif(find_spec("optuna") is None, reason="the extra [optuna] is not installed")
def test_a_search_says_how_long_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    config = compose("train", ["sweeper=optuna", "hydra.sweeper.n_trials=7"], with_hydra=True)
    Sweep().on_multirun_start(config)
    assert capsys.readouterr().out == "search: 7 runs, each chosen by the values of those before: no plan\n"
    Sweep().on_multirun_start(compose("benchmark", ["sweeper=optuna"], with_hydra=True))
    assert capsys.readouterr().out == ""


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
