"""One cell of a benchmark: build, fit, select, test, write metrics.json."""

import json
import logging
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.loggers.logger import Logger

from domadapt.analysis.expected import temperature
from domadapt.config.compose import plain
from domadapt.config.resolvers import role
from domadapt.data.domains import Domains, SealedTest
from domadapt.inference.evaluate import evaluate
from domadapt.inference.model import save_model
from domadapt.methods.session import Session
from domadapt.runs.key import cell_key, files_named, hardware, run_folder, versions
from domadapt.runs.metrics import FORMAT
from domadapt.runs.status import Busy, Status, read_results, read_status, run_lock, set_aside
from domadapt.selection.validators import Validator
from domadapt.tasks.task import Task
from domadapt.tracking.tracker import tracking
from domadapt.training.build import build, make_methods, make_validators, read_problem
from domadapt.training.card import audit_own_files, label_target, leave_card
from domadapt.training.distributed import be_quiet
from domadapt.training.epochs import Epochs
from domadapt.training.fit import fit
from domadapt.training.floor import make_floor, run_floor
from domadapt.training.options import TrainerOptions, read_options
from domadapt.training.sharing import Ceiling, Network, source_only
from domadapt.training.test import final_evaluation
from domadapt.utils.files import clear_parts, refuse_overwriting, remove_empty, write_atomic
from domadapt.utils.redact import command_line, redacted, remember, struck
from domadapt.utils.text import plain_json

if TYPE_CHECKING:
    from domadapt.auditing.audit import Audit
    from domadapt.methods.rule_baseline import PathRules

log = logging.getLogger(__name__)
FINISHED = "%s is finished: not run again (to force it, delete this folder)"
# What a run writes, and what is in the two folders that it replaces or deletes as a whole.
FILES = ("metrics.json", "status.json", "predictions.jsonl", "audit.json", "card.json", "card.md", "model")
FOLDERS = {
    "model": ("domadapt.json", "encoder", "methods.safetensors", "SHA256SUMS"),
    "checkpoint": ("*.safetensors", ".*"),
    "evidence": ("epoch=*.npz",),
}


def train(cfg: DictConfig, wait: bool = True) -> dict[str, Any]:
    """Train, select and test one configuration; go on from the last checkpoint of a run that was killed.

    Args:
        cfg: a composed ``train.yaml``.
        wait: if another process runs this cell, wait for its result. A benchmark's cells do not: their failures are
            shown in its table, while one run that fails before anything was learnt leaves no folder.

    Returns:
        The content of the run folder's ``metrics.json``. A finished run is not repeated.

    Raises:
        ValueError: naming the setting or file, its value, what was expected and the fix.
        Busy: another process runs this cell, and ``wait`` is False.
    """
    key, folder = cell_key(cfg), run_folder(cfg)
    if (metrics := read_results(folder, key)) is not None and not read_status(folder):
        log.info(FINISHED, folder)
        return metrics
    if any("source_only" in method.reads for method in make_methods(cfg).values()):
        train(source_only(cfg))
    for name in FILES:
        refuse_overwriting(folder / name, files_named(plain(cfg.data)), "paths.run")
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        return _train(cfg, key, folder, wait=False, leave=not wait)
    except Busy as busy:
        if not wait:
            raise
        log.info("%s; waiting for its result", busy)
        return _train(cfg, key, folder, wait=True, leave=False)
    except BaseException:
        if wait:
            remove_empty(new)
        raise


def _train(cfg: DictConfig, key: str, folder: Path, wait: bool, leave: bool) -> dict[str, Any]:
    """With the run's lock held; ``leave`` says whether a failure is kept in the folder though nothing else is."""
    options = read_options(cfg)
    config = plain(cfg)
    remember(config)
    with run_lock(folder, wait):
        clean(folder)
        status = Status(folder, key)
        if (metrics := read_results(folder, key)) is not None:  # by the process that held the lock, or was killed then
            _tidy(folder, status)
            log.info(FINISHED, folder)
            return metrics
        set_aside(folder)
        try:
            with settings_of_torch(), tracking(config, key, folder, status.attempts) as tracker:
                metrics = _run(cfg, Job(config, options, key, folder, status, tracker.logger))
                tracker.finish(metrics)  # after metrics.json: it may take its time over the last uploads
        except BaseException as error:
            status.failed(error)
            if not leave:
                status.forget()
            raise
        _tidy(folder, status)
    return metrics


def clean(folder: Path) -> None:
    """Delete what a killed attempt has left half written.

    Raises:
        ValueError: there are files of somebody else where the run would write.
    """
    for name, patterns in FOLDERS.items():
        for path in (folder / name).glob("*"):
            if not any(path.match(pattern) for pattern in patterns):
                raise ValueError(f"{path}: not written by domadapt, which replaces {name}/; choose another paths.run")
    for name in FILES:
        clear_parts(folder / name)
    for part in (folder / "checkpoint").glob(".*"):
        shutil.rmtree(part, ignore_errors=True)


def _tidy(folder: Path, status: Status) -> None:
    """There is a metrics.json: what it took to get there can go."""
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    status.finished()


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is asked for, and where it writes and whom it tells.

    Attributes:
        config: resolved, as plain dicts and lists.
        options: of training.
        key: of the cell.
        folder: of the run.
        status: told of every stage.
        logger: hears of losses and scores.
    """

    config: dict[str, Any]
    options: TrainerOptions
    key: str
    folder: Path
    status: Status
    logger: Logger | None


def _run(cfg: DictConfig, job: Job) -> dict[str, Any]:
    """Everything between the lock and metrics.json, and that."""
    status, folder = job.status, job.folder
    if (floor := make_floor(cfg)) is not None:
        return _write(_by_rules(cfg, job, floor), folder, status)
    with status.during("build"):
        _reproducible(cfg.seed, job.options.threads)
        validators = list(make_validators(cfg.selection))
        session, sealed = build(cfg)
        for message, count in sorted(session.warnings.items()):
            log.warning("%s (%d times)", message, count)
        for module in (session.encoder, *session.methods.values()):
            module.to(session.device)
        job = replace(job, config={**job.config, "task": session.task_config})
    found_odd = audit_own_files(cfg, session, folder) if cfg.train_on == "source" else None
    if cfg.train_on == "source":
        learned = _learn(job, session, validators, sealed, Network(cfg, session), found_odd)
        return _write(learned, folder, status)
    ceiling = Ceiling(cfg, session.domains, sealed)
    with ceiling.once():
        if (found := ceiling.take(folder, session.domains.source)) is not None:
            told = summary(job.config, session)
            own = {"key": job.key, "seconds": status.seconds, "attempts": status.attempts}
            own |= {name: told[name] for name in ("source", "config", "command")}
            return _write(found | own, folder, status)
        metrics = {**_learn(job, session, validators, sealed, Network(cfg, session)), "ceiling": ceiling.key}
        _write(metrics, folder, status)
        ceiling.made(folder)
    return metrics


def _by_rules(cfg: DictConfig, job: Job, floor: "PathRules") -> dict[str, Any]:
    """The metrics of a cell that trains no network."""
    with job.status.during("build"):
        problem = read_problem(cfg)
    scores = run_floor(cfg, floor, problem, job.folder, job.status)
    told = _about({**job.config, "task": problem.task_config}, problem.domains, problem.task)
    known = {"format": FORMAT, "key": job.key, "hardware": hardware(torch.device("cpu"), "32")}
    return {**known, **told, **scores, "seconds": job.status.seconds, "attempts": job.status.attempts}


def _write(metrics: dict[str, Any], folder: Path, status: Status) -> dict[str, Any]:
    status.check_folder()
    metrics = struck(plain_json(metrics))
    write_atomic(folder / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False))
    return metrics


def _learn(
    job: Job,
    session: Session,
    validators: Sequence[Validator],
    sealed: SealedTest | None,
    network: Network,
    found_odd: "Audit | None" = None,
) -> dict[str, Any]:
    """Fit, select, test; without target labels, label the target."""
    folder, status = job.folder, job.status
    stages: dict[str, Any] = {}
    with status.during("prepare"):
        for method in session.methods.values():
            stages |= plain_json(method.prepare())  # told now, not after training, if it can't be recorded
    epochs = Epochs(folder / "checkpoint", job.key, session, validators, job.options, status)
    chosen = validators[0]
    with network.once():
        if not network.take(epochs, job.logger):
            with status.during("fit"):
                fit(job.options, session, epochs, job.logger)
                network.keep(epochs)
        epochs.compare()
    with status.during("save"):
        epochs.restore(len(epochs.curve) if chosen.uses_target_labels else epochs.best(chosen))
        dev = evaluate(session.dev, session, epochs.batch_size, "source dev")
        session.task.temperature = temperature(dev.rows)
        # Before the test: whatever goes wrong there, the model is kept.
        save_model(session, job.config, folder / "model")
    with status.during("evaluate"):
        known = Counter(session.warnings)
        scores = final_evaluation(session, sealed, epochs, folder)
        if chosen.uses_target_labels:
            save_model(session, job.config, folder / "model")
        for message, count in sorted((session.warnings - known).items()):
            log.warning("%s (%d times)", message, count)
    labelled = None
    if sealed is None:
        with status.during("label target"):
            labelled = label_target(session, epochs.batch_size, folder / "predictions.jsonl")
    told = {**summary(job.config, session), "curve": epochs.curve}
    if chosen.uses_target_labels:
        told["method"] += "+oracle_selection"
    took = {"seconds": status.seconds, "attempts": status.attempts}
    metrics = {"format": FORMAT, "key": job.key, "training": network.key, **told, **scores, "stages": stages, **took}
    if labelled is not None:
        leave_card(session, labelled, metrics, found_odd, folder)
    return metrics


def summary(config: dict[str, Any], session: Session) -> dict[str, Any]:
    """What metrics.json says of a run besides its scores: what was run, and on what."""
    told = _about(config, session.domains, session.task)
    told["counts"] |= {
        "parameters": sum(p.numel() for p in session.encoder.parameters()),
        "truncated": {k: {"texts": v.texts, "words": v.words} for k, v in session.truncation.items()},
    }
    return {**told, "hardware": hardware(session.device, session.precision)}


def _about(config: dict[str, Any], domains: Domains, task: Task) -> dict[str, Any]:
    return {
        "source": domains.source,
        "target": domains.target,
        "task": "extraction" if task.kind == "token" else "classification",
        "headline": task.headline,
        "method": config["method"],
        "role": role(config),
        "seed": config["seed"],
        "counts": {
            "source_train": len(domains.source_train),
            "source_dev": len(domains.source_dev),
            "target_unlabelled": len(domains.unlabeled.texts),
            "target_labels": domains.target_labels,
            "target_labels_checksum": domains.labels_checksum(domains.target_labels) if domains.target_labels else None,
            "warnings": dict(domains.warnings),
        },
        "config": redacted({name: value for name, value in config.items() if name != "paths"}),  # no machine's paths
        "versions": versions(),
        "command": command_line(["domadapt", *sys.argv[1:]]),
    }


@contextmanager
def settings_of_torch() -> Iterator[None]:
    """Afterwards the caller's threads and determinism are what they were: a run may be a call in a larger program."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]


def _reproducible(seed: int, threads: int) -> None:
    pl.seed_everything(seed, verbose=False)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)  # stages before Lightning's, too
    # For debugging alone, and a tenth of a step's time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if threads := threads or min(threads_of_a_job(), torch.get_num_threads()):
        torch.set_num_threads(threads)
    be_quiet()


def threads_of_a_job() -> int:
    """This job's share of the machine's cores, where its launcher runs ``n_jobs`` at once; else 0."""
    from hydra.core.hydra_config import HydraConfig

    jobs = HydraConfig.get().launcher.get("n_jobs") if HydraConfig.initialized() else None
    if not jobs:
        return 0
    import joblib

    return int(max(1, joblib.cpu_count() // joblib.effective_n_jobs(jobs)))
