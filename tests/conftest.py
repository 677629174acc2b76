"""What holds for every test: offline, one thread, a parse cache of their own, no deadlines."""

import gc
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.reporting.chromium import Chromium
    from tests.support import Command

# Before torch and transformers are loaded: they read these once. Subprocesses inherit them.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
if "DOMADAPT_TEST_GPU" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

# A busy machine is slow, not wrong.
settings.register_profile("domadapt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("domadapt")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: to look for garbage in it again and again took a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def one_cache_and_scores_from_few_texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What one test parses no other parses again; corpora are small, and a score is expected of them all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOMADAPT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("domadapt.analysis.expected.FEWEST_DEV", 2)
        patch.setattr("os.fsync", lambda file: None)  # no test takes the power away
        yield


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """What tests/trouble.py has started ends with its test."""
    yield
    if trouble := sys.modules.get("tests.trouble"):
        trouble.end_all()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> "Command":
    """Runs the command in a folder of its own, which ends with a code; returns standard output and standard error."""
    from domadapt.cli.main import main  # not before the environment is set

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOMADAPT_BENCHMARK_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", sys.argv)

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        handlers = logging.getLogger().handlers[:]
        sys.argv = ["domadapt", *arguments]
        capsys.readouterr()
        try:
            main()
            ended = 0
        except SystemExit as end:
            ended = int(end.code or 0)
        finally:  # Hydra sets logging up for a process that ends with the verb
            logging.captureWarnings(False)
            logging.getLogger().handlers[:] = handlers
        told = capsys.readouterr()
        assert ended == code, told.err
        return told.out, told.err

    return run


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run's folder under ``tmp_path/runs``; ``rows`` go to its predictions.jsonl, more to make_metrics."""
    from tests.support import make_metrics, write_jsonl

    def make(method: str, seed: int, score: float | None, rows: list[Any] | None = None, **more: Any) -> Path:
        folder = tmp_path / "runs" / method / f"seed={seed}"
        write_jsonl(folder / "metrics.json", [make_metrics(method, seed, score, **more)])
        if rows is not None:
            write_jsonl(folder / "predictions.jsonl", rows)
        return folder

    return make


@pytest.fixture(scope="session", params=["extraction", "classification"])
def tiny_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with a tiny model that says different things of different texts, of either task."""
    from tests.support import trained

    folder, learns = tmp_path_factory.mktemp(request.param), ["trainer.epochs=6", "trainer.learning_rate=0.01"]
    more = [*learns, "trainer.checkpoint_seconds=60", "trainer.precision=32", "max_length=24"]
    trained(folder, "run", f"task={request.param}", *more)
    return folder / "run"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Chromium"]:
    from tests.reporting.chromium import Chromium, find

    if (found := find()) is None:
        pytest.skip("no Chromium or Chrome on this machine; DOMADAPT_CHROMIUM=PATH names one")
    browser = Chromium(found, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
