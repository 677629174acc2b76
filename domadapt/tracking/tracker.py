"""Trackers: who watches a run, and what they are told."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock
from omegaconf import DictConfig
from pytorch_lightning.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only

from domadapt.config.compose import make, plain
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


@dataclass(frozen=True, slots=True)
class Run:
    """What a tracker is told of a run.

    Attributes:
        pair: names of source and target.
        method: what the run is called in tables.
        seed: of the run.
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


class Tracker:
    """Follows runs. Whatever a method raises is told in one line, and the run goes on without its tracker.

    Args:
        every: steps between two losses; what is scored once an epoch is always told.
    """

    def __init__(self, every: int = 10) -> None:
        if type(every) is not int or every < 1:
            raise ValueError(f"tracking.every={every!r}: expected a whole number of steps from 1")
        self.every = every

    def start(self, run: Run) -> None:
        """A run begins, or goes on after it was killed."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Numbers of a training step."""

    def end(self, metrics: Content | None) -> None:
        """The run is over.

        Args:
            metrics: content of ``metrics.json``; None if the run failed or was stopped.
        """

    def benchmark(self, home: Path, metrics: Sequence[Content], report: Path | None) -> None:
        """An experiment is through."""


class Watch(Logger):
    """A tracker as training holds it: a Lightning logger that never raises, and says once why it has stopped.

    Args:
        tracker: None if nothing watches.
    """

    def __init__(self, tracker: Tracker | None) -> None:
        super().__init__()
        self.tracker, self.metrics = tracker, None
        self._failed = False

    @property
    def logger(self) -> Logger | None:
        """For the Lightning Trainer."""
        return self if self.tracker else None

    @property
    def name(self) -> str:
        """Lightning's name for folders of its own; it makes none here."""
        return type(self.tracker).__name__

    @property
    def version(self) -> str:
        """As above."""
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The tracker was given the whole configuration when the run began."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Numbers of a step; losses of every so many steps only."""
        if self.tracker is None:
            return
        tracker, at = self.tracker, step or 0
        told = {
            k: v for k, v in metrics.items() if not k.startswith((STEP_LOSSES, STEP)) or (at - 1) % tracker.every == 0
        }
        if told:
            self.attempt(lambda: tracker.log(told, at))

    def finish(self, metrics: Content) -> None:
        """The run has succeeded.

        Args:
            metrics: content of ``metrics.json``.
        """
        self.metrics = metrics  # type: ignore[assignment]

    def attempt(self, action: Callable[[], object]) -> None:
        """Do something with the tracker, unless it has failed before."""
        if self._failed:
            return
        try:
            action()
        except Exception as error:  # training does not depend on anybody watching
            self._failed = True
            log.warning("%s has stopped: %s; the run goes on, metrics.json will have it all", self.name, reason(error))

    def close(self) -> None:
        """Once, at the end of the run; also after a failure, so that no run is left open for the next to write into."""
        if self.tracker is None:
            return
        tracker, metrics = self.tracker, self.metrics
        if self._failed:
            with suppress(Exception):
                tracker.end(metrics)
        self.attempt(lambda: tracker.end(metrics))


class Several(Tracker):
    """Trackers side by side, ``tracking=[wandb_offline,tensorboard]``; one that fails stops no other.

    Args:
        trackers: each with its own ``every``.
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        super().__init__(every=1)
        self.watches = [Watch(tracker) for tracker in trackers]

    def start(self, run: Run) -> None:
        """To each."""
        for tracker, watch in self._each():
            watch.attempt(partial(tracker.start, run))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """To each, which thins out for itself."""
        for watch in self.watches:
            watch.log_metrics(metrics, step)

    def end(self, metrics: Content | None) -> None:
        """To each."""
        for watch in self.watches:
            watch.metrics = metrics  # type: ignore[assignment]
            watch.close()

    def benchmark(self, home: Path, metrics: Sequence[Content], report: Path | None) -> None:
        """To each."""
        for tracker, watch in self._each():
            watch.attempt(partial(tracker.benchmark, home, metrics, report))

    def _each(self) -> Iterator[tuple[Tracker, Watch]]:
        return ((watch.tracker, watch) for watch in self.watches if watch.tracker)


@contextmanager
def tracking(config: dict[str, Any], key: str, folder: Path, attempt: int = 1) -> Iterator[Watch]:
    """Track a run, whichever way it ends.

    Yields:
        Its ``logger`` is for the Lightning Trainer; its ``finish`` is told the results.
    """
    watch = Watch(make_tracker(config["tracking"]))
    if watch.tracker and not getattr(
        rank_zero_only, "rank", 0
    ):  # of several processes on one run, the first is watched
        run = describe(config, key, folder, attempt)
        tracker = watch.tracker
        watch.attempt(lambda: tracker.start(run))
    else:
        watch.tracker = None
    try:
        yield watch
    finally:
        watch.close()


def track_benchmark(cfg: DictConfig, metrics: Sequence[Content], report: Path | None = None) -> None:
    """Show an experiment's tables, figures and report where its runs are shown.

    Args:
        cfg: a composed ``benchmark.yaml``.
        report: the HTML file, if there is one.
    """
    watch = Watch(make_tracker(plain(cfg.tracking) if cfg.tracking else None))
    if (tracker := watch.tracker) is not None and metrics:
        watch.attempt(lambda: tracker.benchmark(Path(cfg.paths.runs), metrics, report))


def make_tracker(config: Any) -> Tracker | None:
    """The tracker of a configuration.

    Raises:
        ValueError: it is not there, or is none.
    """
    if config and "_target_" not in config and all(isinstance(each, dict) for each in config.values()):
        return Several([tracker for each in config.values() if (tracker := make_tracker(each))])
    tracker = make(config) if config else None
    if not isinstance(tracker, Tracker | None):
        raise ValueError(f"tracking={redacted(config)}: expected tracking=none or a domadapt.tracking Tracker")
    return tracker


def describe(config: dict[str, Any], key: str, folder: Path, attempt: int) -> Run:
    """A run, as trackers may know it."""
    told = {name: value for name, value in config.items() if name not in NOT_TRACKED}
    home = folder if config["paths"]["run"] else Path(config["paths"]["runs"])
    pair, method = str(config["pair"]), str(config["method"])
    own = _away_from_home(redacted(told))
    return Run(pair, method, int(config["seed"]), key, attempt, own, folder, home, role(config))


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


def _away_from_home(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _away_from_home(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_away_from_home(item) for item in value]
    return value.replace(str(Path.home()), "~") if isinstance(value, str) and Path.home() != Path("/") else value


UNUSUAL = r"[^\w./ -]"  # in names of metrics: MLflow refuses them


class LightningTracker(Tracker):
    """Hands everything to one of Lightning's loggers.

    Args:
        every: steps between two losses.
        folder: where to write; None is the run's own folder.
    """

    def __init__(self, every: int = 10, folder: str | None = None) -> None:
        super().__init__(every)
        self.folder = Path(folder) if folder else None
        self.logger: Logger | None = None
        self.run: Run | None = None
        self.last = 0

    def logger_of(self, run: Run) -> Logger:
        """Make the logger of a run."""
        raise NotImplementedError

    def start(self, run: Run) -> None:
        """Open it, and write the configuration."""
        self.run, self.logger = run, self.logger_of(run)
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
        return self.folder / run.pair / run.method / run.folder.name if self.folder else run.folder


class Csv(LightningTracker):
    """``csv/attempt=N/metrics.csv``: a killed run's next attempt writes a file of its own."""

    def logger_of(self, run: Run) -> Logger:
        """A file a run and attempt."""
        return CSVLogger(self.place(run), name="csv", version=f"attempt={run.attempt}", flush_logs_every_n_steps=1)


class TensorBoard(LightningTracker):
    """Event files under ``tensorboard/``; attempts go on in the same folder."""

    def __init__(self, every: int = 10, folder: str | None = None) -> None:
        super().__init__(every, folder)
        needs("tensorboard")

    def logger_of(self, run: Run) -> Logger:
        """Event files of a run."""
        return TensorBoardLogger(self.place(run), name="tensorboard", version="", default_hp_metric=False)


class MLflow(LightningTracker):
    """Runs in an MLflow store, or on a server.

    Args:
        every: steps between two losses.
        folder: of a local store; None is ``mlruns`` beside the runs.
        uri: of a server, in place of a folder.
        experiment: MLflow's name for runs that belong together.
    """

    def __init__(
        self, every: int = 10, folder: str | None = None, uri: str | None = None, experiment: str = "domadapt"
    ) -> None:
        super().__init__(every, folder)
        needs("mlflow")
        self.uri, self.experiment = uri, experiment
        # Its own patience is ten minutes a request.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # what fails is told once

    def logger_of(self, run: Run) -> Logger:
        """A run in the store, its name marked where it is another attempt."""
        again = f" (attempt {run.attempt})" if run.attempt > 1 else ""
        tags = {"method": run.method, "key": run.key, "attempt": str(run.attempt)}
        named: dict[str, Any] = {"experiment_name": self.experiment, "run_name": run.name + again, "tags": tags}
        if self.uri:
            logger = MLFlowLogger(**named, tracking_uri=self.uri)
            _ = logger.experiment
            return logger
        store = (self.folder or run.home / "mlruns").absolute()
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more than mlflow-skinny
        store.mkdir(parents=True, exist_ok=True)
        with FileLock(store / ".lock"):  # of two runs that begin at once, one makes the experiment
            logger = MLFlowLogger(**named, tracking_uri=store.as_uri())
            _ = logger.experiment
        return logger


def needs(package: str) -> None:
    """Refuse to run without an optional package.

    Raises:
        ValueError: with the line that installs it.
    """
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ValueError(f"tracking={package} needs a package that is not installed: pip install 'domadapt[{package}]'")
