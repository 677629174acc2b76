"""One cell of a benchmark: locked, run or gone on with, and tested. What it comes to is its metrics.json."""

import json
import logging
import shlex
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning.loggers.logger import Logger

from domadapt.analysis.expected import calibration_under_shift, expected_score, temperature
from domadapt.config.resolvers import ORACLE, role, with_labels_once
from domadapt.data.domains import Domains, SealedTest, TargetUnlabelled
from domadapt.data.records import Record
from domadapt.data.texts import copy_key
from domadapt.inference.description import RUN_FILES
from domadapt.inference.model import write_model
from domadapt.inference.thresholds import count_confidences
from domadapt.methods.rule_baseline import PathRules
from domadapt.methods.session import Evaluation, Session
from domadapt.runs.groups import load
from domadapt.runs.key import data_key, files_named, hardware, versions
from domadapt.runs.metrics import FORMAT
from domadapt.runs.status import LOCK, Busy, Status, finished, read_results, read_status, run_lock, set_aside
from domadapt.syntax.parser import Parse, Parser, Text
from domadapt.tasks.task import Prediction, Scores, Task, span_row
from domadapt.tracking.tracker import tracking
from domadapt.training import build
from domadapt.training.card import audit_own_files, label_target, leave_card, score_warnings, write_predictions
from domadapt.training.distributed import make_reproducible, settings_of_torch
from domadapt.training.epochs import LAST, Epochs, fit
from domadapt.training.options import RunConfig
from domadapt.training.problem import Problem
from domadapt.training.sharing import SharedCeiling, SharedNetwork
from domadapt.utils.files import clear_parts, refuse_overwriting, replace_folder, write_atomic
from domadapt.utils.redact import redact, redacted, without_secrets
from domadapt.utils.text import json_lines, plain_json, warning_lines
from domadapt.utils.work import progress

log = logging.getLogger(__name__)
# What a run writes, and what is in the folders that it replaces or deletes as a whole.
FILES = (*RUN_FILES, "model")
FOLDERS = {
    "model": ("domadapt.json", "encoder", "methods.safetensors", "source_dev.json", "SHA256SUMS"),
    "checkpoint": ("*.safetensors", ".*"),
}
TRAINING_LOCK = threading.RLock()  # random numbers are the process's: two threads would draw each other's


def train(config: RunConfig, wait: bool = True) -> dict[str, Any]:
    """Train, select and test one run; go on from the last checkpoint of a run that was killed.

    What ``metrics.json`` holds; a finished run is not repeated. If another process runs this cell, ``wait`` for its
    result, or raise :class:`Busy`, as a benchmark does; its failures keep their folders, those of one run do not.
    """
    folder = config.folder
    if (metrics := finished(folder, config.key)) is not None:
        if config.options.regret and not metrics["config"]["trainer"].get("regret"):  # which is not part of the key
            fix = "it lacks other validators' choices; move the folder away, and it is run again"
            log.warning("%s: was run without trainer.regret: %s", folder, fix)
        return metrics
    for name in FILES:
        refuse_overwriting(folder / name, files_named(config.values["data"]), "paths.run")
    refuse_files_of_others(folder)
    refuse_checkpoint_of_another(folder, config.key)
    if (source_run := build.source_only(config.composed)) is not None:
        build.refuse_early(config.composed)  # which tells what is odd in methods' files, too
        if finished(source_run.folder, source_run.key) is None:
            log.info("two networks are trained: first the source-only one, then the adapted one")
            train(source_run)
        if not (source_run.folder / "model").is_dir():
            gone = "is finished, but its model/, which this run learns from, is gone"
            raise ValueError(f"{source_run.folder}: {gone}; move that folder away, and it is trained again")
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        return _locked(config, wait=False, keep_failure=not wait)
    except Busy as busy:
        if not wait:
            raise
        if read_status(folder).get("key", config.key) != config.key:
            raise ValueError(f"{busy}, with other settings; choose another paths.run") from None
        log.info("%s; waiting for its result", busy)
        return _locked(config, wait=True, keep_failure=False)
    except BaseException:
        if wait:
            for path in new:
                with suppress(OSError):  # of one that holds something
                    path.rmdir()
        raise


def _locked(config: RunConfig, wait: bool, keep_failure: bool) -> dict[str, Any]:
    """With the run's lock held; ``keep_failure`` says whether one is kept in the folder though nothing else is."""
    folder = config.folder
    redacted(config.values)  # known from here on
    with run_lock(folder, wait), TRAINING_LOCK:
        clean(folder)
        status = Status(folder, config.key)
        if (metrics := read_results(folder, config.key)) is not None:  # by who held the lock, or was killed then
            log.info("%s is finished: not run again (by another process, or before it was killed)", folder)
        else:
            set_aside(folder)
            forget_another(folder, config.key)
            try:
                with settings_of_torch(), tracking(config.values, config.key, folder, status.attempts) as tracker:
                    metrics = run(config, status, tracker)
                    if tracker:
                        tracker.metrics = metrics  # last uploads take their time: metrics.json is there by now
            except BaseException as error:
                status.failed(error)
                if not keep_failure:
                    status.forget()
                raise
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        status.finished()
    return metrics


def refuse_files_of_others(folder: Path) -> None:
    """Refuse a run's folder with files that a run does not write, where it would replace them."""
    if not any((folder / name).exists() for name in (LOCK, *RUN_FILES[:2])):  # it is no run's
        for path in (folder / name for name in FILES):
            if path.is_file() or (path.name != "model" and path.exists()):
                raise ValueError(f"{path}: not written by domadapt, which replaces it; choose another paths.run")
    for name, patterns in FOLDERS.items():
        for path in (folder / name).glob("*"):
            if not any(path.match(pattern) for pattern in patterns):
                raise ValueError(f"{path}: not written by domadapt, which replaces {name}/; choose another paths.run")


def clean(folder: Path) -> None:
    """Delete what a killed attempt has left half written."""
    refuse_files_of_others(folder)
    for name in FILES:
        clear_parts(folder / name)
    for part in (folder / "checkpoint").glob(".*"):
        shutil.rmtree(part, ignore_errors=True)


def refuse_checkpoint_of_another(folder: Path, key: str) -> None:
    """Refuse the folder of a run that was stopped, from whose checkpoint another command goes on."""
    if read_status(folder).get("key", key) != key and (folder / "checkpoint" / LAST).exists():
        told = "holds the checkpoint of another run, of other settings or versions, whose command goes on from it"
        raise ValueError(f"paths.run={folder}: {told}. Name another folder, or move that one")


def forget_another(folder: Path, key: str) -> None:
    """Delete what a killed attempt at another run has left: this one may write no card, or no model, to replace it."""
    refuse_checkpoint_of_another(folder, key)  # again: who held the lock may have been killed meanwhile
    if read_status(folder).get("key", key) != key:
        shutil.rmtree(folder / "model", ignore_errors=True)
        for name in RUN_FILES[2:]:  # all but metrics.json and status.json, which are written anew in any case
            (folder / name).unlink(missing_ok=True)
        for path in folder.glob("fifty_to_label.*"):  # which may hold somebody's labels
            path.replace(path.with_name(f"before.{path.name}"))


def run(config: RunConfig, status: Status, logger: Logger | None) -> dict[str, Any]:
    """Train, select and test in a run folder that is locked; gives what it has written to metrics.json."""
    cfg = config.composed
    if (rules := build.make_rules(cfg)) is not None:
        with status.during("build"):
            problem, parser = build.read_for_rules(cfg)
        scores = run_rules(rules, problem, parser, config.folder, status)
        about = summary(config.with_task(problem.task_config), problem.domains, problem.task)
        return write_metrics(about | scores, status)
    with status.during("build"):
        make_reproducible(config.values["seed"], config.options.threads)
        validators = list(build.make_validators(cfg))
        session, sealed = build.build(cfg)
        source_only = load(session.source_only / "metrics.json") if session.source_only else None
        told = Counter(source_only["counts"]["warnings"] if source_only else {})
        for warning in warning_lines(session.domains.warnings - told):
            log.warning("%s", warning)
    network, ceiling = SharedNetwork(config, session), SharedCeiling(config, session.domains, sealed)
    config = config.with_task(session.task_config)
    options = replace(config.options, regret=config.options.regret and sealed is not None)
    epochs = Epochs(config.folder / "checkpoint", config.key, session, validators, options, status, network.is_shared)
    with ceiling.lock():
        if (stored := ceiling.take(config.folder, session.domains.source)) is not None:
            this_run = summary(config, session.domains, session.task)
            own = {name: this_run[name] for name in ("key", "source", "data", "config", "command")}
            return write_metrics(stored | own, status)
        metrics = learn(config, epochs, sealed, network, logger)
        metrics = write_metrics(metrics | ({"ceiling": ceiling.key} if ceiling.key else {}), status)
        ceiling.keep(config.folder)
    return metrics


def learn(
    config: RunConfig, epochs: Epochs, sealed: SealedTest | None, network: SharedNetwork, logger: Logger | None
) -> dict[str, Any]:
    """Fit, select, test; without target labels, label the target."""
    session, status, chosen, folder = epochs.session, epochs.status, epochs.chosen_validator, config.folder
    found_odd = audit_own_files(config, session)
    stages: dict[str, Any] = {}
    with status.during("prepare"):
        for name, method in session.methods.items():
            attached = {*method.state_dict()}
            stages |= plain_json(method.prepare())  # told now, not after training, if it can't be recorded
            if method.used_at_prediction and (made := sorted(method.state_dict().keys() - attached)):
                why = "a loaded model has no place for them; make them in attach()"
                raise ValueError(f"{name}.prepare() makes the weights {made}: {why}")
    with network.lock():
        if not network.take(epochs, logger):
            with status.during("fit"):
                fit(config.options, session, epochs, logger)
                network.keep(epochs)
        epochs.compare()
    with status.during("save"):  # before the test: whatever goes wrong there, the model is kept
        epoch = len(epochs.curve) if chosen.uses_target_labels else epochs.best(chosen)
        dev = save_epoch(epochs, epoch, config)
    with status.during("evaluate"):
        known = Counter(session.domains.warnings)
        tested = test(session, sealed, epochs, epoch) if sealed is not None else None
        if tested and chosen.uses_target_labels:
            dev = save_epoch(epochs, epoch := tested.best(session.task.headline), config)
        scores = final_scores(session, tested, epochs, epoch, dev, folder)
        for warning in warning_lines(session.domains.warnings - known):
            log.warning("%s", warning)
    if sealed is None:
        with status.during("label target"):
            labelled = label_target(session, epochs.batch_size, folder / "predictions.jsonl")
    metrics = {**summary(config, session.domains, session.task, session), "training": network.key}
    metrics |= {"curve": epochs.curve, **scores, "stages": stages}
    if chosen.uses_target_labels:
        metrics["method"] += ORACLE
    if sealed is None:
        leave_card(session, labelled, metrics, found_odd, folder)
    return metrics


def save_epoch(epochs: Epochs, epoch: int, config: RunConfig) -> Evaluation:
    """Put back an epoch's weights, calibrate confidences on source dev, save the model; what it predicts there."""
    session = epochs.session
    epochs.restore(epoch)
    rows = session.evaluate(session.dev, epochs.batch_size, "source dev").rows
    session.task.temperature = temperature(rows)
    dev = session.evaluate(session.dev, epochs.batch_size, "source dev")
    counts = count_confidences(session.domains.source_dev, dev.predictions, session.task.names)
    replace_folder(config.folder / "model", lambda part: write_model(session, config.values, counts, part))
    return dev


def summary(config: RunConfig, domains: Domains, task: Task, session: Session | None = None) -> dict[str, Any]:
    """What metrics.json says of a run besides its scores: what was run, and on what; no session, no network."""
    labels, values = domains.target_labels, config.values
    counts: dict[str, Any] = {"source_train": len(domains.source_train), "source_dev": len(domains.source_dev)}
    counts |= {"target_unlabelled": len(domains.unlabelled.texts), "target_labels": labels}
    counts["target_labels_checksum"] = domains.labels_checksum(labels) if labels else None
    counts["warnings"] = dict(domains.warnings)
    from_shell = sys.argv[1:2] in (["train"], ["benchmark"])  # else these are a notebook's or somebody's program's
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
        "method": with_labels_once(values["method"], values["target_labels"]),
        "role": role(values),
        "seed": values["seed"],
        "data": data_key(values["data"]),
        "counts": counts,
        "config": redacted({name: value for name, value in values.items() if name != "paths"}),  # no machine's paths
        "versions": versions(),
        "hardware": hardware(device, precision),
        "command": shlex.join(map(redact, ["domadapt", *sys.argv[1:]])) if from_shell else None,
    }


def write_metrics(metrics: dict[str, Any], status: Status) -> dict[str, Any]:
    """Write metrics.json, with seconds and the time, without secrets; gives its content."""
    status.check_folder()
    told = {"seconds": status.seconds, "attempts": status.attempts, "written": datetime.now(UTC).isoformat()}
    metrics = without_secrets(plain_json(metrics | told))
    text = json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(status.path.with_name("metrics.json"), text)
    return metrics


# The target test, which is opened after training and selection are over -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Scored:
    """What was read behind the seal: the chosen epoch's predictions on the target test, or every epoch's."""

    records: tuple[Record, ...]
    evaluations: dict[int, Evaluation]
    scores: dict[int, Scores]

    def best(self, headline: str) -> int:
        """The oracle's epoch; the earlier one wins a tie."""
        return max(self.scores, key=lambda epoch: (self.scores[epoch][headline], -epoch))


def test(session: Session, sealed: SealedTest, epochs: Epochs, epoch: int) -> Scored:
    """Open the target test. The chosen epoch comes last, so that its weights stay."""
    records = session.task.usable(sealed.open(), session.domains.warnings)
    session.task.check(records)
    # Parser, encoder and methods, whoever wrote them, predict from texts that have no label.
    texts = TargetUnlabelled.from_records(session.domains.target, records).texts
    examples = session.examples(texts, "target test", session.parses_at_prediction, labelled=False)
    targets = session.task.targets(records, [example.words for example in examples], session.domains.warnings)
    (gold,) = targets.values()
    tested = Scored(records, {}, {})
    others = [line["epoch"] for line in epochs.curve if line["epoch"] != epoch] if epochs.tests_all else []
    for current in (*others, epoch):
        epochs.restore(current)
        if epochs.chosen_validator.uses_target_labels:  # it may take any of them: each has confidences of its own
            dev = session.evaluate(session.dev, epochs.batch_size, "source dev")
            session.task.temperature = temperature(dev.rows)
        evaluation = session.evaluate(examples, epochs.batch_size, f"target test, epoch {current}")
        places = zip(evaluation.rows.texts.tolist(), evaluation.rows.words.tolist(), strict=True)
        classes = np.array([np.atleast_1d(gold[text])[word] for text, word in places], dtype=np.int64)
        tested.evaluations[current] = replace(evaluation, rows=replace(evaluation.rows, classes=classes))
        tested.scores[current] = session.task.score(records, evaluation.predictions)
    return tested


def final_scores(
    session: Session, tested: Scored | None, epochs: Epochs, epoch: int, dev: Evaluation, folder: Path
) -> dict[str, Any]:
    """What metrics.json says of the chosen epoch, whose weights are in place, and of what others would have chosen."""
    headline, scores = session.task.headline, tested.scores if tested else {}
    picked = {v.name: epochs.best(v) for v in epochs.validators if epochs.has_value(v)}
    if epochs.tests_all and tested:
        picked["oracle"] = tested.best(headline)
    result: dict[str, Any] = {
        "selection": {
            "validator": epochs.chosen_validator.name,
            "epoch": epoch,
            "gap": scores[picked["oracle"]][headline] - scores[epoch][headline] if "oracle" in picked else None,
            "choices": {name: {"epoch": e, "target_test": scores.get(e)} for name, e in picked.items()},
        },
        "source_dev": next(line["source_dev"] for line in epochs.curve if line["epoch"] == epoch),
    }
    result["calibration"] = calibration_under_shift(dev.rows, tested.evaluations[epoch].rows if tested else None)
    if any(r.domain != session.domains.target for r in session.domains.source_dev):  # not of the ceiling
        target = session.evaluate(session.validation, epochs.batch_size, "target validation")
        result["expected"] = expected_score(dev.rows, target.rows, session.task)
    if len(scores) == len(epochs.curve):
        result["selection"]["target_curve"] = [scores[line["epoch"]][headline] for line in epochs.curve]
    if session.domains.source_test:
        records = session.domains.source_test
        examples = session.examples(records, "source test", session.parses_at_prediction, labelled=True)
        source = session.evaluate(examples, epochs.batch_size, "source test")
        result["source_test"] = session.task.score(records, source.predictions)
    if tested is None:
        return {**result, "target_test": None}
    predictions = tested.evaluations[epoch].predictions
    for warning in score_warnings(session.task, tested.records, predictions, epochs.curve, epoch):
        log.warning("%s", warning)
    return result | scores_on_test(session.task, session.domains, tested.records, predictions, scores[epoch], folder)


def scores_on_test(
    task: Task,
    domains: Domains,
    records: Sequence[Record],
    predictions: Sequence[Prediction],
    scores: Scores,
    folder: Path,
) -> dict[str, Any]:
    """What metrics.json says of the target test; the predictions go into ``folder``."""
    # Dev, too: it chooses the epoch.
    read: list[Text] = [*domains.unlabelled.texts, *domains.source_train, *domains.source_dev]
    seen = {copy_key(text.text) for text in read}  # as the audit knows copies: without case, spaces and marks
    clean = [(r, p) for r, p in zip(records, predictions, strict=True) if copy_key(r.text) not in seen]
    rows = (_row(r, p) for r, p in zip(records, predictions, strict=True))
    write_atomic(folder / "predictions.jsonl", "".join(json_lines(rows)))
    fair = task.score([r for r, _ in clean], [p for _, p in clean]) if clean else None
    sizes = {"all": len(records), "clean": len(clean)}
    return {"target_test": scores, "target_test_clean": fair, "target_test_sizes": sizes}


def _row(record: Record, prediction: Prediction) -> dict[str, Any]:
    return {
        "id": record.id,
        "text": record.text,
        "words": record.words,
        "gold": {"label": record.label, "spans": [*map(span_row, record.spans or ())]},
        "predicted": {"label": prediction.label, "spans": [*map(span_row, prediction.spans)]},
        "confidence": round(prediction.confidence, 4),
    }


def run_rules(rules: PathRules, problem: Problem, parser: Parser, folder: Path, status: Status) -> dict[str, Any]:
    """Without a network: learn rules from the source, apply them to the target, and score them as any model is."""
    domains, task, texts = problem.domains, problem.task, problem.domains.unlabelled.texts
    if task.kind != "token":
        raise ValueError("rule_baseline=path_rules: extracts spans, and here texts are classified; leave it out")

    def parse(texts: Sequence[Text], title: str) -> list[Parse]:
        return [*progress(parser.parse(texts), f"parse {title}", len(texts), "text")]

    def predict(texts: Sequence[Text], parses: Sequence[Parse]) -> list[Prediction]:
        return [rules.predict(text, parse) for text, parse in zip(texts, parses, strict=True)]

    def score(records: tuple[Record, ...], title: str) -> dict[str, float]:
        task.check(records)
        return task.score(records, predict(records, parse(records, title)))

    with status.during("prepare"):
        parses = {"source": parse(domains.source_train, "source train"), "target": parse(texts, "target unlabelled")}
    with status.during("fit"):
        learnt = rules.learn(domains.source_train, parses["source"])
        for name, value in learnt.items():
            log.info("%s: %s", name, "\n  ".join(["", *value]) if isinstance(value, list) else value)
    with status.during("evaluate"):
        result: dict[str, Any] = {"stages": learnt, "source_dev": score(domains.source_dev, "source dev"), "curve": []}
        if domains.source_test:
            result["source_test"] = score(domains.source_test, "source test")
        if problem.sealed is not None:
            records = task.usable(problem.sealed.open(), domains.warnings)
            unlabelled = TargetUnlabelled.from_records(domains.target, records).texts
            predictions = predict(unlabelled, parse(unlabelled, "target test"))
            scores = task.score(records, predictions)
            return result | scores_on_test(task, domains, records, predictions, scores, folder)
        write_predictions(texts, predict(texts, parses["target"]), task.kind, folder / "predictions.jsonl")
    return {**result, "target_test": None}
