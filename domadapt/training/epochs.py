"""Training by Lightning, from where an earlier attempt was left: what is scored and kept after each epoch."""

import json
import logging
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning.callbacks import Callback, TQDMProgressBar
from pytorch_lightning.loggers.logger import Logger
from torch import Tensor

from domadapt.data.batches import Example, StepLoader
from domadapt.data.texts import sampled
from domadapt.methods.session import Session
from domadapt.models.vocabulary import only_met_rows
from domadapt.runs.status import Status
from domadapt.selection.validators import Evidence, Validator, best_epoch
from domadapt.tasks.rows import Predicted, joined
from domadapt.tracking.tracker import flat
from domadapt.training.distributed import as_one_process, mean_over_ranks, of_all_ranks, trainer_options
from domadapt.training.module import AdaptationModule
from domadapt.training.options import TrainerOptions
from domadapt.utils import checkpoint
from domadapt.utils.runtime import random_state, set_random_state
from domadapt.utils.work import quiet

log = logging.getLogger(__name__)
LAST = "last.safetensors"  # the checkpoint to resume from
TRAIN_SAMPLE = 128  # training texts that validators see
epoch_log = logging.getLogger("domadapt.epochs")  # a line an epoch where there is no terminal to show a bar on
FIRST_LINE = 60.0  # seconds after which a first, long epoch has a line, too


class Epochs(Callback):
    """What is known of the epochs so far: the curve, weights, and a checkpoint to resume from.

    The caller deletes the ``folder`` when the cell is finished. Of the ``validators`` the chosen one comes first; only
    ``trainer.regret`` asks the others. Shorter runs than the options' seconds between checkpoints start over if killed.
    """

    def __init__(
        self,
        folder: Path,
        key: str,
        session: Session,
        validators: Sequence[Validator],
        options: TrainerOptions,
        status: Status,
        all_weights: bool = False,
    ) -> None:
        self.folder, self.key, self.session, self.status = folder, key, session, status
        self.checkpoint_file = folder / LAST
        self.validators = [*validators] if options.regret else [validators[0]]
        self.chosen_validator = validators[0]
        self.batch_size = options.evaluation_batch_size
        self.reads = {part for validator in self.validators for part in validator.reads}
        self.compares_epochs = any(validator.compares_epochs for validator in self.validators)
        self.tests_all = options.regret or self.chosen_validator.uses_target_labels
        self.all_weights = all_weights or self.compares_epochs or self.tests_all
        self.checkpoint_seconds = 0.0 if options.devices > 1 else options.checkpoint_seconds
        self.checkpoint_time = time.monotonic()
        self.curve: list[dict[str, Any]] = []  # what metrics.json says of each epoch
        self.random: list[dict[str, Any]] = []
        self.validation_rows: dict[int, Predicted] = {}  # by epoch, for validators that compare epochs
        self.loaded_epoch: int | None = None  # the epoch whose weights are in place, if one's are
        self.start = time.monotonic(), 0, 0  # when, after how many epochs and steps
        self.has_logged = False
        self._unwritten: dict[int, dict[str, Any]] = {}  # the best epoch's weights, until a checkpoint is written

    def best(self, validator: Validator) -> int:
        return best_epoch([line["validators"][validator.name] for line in self.curve])

    def has_value(self, validator: Validator) -> bool:
        """Whether a validator has a number for any epoch; some have none where nothing is found on the target."""
        return any(not math.isnan(line["validators"].get(validator.name, math.nan)) for line in self.curve)

    def kept_epochs(self) -> list[int]:
        if self.all_weights:
            return [line["epoch"] for line in self.curve]
        return [self.best(self.chosen_validator)] if self.has_value(self.chosen_validator) else []

    def restore(self, epoch: int) -> None:
        """Put back what was scored after an epoch: the encoder's final weights, the methods', what they remember."""
        if self.loaded_epoch == epoch:
            return
        saved = self.weights(epoch)
        self.session.encoder.load_state_dict(saved["encoder"])
        for name, method in self.session.methods.items():
            method.load_state_dict(saved["methods"][name])
            method.recall(saved["memory"][name])
        for module in (self.session.encoder, *self.session.methods.values()):
            module.to(self.session.device).eval()
        self.loaded_epoch = epoch

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Resumed: go on with the random numbers that would have come."""
        self.start = time.monotonic(), trainer.current_epoch, trainer.global_step
        if self.random:
            set_random_state(self.random[trainer.global_rank])
        elif trainer.global_rank:  # a seed of its own, lest all drop the same units
            seed = np.random.SeedSequence([self.session.seed, trainer.global_rank]).generate_state(1)[0]
            pl.seed_everything(int(seed), verbose=False)

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        if trainer.is_global_zero:
            at, steps = trainer.global_step, int(trainer.estimated_stepping_batches)
            self.status.note(epoch=trainer.current_epoch + 1, epochs=trainer.max_epochs, step=at, steps=steps)
            since, _, first_step = self.start
            if not self.has_logged and (took := time.monotonic() - since) >= FIRST_LINE and quiet():
                self._tell(f"step {at} of {steps}", took / (at - first_step) * (steps - at))

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Score, keep what was scored, and write the checkpoint, in this order: a kill in between repeats the epoch."""
        assert isinstance(module, AdaptationModule)
        losses = mean_over_ranks(module.mean_losses(), trainer)
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
                module.bar_values["dev"] = f"{100 * self.curve[-1]['source_dev'][headline]:.1f}"
                if quiet():
                    since, first_epoch, _ = self.start
                    epochs = trainer.max_epochs or epoch
                    left = (time.monotonic() - since) / (epoch - first_epoch) * (epochs - epoch)
                    self._tell(epoch_line(self.curve[-1], headline, epochs), left)
        trainer.train_dataloader.epoch = epoch  # type: ignore[union-attr]
        if time.monotonic() - self.checkpoint_time >= self.checkpoint_seconds:
            with self.status.during("checkpoint"):
                for held in [*self._unwritten]:
                    self._write(held, self._unwritten.pop(held))
                trainer.save_checkpoint(self.checkpoint_file)  # by rank 0, but all take part
                self.checkpoint_time = time.monotonic()

    def _tell(self, what: str, left: float) -> None:
        self.has_logged = True
        minutes, seconds = divmod(round(left), 60)
        epoch_log.info("%s, %s", what, f"about {minutes}:{seconds:02} left" if left else "done")

    def score(self, epoch: int, step: int, losses: dict[str, float], loggers: Sequence[Logger]) -> None:
        """One more line of the curve, of the present weights, after an epoch counted from 1."""
        evidence = self.evidence(epoch)
        if self.compares_epochs:
            self.validation_rows[epoch] = replace(evidence.target, features=evidence.target.features[:, :0])
        values = {v.name: v(evidence) for v in self.validators if not v.uses_target_labels}
        if wrong := [name for name, value in values.items() if not isinstance(value, Real)]:
            raise ValueError(f"selection: {wrong[0]} gives {values[wrong[0]]!r:.60}; expected a number to maximise")
        line = {"epoch": epoch, "step": step, "losses": losses, "source_dev": evidence.source_dev}
        self.curve.append({**line, "validators": values, "selection": values.get(self.chosen_validator.name)})
        for logger in loggers:
            logger.log_metrics(flat(self.curve[-1]), step)

    def compare(self) -> None:
        """Training is over: the values of validators that compare epochs. Those before a resumption are read again."""
        if not self.compares_epochs:
            return
        for epoch in (line["epoch"] for line in self.curve if line["epoch"] not in self.validation_rows):
            self.restore(epoch)
            evaluation = self.session.evaluate(self.session.validation, self.batch_size, f"epoch {epoch}")
            self.validation_rows[epoch] = evaluation.rows
        rows = [self.validation_rows[line["epoch"]] for line in self.curve]
        for validator in (validator for validator in self.validators if validator.compares_epochs):
            for line, value in zip(self.curve, validator.compare(rows), strict=True):
                line["validators"][validator.name] = value
                if validator is self.chosen_validator:
                    line["selection"] = value

    def evidence(self, epoch: int) -> Evidence:
        """What validators see of the present weights, after an epoch counted from 1."""
        session, task = self.session, self.session.task
        dev = session.evaluate(session.dev, self.batch_size, "source dev")
        scores = task.score(session.domains.source_dev, dev.predictions)

        def rows(part: str, examples: list[Example]) -> Predicted:
            if part in self.reads:
                return session.evaluate(examples, self.batch_size, part).rows
            if examples:  # what a loader draws, so that weights are the same whether a part is read or not
                torch.empty((), dtype=torch.int64).random_()
            return joined([], len(task.labels))

        # A few training examples, the same for every seed and method.
        train = [replace(example, index=i) for i, example in enumerate(sampled(session.source, TRAIN_SAMPLE, seed=0))]
        parts = rows("target", session.validation), rows("train", train)
        return Evidence(scores, task.headline, dev.rows, *parts, epoch)

    def keep(self, epoch: int, weights: dict[str, Any] | None = None) -> None:
        """Keep the weights of a scored epoch, the present ones unless others are given, if there is a use for them."""
        if not self.all_weights and epoch not in self.kept_epochs():
            return
        if not weights:
            methods = {name: method.state_dict() for name, method in self.session.methods.items()}
            weights = {"encoder": self.session.encoder.state_dict(), "methods": methods, "memory": self._memory()}
        if self.all_weights:  # at once, for memory's sake; the best epoch's alone wait for the next checkpoint
            self._write(epoch, weights)
        else:
            # On the CPU, where there is more memory.
            copied = apply_to_collection(weights, Tensor, lambda tensor: tensor.detach().to("cpu", copy=True))
            self._unwritten = {epoch: copied}

    def weights(self, epoch: int) -> dict[str, Any]:
        """Those after an epoch: ``encoder``, ``methods`` and their ``memory``."""
        if epoch in self._unwritten:
            return self._unwritten[epoch]
        path = self.file(epoch)
        content = checkpoint.load(path)
        if (content.get("key"), content.get("epoch")) != (self.key, epoch):
            raise ValueError(f"{path}: of another run")
        weights: dict[str, Any] = content["weights"]
        return weights

    def _write(self, epoch: int, weights: dict[str, Any]) -> None:
        checkpoint.save({"key": self.key, "epoch": epoch, "weights": weights}, self.file(epoch))

    def file(self, epoch: int) -> Path:
        return self.folder / f"epoch={epoch}.safetensors"

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint: the curve, and the state of every process's random generators."""
        random = of_all_ranks(random_state())
        return {"key": self.key, "curve": json.dumps(self.curve), "random": random, "memory": self._memory()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.curve, self.random = json.loads(state_dict["curve"]), state_dict["random"]
        for name, method in self.session.methods.items():
            method.recall(state_dict["memory"][name])

    def _memory(self) -> dict[str, Any]:
        return {name: method.memory() for name, method in self.session.methods.items()}


def epoch_line(line: dict[str, Any], headline: str, epochs: int) -> str:
    """What a log says of an epoch.

    >>> line = {"epoch": 2, "losses": {"task": 0.5, "total": 0.61}, "source_dev": {"span_f1": 0.452}}
    >>> epoch_line(line, "span_f1", 3)
    'epoch 2 of 3: loss 0.610, source dev span F1 45.2'
    """
    score = f"source dev {headline.replace('_f1', ' F1')} {100 * line['source_dev'][headline]:.1f}"
    return f"epoch {line['epoch']} of {epochs}: loss {line['losses']['total']:.3f}, {score}"


@contextmanager
def final_weights(session: Session) -> Iterator[None]:
    """Within it, the encoder has the weights that are scored and saved: averaged, folded, or as they are."""
    encoder = session.encoder
    current = encoder.state_dict()
    final: dict[str, Tensor] = dict(current)
    for method in session.methods.values():
        final = method.final_weights(final)
    changed = {name: tensor for name, tensor in final.items() if tensor is not current[name]}
    saved = {name: current[name].clone() for name in changed}
    encoder.load_state_dict(changed, strict=False)
    try:
        yield
    finally:
        encoder.load_state_dict(saved, strict=False)


class Bar(TQDMProgressBar):
    """Lightning's bar with the loss, and the dev score of the last epoch."""

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        assert isinstance(pl_module, AdaptationModule)
        return {**pl_module.bar_values}


def fit(options: TrainerOptions, session: Session, epochs: Epochs, logger: Logger | None) -> None:
    """Train, from the last checkpoint of an earlier attempt at the same cell if there is one."""
    passes = options.passes(-(-len(session.source) // options.batch_size))
    sizes = options.batch_size, options.target_batch_size
    augment = session.augmented if session.augments else None
    labelled = any(method.labels_target for method in session.methods.values())
    target = session.readings.sample() if labelled else session.target
    if len(target) < len(session.target):
        log.info("%d of %d target texts, drawn at random, are labelled in training", len(target), len(session.target))
    loader = StepLoader(session.source, target or None, session.collator, *sizes, session.seed, augment, passes)
    steps = len(loader) * options.epochs
    _tell(session, options, passes, steps)
    module = AdaptationModule(session, options, steps)
    resumed = resumable_epochs(epochs)
    trainer = pl.Trainer(
        max_epochs=options.epochs,
        precision=session.precision,  # type: ignore[arg-type]
        deterministic="warn",
        logger=logger if logger and options.devices == 1 else False,
        log_every_n_steps=1,  # the tracker thins out
        callbacks=[epochs] if quiet() else [epochs, Bar(leave=False)],
        **trainer_options(options, session.device),
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=not quiet(),
    )
    module.train()  # pretrained models come in evaluation mode, and Lightning leaves them in it: no dropout
    pl.seed_everything(session.seed, verbose=False)  # training's randomness, whatever a method's stage has used
    loader.epoch = resumed
    with as_one_process(), only_met_rows(session.encoder, met_pieces(session)):
        trainer.fit(module, train_dataloaders=loader, ckpt_path=epochs.checkpoint_file if resumed else None)
    if options.devices > 1:  # they are gone, and what they knew is in the checkpoint
        epochs.load_state_dict(checkpoint.load(epochs.checkpoint_file)["callbacks"]["Epochs"])
        if logger:  # it has stayed in the process that started it
            for line in epochs.curve[resumed:]:
                logger.log_metrics(flat(line), line["step"])


def _tell(session: Session, options: TrainerOptions, passes: int, steps: int) -> None:
    """Of small data, and of methods that will do nothing."""
    if passes > 1:
        few = f"{len(session.source)} texts make {steps // options.epochs // passes} steps an epoch, which are few"
        repeats = f"each of {options.epochs} epochs goes over them {passes} times, {steps} steps in all"
        log.info("%s: %s (trainer.min_steps=%d; 0 goes over them once)", few, repeats, options.min_steps)
    for name, method in session.methods.items():
        if session.task.kind in method.tasks and (why := method.idle(options.epochs)):
            log.warning("%s: %s, so it does nothing", name, why)


def met_pieces(session: Session) -> set[int]:
    """Ids of the pieces that steps of training read; none where a method needs them all."""
    if any(method.whole_vocabulary for method in session.methods.values()):
        return set()
    tokenizer = session.encoder.tokenizer
    ids = set(map(int, tokenizer.all_special_ids))
    for example in (*session.source, *session.target):  # dev and validation texts must not change what is trained
        ids.update(example.input_ids)
    if session.augments and not session.target:  # with words of texts that are in no batch
        for pieces in tokenizer([text.text for text in session.domains.unlabelled.texts])["input_ids"]:
            ids.update(pieces)
    return ids


def resumable_epochs(epochs: Epochs) -> int:
    """How many epochs an earlier attempt at the same cell has left; anything else there is deleted.

    :raises ValueError: If ``trainer.regret`` asks for what that attempt, made without it, has not kept.
    """
    done, lacks, all_weights, chosen = 0, False, epochs.all_weights, epochs.chosen_validator
    if epochs.checkpoint_file.is_file():
        try:
            state = checkpoint.load(epochs.checkpoint_file)["callbacks"]["Epochs"]
            if state["key"] != epochs.key:
                raise ValueError(f"{epochs.checkpoint_file}: of another run")
            epochs.curve = json.loads(state["curve"])
            asked = {v.name for v in epochs.validators if not (v.uses_target_labels or v.compares_epochs)}
            lacks = not asked <= epochs.curve[0]["validators"].keys()
            whole = all(epochs.file(line["epoch"]).is_file() for line in epochs.curve)
            if all_weights and not (chosen.compares_epochs or chosen.uses_target_labels or whole):
                lacks |= epochs.tests_all
                epochs.all_weights = False  # the best epoch's alone, so that this network is not shared
            for epoch in epochs.kept_epochs():
                epochs.weights(epoch)
            done = len(epochs.curve)
        except Exception as error:  # whatever is wrong with it, the run can be made again
            log.warning("%s: this checkpoint can't be resumed (%s); the run starts over", epochs.folder, error)
            epochs.curve, epochs.all_weights, lacks = [], all_weights, False
    if lacks:
        fix = f"leave it out to go on, or delete {epochs.folder} to start over"
        raise ValueError(f"trainer.regret=true: the run that was stopped after epoch {done} was made without it; {fix}")
    if done:
        for path in epochs.folder.glob("epoch=*.safetensors"):  # written, and then killed before the checkpoint was
            if int(path.stem.partition("=")[2]) > done:
                path.unlink()
        log.info("%s: resumed after epoch %d", epochs.folder.parent, done)
        return done
    shutil.rmtree(epochs.folder, ignore_errors=True)
    return 0
