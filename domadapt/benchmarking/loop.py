"""Run a benchmark: print the plan, hand the unfinished cells to the launcher, then the table and the failures."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from domadapt.benchmarking.check import check
from domadapt.benchmarking.launching import jobs_at_once, launch
from domadapt.benchmarking.live import Watch
from domadapt.benchmarking.plan import FINISHED, Cell, cells, duration, plan
from domadapt.config.compose import user_error
from domadapt.reporting.report import report
from domadapt.reporting.tables import text_table
from domadapt.runs.key import described
from domadapt.runs.status import Busy
from domadapt.tracking.tracker import track_benchmark
from domadapt.utils.redact import redact

log = logging.getLogger(__name__)


def benchmark(cfg: DictConfig, overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run every cell that is not finished, then print the table. One that fails does not stop the rest.

    Args:
        cfg: a composed ``benchmark.yaml``.
        overrides: the user's own.

    Returns:
        Metrics of the cells that succeeded.

    Raises:
        RuntimeError: some cells failed; says which and why.
    """
    todo = cells(cfg, overrides)
    done, failure = sweep(todo)
    if done and cfg.tracking:
        finished_ones = [cell.folder for cell in todo if cell.state() == FINISHED]
        track_benchmark(cfg, done, report(finished_ones, Path(cfg.paths.runs, "report.html")))
    if failure:
        raise failure
    return done


def sweep(todo: Sequence[Cell]) -> tuple[list[dict[str, Any]], RuntimeError | None]:
    """Print the plan, run the cells that are not finished, print the table.

    Args:
        todo: cells in their order.

    Returns:
        Metrics of the cells that succeeded, and an error that says which cells failed and why; None if none did.

    Raises:
        ValueError: every cell would fail, and of the same thing.
    """
    check(todo)
    at_once, launcher = jobs_at_once(todo[0].overrides)
    print(plan(todo, at_once, launcher), flush=True)
    started = time.monotonic()
    with Watch(todo) as watch:
        errors = run(todo)
    done = [metrics for cell in todo if (metrics := cell.metrics()) is not None]
    if done:
        print(text_table(done))
    here = [watch.metrics[cell.folder] for cell in todo if cell.folder in watch.metrics.keys() - watch.before]
    if here:
        wall, work = time.monotonic() - started, sum(sum(metrics.seconds.values()) for metrics in here)
        print(f"{len(here)} cells in {duration(wall)}; their own times add up to {duration(work)}", flush=True)
    if not errors:
        return done, None
    told = [f"{cell.name} [{cell.key}]: {_told(error)}" for cell, error in errors]
    failed = f"{len(errors)} of {len(todo)} cells failed; the same command runs these again, and no other:"
    return done, RuntimeError("\n".join([failed, *told]))


def run(todo: Sequence[Cell]) -> list[tuple[Cell, Exception]]:
    """Run the unfinished cells; those that another process is at come last, and are waited for.

    Args:
        todo: cells in their order.

    Returns:
        The cells that failed, with their errors.
    """
    waiting = [cell for cell in todo if cell.state() != FINISHED]
    results = launch([cell.overrides for cell in waiting], wait=False)
    tell_of_other_hardware(waiting, results)
    errors = {cell.folder: (cell, e) for cell, e in zip(waiting, results, strict=True) if isinstance(e, Exception)}
    busy = [cell for cell, error in errors.values() if isinstance(error, Busy)]
    if busy:
        log.info("%d cells are run by another process: waiting for them", len(busy))
        again = launch([cell.overrides for cell in busy], wait=True)
        for cell, result in zip(busy, again, strict=True):
            del errors[cell.folder]
            if isinstance(result, Exception):
                errors[cell.folder] = (cell, result)
    return list(errors.values())


def tell_of_other_hardware(cells: Sequence[Cell], results: Sequence[dict[str, Any] | Exception]) -> None:
    """A launcher's machines may be others than this one: what they made has keys that this one does not look for.

    Args:
        cells: as planned here.
        results: of each, as its machine returned it.
    """
    found = [result for cell, result in zip(cells, results) if isinstance(result, dict) and result["key"] != cell.key]
    for kind in sorted({described(result["hardware"]) for result in found}):
        log.warning("cells were run on other hardware than this machine's: add 'trainer.hardware=%s' to see them", kind)


def _told(error: Exception) -> str:
    """One line for a user's error, the kind of it before any other."""
    return redact(user_error(error, "train") or f"{type(error).__name__}: {error}")
