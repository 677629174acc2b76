"""What Hydra calls around `domadapt train -m`. Loads no torch before there are cells to run."""

import logging
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class Swept(BaseException):
    """The grid has been run, and Hydra shall not run it again. It makes mere warnings of a callback's Exceptions."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__(error)
        self.error = error


class Sweep(Callback):
    """Hydra calls it before a sweep; set in ``train.yaml``."""

    command: ClassVar[tuple[str, ...]] = ()

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Run a grid with plan, a line a cell, result table and list of failures. Of a search say how long it is."""
        if config.hydra.job.config_name != "train":
            return
        sweeper = config.hydra.sweeper
        if config.hydra.runtime.choices["hydra/sweeper"] != "basic":
            trials = sweeper.get("n_trials")
            print(f"search: {trials or 'some'} runs, each chosen by the values of those before: no plan", flush=True)
            for name in ("alembic", "optuna", "hydra", "hydra_plugins"):  # every trial has a line of ours
                logging.getLogger(name).setLevel(logging.WARNING)
            with suppress(ImportError):  # it sets its level itself, whatever it was
                import_module("optuna.logging").set_verbosity(logging.WARNING)
        elif not sweeper.max_batch_size:  # Hydra's own way to hand a grid to the launcher bit by bit
            try:
                from domadapt.benchmarking.loop import run_grid  # what trains is loaded when the cells are planned

                run_grid(config, Sweep.command)
            except Exception as error:
                raise Swept(error) from None
            raise Swept(None)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Of a search say where its best settings are kept."""
        best = Path(config.hydra.sweep.dir, "optimization_results.yaml")
        if config.hydra.runtime.choices["hydra/sweeper"] != "basic" and best.is_file():
            print(f"{best.read_text(encoding='utf-8').rstrip()}\nkept in {best}", flush=True)
