"""Where nothing in a run reads the target, it trains one network whatever the target: once, and scored for each pair.

What is shared is decided by content: settings, code, seed, and what the source says.
"""

import hashlib
import json
import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from omegaconf import DictConfig
from pytorch_lightning.loggers.logger import Logger

from domadapt.methods.setting import Setting
from domadapt.runs.key import cell_key
from domadapt.training.fit import Epochs
from domadapt.training.options import read_options
from domadapt.utils import checkpoint
from domadapt.utils.files import one_at_a_time

log = logging.getLogger(__name__)
READS_TARGET = {"target", "corpus_parses"}  # of a method's ``reads``


class SourceNetwork:
    """The weights of each epoch, in the cache, for runs of the same source with other targets.

    Args:
        cfg: of the run that asks.
        setting: what it works with.

    Attributes:
        key: of the training; None where the target takes part in it, so that there is nothing to share.
    """

    def __init__(self, cfg: DictConfig, setting: Setting) -> None:
        self.key: str | None = None
        self._epochs, self._cache = int(cfg.trainer.epochs), setting.cache
        if cfg.train_on == "source" and not any(READS_TARGET & method.reads for method in setting.methods.values()):
            source = repr((setting.domains.source_train, setting.task.labels))
            digest, least = hashlib.sha256(source.encode()).hexdigest(), read_options(cfg).least_steps
            content = json.dumps([cell_key(cfg, without=("data",)), digest, least])
            self.key = hashlib.sha256(content.encode()).hexdigest()[:16]
        asked = cfg.paths.share_source
        several = len((cfg.get("benchmark") or {}).get("pairs") or ()) > 1
        self._shared = self.key is not None and (several if asked is None else bool(asked))

    def once(self) -> AbstractContextManager[None]:
        """Hold it: another run that asks for the same network waits for this one's."""
        return one_at_a_time(self._file(1)) if self._shared else nullcontext()

    def keep(self, epochs: Epochs) -> None:
        """For other targets: the weights of every epoch, and what the curve says of their training."""
        for line in epochs.curve if self._shared else ():
            weights = epochs.weights(line["epoch"])
            kept = {"step": line["step"], "losses": line["losses"], "weights": weights}
            checkpoint.save(kept, self._file(line["epoch"]))

    def take(self, epochs: Epochs, logger: Logger | None) -> bool:
        """Put back what another run has kept, scored on this pair's text; False where there is none that is whole.

        Args:
            epochs: of the run that asks.
            logger: hears of losses and scores.
        """
        try:
            kept = [checkpoint.load(self._file(n)) for n in range(1, self._epochs + 1)] if self._shared else []
        except ValueError:
            return False  # not there, or damaged: it is made again
        if not kept:
            return False
        log.info("%s: the source's network is in %s, taken from there", epochs.folder.parent, self._cache)
        with epochs.status.during("take"):
            for epoch, found in enumerate(kept, start=1):
                epochs.kept[epoch] = found["weights"]
                epochs.restore(epoch)
                epochs.score(epoch, found["step"], found["losses"], [logger] if logger else [])
        return True

    def _file(self, epoch: int) -> Path:
        return Path(self._cache, f"network-{self.key}-epoch={epoch}.safetensors")
