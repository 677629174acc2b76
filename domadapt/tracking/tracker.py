"""Trackers: who watches a run, and what they are told."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock
from pytorch_lightning.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only

from domadapt.config.compose import make
from domadapt.config.resolvers import role
from domadapt.utils.redact import redact, redacted
from domadapt.utils.text import cut

log = logging.getLogger(__name__)
Content = dict[str, Any]  # of metrics.json
# These begin the names of what is logged every step, rather than once an epoch.
STEP_LOSSES, STEP = "loss/", "step/"
LONGEST_REASON = 200  # characters of an error that are told
NOT_TRACKED = ("paths", "tracking", "benchmark")  # of a configuration: not what a run is, but where, and beside which
NOT_FINAL = ("format", "seed", "config", "counts", "curve", "versions", "hardware")  # of metrics.json: no results
UNUSUAL = r"[^\w./ -]"  # in names of metrics: MLflow refuses them


@dataclass(frozen=True, slots=True)
class Run:
    """What a tracker is told of a run.

    Attributes:
        pair: names of source and target.
        method: what the run is called in tables.
        key: of the cell.
        attempt: 1, and one more for every time that the run was killed and started again.
        config: plain dicts without secrets, without paths of the home folder.
        folder: the run's own.
        home: the folder that the run shares with its sweep; its own if that was named by hand.
        role: which bar of the report it is.
    """

    pair: str
    method: str
    seed: int
    key: str
    attempt: int
    config: dict[str, Any]
    folder: Path
    home: Path
    role: str = ""

    @property
    def name(self) -> str:
        """As it is listed: pair, method and seed."""
        return f"{self.pair}/{self.method}/seed={self.seed}"


@dataclass(eq=False, kw_only=True)
class Tracker:
    """Follows runs. Whatever a method raises is told in one line, and the run goes on without its tracker.

    Args:
        every: steps between two losses; what is scored once an epoch is always told.
    """

    every: int = 10

    def __post_init__(self) -> None:
        if type(self.every) is not int or self.every < 1:
            raise ValueError(f"tracking.every={self.every!r}: expected a whole number of steps from 1")

    def start(self, run: Run) -> None:
        """A run begins, or goes on after it was killed."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Numbers of a training step."""

    def end(self, metrics: Content | None) -> None:
        """The run is over; ``metrics`` are the content of ``metrics.json``, None if it failed or was stopped."""

    def benchmark(self, home: Path, metrics: Sequence[Content], report: Path | None) -> None:
        """An experiment is through."""


class TrackerLogger(Logger):
    """Trackers as training holds them: a Lightning logger that never raises, and says once why a tracker has stopped.

    Args:
        trackers: side by side; one that fails stops no other.
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        super().__init__()
        self.trackers = trackers
        self.metrics: Content | None = None
        self._failed = set[Tracker]()

    name, version = "domadapt", ""  # of folders of Lightning's own; it makes none here

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Trackers were given the whole configuration when the run began."""

    def start(self, run: Run) -> None:
        """A run begins."""
        self.tell(lambda tracker: tracker.start(run))

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Numbers of a step; losses of every so many steps only."""
        at = step or 0

        def log(tracker: Tracker) -> None:
            thinned = (at - 1) % tracker.every != 0
            if told := {k: v for k, v in metrics.items() if not (thinned and k.startswith((STEP_LOSSES, STEP)))}:
                tracker.log(told, at)

        self.tell(log)

    def finish(self, metrics: Content) -> None:
        """The run has succeeded, with this content of ``metrics.json``."""
        self.metrics = metrics

    def close(self) -> None:
        """Once, at the end of the run; also after a failure, so that no run is left open for the next to write into."""
        for tracker in self._failed:
            with suppress(Exception):
                tracker.end(self.metrics)
        self.tell(lambda tracker: tracker.end(self.metrics))

    def tell(self, action: Callable[[Tracker], object]) -> None:
        """Do something with each tracker that has not failed before."""
        for tracker in self.trackers:
            if tracker in self._failed:
                continue
            try:
                action(tracker)
            except Exception as error:  # training does not depend on anybody watching
                self._failed.add(tracker)
                name, why = type(tracker).__name__, reason(error)
                log.warning("%s has stopped: %s; the run goes on, metrics.json will have it all", name, why)


@contextmanager
def tracking(config: dict[str, Any], key: str, folder: Path, attempt: int = 1) -> Iterator[TrackerLogger | None]:
    """Track a run, whichever way it ends.

    Yields:
        A logger for the Lightning Trainer; its ``finish`` is told the results. None where nothing watches.
    """
    trackers = make_trackers(config["tracking"])
    if not trackers or getattr(rank_zero_only, "rank", None):  # of several processes on one run, the first is watched
        yield None
        return
    logger = TrackerLogger(trackers)
    logger.start(describe(config, key, folder, attempt))
    try:
        yield logger
    finally:
        logger.close()


def track_benchmark(
    config: Mapping[str, Any] | None, home: Path, metrics: Sequence[Content], report: Path | None = None
) -> None:
    """Show an experiment's tables, figures and report where its runs are shown.

    Args:
        config: of the trackers.
        home: folder of the runs.
        report: the HTML file, if there is one.
    """
    logger = TrackerLogger(make_trackers(config))
    if metrics:
        logger.tell(lambda tracker: tracker.benchmark(home, metrics, report))


def make_trackers(config: Any) -> list[Tracker]:
    """The trackers of a configuration: none, one, or several by name."""
    if config and "_target_" not in config and all(isinstance(each, Mapping) for each in config.values()):
        return [tracker for each in config.values() for tracker in make_trackers(each)]
    tracker = make(config) if config else None
    if not isinstance(tracker, Tracker | None):
        raise ValueError(f"tracking={redacted(config)}: expected tracking=none or a domadapt.tracking Tracker")
    return [tracker] if tracker else []


def describe(config: dict[str, Any], key: str, folder: Path, attempt: int) -> Run:
    """A run, as trackers may know it."""
    told = _away_from_home(redacted({name: value for name, value in config.items() if name not in NOT_TRACKED}))
    home = folder if config["paths"]["run"] else Path(config["paths"]["runs"])
    pair, method = str(config["pair"]), str(config["method"])
    return Run(pair, method, int(config["seed"]), key, attempt, told, folder, home, role(config))


def _away_from_home(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _away_from_home(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_away_from_home(item) for item in value]
    return value.replace(str(Path.home()), "~") if isinstance(value, str) and Path.home() != Path("/") else value


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers among nested values, by names with slashes.

    >>> flat({"epoch": 1, "source_dev": {"span_f1": 0.5}, "selection": None})
    {'epoch': 1, 'source_dev/span_f1': 0.5}
    """
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = value
    return found


def final(metrics: Content) -> dict[str, float]:
    """The results in ``metrics.json``, flat."""
    return flat({name: value for name, value in metrics.items() if name not in NOT_FINAL})


def reason(error: BaseException) -> str:
    """An error on one line."""
    while error.__cause__ is not None:  # a full disk, say, under a library's own words
        error = error.__cause__
    told = cut(" ".join(redact(str(error)).split()), LONGEST_REASON)[0]
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


@dataclass(eq=False, kw_only=True)
class LightningTracker(Tracker):
    """Hands everything to one of Lightning's loggers.

    Args:
        folder: where to write; None is the run's own folder.
    """

    folder: str | None = None
    logger: Logger | None = field(default=None, init=False)
    last: int = field(default=0, init=False)

    def logger_of(self, run: Run) -> Logger:
        """Make the logger of a run."""
        raise NotImplementedError

    def start(self, run: Run) -> None:
        """Open it, and write the configuration."""
        self.logger = self.logger_of(run)
        self.logger.log_hyperparams(run.config)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Numbers of a step."""
        self.last = step
        if self.logger:
            self.logger.log_metrics({re.sub(UNUSUAL, "_", name): value for name, value in metrics.items()}, step)

    def end(self, metrics: Content | None) -> None:
        """Results are one more entry, their names beginning with ``final/``; then close."""
        if metrics:
            self.log({f"final/{name}": value for name, value in final(metrics).items()}, self.last)
        if self.logger:
            self.logger.finalize("success" if metrics else "failed")
        self.logger = None

    def place(self, run: Run) -> Path:
        """Where a run's files go; a folder for several runs keeps them apart as run folders do."""
        return Path(self.folder, run.pair, run.method, run.folder.name) if self.folder else run.folder


class Csv(LightningTracker):
    """``csv/attempt=N/metrics.csv``: a killed run's next attempt writes a file of its own."""

    def logger_of(self, run: Run) -> Logger:
        """A file a run and attempt."""
        return CSVLogger(self.place(run), name="csv", version=f"attempt={run.attempt}", flush_logs_every_n_steps=1)


class TensorBoard(LightningTracker):
    """Event files under ``tensorboard/``; attempts go on in the same folder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        needs("tensorboard")

    def logger_of(self, run: Run) -> Logger:
        """Event files of a run."""
        return TensorBoardLogger(self.place(run), name="tensorboard", version="", default_hp_metric=False)


@dataclass(eq=False, kw_only=True)
class MLflow(LightningTracker):
    """Runs in an MLflow store, or on a server.

    Args:
        folder: of a local store; None is ``mlruns`` beside the runs.
        uri: of a server, in place of a folder.
        experiment: MLflow's name for runs that belong together.
    """

    uri: str | None = None
    experiment: str = "domadapt"

    def __post_init__(self) -> None:
        super().__post_init__()
        needs("mlflow")
        # Its own patience is ten minutes a request.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more than mlflow-skinny
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # what fails is told once

    def logger_of(self, run: Run) -> Logger:
        """A run in the store, its name marked where it is another attempt."""
        again = f" (attempt {run.attempt})" if run.attempt > 1 else ""
        tags = {"method": run.method, "key": run.key, "attempt": str(run.attempt)}
        named: dict[str, Any] = {"experiment_name": self.experiment, "run_name": run.name + again, "tags": tags}
        store = Path(self.folder or run.home / "mlruns").absolute()
        if not self.uri:
            store.mkdir(parents=True, exist_ok=True)
        with nullcontext() if self.uri else FileLock(store / ".lock"):  # of two at once, one makes the experiment
            logger = MLFlowLogger(**named, tracking_uri=self.uri or store.as_uri())
            _ = logger.experiment
        return logger


def needs(package: str) -> None:
    """Refuse to run without an optional package."""
    if find_spec(package) is None:
        raise ValueError(f"tracking={package} needs a package that is not installed: pip install 'domadapt[{package}]'")
