"""One cell of a benchmark: build, fit, select, test, write metrics.json."""

import json
import logging
import math
import os
import shlex
import sys
import time
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback, TQDMProgressBar
from pytorch_lightning.loggers.logger import Logger
from torch import Tensor

from domadapt.benchmarking.cells import cell_key, run_folder
from domadapt.data.batches import StepLoader
from domadapt.data.domains import SealedTest
from domadapt.data.records import Record
from domadapt.evaluate import predict_examples
from domadapt.files import write_atomic
from domadapt.module import Adapter
from domadapt.prediction import save_model
from domadapt.provenance import hardware, versions
from domadapt.redact import redact, redacted
from domadapt.setup import Setting, build, check_numbers, make, plain
from domadapt.tasks.scores import Scores
from domadapt.tasks.task import Prediction
from domadapt.tracking.tracker import flat, tracking

log = logging.getLogger(__name__)
FORMAT = 1  # of metrics.json


class KeepBest(Callback):
    """Score every epoch on source dev and keep the weights with the best value.

    Args:
        setting: what the run works with.
        validator: see :mod:`domadapt.selection`.
        batch_size: of evaluation.
    """

    def __init__(self, setting: Setting, validator: Any, batch_size: int) -> None:
        self.setting, self.validator, self.batch_size = setting, validator, batch_size
        self.kept: dict[str, Tensor] = {}
        self.curve: list[dict[str, Any]] = []
        self.best: int | None = None

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Evaluate, and keep the weights if they are the best so far; the earlier epoch wins a tie."""
        assert isinstance(module, Adapter)
        losses = module.mean_losses()
        if not math.isfinite(losses["total"]):
            raise ValueError(
                f"the loss is {losses['total']} in epoch {trainer.current_epoch + 1} ({losses}); "
                f"lower trainer.learning_rate, or the weight of the loss that grew"
            )
        scores = source_dev_scores(self.setting, self.batch_size)
        value = self.validator(scores, self.setting.task.headline)
        self.curve.append(
            {
                "epoch": trainer.current_epoch + 1,
                "step": trainer.global_step,
                "losses": losses,
                "source_dev": scores,
                "selection": value,
            }
        )
        for logger in trainer.loggers:
            logger.log_metrics(flat(self.curve[-1]), trainer.global_step)
        if self.best is None or value > self.curve[self.best]["selection"]:
            self.best = len(self.curve) - 1
            self.kept = {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}


def train(cfg: DictConfig) -> dict[str, Any]:
    """Train, select and test one configuration.

    Args:
        cfg: a composed ``train.yaml``.

    Returns:
        The content of the run folder's ``metrics.json``. A finished run is not repeated.

    Raises:
        ValueError: naming the setting or file, its value, what was expected and the fix.
    """
    key = cell_key(cfg)
    folder = run_folder(cfg)
    finished = folder / "metrics.json"
    if finished.is_file():
        metrics: dict[str, Any] = json.loads(finished.read_text(encoding="utf-8"))
        if metrics.get("key") == key:
            log.info("%s is finished: not run again", folder)
            return metrics
        raise ValueError(f"paths.run={folder}: holds the results of another run; name another folder, or move that one")
    check_numbers(cfg)
    with tracking(cfg, key, folder) as tracker:
        metrics = _run(cfg, key, folder, tracker.logger)
        tracker.finish(metrics)
    return metrics


def _run(cfg: DictConfig, key: str, folder: Path, logger: Logger | None) -> dict[str, Any]:
    clock = [time.perf_counter()]
    _reproducible(cfg)
    setting, sealed = build(cfg)
    folder.mkdir(parents=True, exist_ok=True)
    for message, count in sorted(setting.warnings.items()):
        log.warning("%s (%d times)", message, count)
    for module in (setting.encoder, *setting.methods.values()):
        module.to(setting.device)
    clock.append(time.perf_counter())
    stages: dict[str, Any] = {}
    for method in setting.methods.values():
        stages |= method.prepare(setting.encoder, setting)
    clock.append(time.perf_counter())
    keeper = fit(cfg, setting, logger)
    save_model(setting, cfg, folder / "model")  # before the test: whatever is wrong with it, the model is kept
    clock.append(time.perf_counter())
    known = Counter(setting.warnings)
    scores = final_evaluation(cfg, setting, sealed, folder)
    for message, count in sorted((setting.warnings - known).items()):
        log.warning("%s (%d times)", message, count)
    clock.append(time.perf_counter())
    metrics = {"format": FORMAT, "key": key, **summary(cfg, setting, keeper), **scores, "stages": stages}
    spans = [end - start for start, end in pairwise(clock)]
    metrics["seconds"] = dict(zip(("build", "prepare", "fit", "evaluate"), spans, strict=True))
    write_atomic(folder / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False, default=str))
    return metrics


def summary(cfg: DictConfig, setting: Setting, keeper: KeepBest) -> dict[str, Any]:
    """What metrics.json says of a run besides its scores: what was run, on what, and what was chosen."""
    assert keeper.best is not None
    return {
        "source": setting.domains.source,
        "target": setting.domains.target,
        "task": "extraction" if setting.task.kind == "token" else "classification",
        "headline": setting.task.headline,
        "method": cfg.method,
        "role": role(cfg),
        "seed": cfg.seed,
        "selection": {"validator": keeper.validator.name, "epoch": keeper.curve[keeper.best]["epoch"]},
        "curve": keeper.curve,
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


def fit(cfg: DictConfig, setting: Setting, logger: Logger | None = None) -> KeepBest:
    """Train with Lightning and put the chosen epoch's weights back."""
    options = cfg.trainer
    loader = StepLoader(
        setting.source,
        setting.target or None,
        setting.collator,
        options.batch_size,
        options.target_batch_size,
        setting.seed,
    )
    steps = len(loader) * options.epochs
    module = Adapter(setting, options.learning_rate, options.weight_decay, options.warmup, options.gradient_clip, steps)
    keeper = KeepBest(setting, make(cfg.selection), options.evaluation_batch_size)
    callbacks: list[Callback] = [keeper] if setting.quiet else [keeper, TQDMProgressBar(leave=False)]
    trainer = pl.Trainer(
        accelerator="cpu" if setting.device.type == "cpu" else "auto",
        devices=1,
        max_epochs=options.epochs,
        precision=setting.precision,  # type: ignore[arg-type]
        deterministic="warn",
        logger=logger or False,
        log_every_n_steps=1,  # the tracker thins out
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=not setting.quiet,
    )
    module.train()  # pretrained models come in evaluation mode, and Lightning leaves them in it: no dropout
    pl.seed_everything(setting.seed, verbose=False)  # training's randomness, whatever a method's stage has used
    trainer.fit(module, train_dataloaders=loader)
    module.load_state_dict(keeper.kept)
    module.to(setting.device)
    return keeper


def source_dev_scores(setting: Setting, batch_size: int) -> Scores:
    """Scores on the source's dev part."""
    records = setting.domains.source_dev
    predictions = predict_examples(setting.encoder, setting.dev, setting, batch_size, "source dev")
    return setting.task.score(records, predictions)


def final_evaluation(cfg: DictConfig, setting: Setting, sealed: SealedTest | None, folder: Path) -> dict[str, Any]:
    """Open the sealed test, once, after training and selection are over."""
    batch_size = cfg.trainer.evaluation_batch_size
    result: dict[str, Any] = {"source_dev": source_dev_scores(setting, batch_size)}
    if setting.domains.source_test:
        result["source_test"] = _scores(setting, setting.domains.source_test, "source test", batch_size)[0]
    if sealed is None:
        return {**result, "target_test": None}
    records = setting.task.usable(sealed.open(), setting.warnings)
    result["target_test"], predictions = _scores(setting, records, "target test", batch_size)
    seen = {r.text for r in setting.domains.unlabeled.texts} | {r.text for r in setting.domains.source_train}
    clean = [i for i, r in enumerate(records) if r.text not in seen]
    result["target_test_clean"] = (
        setting.task.score([records[i] for i in clean], [predictions[i] for i in clean]) if clean else None
    )
    result["target_test_sizes"] = {"all": len(records), "clean": len(clean)}
    lines = [json.dumps(_row(r, p), ensure_ascii=False) for r, p in zip(records, predictions, strict=True)]
    write_atomic(folder / "predictions.jsonl", "".join(line + "\n" for line in lines))
    return result


def _scores(
    setting: Setting, records: tuple[Record, ...], part: str, batch_size: int
) -> tuple[Scores, list[Prediction]]:
    parses = any(m.parses_at_prediction for m in setting.methods.values())
    examples = setting.examples(records, part, parses, labelled=True)
    predictions = predict_examples(setting.encoder, examples, setting, batch_size, part)
    return setting.task.score(records, predictions), predictions


def _row(record: Record, prediction: Prediction) -> dict[str, Any]:
    def spans(items: Any) -> list[dict[str, Any]]:
        return [{"start": s.start, "end": s.end, "type": s.type} for s in items or ()]

    return {
        "id": record.id,
        "text": record.text,
        "words": record.words,
        "gold": {"label": record.label, "spans": spans(record.spans)},
        "predicted": {"label": prediction.label, "spans": spans(prediction.spans)},
        "confidence": round(prediction.confidence, 4),
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
    if cfg.trainer.threads:
        torch.set_num_threads(cfg.trainer.threads)
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    # Lightning's advice on loader workers: batches are collated faster than a worker could be reached.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*Trying to infer the `batch_size`.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*deprecated")  # Lightning 2.6 beside torch 2.13
