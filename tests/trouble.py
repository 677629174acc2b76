"""Runs in processes of their own that meet trouble at a chosen moment: a signal, a full disk.

The processes are forked from one that has imported everything, so that each costs what it computes and no more.
"""

import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.trouble_warm"])
DEADLINE = 3600  # seconds, to end what hangs; no machine is so slow
STARTED: list[BaseProcess] = []
KILL, STOP = signal.SIGKILL, signal.SIGSTOP


class MakesFolder:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@dataclass(frozen=True)
class Trouble:
    """What happens when a file or folder is about to be put in its place."""

    name: str  # of that file or folder, or the beginning of its name
    time: int = 1  # the first of that name, the second
    signal: int = 0  # that the process then sends to itself
    file_size: int = 0  # bytes that it can write from then on in one file: a full disk


def start(arguments: list[str], log: Path, *troubles: Trouble) -> BaseProcess:
    """Begin `domadapt ARGUMENTS`; what it prints goes to ``log``, the files it puts in place to ``log``.renames."""
    process = CONTEXT.Process(target=_command, args=(arguments, log, troubles))
    process.start()
    STARTED.append(process)
    return process


def run(arguments: list[str], log: Path, *troubles: Trouble) -> int:
    """Exit code of a whole `domadapt ARGUMENTS`, minus the signal's number if one ended it."""
    return join(start(arguments, log, *troubles))


def loads_none_of(packages: list[str], overrides: list[str]) -> bool:
    """Whether a training run, and what it imports, leaves these packages alone."""
    process = CONTEXT.Process(target=_train_without, args=(packages, overrides))
    process.start()
    STARTED.append(process)
    return join(process) == 0


def _train_without(packages: list[str], overrides: list[str]) -> None:
    import domadapt

    domadapt.train(overrides)
    assert not (loaded := {*packages} & {*sys.modules}), loaded


def end_all() -> None:
    """Kill what a failed test has left behind, stopped perhaps."""
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.join()


def join(process: BaseProcess) -> int:
    process.join(DEADLINE)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode


def wait_until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {DEADLINE} s"
        time.sleep(0.002)


def stopped(process: BaseProcess) -> bool:
    """Has it stopped itself with SIGSTOP?"""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def printed(log: Path) -> str:
    """What a process has printed so far."""
    return log.read_text() if log.exists() else ""


def renamed(log: Path) -> list[str]:
    """Names of what a process has put in place, and of what it was just about to."""
    path = log.with_suffix(".renames")
    return path.read_text().split("\n")[:-1] if path.exists() else []


def weights(folder: Path) -> dict[str, bytes]:
    """Every file of a run's model that holds weights, or the tokenizer."""
    files = [path for kind in ("*.safetensors", "tokenizer*") for path in (folder / "model").rglob(kind)]
    found = {path.name: path.read_bytes() for path in files}
    assert found
    return found


def numbers(folder: Path) -> dict[str, Any]:
    """What of a run's metrics.json must not depend on how often it was killed."""
    metrics = json.loads((folder / "metrics.json").read_text())
    return {k: v for k, v in metrics.items() if k not in ("seconds", "attempts", "written", "config", "command")}


def same_run(folder: Path, whole: Path) -> None:
    """Weights, numbers and predictions are those of the undisturbed run, and nothing of the trouble is left."""
    assert weights(folder) == weights(whole) and numbers(folder) == numbers(whole)
    assert (folder / "predictions.jsonl").read_bytes() == (whole / "predictions.jsonl").read_bytes()
    left = {path.name for path in folder.iterdir()} - {"metrics.json.damaged", "audit.json"}  # of own files
    assert left == {".lock", "metrics.json", "model", "predictions.jsonl"}


def _command(arguments: list[str], log: Path, troubles: tuple[Trouble, ...]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    seen = Counter[Trouble]()
    names = log.with_suffix(".renames")

    def watch(event: str, args: Any) -> None:
        if event != "os.rename":
            return
        name = Path(os.fsdecode(args[1])).name
        with names.open("a") as file:
            file.write(name + "\n")
        for trouble in troubles:
            if name.startswith(trouble.name):
                seen[trouble] += 1
                if seen[trouble] == trouble.time:
                    _meet(trouble)

    sys.addaudithook(watch)
    sys.argv = ["domadapt", *arguments]
    from domadapt.cli.main import main

    main()


def _meet(trouble: Trouble) -> None:
    if trouble.file_size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (trouble.file_size, resource.RLIM_INFINITY))
    if trouble.signal:
        os.kill(os.getpid(), trouble.signal)
