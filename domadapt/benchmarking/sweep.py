"""`domadapt train -m`: a grid is a benchmark whose cells are given by lists of values."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import configure_log
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from domadapt.benchmarking.plan import Cell, one_each
from domadapt.benchmarking.search import quiet
from domadapt.config.compose import compose
from domadapt.runs.groups import distinct, flat, settings
from domadapt.utils.redact import guard_logs, redacted


class Swept(BaseException):
    """The grid has been run, and Hydra shall not run it again. It makes mere warnings of a callback's Exceptions.

    Args:
        error: what `domadapt train -m` ends with, or None.
    """

    def __init__(self, error: Exception | None) -> None:
        super().__init__(error)
        self.error = error


class Sweep(Callback):
    """Hydra calls it before a sweep; set in ``train.yaml``.

    Attributes:
        command: the user's arguments, which metrics.json quotes. Those in ``sys.argv`` have been changed for Hydra.
    """

    command: ClassVar[tuple[str, ...]] = ()

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Run a grid with plan, live table, result table and list of failures. Of a search say how long it is.

        Raises:
            Swept: a grid has been run.
        """
        if config.hydra.job.config_name != "train":
            return
        sweeper = config.hydra.sweeper
        if config.hydra.runtime.choices["hydra/sweeper"] != "basic":
            trials = sweeper.get("n_trials")
            print(f"search: {trials or 'some'} runs, each chosen by the values of those before: no plan", flush=True)
            quiet()
        elif not sweeper.max_batch_size:  # Hydra's own way to hand a grid to the launcher bit by bit
            try:
                run_grid(config)
            except Exception as error:
                raise Swept(error) from None
            raise Swept(None)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Of a search say where its best settings are kept."""
        best = Path(config.hydra.sweep.dir, "optimization_results.yaml")
        if config.hydra.runtime.choices["hydra/sweeper"] != "basic" and best.is_file():
            print(f"{best.read_text(encoding='utf-8').rstrip()}\nkept in {best}", flush=True)


def run_grid(config: DictConfig) -> None:
    """Run all cells of a grid.

    Args:
        config: a composed ``train.yaml`` with Hydra's settings.

    Raises:
        ValueError: the grid can't be composed, or two of its cells are one and the same.
        RuntimeError: some cells failed; says which and why.
    """
    from domadapt.benchmarking.loop import sweep  # heavy, and no matter of other verbs

    before = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(config)  # where launch() looks for the verb's hydra.… settings
    try:
        configure_log(config.hydra.job_logging, config.hydra.verbose)
        guard_logs()
        sys.argv[1:] = Sweep.command
        _, failure = sweep(grid(config))
    finally:
        HydraConfig.instance().cfg = before
    if failure:
        raise failure


def grid(config: DictConfig) -> list[Cell]:
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
        result.append(Cell(one.method, one.seed, tuple(job), one))
    return one_each(told_apart(result))


def told_apart(cells: list[Cell]) -> list[Cell]:
    """The cells, with the settings in which those of one method differ added to its name, as in the result table."""
    named = []
    for cell in cells:
        values = redacted(OmegaConf.to_container(cell.config, resolve=True))
        own = settings(values) | flat(values["data"], "data")  # the pair need not tell of all its settings
        named.append((f"{cell.pair} {cell.method}", own))
    labels = [name.removeprefix(f"{cell.pair} ") for cell, name in zip(cells, distinct(named), strict=True)]
    return [replace(cell, method=label) for cell, label in zip(cells, labels, strict=True)]
