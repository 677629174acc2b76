"""Train with Lightning, from where an earlier attempt was left."""

import json
import logging
import shutil

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar
from pytorch_lightning.loggers.logger import Logger

from domadapt.data.loaders import StepLoader
from domadapt.methods.session import Session
from domadapt.models.vocabulary import only_met_rows
from domadapt.tracking.tracker import flat
from domadapt.training.distributed import as_one_process, trainer_options
from domadapt.training.epochs import Epochs
from domadapt.training.module import AdaptationModule
from domadapt.training.options import TrainerOptions
from domadapt.utils import checkpoint
from domadapt.utils.work import quiet

log = logging.getLogger(__name__)


class Bar(TQDMProgressBar):
    """Lightning's bar with the loss, and the dev score of the last epoch."""

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        assert isinstance(pl_module, AdaptationModule)
        return {**pl_module.shown}


def fit(options: TrainerOptions, session: Session, epochs: Epochs, logger: Logger | None) -> None:
    """Train, from the last checkpoint of an earlier attempt at the same cell if there is one."""
    passes = options.passes(-(-len(session.source) // options.batch_size))
    sizes = options.batch_size, options.target_batch_size
    augment = session.augmented if session.augments else None
    loader = StepLoader(session.source, session.target or None, session.collator, *sizes, session.seed, augment, passes)
    steps = len(loader) * options.epochs
    _tell(session, options, passes, steps)
    module = AdaptationModule(session, options, steps)
    resumed = resumable(epochs)
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
        trainer.fit(module, train_dataloaders=loader, ckpt_path=epochs.last if resumed else None)
    if options.devices > 1:  # they are gone, and what they knew is in the checkpoint
        epochs.load_state_dict(checkpoint.load(epochs.last)["callbacks"]["Epochs"])
        if logger:  # it has stayed in the process that started it
            for line in epochs.curve[resumed:]:
                logger.log_metrics(flat(line), line["step"])


def _tell(session: Session, options: TrainerOptions, passes: int, steps: int) -> None:
    """Of small data, and of methods that will do nothing."""
    if passes > 1:
        few = f"{len(session.source)} texts make {steps // options.epochs // passes} steps an epoch, which are few"
        more = f"each of {options.epochs} epochs goes over them {passes} times, {steps} steps in all"
        log.info("%s: %s (trainer.min_steps=%d; 0 goes over them once)", few, more, options.min_steps)
    for name, method in session.methods.items():
        if session.task.kind in method.tasks and method.first_epoch >= options.epochs:
            why = f"it begins after epoch {method.first_epoch}, and there are {options.epochs} (trainer.epochs)"
            log.warning("%s: %s, so it does nothing", name, why)


def met_pieces(session: Session) -> set[int]:
    """Ids of the pieces that steps of training read; none where a method needs them all.

    Not those of dev and validation texts: what is only scored is looked up, and must not change what is trained.
    """
    if any(method.whole_vocabulary for method in session.methods.values()):
        return set()
    tokenizer = session.encoder.tokenizer
    found = set(map(int, tokenizer.all_special_ids))
    for example in (*session.source, *session.target):
        found.update(example.input_ids)
    if session.augments and not session.target:  # with words of texts that are in no batch
        for pieces in tokenizer([text.text for text in session.domains.unlabelled.texts])["input_ids"]:
            found.update(pieces)
    return found


def resumable(epochs: Epochs) -> int:
    """How many epochs an earlier attempt at the same cell has left; anything else there is deleted."""
    done = 0
    if epochs.last.is_file():
        try:
            state = checkpoint.load(epochs.last)["callbacks"]["Epochs"]
            if state["key"] != epochs.key:
                raise ValueError(f"{epochs.last}: of another run")
            epochs.curve = json.loads(state["curve"])
            for epoch in epochs.kept():
                epochs.weights(epoch)
            done = len(epochs.curve)
        except Exception as error:  # whatever is wrong with it, the run can be made again
            log.warning("%s: this checkpoint can't be resumed (%s); the run starts over", epochs.folder, error)
            epochs.curve = []
    if done:
        for path in epochs.folder.glob("epoch=*.safetensors"):  # written, and then killed before the checkpoint was
            if int(path.stem.partition("=")[2]) > done:
                path.unlink()
        log.info("%s: resumed after epoch %d", epochs.folder.parent, done)
        return done
    shutil.rmtree(epochs.folder, ignore_errors=True)
    return 0
