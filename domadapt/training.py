"""One cell of a benchmark: build, fit, select, test, write metrics.json."""

import json
import logging
import os
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.loggers.logger import Logger

from domadapt.benchmarking.cells import cell_key, run_folder
from domadapt.benchmarking.launching import threads_of_a_job
from domadapt.benchmarking.status import Busy, Status, run_lock
from domadapt.files import write_atomic
from domadapt.final_evaluation import final_evaluation
from domadapt.fitting import fit
from domadapt.prediction import save_model
from domadapt.provenance import hardware, versions
from domadapt.ranks import be_quiet
from domadapt.redact import redact, redacted
from domadapt.setup import Setting, build, check_numbers, plain
from domadapt.tracking.tracker import tracking

log = logging.getLogger(__name__)
FORMAT = 1  # of metrics.json


def train(cfg: DictConfig, wait: bool = True) -> dict[str, Any]:
    """Train, select and test one configuration; go on from the last checkpoint of a run that was killed.

    Args:
        cfg: a composed ``train.yaml``.
        wait: if another process runs this cell, wait for its result.

    Returns:
        The content of the run folder's ``metrics.json``. A finished run is not repeated.

    Raises:
        ValueError: naming the setting or file, its value, what was expected and the fix.
        Busy: another process runs this cell, and ``wait`` is False.
    """
    key, folder = cell_key(cfg), run_folder(cfg)
    if (metrics := finished(folder, key)) is not None:
        log.info("%s is finished: not run again", folder)
        return metrics
    check_numbers(cfg)
    if wait:
        try:
            return train(cfg, wait=False)
        except Busy as busy:
            log.info("%s; waiting for its result", busy)
    with run_lock(folder, wait):
        if (metrics := finished(folder, key)) is not None:  # by the process that held the lock
            return metrics
        status = Status(folder, key)
        try:
            with tracking(cfg, key, folder, status.attempts) as tracker:
                metrics = _run(cfg, key, folder, status, tracker.logger)
                # The truth first: the tracker may take its time over the last uploads.
                write_atomic(folder / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False, default=str))
                tracker.finish(metrics)
        except BaseException as error:
            status.failed(error)
            raise
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        status.finished()
    return metrics


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """A run folder's results, if it has them; a damaged file is moved aside.

    Raises:
        ValueError: they are of another cell.
    """
    path = folder / "metrics.json"
    if not path.is_file():
        return None
    try:
        metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = metrics.get("key")
    except (ValueError, AttributeError) as error:
        aside = path.with_name("metrics.json.damaged")
        log.warning("%s: not whole (%s); moved to %s, and the run is made again", path, error, aside.name)
        path.replace(aside)
        return None
    if found != key:
        raise ValueError(f"paths.run={folder}: holds the results of another run; name another folder, or move that one")
    return metrics


def _run(cfg: DictConfig, key: str, folder: Path, status: Status, logger: Logger | None) -> dict[str, Any]:
    with status.during("build"):
        _reproducible(cfg)
        setting, sealed = build(cfg)
        for message, count in sorted(setting.warnings.items()):
            log.warning("%s (%d times)", message, count)
        for module in (setting.encoder, *setting.methods.values()):
            module.to(setting.device)
    stages: dict[str, Any] = {}
    with status.during("prepare"):
        for method in setting.methods.values():
            stages |= method.prepare(setting.encoder, setting)
    with status.during("fit"):
        epochs, adapter = fit(cfg, setting, folder / "checkpoint", key, status, logger)
        chosen = epochs.validators[0]
        epochs.restore(len(epochs.curve) if chosen.bound else epochs.best(chosen), adapter)
        save_model(setting, cfg, folder / "model")  # before the test: whatever is wrong with it, the model is kept
    with status.during("evaluate"):
        known = Counter(setting.warnings)
        scores = final_evaluation(setting, sealed, epochs, lambda epoch: epochs.restore(epoch, adapter), folder)
        if chosen.bound:
            save_model(setting, cfg, folder / "model")
        for message, count in sorted((setting.warnings - known).items()):
            log.warning("%s (%d times)", message, count)
    told = summary(cfg, setting, epochs.curve)
    if chosen.bound:
        told["method"] += "+oracle_selection"
    took = {"seconds": status.seconds, "attempts": status.attempts}
    return {"format": FORMAT, "key": key, **told, **scores, "stages": stages, **took}


def summary(cfg: DictConfig, setting: Setting, curve: list[dict[str, Any]]) -> dict[str, Any]:
    """What metrics.json says of a run besides its scores: what was run, on what, and what was chosen."""
    return {
        "source": setting.domains.source,
        "target": setting.domains.target,
        "task": "extraction" if setting.task.kind == "token" else "classification",
        "headline": setting.task.headline,
        "method": cfg.method,
        "role": role(cfg),
        "seed": cfg.seed,
        "curve": curve,
        "counts": {
            "source_train": len(setting.domains.source_train),
            "source_dev": len(setting.domains.source_dev),
            "target_unlabelled": len(setting.domains.unlabeled.texts),
            "parameters": sum(p.numel() for p in setting.encoder.parameters()),
            "truncated": {k: {"texts": v.texts, "words": v.words} for k, v in setting.truncation.items()},
            "warnings": dict(setting.warnings),
        },
        "config": redacted(plain(cfg)),
        "versions": versions(),
        "hardware": hardware(setting.device, setting.precision),
        "command": redact(shlex.join(["domadapt", *sys.argv[1:]])),
    }


def role(cfg: DictConfig) -> str:
    """Which bar of the report a run is: the three that stand, or one between."""
    if cfg.train_on == "target":
        return "in_domain"
    if cfg.backbone.get("_target_", "").endswith("BiLSTM"):
        return "rnn_from_scratch"
    return "adapted" if cfg.injection or cfg.adaptation else "source_only"


def _reproducible(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed, verbose=False)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)  # stages before Lightning's, too
    if threads := cfg.trainer.threads or min(threads_of_a_job(), torch.get_num_threads()):
        torch.set_num_threads(threads)
    be_quiet()
