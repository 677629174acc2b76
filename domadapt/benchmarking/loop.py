"""All cells of a benchmark or of a sweep: plan, run, table."""

import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import configure_log
from omegaconf import DictConfig, OmegaConf

from domadapt.benchmarking.launching import jobs_at_once, launch
from domadapt.benchmarking.plan import FINISHED, PlannedCell, cells, check, one_each, plan
from domadapt.config.compose import compose, to_builtin, user_error
from domadapt.reporting.tables import text_table
from domadapt.runs.groups import distinct, flat, settings, typed
from domadapt.runs.key import described, folder_of
from domadapt.runs.metrics import Metrics
from domadapt.runs.status import Busy, read_status
from domadapt.training.sharing import forget_networks
from domadapt.utils.redact import guard_logs, redact, redacted
from domadapt.utils.text import duration

log = logging.getLogger(__name__)
EVERY = 1.0  # seconds between two looks at the cells


def benchmark(cfg: DictConfig, overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run every cell of a composed ``benchmark.yaml`` that is not finished; metrics of those that succeeded.

    A cell that fails stops no other; in the end a RuntimeError says which did and why.
    """
    todo = cells(cfg, overrides)
    done, failure = sweep(todo)
    if failure:
        raise failure
    # What cells have shared is of no use to others, and large: the weights of each network's epochs.
    forget_networks(folder_of(cfg, "cache"), [metrics.get("training") for metrics in done])
    return done


def sweep(todo: Sequence[PlannedCell]) -> tuple[list[dict[str, Any]], RuntimeError | None]:
    """Print the plan, run the cells that are not finished, print the table.

    Metrics of the cells that succeeded, and an error that says which cells failed and why; None if none did.
    """
    check(todo)
    at_once, launcher = jobs_at_once(todo[0].overrides)
    print(plan(todo, at_once, launcher), flush=True)
    with Watch(todo) as watch:
        errors = run(todo)
    done = [metrics for cell in todo if (metrics := cell.metrics()) is not None]
    if done:
        print(text_table(done))
    if watch.ended:
        wall, work = time.time() - watch.started, sum(sum(metrics.seconds.values()) for metrics in watch.ended.values())
        print(f"{len(watch.ended)} cells in {duration(wall)}; their own times add up to {duration(work)}", flush=True)
    if not errors:
        return done, None
    failed = [f"{len(errors)} of {len(todo)} cells failed; the same command runs these again, and no other:"]
    for cell, error in errors:  # one line for a user's error, the kind of it before any other
        told = redact(user_error(error, "train") or f"{type(error).__name__}: {error}")
        failed.append(f"{cell.name} [{cell.key}]: {told}")
    return done, RuntimeError("\n".join(failed))


class Watch:
    """While the block runs, tell of each cell how it ended, and how many are left; read from the cells' folders."""

    def __init__(self, todo: Sequence[PlannedCell]) -> None:
        self.todo = [cell for cell in todo if cell.metrics() is None]
        self.done, self.all, self.started = len(todo) - len(self.todo), len(todo), time.time()
        self.ended: dict[Path, Metrics] = {}
        self.failed: set[Path] = set()
        self._stop = threading.Event()

    def __enter__(self) -> "Watch":
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> Iterator[str]:
        """A line on each cell that has ended since the last look."""
        for cell in self.todo:
            if cell.folder in self.ended:
                continue
            if (metrics := cell.metrics()) is not None:
                found = self.ended[cell.folder] = typed(metrics)
                score = "-" if (value := found.score()) is None else f"{100 * value:.1f}"
                yield f"{cell.name}: {found.headline} {score}, {duration(sum(found.seconds.values()))}"
            elif cell.folder not in self.failed:
                status = read_status(cell.folder)
                if status.get("stage") == "failed" and status["updated"] >= self.started:
                    self.failed.add(cell.folder)
                    yield f"{cell.name}: failed: {status['error']}"

    def _tell(self) -> None:
        while True:
            over = self._stop.wait(EVERY)
            for line in self.look():
                count, took = len(self.ended), time.time() - self.started
                left = self.all - self.done - count
                rest = f", {duration(took / count * left)} left" if count and left else ""
                log.info("%s (%d of %d cells, %s%s)", line, self.done + count, self.all, duration(took), rest)
            if over:
                return


def run(todo: Sequence[PlannedCell]) -> list[tuple[PlannedCell, Exception]]:
    """Run the unfinished cells in their order; those that another process is at come last, and are waited for.

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


def tell_of_other_hardware(cells: Sequence[PlannedCell], results: Sequence[dict[str, Any] | Exception]) -> None:
    """A launcher's machines may be others than this one: what they made has keys that this one does not look for."""
    found = [result for cell, result in zip(cells, results) if isinstance(result, dict) and result["key"] != cell.key]
    for kind in sorted({described(result["hardware"]) for result in found}):
        log.warning("cells were run on other hardware than this machine's: add 'trainer.hardware=%s' to see them", kind)


def run_grid(config: DictConfig, command: Sequence[str]) -> None:
    """Run all cells of a grid, a composed ``train.yaml`` with Hydra's settings; metrics.json quotes the command."""
    before = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(config)  # where launch() looks for the verb's hydra.… settings
    try:
        configure_log(config.hydra.job_logging, config.hydra.verbose)
        guard_logs()
        sys.argv[1:] = command
        _, failure = sweep(grid(config))
    finally:
        HydraConfig.instance().cfg = before
    if failure:
        raise failure


def grid(config: DictConfig) -> list[PlannedCell]:
    """The cells of a grid, in the order in which Hydra would run them."""
    given = [f"{name}={value}" for name, value in (config.hydra.sweeper.params or {}).items()]
    overrides: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    (jobs,) = BasicSweeper.split_arguments(parser.parse_overrides([*given, *overrides]), max_batch_size=None)
    composed: dict[tuple[str, ...], DictConfig] = {}
    result = []
    for job in jobs:
        seed = [override for override in job if override.startswith("seed=")]
        rest = tuple(override for override in job if override not in seed)
        if rest not in composed:  # once for all seeds: it takes its time
            composed[rest] = compose("train", rest)
        one = composed[rest].copy()
        one.merge_with_dotlist(seed)
        result.append(PlannedCell(one.method, one.seed, tuple(job), to_builtin(one)))
    return one_each(told_apart(result))


def told_apart(cells: list[PlannedCell]) -> list[PlannedCell]:
    """The cells, with the settings in which those of one method differ added to its name, as in the result table."""
    named = []
    for cell in cells:
        values = redacted(cell.config)
        own = settings(values) | flat(values["data"], "data")  # the pair need not tell of all its settings
        named.append((f"{cell.pair} {cell.method}", own))
    labels = [name.removeprefix(f"{cell.pair} ") for cell, name in zip(cells, distinct(named), strict=True)]
    return [replace(cell, method=label) for cell, label in zip(cells, labels, strict=True)]
