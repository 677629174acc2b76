"""One cell of a benchmark: locked, run, or gone on with, and its metrics.json written."""

import logging
import shutil
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from domadapt.config.compose import to_builtin
from domadapt.runs.key import cell_key, files_named, run_folder
from domadapt.runs.status import Busy, Status, finished, read_results, run_lock, set_aside
from domadapt.tracking.tracker import tracking
from domadapt.training import build
from domadapt.training.distributed import settings_of_torch
from domadapt.training.options import RunConfig, read_options
from domadapt.training.run import run
from domadapt.utils.files import clear_parts, refuse_overwriting, remove_empty
from domadapt.utils.redact import redacted

log = logging.getLogger(__name__)
# What a run writes, and what is in the folders that it replaces or deletes as a whole.
FILES = ("metrics.json", "status.json", "predictions.jsonl", "audit.json", "card.json", "card.md", "model")
FOLDERS = {
    "model": ("domadapt.json", "encoder", "methods.safetensors", "source_dev.json", "SHA256SUMS"),
    "checkpoint": ("*.safetensors", ".*"),
    "evidence": ("epoch=*.npz",),
}


def train(cfg: DictConfig, wait: bool = True) -> dict[str, Any]:
    """Train, select and test a composed ``train.yaml``; go on from the last checkpoint of a run that was killed.

    What ``metrics.json`` holds; a finished run is not repeated. If another process runs this cell, ``wait`` for its
    result, or raise :class:`Busy`, as a benchmark does; its failures keep their folders, those of one run do not.
    """
    folder = run_folder(cfg)
    config = RunConfig(to_builtin(cfg), read_options(cfg), cell_key(cfg), folder, cfg)
    if (metrics := finished(folder, config.key)) is not None:
        return metrics
    if (before := build.source_only(cfg)) is not None and finished(run_folder(before), cell_key(before)) is None:
        build.refuse_early(cfg)
        log.info("two networks are trained: first the source-only one, then the adapted one")
        train(before)
    for name in FILES:
        refuse_overwriting(folder / name, files_named(config.values["data"]), "paths.run")
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        return _locked(config, wait=False, leave=not wait)
    except Busy as busy:
        if not wait:
            raise
        log.info("%s; waiting for its result", busy)
        return _locked(config, wait=True, leave=False)
    except BaseException:
        if wait:
            remove_empty(new)
        raise


def _locked(config: RunConfig, wait: bool, leave: bool) -> dict[str, Any]:
    """With the run's lock held; ``leave`` says whether a failure is kept in the folder though nothing else is."""
    folder = config.folder
    redacted(config.values)  # known from here on
    with run_lock(folder, wait):
        clean(folder)
        status = Status(folder, config.key)
        if (metrics := read_results(folder, config.key)) is not None:  # by who held the lock, or was killed then
            log.info("%s is finished: not run again (by another process, or before it was killed)", folder)
        else:
            set_aside(folder)
            try:
                with settings_of_torch(), tracking(config.values, config.key, folder, status.attempts) as tracker:
                    metrics = run(config, status, tracker)
                    if tracker:
                        tracker.finish(metrics)  # after metrics.json: it may take its time over the last uploads
            except BaseException as error:
                status.failed(error)
                if not leave:
                    status.forget()
                raise
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        status.finished()
    return metrics


def clean(folder: Path) -> None:
    """Delete what a killed attempt has left half written."""
    for name, patterns in FOLDERS.items():
        for path in (folder / name).glob("*"):
            if not any(path.match(pattern) for pattern in patterns):
                raise ValueError(f"{path}: not written by domadapt, which replaces {name}/; choose another paths.run")
    for name in FILES:
        clear_parts(folder / name)
    for part in (folder / "checkpoint").glob(".*"):
        shutil.rmtree(part, ignore_errors=True)
