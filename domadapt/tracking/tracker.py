"""Trackers: who watches a run, and what they are told."""

import inspect
import json
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
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from domadapt.config.compose import make
from domadapt.config.overrides import in_range
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
# Its own patience is ten minutes a request; a database, in place of files, needs more than mlflow-skinny.
MLFLOW = {"HTTP_REQUEST_MAX_RETRIES": "1", "HTTP_REQUEST_TIMEOUT": "10", "ALLOW_FILE_STORE": "true"}
UNUSUAL = r"[^\w./ -]"  # in names of metrics: MLflow refuses them


@dataclass(frozen=True, slots=True)
class Run:
    """What a tracker is told of a run."""

    pair: str  #: names of source and target
    method: str  #: what the run is called in tables
    seed: int
    key: str  #: of the cell
    attempt: int  #: 1, and one more for every time that the run was killed and started again
    config: dict[str, Any]  #: plain dicts without secrets, without paths of the home folder
    folder: Path  #: the run's own
    home: Path  #: the folder that the run shares with its sweep; its own if that was named by hand
    role: str = ""  #: which bar of the report it is

    @property
    def name(self) -> str:
        """As it is listed: pair, method and seed."""
        return f"{self.pair}/{self.method}/seed={self.seed}"


@dataclass(eq=False, kw_only=True)
class Tracker:
    """Follows runs. Whatever a method raises is told in one line, and the run goes on without its tracker."""

    every: int = 10  #: steps between two losses; what is scored once an epoch is always told

    def __post_init__(self) -> None:
        in_range("tracking.every", self.every, 1)

    @property
    def title(self) -> str:
        """What messages call it."""
        return type(self).__name__

    def start(self, run: Run) -> None:
        """A run begins, or goes on after it was killed."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Numbers of a training step."""

    def end(self, metrics: Content | None) -> None:
        """The run is over; ``metrics`` are the content of ``metrics.json``, None if it failed or was stopped."""


class TrackerLogger(Logger):
    """Trackers side by side: a Lightning logger that never raises, and says once why a tracker has stopped."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        super().__init__()
        self.trackers = trackers
        self.metrics: Content | None = None  #: of ``metrics.json``, once the run has succeeded
        self._failed = set[Tracker]()

    name, version = "domadapt", ""  # of folders of Lightning's own; it makes none here

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Trackers were given the whole configuration when the run began."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Numbers of a step; losses of every so many steps only."""
        at = step or 0
        # A step's number is told as such: of a store of files, `step` would be a file beside the folder `step/`.
        metrics = {name: value for name, value in metrics.items() if name != "step"}

        def log(tracker: Tracker) -> None:
            thinned = (at - 1) % tracker.every != 0
            if logged := {k: v for k, v in metrics.items() if not (thinned and k.startswith((STEP_LOSSES, STEP)))}:
                tracker.log(logged, at)

        self.tell(log)

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
                why = reason(error)
                log.warning("%s has stopped: %s; the run goes on, metrics.json will have it all", tracker.title, why)


@contextmanager
def tracking(config: dict[str, Any], key: str, folder: Path, attempt: int = 1) -> Iterator[TrackerLogger | None]:
    """Track a run, whichever way it ends, by a logger for the Lightning Trainer; None where nothing watches."""
    trackers = make_trackers(config["tracking"])
    if not trackers or getattr(rank_zero_only, "rank", None):  # of several processes on one run, the first is watched
        yield None
        return
    logger = TrackerLogger(trackers)
    run = describe(config, key, folder, attempt)
    logger.tell(lambda tracker: tracker.start(run))
    try:
        yield logger
    finally:
        logger.close()


def make_trackers(config: Any) -> list[Tracker]:
    """The trackers of a configuration: none, one, or several by name."""
    if config and "_target_" not in config and all(isinstance(each, Mapping) for each in config.values()):
        return [tracker for each in config.values() for tracker in make_trackers(each)]
    tracker = make(config) if config else None
    if not isinstance(tracker, Tracker | None):
        raise ValueError(f"tracking={redacted(config)}: expected tracking=none or a domadapt.tracking Tracker")
    return [tracker] if tracker else []


def describe(config: dict[str, Any], key: str, folder: Path, attempt: int) -> Run:
    about = redacted({name: value for name, value in config.items() if name not in NOT_TRACKED})
    if Path.home() != Path("/"):
        about = json.loads(json.dumps(about).replace(json.dumps(str(Path.home()))[1:-1], "~"))
    home = folder if config["paths"]["run"] else Path(config["paths"]["runs"])
    pair, method = str(config["pair"]), str(config["method"])
    return Run(pair, method, int(config["seed"]), key, attempt, about, folder, home, role(config))


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers among nested values, by names with slashes."""
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            numbers |= flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[f"{prefix}{name}"] = value
    return numbers


def final(metrics: Content) -> dict[str, float]:
    return flat({name: value for name, value in metrics.items() if name not in NOT_FINAL})


def reason(error: BaseException) -> str:
    while error.__cause__ is not None:  # a full disk, say, under a library's own words
        error = error.__cause__
    message = cut(" ".join(redact(str(error)).split()), LONGEST_REASON)[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


@dataclass(eq=False, kw_only=True)
class LightningTracker(Tracker):
    """Hands everything to one of Lightning's loggers."""

    logger: Callable[..., Logger]  #: is given what it takes of ``save_dir``, ``version``, ``run_name`` and ``tags``
    folder: str | None = None  #: where to write, runs apart as run folders are; None is the run's own folder
    shared: str | None = None  #: a folder beside the runs, for a store of all of them, in place of the run's own
    needs: str | None = None  #: the package that this takes, an extra of ours
    open_logger: Logger | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs and find_spec(self.needs) is None:
            fix = f"pip install 'domadapt[{self.needs}]'"
            raise ValueError(f"tracking={self.needs} needs a package that is not installed: {fix}")
        for name, value in MLFLOW.items():
            os.environ.setdefault(f"MLFLOW_{name}", value)

    @property
    def title(self) -> str:
        return str(getattr(getattr(self.logger, "func", self.logger), "__name__", super().title))

    def start(self, run: Run) -> None:
        place = Path(self.folder, run.pair, run.method, run.folder.name) if self.folder else run.folder
        if self.shared:
            place = Path(self.folder or run.home / self.shared)
        given = {
            "save_dir": str(place.absolute()),
            "version": f"attempt={run.attempt}",
            "run_name": run.name + (f" (attempt {run.attempt})" if run.attempt > 1 else ""),
            "tags": {"method": run.method, "key": run.key, "attempt": str(run.attempt)},
        }
        takes = inspect.signature(self.logger).parameters.keys() - getattr(self.logger, "keywords", {})
        place.mkdir(parents=True, exist_ok=True)
        with FileLock(place / ".lock") if self.shared else nullcontext():  # of two at once, one makes the experiment
            self.open_logger = self.logger(**{name: value for name, value in given.items() if name in takes})
            self.open_logger.log_hyperparams(run.config)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        if self.open_logger:
            self.open_logger.log_metrics({re.sub(UNUSUAL, "_", name): value for name, value in metrics.items()}, step)

    def end(self, metrics: Content | None) -> None:
        """Results are one more entry, their names beginning with ``final/``; then close."""
        if metrics:  # at the last step of training, which an attempt before this one may have taken
            step = max((point["step"] for point in metrics.get("curve", ())), default=0)
            self.log({f"final/{name}": value for name, value in final(metrics).items()}, step)
        if self.open_logger:
            self.open_logger.finalize("success" if metrics else "failed")
        self.open_logger = None
