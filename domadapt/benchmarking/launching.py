"""How cells are run: one after the other, several at once, on a cluster; sweeps and searches. Loads no torch."""

import logging
import os
import pickle
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode

from domadapt.config.compose import compose, initialized, make
from domadapt.config.overrides import import_from, lengthen
from domadapt.config.resolvers import register
from domadapt.runs.metrics import objective
from domadapt.utils.redact import guard_logs
from domadapt.utils.work import Stopped, end_with, quieter, with_notes

# What a run tells of its progress: the table of cells says how far each is.
PROGRESS_LOGGERS = ("domadapt.epochs", "domadapt.training.cell", "domadapt.runs.status")
# Jobs keep the logging of the process they run in; a worker, which has none yet, gets it from Job.
WITHOUT_LOGGING = ("hydra.hydra_logging.root=null", "hydra.job_logging.root=null")
# What warns of corpora and texts: cells of one pair would say the same, one after the other.
WARNING_LOGGERS = ("domadapt.training.build", "domadapt.training.cell")


def is_searching() -> bool:
    """Is this process at a search, whose sweeper chooses runs by the values of those before?"""
    settings = HydraConfig.get()
    return settings.mode == RunMode.MULTIRUN and settings.runtime.choices["hydra/sweeper"] != "basic"


def trial_line(metrics: Mapping[str, Any], overrides: Sequence[str], arguments: Sequence[str]) -> str:
    """A run of a search on one line: what the search has set, beside what was given, and the value that it goes by.

    >>> run = {"curve": [{"epoch": 1, "selection": -0.25}], "selection": {"epoch": 1, "validator": "entropy"}}
    >>> trial_line(run, ["seed=1", "max_length=32"], ["-m", "seed=1", "max_length=32,64"])
    'max_length=32: entropy -0.2500'
    """
    value = objective(metrics)
    shown = "no value" if value is None else f"{value:.4f}"
    known = {lengthen(argument) for argument in arguments}
    chosen = [override for override in overrides if override not in known]
    validator = metrics.get("selection", {}).get("validator")  # rules have none
    return f"{', '.join(chosen) or metrics['method']}: {validator} {shown}"


def check_search(cfg: Mapping[str, Any], verb: str) -> None:
    """Refuse a search that target labels would lead, and one over what has no value."""
    if not is_searching():
        return
    if verb != "train":
        raise ValueError(f"sweeper: {verb} has no value to search by; search with domadapt train")
    check_value(cfg)


def check_value(cfg: Mapping[str, Any]) -> None:
    """Refuse a validator by whose values no search may, or can, be led."""
    validator = make(cfg["selection"])
    if getattr(validator, "uses_target_labels", False):
        why = "reads target labels, which no search may; take selection=source_dev"
        raise ValueError(f"selection={validator.name}: {why}")
    if getattr(validator, "name", "") == "last":
        why = "its value is the number of the epoch, which says nothing of a setting (adaptation=recipe sets it)"
        raise ValueError(f"selection={validator.name}: {why}; add selection=source_dev, or infomax")


class NoRepeats(logging.Filter):
    """Lets each message pass once."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        new = message not in self.passed
        self.passed.add(message)
        return new

    def __enter__(self) -> None:
        for name in WARNING_LOGGERS:
            logging.getLogger(name).addFilter(self)

    def __exit__(self, *error: object) -> None:
        for name in WARNING_LOGGERS:
            logging.getLogger(name).removeFilter(self)


@dataclass(frozen=True)
class Job:
    """What a launcher calls with each composed ``train.yaml``, here or in a process of its own."""

    wait: bool = True  #: for cells that another process is at
    arguments: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv[1:]))
    parent: int = field(default_factory=os.getpid)
    no_repeats: NoRepeats = field(default_factory=NoRepeats)

    def __call__(self, cfg: Any) -> dict[str, Any] | Exception:
        """Metrics of the cell, or its error: returned, since not every launcher survives one that is raised."""
        from domadapt.training.build import run_config
        from domadapt.training.cell import train

        register()
        if os.getpid() != self.parent:
            sys.argv[1:] = self.arguments
            import_from(self.arguments)
            logging.basicConfig(format="%(message)s", level=logging.INFO)
            guard_logs()  # launchers keep what is printed here in files
        if os.getppid() == self.parent:
            end_with(self.parent)
        with quieter(PROGRESS_LOGGERS, logging.WARNING), self.no_repeats:
            try:
                return train(run_config(cfg), self.wait)
            except Exception as error:
                return picklable(error)


def launch(jobs: Sequence[Sequence[str]], wait: bool = True) -> list[dict[str, Any] | Exception]:
    """Run `domadapt train` for each list of overrides: the content of its metrics.json, or the exception that ended it.

    The first job's configuration says which launcher takes them all: ``launcher=joblib``,
    ``hydra.launcher.n_jobs=2``. Inside a verb, ``--config-dir`` and the verb's ``hydra.…`` settings hold for the jobs.
    Cells that another process is at are waited for, or give :class:`~domadapt.runs.status.Busy`. Where the launcher
    itself stopped (a worker was killed, say), that one exception for every job; what finished has its metrics.json.
    """
    if not jobs:
        return []
    with initialized():
        written = [[*_inherited(), *WITHOUT_LOGGING, *job] for job in jobs]
        cfg = compose("train", written[0], with_hydra=True)
        context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks(cfg))
        launcher = Plugins.instance().instantiate_launcher(context, Job(wait=wait), cfg)
        # In this process for good: joblib warns that a worker has stopped for want of work or of memory, from a thread
        # that may outlive the launch. A job that is lost so is told as an error.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
        # Launchers list every job's overrides before they start: the plan has said it.
        with quieter(("hydra", "hydra_plugins"), logging.WARNING):
            try:
                returned = launcher.launch(written, 0)
            except Exception as error:
                if isinstance(error, OSError) and error.filename is not None:
                    return [error] * len(jobs)  # it could not make the folder of runs
                why = f"{type(error).__name__}: {error}"
                stopped = Stopped(f"the launcher stopped: {why}; what finished is kept: run it again")
                stopped.__cause__ = error
                return [stopped] * len(jobs)
    return [job._return_value for job in returned]


def jobs_at_once(overrides: Sequence[str]) -> tuple[int | None, str]:
    """How many jobs the configured launcher runs at a time, None if it does not say, and its name."""
    with initialized():
        settings = compose("train", [*_inherited(), *overrides], with_hydra=True).hydra
    jobs, choices = settings.launcher.get("n_jobs"), settings.runtime.choices
    name = str(choices.get("launcher") or choices["hydra/launcher"])
    if not jobs:
        alone = 1 if settings.launcher._target_.endswith("BasicLauncher") else None
        return settings.launcher.get("array_parallelism") or alone, name
    import joblib

    return int(joblib.effective_n_jobs(jobs)), name


def _inherited() -> list[str]:
    """The verb's `hydra.…` settings, which its own overrides do not hold."""
    if not HydraConfig.initialized():
        return ["hydra/job_logging=stdout"]  # the default opens a file in the working folder
    return [o for o in HydraConfig.get().overrides.hydra if not o.startswith("hydra.mode=")]


def picklable(error: Exception) -> Exception:
    """The error, or if a process can't hand it to another, one of the nearest built-in kind that says the same.

    >>> picklable(ValueError("seed=x")).args
    ('seed=x',)
    """
    try:
        pickle.loads(pickle.dumps(error))  # made here a moment ago
    except Exception:
        kind = next(kind for kind in (ValueError, OSError, RuntimeError, Exception) if isinstance(error, kind))
        text = with_notes(error) if kind is ValueError else f"{type(error).__name__}: {with_notes(error)}"
        return kind(text).with_traceback(error.__traceback__)
    return error
