"""TensorBoard, MLflow and CSV files, through Lightning's loggers."""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock
from pytorch_lightning.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger

from domadapt.tracking.tracker import Content, Run, Tracker, final

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
