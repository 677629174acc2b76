"""What a running cell says of itself, and the lock that keeps two processes out of one run folder."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from domadapt.files import write_atomic
from domadapt.redact import redact

EVERY = 2.0  # seconds between two notes


class Busy(RuntimeError):
    """Another process runs this cell."""


@contextmanager
def run_lock(folder: Path, wait: bool) -> Iterator[None]:
    """Hold a run folder. The lock is the system's, so that a killed process leaves none behind.

    Args:
        folder: the run's; made if absent.
        wait: until the other process is through, rather than leave.

    Raises:
        Busy: another process holds it, and ``wait`` is False.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise Busy(f"{folder}: {holder(folder)} runs this cell") from None
    try:
        yield
    finally:
        lock.release()


def holder(folder: Path) -> str:
    """Who runs a cell, as far as its status says."""
    status = read_status(folder)
    return f"process {status['process']} on {status['host']}" if "process" in status else "another process"


def read_status(folder: Path) -> dict[str, Any]:
    """A run folder's ``status.json``; empty if there is none, or none that can be read."""
    try:
        status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


class Status:
    """Writes ``status.json`` while a cell runs, and adds up the seconds of its stages over all attempts.

    Args:
        folder: of the run.
        key: of the cell; what another key has left there is forgotten.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / "status.json"
        before = read_status(folder)
        before = before if before.get("key") == key else {}
        self.seconds: dict[str, float] = dict(before.get("seconds", {}))
        self.attempts = int(before.get("attempts", 0)) + 1
        self.fields = {"key": key, "process": os.getpid(), "host": socket.gethostname(), "attempts": self.attempts}
        self.stage: str | None = None
        self._written = self._counted = time.monotonic()

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Name what is being done; its seconds are counted."""
        self.stage, self._counted = stage, time.monotonic()
        self.note(0.0)
        try:
            yield
        finally:
            self._count()

    def note(self, every: float = EVERY, **fields: Any) -> None:
        """Write how far it is, unless that was written a moment ago."""
        self.fields |= fields
        if time.monotonic() - self._written >= every:
            self._count()
            self._write({"stage": self.stage})

    def failed(self, error: BaseException) -> None:
        """Leave the reason behind."""
        self._write({"stage": "failed", "error": redact(f"{type(error).__name__}: {error}")[:2000]})

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
