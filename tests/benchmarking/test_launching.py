"""The same cells through every launcher."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.errors import MissingConfigException

from domadapt.benchmarking import loop as planning
from domadapt.benchmarking.launching import jobs_at_once, launch, portable
from domadapt.config.compose import compose, to_builtin, user_error
from domadapt.data.records import DataError, Location
from domadapt.training.distributed import threads_of_a_job
from tests.support import corpora

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
    left_out = ("seconds", "config", "attempts", "command", "expected")  # tests/conftest.py changes the last here alone
    return {k: v for k, v in metrics.items() if k not in left_out}


def test_one_failed_job_stops_no_other(in_process: list[Any]) -> None:
    first, failed, last = in_process
    assert (first["seed"], last["seed"]) == (1, 3)
    assert isinstance(failed, ValueError)
    assert "seed=-2: expected a whole number" in str(failed)


def launched(problem: list[str], folder: Path, launcher: str, *settings: str) -> list[Any]:
    """Metrics or errors of the same jobs through a launcher; skipped where it is not installed."""
    extra = launcher.partition("_")[0]
    if find_spec(f"hydra_plugins.hydra_{extra}_launcher") is None:
        pytest.skip(f"the extra [{extra}] is not installed")
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
    if extra in ("ray", "submitit") and find_spec(f"hydra_plugins.hydra_{extra}_launcher") is None:
        pytest.skip(f"the extra [{extra}] is not installed")
    assert threads_of_a_job() == 0  # outside of a sweep: torch's choice
    monkeypatch.setattr("joblib.cpu_count", lambda *_, **__: 8)
    monkeypatch.setattr("joblib.effective_n_jobs", lambda jobs: 8 if jobs == -1 else jobs)
    assert jobs_at_once(overrides) == (at_once, launcher)
    settings = compose("train", overrides, with_hydra=True).hydra
    monkeypatch.setattr(HydraConfig, "initialized", staticmethod(lambda: True))
    monkeypatch.setattr(HydraConfig, "get", staticmethod(lambda: settings))
    assert threads_of_a_job() == threads


def test_a_plan_divides_by_no_guess(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planning, "estimate", lambda todo: [150.0] * 4)
    todo = [planning.PlannedCell("source_only", 1, (), to_builtin(compose("train", [f"paths.runs={tmp_path}"])))] * 4
    said = planning.plan(todo, None, "ray")
    assert "launcher ray, as many at once as there is room for" in said
    assert "about 10 min for 4 of them, one after the other" in said
    assert "about 5 min for 4 of them\n" in planning.plan(todo, 2, "joblib")


def test_an_absent_launcher_is_an_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    error = MissingConfigException("Could not find it", "hydra/launcher/ray", ["basic"])
    assert user_error(error, "train") == "launcher=ray is an extra: pip install 'domadapt[ray]'"
    error = MissingConfigException("Could not find it", "hydra/launcher/rai", ["basic"])
    assert "expected one of basic" in str(user_error(error, "train"))


def test_an_error_that_can_not_be_pickled_is_told_in_the_same_words() -> None:
    error = DataError(Location(Path("a.csv"), 3), "label", "x", "a class", "name one")
    found = portable(error)
    assert isinstance(found, ValueError)
    assert str(found) == str(error)
