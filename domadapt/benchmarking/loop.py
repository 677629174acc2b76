"""All cells of a benchmark or of a sweep: plan, run, table."""

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import configure_log
from omegaconf import DictConfig, OmegaConf

from domadapt.benchmarking.launching import jobs_at_once, launch
from domadapt.benchmarking.live import LiveTable
from domadapt.benchmarking.plan import FINISHED, PlannedCell, cells, check, duration, one_each, plan
from domadapt.config.compose import compose, user_error
from domadapt.reporting.tables import text_table
from domadapt.runs.groups import distinct, flat, settings
from domadapt.runs.key import described, folder_of
from domadapt.runs.status import Busy
from domadapt.training.sharing import forget_networks
from domadapt.utils.redact import guard_logs, redact, redacted

log = logging.getLogger(__name__)


def benchmark(cfg: DictConfig, overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run every cell of a composed ``benchmark.yaml`` that is not finished, then print the table.

    Returns:
        Metrics of the cells that succeeded.

    Raises:
        RuntimeError: some cells failed, which stops no other; says which and why.
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

    Returns:
        Metrics of the cells that succeeded, and an error that says which cells failed and why; None if none did.

    Raises:
        ValueError: every cell would fail, and of the same thing.
    """
    check(todo)
    at_once, launcher = jobs_at_once(todo[0].overrides)
    print(plan(todo, at_once, launcher), flush=True)
    started = time.monotonic()
    with LiveTable(todo) as watch:
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
    failed = [f"{len(errors)} of {len(todo)} cells failed; the same command runs these again, and no other:"]
    for cell, error in errors:  # one line for a user's error, the kind of it before any other
        told = redact(user_error(error, "train") or f"{type(error).__name__}: {error}")
        failed.append(f"{cell.name} [{cell.key}]: {told}")
    return done, RuntimeError("\n".join(failed))


def run(todo: Sequence[PlannedCell]) -> list[tuple[PlannedCell, Exception]]:
    """Run the unfinished cells in their order; those that another process is at come last, and are waited for.

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


def tell_of_other_hardware(cells: Sequence[PlannedCell], results: Sequence[dict[str, Any] | Exception]) -> None:
    """A launcher's machines may be others than this one: what they made has keys that this one does not look for."""
    found = [result for cell, result in zip(cells, results) if isinstance(result, dict) and result["key"] != cell.key]
    for kind in sorted({described(result["hardware"]) for result in found}):
        log.warning("cells were run on other hardware than this machine's: add 'trainer.hardware=%s' to see them", kind)


def run_grid(config: DictConfig, command: Sequence[str]) -> None:
    """Run all cells of a grid.

    Args:
        config: a composed ``train.yaml`` with Hydra's settings.
        command: the user's arguments, which metrics.json quotes.

    Raises:
        ValueError: the grid can't be composed, or two of its cells are one and the same.
        RuntimeError: some cells failed; says which and why.
    """
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
    """The cells of a grid, in the order in which Hydra would run them.

    Args:
        config: a composed ``train.yaml`` with Hydra's settings, the overrides among them.

    Raises:
        ValueError: a cell can't be composed, or two are one and the same.
    """
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
        result.append(PlannedCell(one.method, one.seed, tuple(job), one))
    return one_each(told_apart(result))


def told_apart(cells: list[PlannedCell]) -> list[PlannedCell]:
    """The cells, with the settings in which those of one method differ added to its name, as in the result table."""
    named = []
    for cell in cells:
        values = redacted(OmegaConf.to_container(cell.config, resolve=True))
        own = settings(values) | flat(values["data"], "data")  # the pair need not tell of all its settings
        named.append((f"{cell.pair} {cell.method}", own))
    labels = [name.removeprefix(f"{cell.pair} ") for cell, name in zip(cells, distinct(named), strict=True)]
    return [replace(cell, method=label) for cell, label in zip(cells, labels, strict=True)]
