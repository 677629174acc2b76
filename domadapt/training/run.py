"""One run: instantiate, fit, select, test. What it comes to is metrics.json."""

import json
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from pytorch_lightning.loggers.logger import Logger

from domadapt.analysis.expected import temperature
from domadapt.config.resolvers import role
from domadapt.data.domains import Domains, SealedTest
from domadapt.inference.evaluate import Evaluation, evaluate
from domadapt.inference.model import save_model
from domadapt.inference.thresholds import counted
from domadapt.methods.session import Session
from domadapt.runs.key import hardware, versions
from domadapt.runs.metrics import FORMAT
from domadapt.runs.status import Status
from domadapt.tasks.task import Task
from domadapt.training import build
from domadapt.training.card import audit_own_files, label_target, leave_card
from domadapt.training.distributed import reproducible
from domadapt.training.epochs import Epochs
from domadapt.training.fit import fit
from domadapt.training.options import RunConfig
from domadapt.training.rule_baseline import run_rules
from domadapt.training.sharing import SharedCeiling, SharedNetwork
from domadapt.training.test import final_scores, test
from domadapt.utils.files import write_atomic
from domadapt.utils.redact import command_line, redacted, struck
from domadapt.utils.text import plain_json

log = logging.getLogger(__name__)


def run(config: RunConfig, status: Status, logger: Logger | None) -> dict[str, Any]:
    """Train, select and test in a run folder that is locked; gives what it has written to metrics.json."""
    cfg = config.composed
    if (rules := build.make_rules(cfg)) is not None:
        with status.during("build"):
            problem = build.read_problem(cfg)
            parser = build.parse_cache(cfg, problem.domains)
            build.refuse_foreign_trees([f"floor={name}" for name in cfg.floor], problem.domains, parser.name)
        scores = run_rules(rules, problem, parser, config.folder, status)
        return written(summary(config.with_task(problem.task_config), problem.domains, problem.task) | scores, status)
    with status.during("build"):
        reproducible(config.values["seed"], config.options.threads)
        validators = list(build.make_validators(cfg.selection))
        session, sealed = build.build(cfg)
        _warn(session.domains.warnings)
    network, ceiling = SharedNetwork(config, session), SharedCeiling(config, session.domains, sealed)
    config = config.with_task(session.task_config)
    options = replace(config.options, regret=config.options.regret and sealed is not None)
    epochs = Epochs(config.folder / "checkpoint", config.key, session, validators, options, status, network.shared)
    with ceiling.once():
        if (found := ceiling.take(config.folder, session.domains.source)) is not None:
            told = summary(config, session.domains, session.task)
            return written(found | {name: told[name] for name in ("key", "source", "config", "command")}, status)
        metrics = learn(config, epochs, sealed, network, logger)
        metrics = written(metrics | ({"ceiling": ceiling.key} if ceiling.key else {}), status)
        ceiling.made(config.folder)
    return metrics


def learn(
    config: RunConfig, epochs: Epochs, sealed: SealedTest | None, network: SharedNetwork, logger: Logger | None
) -> dict[str, Any]:
    """Fit, select, test; without target labels, label the target."""
    session, status, chosen, folder = epochs.session, epochs.status, epochs.chosen, config.folder
    found_odd = audit_own_files(config, session)
    stages: dict[str, Any] = {}
    with status.during("prepare"):
        for method in session.methods.values():
            stages |= plain_json(method.prepare())  # told now, not after training, if it can't be recorded
    with network.once():
        if not network.take(epochs, logger):
            with status.during("fit"):
                fit(config.options, session, epochs, logger)
                network.keep(epochs)
        epochs.compare()
    with status.during("save"):  # before the test: whatever goes wrong there, the model is kept
        epoch = len(epochs.curve) if chosen.uses_target_labels else epochs.best(chosen)
        dev = settle(epochs, epoch, config)
    with status.during("evaluate"):
        known = Counter(session.domains.warnings)
        tested = test(session, sealed, epochs, epoch) if sealed is not None else None
        if tested and chosen.uses_target_labels:
            dev = settle(epochs, epoch := tested.best(session.task.headline), config)
        scores = final_scores(session, tested, epochs, epoch, dev, folder)
        _warn(session.domains.warnings - known)
    if sealed is None:
        with status.during("label target"):
            labelled = label_target(session, epochs.batch_size, folder / "predictions.jsonl")
    metrics = {**summary(config, session.domains, session.task, session), "training": network.key}
    metrics |= {"curve": epochs.curve, **scores, "stages": stages}
    if chosen.uses_target_labels:
        metrics["method"] += "+oracle_selection"
    if sealed is None:
        leave_card(session, labelled, metrics, found_odd, folder)
    return metrics


def settle(epochs: Epochs, epoch: int, config: RunConfig) -> Evaluation:
    """Put back an epoch's weights, calibrate confidences on source dev, save the model; what it predicts there."""
    session = epochs.session
    epochs.restore(epoch)
    rows = evaluate(session.dev, session, epochs.batch_size, "source dev").rows
    wrong = (rows.probabilities.argmax(-1) != rows.classes).any()  # else nothing tells how sure it may be
    session.task.temperature = temperature(rows) if wrong else 1.0
    dev = evaluate(session.dev, session, epochs.batch_size, "source dev")
    session.found_on_dev = counted(session.domains.source_dev, dev.predictions, session.task.names)
    save_model(session, config.values, config.folder / "model")
    return dev


def summary(config: RunConfig, domains: Domains, task: Task, session: Session | None = None) -> dict[str, Any]:
    """What metrics.json says of a run besides its scores: what was run, and on what; no session, no network."""
    labels, values = domains.target_labels, config.values
    counts: dict[str, Any] = {"source_train": len(domains.source_train), "source_dev": len(domains.source_dev)}
    counts |= {"target_unlabelled": len(domains.unlabelled.texts), "target_labels": labels}
    counts["target_labels_checksum"] = domains.labels_checksum(labels) if labels else None
    counts["warnings"] = dict(domains.warnings)
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


def written(metrics: dict[str, Any], status: Status) -> dict[str, Any]:
    """As metrics.json has it: with seconds, and without secrets."""
    status.check_folder()
    metrics = struck(plain_json(metrics | {"seconds": status.seconds, "attempts": status.attempts}))
    text = json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(status.path.with_name("metrics.json"), text)
    return metrics


def _warn(warnings: Mapping[str, int]) -> None:
    for message, count in sorted(warnings.items()):
        log.warning("%s (%d times)", message, count)
