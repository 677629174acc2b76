"""What a running cell says of itself, and the lock that keeps two processes out of one run folder."""

import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from domadapt.runs.groups import RUN_AGAIN, load, read_metrics, typed
from domadapt.runs.metrics import FORMAT
from domadapt.utils.files import identity, write_atomic
from domadapt.utils.redact import redact
from domadapt.utils.work import Stopped, locate, with_notes

log = logging.getLogger(__name__)
NOTE_SECONDS = 2.0  # seconds between two notes
LOCK = ".lock"
# Of status.json, with what each must be; a file with anything else is another version's.
FIELDS = {"key": str, "process": int, "host": str, "attempts": int, "seconds": dict, "updated": float}


class Busy(Stopped):
    """Another process runs this cell."""


@contextmanager
def run_lock(folder: Path, wait: bool) -> Iterator[None]:
    """Hold a run folder, made if absent; if another process does, wait, or raise :class:`Busy`."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)  # the system's: a killed process leaves none behind
    try:
        try:
            held = lock.acquire(blocking=wait)
        except FileNotFoundError:  # a run that failed has just taken its folder with it
            folder.mkdir(parents=True, exist_ok=True)
            held = lock.acquire(blocking=wait)
    except Timeout:
        status = read_status(folder)
        holder = f"process {status['process']} on {status['host']}" if status else "another process"
        raise Busy(f"{folder}: {holder} runs this cell") from None
    with held:
        yield


def read_status(folder: Path) -> dict[str, Any]:
    """A run folder's ``status.json``; empty if there is none, or none that this version understands."""
    try:
        status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    sound = isinstance(status, dict) and all(isinstance(status.get(name), kind) for name, kind in FIELDS.items())
    return status if sound and all(isinstance(value, float) for value in status["seconds"].values()) else {}


def read_results(folder: Path, key: str) -> dict[str, Any] | None:
    """A run folder's ``metrics.json``; None if there is none, or none that is whole and sound."""
    try:
        metrics = load(folder / "metrics.json")
    except ValueError as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return None
    if isinstance(metrics.get("key"), str) and metrics["key"] != key:
        raise ValueError(f"paths.run={folder}: holds the results of another run; name another folder, or move that one")
    try:
        typed(metrics)
    except ValueError:
        return None
    return metrics if "key" in metrics and metrics.get("format", FORMAT) == FORMAT else None


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """The results of a cell that has been run; nothing that trains is loaded to find them."""
    metrics = read_results(folder, key)
    if metrics is None or read_status(folder):
        return None
    log.info("%s is finished: not run again (to force it, move this folder, which may hold labels of yours)", folder)
    return metrics


def set_aside(folder: Path) -> None:
    """Move a ``metrics.json`` that is not whole out of the way; for the process that holds the run's lock."""
    path = folder / "metrics.json"
    if not path.exists():
        return
    reason = f"{path}: of no run"
    try:
        read_metrics(path)
    except ValueError as error:
        reason = str(error).removesuffix(f"; {RUN_AGAIN}")
    aside = path.with_name("metrics.json.damaged")
    if aside.is_dir():
        shutil.rmtree(aside)
    path.replace(aside)
    log.warning("%s; not whole; moved to %s, and the run is made again", reason, aside.name)


class Status:
    """Writes ``status.json`` while this process holds a cell's lock; adds up seconds over all attempts at its key."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / "status.json"
        self._lock = identity(folder / LOCK)
        previous = read_status(folder)
        previous = previous if previous.get("key") == key else {}
        self.seconds: dict[str, float] = dict(previous.get("seconds", {}))
        self.attempts = int(previous.get("attempts", 0)) + 1
        self.fields = {"key": key, "process": os.getpid(), "host": socket.gethostname(), "attempts": self.attempts}
        self.stage: str | None = None
        self._written = self._counted = time.monotonic()

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Name what is being done; its seconds are counted, and those of a stage inside of it apart."""
        self._count()
        outer, self.stage, self._counted = self.stage, stage, time.monotonic()
        self.note(0.0)
        try:
            yield
        finally:
            self._count()
            self.stage = outer

    def note(self, every: float = NOTE_SECONDS, **fields: Any) -> None:
        """Write how far it is, unless that was written a moment ago."""
        self.fields |= fields
        if time.monotonic() - self._written >= every:
            self._count()
            self._write({"stage": self.stage})

    def check_folder(self) -> None:
        """Before something is written that lasts: is the folder still the one that was locked?"""
        if identity(self.path.with_name(LOCK)) != self._lock:
            raise Stopped(f"{self.path.parent}: was deleted or replaced meanwhile; run the same command again")

    def failed(self, error: BaseException) -> None:
        """Leave the reason behind."""
        if isinstance(error, Exception):
            locate(error)
            self._write({"stage": "failed", "error": redact(f"{type(error).__name__}: {with_notes(error)}")[:2000]})
        else:
            self._write({"stage": "stopped"})  # Ctrl-C, or a signal

    def forget(self) -> None:
        """Of a run that failed before it had anything to keep, leave nothing."""
        lock = self.path.with_name(LOCK)
        if {path.name for path in self.path.parent.iterdir()} <= {self.path.name, LOCK}:
            self.path.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)  # a process that waits for it sees that, and makes its own

    def finished(self) -> None:
        """There is a metrics.json now."""
        self.path.unlink(missing_ok=True)

    def _count(self) -> None:
        now = time.monotonic()
        if self.stage:
            self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self._counted
        self._counted = now

    def _write(self, fields: dict[str, Any]) -> None:
        self._written = time.monotonic()
        content = {**self.fields, **fields, "seconds": self.seconds, "updated": time.time()}
        with suppress(OSError):  # a full disk is told of where it loses something
            write_atomic(self.path, json.dumps(content))
