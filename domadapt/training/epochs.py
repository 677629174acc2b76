"""Epochs: one step of both sides, what is scored and kept after each epoch, and which is chosen."""

import json
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers.logger import Logger
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from domadapt.data.loaders import StepBatches
from domadapt.inference.evaluate import evaluate
from domadapt.methods.method import Step, View
from domadapt.methods.session import Session
from domadapt.runs.status import Status
from domadapt.selection.validators import Evidence, Validator, best_epoch, save_evidence
from domadapt.tasks.rows import Predicted
from domadapt.tracking.tracker import STEP, STEP_LOSSES, flat
from domadapt.training.distributed import mean_over_ranks, of_all_ranks, seed_of_rank
from domadapt.training.options import TrainerOptions
from domadapt.utils import checkpoint
from domadapt.utils.runtime import random_state, set_random_state


class AdaptationModule(pl.LightningModule):
    """Trains an encoder on labelled source text with any methods on top.

    Args:
        session: what :func:`domadapt.training.build.build` made.
        options: of learning rate, weight decay, warm-up and clipping.
        steps: total steps.
    """

    def __init__(self, session: Session, options: TrainerOptions, steps: int) -> None:
        super().__init__()
        self.session, self.options, self.steps = session, options, steps
        self.encoder: nn.Module = session.encoder
        self.methods = nn.ModuleDict({name.replace(".", "_"): m for name, m in session.methods.items()})
        added = session.methods.values()
        self.weights = {"task": 1.0} | {name: w for method in added for name, w in method.weights.items()}
        self.sums: dict[str, float] = {}
        self.seen = 0
        self.step: Step | None = None
        self.shown: dict[str, str] = {}  # beside the progress bar
        self.clock, self.texts = time.monotonic(), 0

    def training_step(self, batches: StepBatches, index: int) -> Tensor:
        """Losses of one step; methods read the very states the task was trained on."""
        session = self.session
        source = View(batches.source, session, batches.source_weight)
        target = View(batches.target, session, batches.target_weight) if batches.target is not None else None
        self.step = step = Step(source, target, self.current_epoch, self.global_step / max(1, self.steps))
        losses = {"task": source.weight * session.task.loss(source.output, source.batch)}
        for method in session.methods.values():
            losses |= method.losses(step)
        total = torch.stack([self.weights[name] * value for name, value in losses.items()]).sum()
        self.texts += sum(len(view.batch.input_ids) for view in step.views)
        self._record({**losses, "total": total})
        return total

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        """The optimiser's step is done: let methods follow it."""
        assert self.step is not None
        for method in self.session.methods.values():
            method.after_step(self.step)
        self.step = None  # and its graph with it

    def configure_optimizers(self) -> Any:
        """Fused AdamW with linear warm-up and decay; biases and norms keep all their weight."""
        rate, decay = self.options.learning_rate, self.options.weight_decay
        groups: list[dict[str, Any]] = [{"params": list(self.encoder.parameters()), "lr": rate}]
        for method in self.session.methods.values():
            groups += method.parameter_groups(rate)
        split = []
        for group in groups:
            trained = [p for p in group["params"] if p.requires_grad]
            split.append({**group, "params": [p for p in trained if p.ndim > 1], "weight_decay": decay})
            split.append({**group, "params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0})
        optimizer = torch.optim.AdamW([group for group in split if group["params"]], lr=rate, fused=True)
        schedule = get_linear_schedule_with_warmup(optimizer, round(self.options.warmup * self.steps), self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        """Let the fused optimizer divide by how much too large the norm is, in its own pass over weights.

        Lightning refuses to clip beside a fused optimizer, which matters only with a gradient scaler.
        """
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
        optimizer.grad_scale = ((norm + 1e-6) / self.options.gradient_clip).clamp(min=1.0)
        optimizer.found_inf = None

    def mean_losses(self) -> dict[str, float]:
        """Mean of each unweighted loss since the last call."""
        means = {name: value / max(1, self.seen) for name, value in self.sums.items()}
        self.sums, self.seen = {}, 0
        return means

    def _record(self, losses: dict[str, Tensor]) -> None:
        names = list(losses)
        values = dict(zip(names, torch.stack([losses[n].detach().float() for n in names]).tolist(), strict=True))
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.seen += 1
        self.shown["loss"] = f"{values['total']:.3f}"
        if self.logger:
            told = {STEP_LOSSES + name: value for name, value in values.items()}
            now = time.monotonic()
            told[f"{STEP}texts_per_second"] = self.texts / max(1e-9, now - self.clock)
            told[f"{STEP}learning_rate"] = self.trainer.optimizers[0].param_groups[0]["lr"]
            self.clock, self.texts = now, 0
            self.logger.log_metrics(told, self.global_step + 1)


told = logging.getLogger("domadapt.epochs")  # a line an epoch where there is no terminal to show a bar on


class Epochs(Callback):
    """What is known of the epochs so far: the curve, each one's weights, and a checkpoint to resume from.

    Args:
        folder: for weights and checkpoint; the caller deletes it when the cell is finished.
        key: of the cell.
        session: what the run works with.
        validators: the chosen one first.
        options: of evaluation's batches, and of seconds between checkpoints: a shorter run that is killed starts over.
        status: told of every step.

    Attributes:
        curve: what metrics.json says of each epoch.
        seen: by epoch, rows of the validation sample, for validators that compare epochs.
    """

    def __init__(
        self,
        folder: Path,
        key: str,
        session: Session,
        validators: Sequence[Validator],
        options: TrainerOptions,
        status: Status,
    ) -> None:
        self.folder, self.key, self.session, self.validators = folder, key, session, validators
        self.batch_size, self.status = options.evaluation_batch_size, status
        self.keep_evidence = options.keep_evidence
        self.every, self.written = 0.0 if options.devices > 1 else options.checkpoint_seconds, time.monotonic()
        self.curve: list[dict[str, Any]] = []
        self.random: list[dict[str, Any]] = []
        self.seen: dict[int, Predicted] = {}
        self.began = time.monotonic(), 0  # when, and after how many epochs

    @property
    def last(self) -> Path:
        """The checkpoint to resume from."""
        return self.folder / "last.safetensors"

    def best(self, validator: Validator) -> int:
        """The epoch that a validator chooses."""
        return best_epoch([line["validators"][validator.name] for line in self.curve])

    def rated(self, validator: Validator) -> bool:
        """Whether a validator has a number for any epoch; some have none where nothing is found on the target."""
        return any(not math.isnan(line["validators"].get(validator.name, math.nan)) for line in self.curve)

    def restore(self, epoch: int) -> None:
        """Put back what was scored after an epoch: the encoder's final weights, the methods', what they remember."""
        kept = self.weights(epoch)
        self.session.encoder.load_state_dict(kept["encoder"])
        for name, method in self.session.methods.items():
            method.load_state_dict(kept["methods"][name])
            method.recall(kept["memory"][name])
        for module in (self.session.encoder, *self.session.methods.values()):
            module.to(self.session.device).eval()

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Resumed: go on with the random numbers that would have come."""
        self.began = time.monotonic(), trainer.current_epoch
        if self.random:
            set_random_state(self.random[trainer.global_rank])
        elif trainer.global_rank:
            pl.seed_everything(seed_of_rank(self.session.seed, trainer.global_rank), verbose=False)

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        """Say how far it is."""
        if trainer.is_global_zero:
            self.status.note(
                epoch=trainer.current_epoch + 1,
                epochs=trainer.max_epochs,
                step=trainer.global_step,
                steps=int(trainer.estimated_stepping_batches),
            )

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Score, keep what was scored, and write the checkpoint, in this order: a kill in between repeats the epoch."""
        assert isinstance(module, AdaptationModule)
        losses = mean_over_ranks(module.mean_losses(), trainer)
        if not math.isfinite(losses["total"]):
            raise ValueError(
                f"the loss is {losses['total']} in epoch {trainer.current_epoch + 1} ({losses}); "
                f"lower trainer.learning_rate, or the weight of the loss that grew"
            )
        epoch = trainer.current_epoch + 1
        self.session.readings.forget()
        with final_weights(self.session):
            for method in self.session.methods.values():
                method.after_epoch(trainer.current_epoch)
            if trainer.is_global_zero:
                self.status.check_folder()
                with self.status.during("score"):
                    self.score(epoch, trainer.global_step, losses, trainer.loggers)
                with self.status.during("checkpoint"):
                    self.keep(epoch)
                headline = self.session.task.headline
                module.shown["dev"] = f"{100 * self.curve[-1]['source_dev'][headline]:.1f}"
                if self.session.quiet:
                    since, before = self.began
                    epochs = trainer.max_epochs or epoch
                    left = (time.monotonic() - since) / (epoch - before) * (epochs - epoch)
                    told.info("%s", epoch_line(self.curve[-1], headline, epochs, left))
        trainer.train_dataloader.epoch = epoch  # type: ignore[union-attr]
        if time.monotonic() - self.written >= self.every:
            with self.status.during("checkpoint"):
                self._write(trainer)

    def _write(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.last)  # by rank 0, but all take part
        self.written = time.monotonic()

    def score(self, epoch: int, step: int, losses: dict[str, float], loggers: Sequence[Logger]) -> None:
        """One more line of the curve, of the present weights.

        Args:
            epoch: that is over, counted from 1.
        """
        evidence = self.evidence(epoch)
        self.seen[epoch] = replace(evidence.target, features=evidence.target.features[:, :0])
        if self.keep_evidence:
            save_evidence(evidence, self.folder.with_name("evidence") / f"epoch={epoch}.npz")
        values = {v.name: v(evidence) for v in self.validators if not v.uses_target_labels}
        self.curve.append(
            {
                "epoch": epoch,
                "step": step,
                "losses": losses,
                "source_dev": evidence.source_dev,
                "validators": values,
                "selection": values.get(self.validators[0].name),
            }
        )
        for logger in loggers:
            logger.log_metrics(flat(self.curve[-1]), step)

    def compare(self) -> None:
        """Training is over: the values of validators that compare epochs. Those before a resumption are read again."""
        if not any(validator.compares_epochs for validator in self.validators):
            return
        for epoch in (line["epoch"] for line in self.curve if line["epoch"] not in self.seen):
            self.restore(epoch)
            self.seen[epoch] = evaluate(self.session.validation, self.session, self.batch_size, f"epoch {epoch}").rows
        rows = [self.seen[line["epoch"]] for line in self.curve]
        for validator in self.validators:
            if validator.compares_epochs:
                for line, value in zip(self.curve, validator.compare(rows), strict=True):
                    line["validators"][validator.name] = value
                    if validator is self.validators[0]:
                        line["selection"] = value

    def keep(self, epoch: int, weights: dict[str, Any] | None = None) -> None:
        """Write the weights of an epoch, the present ones unless others are given: in memory twenty of a large
        backbone would be many gigabytes."""
        if weights is None:
            methods = self.session.methods
            weights = {
                "encoder": copied(self.session.encoder.state_dict()),
                "methods": {name: copied(method.state_dict()) for name, method in methods.items()},
                "memory": self._memory(),
            }
        checkpoint.save({"key": self.key, "epoch": epoch, "weights": weights}, self._file(epoch))

    def evidence(self, epoch: int) -> Evidence:
        """What validators see of the present weights, after an epoch counted from 1."""
        session, task = self.session, self.session.task
        dev = evaluate(session.dev, session, self.batch_size, "source dev")
        target = evaluate(session.validation, session, self.batch_size, "target validation")
        train = evaluate(session.source_sample, session, self.batch_size, "source sample")
        scores = task.score(session.domains.source_dev, dev.predictions)
        return Evidence(scores, task.headline, dev.rows, target.rows, train.rows, epoch)

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint: the curve, and the state of every process's random generators."""
        return {
            "key": self.key,
            "curve": json.dumps(self.curve),
            "random": of_all_ranks(random_state()),
            "memory": self._memory(),
        }

    def _memory(self) -> dict[str, Any]:
        return {name: method.memory() for name, method in self.session.methods.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.curve, self.random = json.loads(state_dict["curve"]), state_dict["random"]
        for name, method in self.session.methods.items():
            method.recall(state_dict["memory"][name])

    def weights(self, epoch: int) -> dict[str, Any]:
        """Those after an epoch: ``encoder``, ``methods`` and their ``memory``.

        Raises:
            ValueError: the file is damaged, or of another epoch or cell.
        """
        path = self._file(epoch)
        content = checkpoint.load(path)
        if (content.get("key"), content.get("epoch")) != (self.key, epoch):
            raise ValueError(f"{path}: of another run")
        weights: dict[str, Any] = content["weights"]
        return weights

    def _file(self, epoch: int) -> Path:
        return self.folder / f"epoch={epoch}.safetensors"


def epoch_line(line: dict[str, Any], headline: str, epochs: int, left: float) -> str:
    """What a log says of an epoch.

    Args:
        left: seconds, about.

    >>> line = {"epoch": 2, "losses": {"task": 0.5, "total": 0.61}, "source_dev": {"span_f1": 0.452}}
    >>> epoch_line(line, "span_f1", 3, 75.0)
    'epoch 2 of 3: loss 0.610, source dev span F1 45.2, about 1:15 left'
    """
    minutes, seconds = divmod(round(left), 60)
    over = "done" if line["epoch"] == epochs else f"about {minutes}:{seconds:02} left"
    score = f"source dev {headline.replace('_f1', ' F1')} {100 * line['source_dev'][headline]:.1f}"
    return f"epoch {line['epoch']} of {epochs}: loss {line['losses']['total']:.3f}, {score}, {over}"


@contextmanager
def final_weights(session: Session) -> Iterator[None]:
    """Within it, the encoder has the weights that are scored and saved: averaged, folded, or as they are."""
    encoder = session.encoder
    own = encoder.state_dict()
    final: dict[str, Tensor] = dict(own)
    for method in session.methods.values():
        final = method.final_weights(final)
    changed = {name: tensor for name, tensor in final.items() if tensor is not own[name]}
    kept = {name: own[name].clone() for name in changed}
    encoder.load_state_dict(changed, strict=False)
    try:
        yield
    finally:
        encoder.load_state_dict(kept, strict=False)


def copied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A copy on the CPU, where there is more memory."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in weights.items()}
