"""A bundle made here runs on a machine without spaCy, wandb and network, and its runs are read back here."""

import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import domadapt
from domadapt.bundling import bundle as bundling
from domadapt.reporting.runs import read_runs
from tests.support import corpora

# Stands for a method of a user's own; on the other machine it takes its process down, as running out of memory would.
CRASH = """
import os, signal
from pathlib import Path
from domadapt.injection.gnn import GraphSupervision

class Crash(GraphSupervision):
    def prepare(self, encoder, setting):
        os.kill(os.getpid(), signal.SIGKILL)
"""
METHODS: dict[str, list[str]] = {
    "source_only": [],
    "gnn": ["injection=gnn"],
    "gnn_shuffled_trees": ["injection=gnn", "parser=shuffled", "method=gnn_shuffled_trees"],
    "in_domain": ["train_on=target"],
    "crash": ["injection=gnn", "injection.gnn._target_=crash.Crash", "method=crash"],
    "wrong": ["trainer.precision=16", "method=wrong"],
}


def pack(folder: Path, methods: dict[str, list[str]]) -> tuple[Path, list[str]]:
    overrides = [*corpora(folder), f"output={folder}/there/bundle.pyz", "benchmark.seeds=[1]"]
    cfg = domadapt.compose("bundle", [o for o in overrides if "paths.runs" not in o])
    cfg.benchmark.methods = methods
    return bundling.bundle(cfg, overrides), overrides


def run(python: Path, bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DOMADAPT"))}
    command = [python, bundle, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=bundle.parent, env=env, timeout=600)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("packed")
    (folder / "crash.py").write_text(CRASH, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return pack(folder, METHODS)


@pytest.fixture(scope="module")
def ran(packed: tuple[Path, list[str]], bare_python: Path) -> subprocess.CompletedProcess[str]:
    return run(bare_python, packed[0], "cells=2", "runs=runs")


def test_the_bare_machine_is_bare(bare_python: Path) -> None:
    for name in ("spacy", "wandb", "pytorch_lightning", "hydra", "domadapt"):
        failed = subprocess.run([bare_python, "-I", "-c", f"import {name}"], capture_output=True, text=True)
        assert "ModuleNotFoundError" in failed.stderr


def test_failed_cells_do_not_stop_the_others(packed: Any, ran: subprocess.CompletedProcess[str]) -> None:
    assert ran.returncode == 1, ran.stderr
    assert "6 cells, 0 of them finished, 2 at once" in ran.stdout
    assert "failed: source_to_target wrong seed 1: ValueError: trainer.precision='16': expected auto" in ran.stdout
    assert "failed: source_to_target crash seed 1: its process ended with -9" in ran.stdout
    assert "4 of 6 cells finished, 2 failed" in ran.stdout


def test_its_runs_are_read_here_and_equal_runs_made_here(
    packed: tuple[Path, list[str]], ran: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    bundle, overrides = packed
    runs = {metrics["method"]: metrics for metrics in read_runs(bundle.parent / "runs").runs}
    assert runs.keys() == METHODS.keys() - {"crash", "wrong"}
    common = [o for o in overrides if not o.startswith(("output=", "benchmark.", "paths.runs="))]
    for method in ("source_only", "gnn"):
        here = domadapt.train([*common, *METHODS[method], f"paths.runs={tmp_path}"])
        there = runs[method]
        assert (there["curve"], there["target_test"]) == (here["curve"], here["target_test"])
        assert there["key"] != here["key"]  # another backbone file, another parser
    assert runs["gnn"]["curve"] != runs["gnn_shuffled_trees"]["curve"]
    assert runs["gnn"]["config"]["parser"]["name"].startswith("spacy-")
    assert runs["gnn"]["versions"]["spacy"] == "not installed"
    report = domadapt.report(bundle.parent / "runs", tmp_path / "report.html")
    assert Path(report).is_file()


def test_results_travel_in_one_file(packed: Any, ran: Any, tmp_path: Path) -> None:
    with tarfile.open(packed[0].parent / "runs" / "results.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert len(read_runs(tmp_path).runs) == 4


def test_a_model_from_a_bundle_predicts_here(packed: Any, ran: Any) -> None:
    [folder] = (packed[0].parent / "runs" / "source_to_target" / "gnn").iterdir()
    assert len(domadapt.predict(folder / "model", ["The lens is sharp."])) == 1


def test_finished_cells_are_not_run_again(packed: Any, ran: Any, bare_python: Path) -> None:
    metrics = sorted((packed[0].parent / "runs").rglob("metrics.json"))
    before = [path.stat().st_mtime_ns for path in metrics]
    again = run(bare_python, packed[0], "cells=2", "runs=runs")
    assert "6 cells, 4 of them finished" in again.stdout
    assert again.returncode == 1
    assert [path.stat().st_mtime_ns for path in metrics] == before


def test_a_text_without_a_parse_is_named(packed: Any, ran: Any, bare_python: Path) -> None:
    [unpacked] = packed[0].parent.glob("bundle-*")
    for cache in (unpacked / "cache").glob("parses-*"):
        cache.rename(cache.with_suffix(".away"))
    try:
        missed = run(bare_python, packed[0], "cells=1", "runs=others")
    finally:
        for cache in (unpacked / "cache").glob("*.away"):
            cache.rename(cache.with_suffix(".sqlite"))
    assert missed.returncode == 1
    assert "texts have no cached parse, and spacy-" in missed.stdout
    assert "the first is 'The lens of number 0 is great.'" in missed.stdout


def test_arguments_are_checked(packed: Any, bare_python: Path) -> None:
    wrong = run(bare_python, packed[0], "cells=many")
    assert (wrong.returncode, wrong.stderr) == (2, "bundle: cells=many: expected a whole number from 1\n")
    unknown = run(bare_python, packed[0], "gpus=2")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "'gpus=2': expected cells=N" in unknown.stderr


def test_a_damaged_file_is_refused(packed: Any, bare_python: Path, tmp_path: Path) -> None:
    content = bytearray(packed[0].read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "bundle.pyz").write_bytes(content)
    refused = run(bare_python, tmp_path / "bundle.pyz")
    assert refused.returncode == 1
    assert "bundle.pyz can't be unpacked" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.pyz"]


def test_the_same_content_makes_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that a bundle made again finds its unpacked folder, and with it the finished runs."""
    first, _ = pack(tmp_path, {"source_only": []})
    content = first.read_bytes()
    again, _ = pack(tmp_path, {"source_only": []})
    assert again.read_bytes() == content
    told = capsys.readouterr().out
    assert "libraries" in told and "1 cells" in told and "MB; there: python bundle.pyz runs=runs" in told


def test_a_large_bundle_is_warned_of(
    packed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bundling.tell(packed[0], 6)
    assert packed[0].stat().st_size < 10e6  # all but weights
    assert "larger than" not in caplog.text
    monkeypatch.setattr(bundling, "LARGEST", 1e6)
    bundling.tell(packed[0], 6)
    assert "is larger than 1 MB" in caplog.text


def test_nothing_of_this_machine_is_in_it(packed: tuple[Path, list[str]]) -> None:
    [unpacked] = packed[0].parent.glob("bundle-*")
    cells = json.loads((unpacked / "cells.json").read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        assert str(packed[0].parents[1]) not in json.dumps(cell["config"]["data"])
        assert cell["config"]["paths"] == {"runs": "runs", "run": None, "cache": "cache"}
        assert cell["config"]["tracking"] is None
    assert {path.name for path in (unpacked / "site" / "domadapt" / "shipped").rglob("*")} == {"__init__.py"}
