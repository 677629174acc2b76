"""The state of a benchmark's cells, read from their run folders while they run: a live table, or a line a cell."""

import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from domadapt.benchmarking.plan import PlannedCell, duration
from domadapt.runs.groups import typed
from domadapt.runs.metrics import Metrics
from domadapt.runs.status import read_status, runs

log = logging.getLogger(__name__)
EVERY = 1.0  # seconds between two looks
MARKS = {"finished": "●", "running": "◐", "failed": "✗", "waiting": "·"}


class LiveTable:
    """While the block runs, show how far its cells are.

    Args:
        cells: of the benchmark.
        console: where; None takes standard error.
    """

    def __init__(self, cells: Sequence[PlannedCell], console: Console | None = None) -> None:
        self.cells = list(cells)
        self.console = console or Console(stderr=True)
        self.started = time.time()
        self.metrics: dict[Path, Metrics] = {}
        self.before: set[Path] = set()
        self._stop = threading.Event()

    def __enter__(self) -> "LiveTable":
        self.look()
        self.before = set(self.metrics)  # finished before this sweep began
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> list[PlannedCell]:
        """Read the results that have come since the last look; returns their cells."""
        new = []
        for cell in self.cells:
            if cell.folder not in self.metrics and (metrics := cell.metrics()) is not None:
                self.metrics[cell.folder] = typed(metrics)
                new.append(cell)
        return new

    def state(self, cell: PlannedCell) -> tuple[str, dict[str, Any]]:
        """One of :data:`MARKS`, and what the cell says of itself."""
        if cell.folder in self.metrics:
            return "finished", {}
        status = read_status(cell.folder)
        if status.get("stage") == "failed":
            return ("failed" if status["updated"] >= self.started else "waiting"), status
        return ("running" if runs(status) else "waiting"), status

    def table(self) -> Group:
        """Mean score so far and a mark a seed, method by pair; then the cells that run."""
        pairs = list(dict.fromkeys(cell.pair for cell in self.cells))
        table = Table()
        table.add_column("method", no_wrap=True)
        for pair in pairs:
            table.add_column(pair.replace("_to_", "\n→ "), justify="right")
        running = []
        for method in dict.fromkeys(cell.method for cell in self.cells):
            row = []
            for pair in pairs:
                own = [cell for cell in self.cells if (cell.method, cell.pair) == (method, pair)]
                states = [self.state(cell) for cell in own]
                known = [self.metrics[cell.folder].score() for cell in own if cell.folder in self.metrics]
                scores = [score for score in known if score is not None]
                mean = f"{100 * sum(scores) / len(scores):.1f} " if scores else ""
                row.append(Text(mean + "".join(MARKS[state] for state, _ in states)))
                running += [(c, status) for c, (state, status) in zip(own, states, strict=True) if state == "running"]
            table.add_row(Text(method), *row)
        return Group(
            table,
            Text(self._caption()),
            *(Text(f"{MARKS['running']} {cell.name}: {in_words(status)}") for cell, status in running),
        )

    def _caption(self) -> str:
        done, here = len(self.metrics), len(self.metrics) - len(self.before)
        elapsed = time.time() - self.started
        left = duration(elapsed / here * (len(self.cells) - done)) + " left" if here else "no cell finished yet"
        return f"{done} of {len(self.cells)} cells, {duration(elapsed)}, {left}"

    def _show(self) -> None:
        with live_on(self.console) if self.console.is_terminal else nullcontext() as live:
            stopped = False
            while not stopped:
                stopped = self._stop.wait(EVERY)
                new = self.look()
                if live is not None:
                    live.update(self.table(), refresh=True)
                    continue
                for cell in new:
                    log.info(line(cell, self.metrics[cell.folder], self._caption()))


@contextmanager
def live_on(console: Console) -> Iterator[Live]:
    """A table that is drawn anew, with the log above it."""
    with Live(console=console, auto_refresh=False) as live, logs_above_the_table():
        yield live


@contextmanager
def logs_above_the_table() -> Iterator[None]:
    """What is logged goes to standard error as it is now, which rich has replaced, not as it was: into the table."""
    handlers = [h for h in logging.getLogger().handlers if type(h) is logging.StreamHandler]
    before = [handler.setStream(sys.stderr) for handler in handlers]
    try:
        yield
    finally:
        for handler, stream in zip(handlers, before, strict=True):
            if stream is not None:
                handler.setStream(stream)


def in_words(status: dict[str, Any]) -> str:
    """A status in words.

    >>> in_words({"stage": "fit", "epoch": 2, "epochs": 3, "step": 50, "steps": 120})
    'fit, epoch 2 of 3, step 50 of 120'
    """
    words = [str(status.get("stage"))]
    if status.get("stage") == "fit":
        words += [f"{name} {status[name]} of {status[name + 's']}" for name in ("epoch", "step") if name in status]
    return ", ".join(words)


def line(cell: PlannedCell, metrics: Metrics, caption: str) -> str:
    """What a log says of a finished cell."""
    score = metrics.score()
    shown = "-" if score is None else f"{100 * score:.1f}"
    seconds = duration(sum(metrics.seconds.values()))
    return f"{cell.name}: {metrics.headline} {shown}, {seconds} ({caption})"
