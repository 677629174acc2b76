"""A bundle made here runs on a machine without spaCy, wandb and network, and its runs are read back here."""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import domadapt
from domadapt.bundling import bundle as bundling
from domadapt.runs.reading import read_runs, typed
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.deferred import DeferredParser
from tests.support import corpora

# Stands for a method of a user's own; on the other machine it takes its process down, as running out of memory would.
CRASH = """
import os
from pathlib import Path
from crash_helper import SIGNAL
from domadapt.methods.injection.gnn import GraphSupervision

class Crash(GraphSupervision):
    def prepare(self):
        os.kill(os.getpid(), SIGNAL)
"""
METHODS: dict[str, list[str]] = {
    "source_only": [],
    "gnn": ["injection=gnn"],
    "gnn@shuffled": ["injection=gnn", "control=shuffled"],
    "in_domain": ["train_on=target"],
    "crash": ["injection=gnn", "injection.gnn._target_=crash.Crash", "method=crash"],
    "wrong": ["trainer.precision=16", "method=wrong"],
}


def pack(folder: Path, name: str) -> tuple[Path, list[str]]:
    """A bundle of a small problem, in a folder of its own, and the overrides of its cells."""
    overrides = corpora(folder)
    matrix = [f"output={folder}/there/{name}", "benchmark.seeds=[1]"]
    cfg = domadapt.compose("bundle", [*overrides, *matrix])
    cfg.benchmark.methods = METHODS
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return bundling.bundle(cfg, [*overrides, *matrix]), overrides


def run(python: Path, bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DOMADAPT"))}
    command = [python, bundle, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=bundle.parent, env=env)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("packed")
    (folder / "crash.py").write_text(CRASH, encoding="utf-8")
    (folder / "crash_helper.py").write_text("from signal import SIGKILL as SIGNAL\n", encoding="utf-8")
    return pack(folder, "bundle.pyz")


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
    runs = {metrics.method: metrics for metrics in read_runs(bundle.parent / "runs").runs}
    assert runs.keys() == METHODS.keys() - {"crash", "wrong"}
    for method in ("source_only", "gnn"):
        here = domadapt.train([*overrides, *METHODS[method], f"paths.runs={tmp_path}"])
        there = runs[method]
        assert (there.curve, there.target_test) == (typed(here).curve, here["target_test"])
        assert there.key != here["key"]  # another backbone file, another parser
    assert runs["gnn"].curve != runs["gnn@shuffled"].curve
    assert runs["gnn"].config["parser"]["name"].startswith("spacy-")
    assert runs["gnn"].versions["spacy"] == "not installed"
    report = domadapt.report(bundle.parent / "runs", tmp_path / "report.html")
    assert Path(report).is_file()


def test_results_travel_in_one_file(packed: Any, ran: Any, tmp_path: Path) -> None:
    with tarfile.open(packed[0].parent / "runs" / "results.tar.gz") as archive:
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # 3.11.4
    assert len(read_runs(tmp_path).runs) == 4


def test_a_model_from_a_bundle_predicts_here(packed: Any, ran: Any) -> None:
    [folder] = (packed[0].parent / "runs" / "source_to_target" / "gnn").iterdir()
    assert len(domadapt.predict(folder / "model", ["The lens is sharp."])) == 1


def test_a_second_run_makes_what_is_missing_and_names_a_text_without_a_parse(
    packed: tuple[Path, list[str]], ran: subprocess.CompletedProcess[str], bare_python: Path
) -> None:
    home = packed[0].parent
    before = {path: path.stat().st_mtime_ns for path in (home / "runs").rglob("metrics.json")}
    [unpacked] = home.glob("bundle-*")
    cache = unpacked / "cache" / "parses-of-all.sqlite"
    parses = ParseCache(deferred_parser(unpacked, "gnn@shuffled"), unpacked / "cache")
    parses.close()
    parses.path.rename(cache)
    [gone] = (home / "runs" / "source_to_target" / "gnn@shuffled").iterdir()
    shutil.rmtree(gone)
    again = run(bare_python, packed[0], "cells=1", "runs=runs")
    cache.replace(parses.path)
    assert "6 cells, 3 of them finished, 1 at once" in again.stdout
    assert "3 of 6 cells finished, 3 failed" in again.stdout
    assert "texts have no cached parse, and spacy-" in again.stdout
    assert "the first is 'The lens of number 0 is great.'" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (home / "runs").rglob("metrics.json")} == {
        path: time for path, time in before.items() if gone not in path.parents
    }


def deferred_parser(unpacked: Path, method: str) -> DeferredParser:
    cells = json.loads((unpacked / "cells.json").read_text(encoding="utf-8"))["cells"]
    [parser] = [cell["config"]["parser"] for cell in cells if cell["config"]["method"] == method]
    return DeferredParser(parser["name"], parser["parser"])


def test_arguments_are_checked(packed: Any, bare_python: Path) -> None:
    wrong = run(bare_python, packed[0], "cells=many")
    assert (wrong.returncode, wrong.stderr) == (2, "bundle: cells=many: expected a whole number from 1\n")
    unknown = run(bare_python, packed[0], "gpus=2")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "'gpus=2': expected cells=N" in unknown.stderr


def test_a_damaged_file_is_refused(packed: Any, bare_python: Path, tmp_path: Path) -> None:
    with ZipFile(packed[0]) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.compress_size)
    content = bytearray(packed[0].read_bytes())
    content[largest.header_offset + largest.compress_size // 2] ^= 1
    (tmp_path / "bundle.pyz").write_bytes(content)
    refused = run(bare_python, tmp_path / "bundle.pyz")
    assert refused.returncode == 1
    assert "bundle.pyz can't be unpacked" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.pyz"]


def test_the_same_content_makes_the_same_file(packed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """So that a bundle made again finds its unpacked folder, and with it the finished runs."""
    again, _ = pack(packed[0].parents[1], "again.pyz")
    assert again.read_bytes() == packed[0].read_bytes()
    told = capsys.readouterr().out
    assert "libraries" in told and "6 cells" in told and "MB; there: python again.pyz runs=runs" in told


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
    with ZipFile(packed[0]) as archive:
        names = archive.namelist()
        cells = json.loads(archive.read("cells.json"))["cells"]
    assert [name for name in names if "/shipped/" in name] == ["site/domadapt/shipped/__init__.py"]
    for cell in cells:
        assert str(packed[0].parents[1]) not in json.dumps(cell["config"]["data"])
        moved = {"runs": "runs", "run": None, "cache": "cache"}
        assert {name: cell["config"]["paths"][name] for name in moved} == moved
        assert not cell["config"]["tracking"]
