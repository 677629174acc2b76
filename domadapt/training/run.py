"""One cell of a benchmark: build, fit, select, test, write metrics.json."""

import json
import logging
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from pytorch_lightning.loggers.logger import Logger

from domadapt.analysis.expected import temperature
from domadapt.config.resolvers import role
from domadapt.data.domains import Domains, SealedTest
from domadapt.inference.evaluate import Evaluation, evaluate
from domadapt.inference.model import save_model
from domadapt.inference.thresholds import counted
from domadapt.methods.session import Session
from domadapt.runs.key import files_named, hardware, versions
from domadapt.runs.metrics import FORMAT
from domadapt.runs.status import Busy, Status, read_results, read_status, run_lock, set_aside
from domadapt.selection.validators import Validator
from domadapt.tasks.task import Task
from domadapt.tracking.tracker import tracking
from domadapt.training import build
from domadapt.training.card import audit_own_files, label_target, leave_card
from domadapt.training.distributed import reproducible, settings_of_torch
from domadapt.training.epochs import Epochs
from domadapt.training.fit import fit
from domadapt.training.options import RunConfig
from domadapt.training.rule_baseline import run_rules
from domadapt.training.sharing import SharedCeiling, SharedNetwork
from domadapt.training.test import final_scores, test
from domadapt.utils.files import clear_parts, refuse_overwriting, remove_empty, write_atomic
from domadapt.utils.redact import command_line, redacted, struck
from domadapt.utils.text import plain_json

log = logging.getLogger(__name__)
FINISHED = "%s is finished: not run again (to force it, delete this folder)"
# What a run writes, and what is in the folders that it replaces or deletes as a whole.
FILES = ("metrics.json", "status.json", "predictions.jsonl", "audit.json", "card.json", "card.md", "model")
FOLDERS = {
    "model": ("domadapt.json", "encoder", "methods.safetensors", "source_dev.json", "SHA256SUMS"),
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
    config = build.read_config(cfg)
    folder = config.folder
    if (metrics := read_results(folder, config.key)) is not None and not read_status(folder):
        log.info(FINISHED, folder)
        return metrics
    if (before := build.source_only(cfg)) is not None:
        train(before)
    for name in FILES:
        refuse_overwriting(folder / name, files_named(config.values["data"]), "paths.run")
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        return _train(cfg, config, wait=False, leave=not wait)
    except Busy as busy:
        if not wait:
            raise
        log.info("%s; waiting for its result", busy)
        return _train(cfg, config, wait=True, leave=False)
    except BaseException:
        if wait:
            remove_empty(new)
        raise


def _train(cfg: DictConfig, config: RunConfig, wait: bool, leave: bool) -> dict[str, Any]:
    """With the run's lock held; ``leave`` says whether a failure is kept in the folder though nothing else is."""
    folder = config.folder
    redacted(config.values)  # known from here on
    with run_lock(folder, wait):
        clean(folder)
        status = Status(folder, config.key)
        if (metrics := read_results(folder, config.key)) is not None:  # by who held the lock, or was killed then
            log.info(FINISHED, folder)
        else:
            set_aside(folder)
            try:
                with settings_of_torch(), tracking(config.values, config.key, folder, status.attempts) as tracker:
                    metrics = _run(cfg, config, status, tracker)
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


def _run(cfg: DictConfig, config: RunConfig, status: Status, logger: Logger | None) -> dict[str, Any]:
    """Everything between the lock and metrics.json, and that."""
    folder = config.folder
    if (rules := build.make_rules(cfg)) is not None:
        with status.during("build"):
            problem = build.read_problem(cfg)
            parser = build.parse_cache(cfg, problem.domains)
            build.refuse_foreign_trees([f"floor={name}" for name in cfg.floor], problem.domains, parser.name)
        scores = run_rules(rules, problem, parser, folder, status)
        return _write(summary(_with_task(config, problem.task_config), problem.domains, problem.task) | scores, status)
    with status.during("build"):
        reproducible(config.values["seed"], config.options.threads)
        validators = list(build.make_validators(cfg.selection))
        session, sealed = build.build(cfg)
        _warn(session.domains.warnings)
        for module in (session.encoder, *session.methods.values()):
            module.to(session.device)
    network = SharedNetwork(config, session)
    ceiling = SharedCeiling(config, session.domains, sealed) if config.in_domain else None
    config = _with_task(config, session.task_config)
    with ceiling.once() if ceiling else nullcontext():
        if ceiling and (found := ceiling.take(folder, session.domains.source)) is not None:
            told = summary(config, session.domains, session.task)
            return _write(found | {name: told[name] for name in ("key", "source", "config", "command")}, status)
        metrics = _learn(config, session, validators, sealed, network, status, logger)
        if ceiling is None:
            return _write(metrics, status)
        metrics = _write({**metrics, "ceiling": ceiling.key}, status)
        ceiling.made(folder)
    return metrics


def _learn(
    config: RunConfig,
    session: Session,
    validators: Sequence[Validator],
    sealed: SealedTest | None,
    network: SharedNetwork,
    status: Status,
    logger: Logger | None,
) -> dict[str, Any]:
    """Fit, select, test; without target labels, label the target."""
    folder, chosen, labelled = config.folder, validators[0], None
    found_odd = audit_own_files(config, session)
    stages: dict[str, Any] = {}
    with status.during("prepare"):
        for method in session.methods.values():
            stages |= plain_json(method.prepare())  # told now, not after training, if it can't be recorded
    options = replace(config.options, regret=config.options.regret and sealed is not None)
    epochs = Epochs(folder / "checkpoint", config.key, session, validators, options, status, network.shared)
    with network.once():
        if not network.take(epochs, logger):
            with status.during("fit"):
                fit(config.options, session, epochs, logger)
                network.keep(epochs)
        epochs.compare()
    with status.during("save"):
        # Before the test: whatever goes wrong there, the model is kept.
        epoch = len(epochs.curve) if chosen.uses_target_labels else epochs.best(chosen)
        dev = _settle(epochs, epoch, config)
    with status.during("evaluate"):
        known = Counter(session.domains.warnings)
        tested = test(session, sealed, epochs, epoch) if sealed is not None else None
        if tested and chosen.uses_target_labels:
            dev = _settle(epochs, epoch := tested.best(session.task.headline), config)
        scores = final_scores(session, tested, epochs, epoch, dev, folder)
        _warn(session.domains.warnings - known)
    if sealed is None:
        with status.during("label target"):
            labelled = label_target(session, epochs.batch_size, folder / "predictions.jsonl")
    metrics = {**summary(config, session.domains, session.task, session), "training": network.key}
    metrics |= {"curve": epochs.curve, **scores, "stages": stages}
    if chosen.uses_target_labels:
        metrics["method"] += "+oracle_selection"
    if labelled is not None:
        leave_card(session, labelled, metrics, found_odd, folder)
    return metrics


def _settle(epochs: Epochs, epoch: int, config: RunConfig) -> Evaluation:
    """Put back an epoch's weights, calibrate confidences on source dev, and save the model.

    Returns:
        What it predicts on source dev.
    """
    session = epochs.session
    epochs.restore(epoch)
    dev = evaluate(session.dev, session, epochs.batch_size, "source dev")
    session.task.temperature = temperature(dev.rows)
    dev = evaluate(session.dev, session, epochs.batch_size, "source dev")
    session.found_on_dev = counted(session.domains.source_dev, dev.predictions, session.task.names)
    save_model(session, config.values, config.folder / "model")
    return dev


def summary(config: RunConfig, domains: Domains, task: Task, session: Session | None = None) -> dict[str, Any]:
    """What metrics.json says of a run besides its scores: what was run, and on what.

    Args:
        session: None where no network is trained.
    """
    labels, values = domains.target_labels, config.values
    counts: dict[str, Any] = {
        "source_train": len(domains.source_train),
        "source_dev": len(domains.source_dev),
        "target_unlabelled": len(domains.unlabelled.texts),
        "target_labels": labels,
        "target_labels_checksum": domains.labels_checksum(labels) if labels else None,
        "warnings": dict(domains.warnings),
    }
    device, precision = torch.device("cpu"), "32"
    if session is not None:
        device, precision = session.device, session.precision
        counts["parameters"] = sum(p.numel() for p in session.encoder.parameters())
        counts["truncated"] = {part: asdict(cut) for part, cut in session.truncation.items()}
    return {
        "format": FORMAT,
        "key": config.key,
        "source": domains.source,
        "target": domains.target,
        "task": "extraction" if task.kind == "token" else "classification",
        "headline": task.headline,
        "method": values["method"],
        "role": role(values),
        "seed": values["seed"],
        "counts": counts,
        "config": redacted({name: value for name, value in values.items() if name != "paths"}),  # no machine's paths
        "versions": versions(),
        "hardware": hardware(device, precision),
        "command": command_line(["domadapt", *sys.argv[1:]]),
    }


def _with_task(config: RunConfig, task: dict[str, Any]) -> RunConfig:
    """With the task as the source has told it."""
    return replace(config, values=config.values | {"task": task})


def _write(metrics: dict[str, Any], status: Status) -> dict[str, Any]:
    status.check_folder()
    metrics = struck(plain_json(metrics | {"seconds": status.seconds, "attempts": status.attempts}))
    text = json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(status.path.with_name("metrics.json"), text)
    return metrics


def _warn(warnings: Mapping[str, int]) -> None:
    for message, count in sorted(warnings.items()):
        log.warning("%s (%d times)", message, count)


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
