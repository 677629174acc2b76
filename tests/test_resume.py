"""A run that was killed, stopped or robbed of its checkpoint ends with the weights it would have had."""

import json
import pickle
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from domadapt.runs.status import read_status
from domadapt.utils import checkpoint
from tests.support import corpora
from tests.trouble import MakesFolder, Trouble, run, same_run

EVERY = ["adaptation=masked_lm", "injection=[lisa,gnn]", "injection.lisa.layer=1", "trainer.regret=true"]
METHODS = [*EVERY, "trainer.epochs=4"]


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora, parses and an undisturbed run ``whole``."""
    folder = tmp_path_factory.mktemp("problem")
    assert run(arguments(folder, folder / "whole", folder / "cache"), folder / "log") == 0
    for made in (folder / "cache").glob("*masked-lm*"):
        made.unlink()  # post-training is part of what is disturbed
    return folder


def arguments(problem: Path, folder: Path, cache: Path, *more: str) -> list[str]:
    paths = [f"paths.run={folder}", f"paths.cache={cache}"]
    return ["train", *corpora(problem), *METHODS, "trainer.threads=1", *paths, *more]


def own_cache(problem: Path, folder: Path) -> Path:
    return Path(shutil.copytree(problem / "cache", folder / "cache"))


def cut(path: Path, mark: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path, mark: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3 * len(content) // 4] ^= 1  # among the numbers, behind the header
    path.write_bytes(content)


def plant(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps(MakesFolder(mark)))


def of_another_key(path: Path, mark: Path) -> None:
    content = checkpoint.load(path)
    content.get("callbacks", {"Epochs": content})["Epochs"]["key"] = "0123456789abcdef"
    checkpoint.save(content, path)


def of_another_version(path: Path, mark: Path) -> None:
    content = checkpoint.load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", "domadapt checkpoint 1")
        checkpoint.save(content, path)


@pytest.fixture(scope="module")
def half(problem: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in its third epoch."""
    folder = tmp_path_factory.mktemp("half")
    command = arguments(problem, folder / "run", own_cache(problem, folder))
    death = Trouble("epoch=3.safetensors", signal=signal.SIGKILL)
    assert run(command, folder / "log", death) == -signal.SIGKILL
    found = {path.name for path in (folder / "run" / "checkpoint").glob("[!.]*")}
    assert found == {"last.safetensors", "epoch=1.safetensors", "epoch=2.safetensors"}
    return folder


DAMAGES = [(cut, "last"), (of_another_key, "last"), (of_another_version, "last")]
DAMAGES += [(damage, name) for damage in (flip, plant) for name in ("last", "epoch=1")]


@pytest.mark.parametrize(("damage", "name"), DAMAGES)
def test_a_damaged_checkpoint_is_told_once_and_the_run_starts_over(
    problem: Path, half: Path, tmp_path: Path, damage: Callable[[Path, Path], None], name: str
) -> None:
    shutil.copytree(half, tmp_path, dirs_exist_ok=True)
    damage(tmp_path / "run" / "checkpoint" / f"{name}.safetensors", tmp_path / "mark")
    assert run(arguments(problem, tmp_path / "run", tmp_path / "cache"), tmp_path / "again") == 0
    told = [line for line in (tmp_path / "again").read_text().splitlines() if "can't be resumed" in line]
    assert len(told) == 1
    assert f"{name}.safetensors" in told[0] and "the run starts over" in told[0]
    same_run(tmp_path / "run", problem / "whole")
    assert not (tmp_path / "mark").exists()


STOPS = [
    (Trouble("last.safetensors", 2, signal=signal.SIGINT), 130),
    (Trouble("last.safetensors", 4, signal=signal.SIGTERM), 130),  # Lightning takes it for itself
    (Trouble("predictions.jsonl", signal=signal.SIGINT), 130),
    (Trouble("predictions.jsonl", signal=signal.SIGTERM), -signal.SIGTERM),
]


@pytest.mark.parametrize(("stop", "code"), STOPS)
def test_stopped_then_resumed(problem: Path, tmp_path: Path, stop: Trouble, code: int) -> None:
    """Ctrl-C and kill: no result from half-trained weights, one line, and the same weights in the end."""
    folder = tmp_path / "run"
    command = arguments(problem, folder, own_cache(problem, tmp_path))
    assert run(command, tmp_path / "log", stop) == code
    lines = (tmp_path / "log").read_text().splitlines()
    assert not any("Traceback" in line for line in lines)
    assert code < 0 or lines[-1] == "domadapt train: stopped"
    assert not (folder / "metrics.json").exists()
    assert (folder / "checkpoint" / "epoch=1.safetensors").is_file()
    assert code < 0 or read_status(folder)["stage"] == "stopped"
    assert run(command, tmp_path / "again") == 0
    assert ": resumed after epoch" in (tmp_path / "again").read_text()
    assert json.loads((folder / "metrics.json").read_text())["attempts"] == 2
    same_run(folder, problem / "whole")


def test_a_run_that_keeps_the_best_epoch_alone_is_resumed_too(problem: Path, tmp_path: Path) -> None:
    alone = ("trainer.regret=false", "adaptation=none", "selection=entropy")
    whole = arguments(problem, tmp_path / "whole", problem / "cache", *alone)
    assert run(whole, tmp_path / "log") == 0
    command = arguments(problem, tmp_path / "run", problem / "cache", *alone)
    assert run(command, tmp_path / "log", Trouble("last.safetensors", 3, signal=signal.SIGKILL)) == -signal.SIGKILL
    assert run(command, tmp_path / "log") == 0
    same_run(tmp_path / "run", tmp_path / "whole")
