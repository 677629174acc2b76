"""Training is made once for all runs that train alike: with other targets that no method reads, or with another test.

What is alike is decided by content: settings, code, seed, what the source says, and the target's text where it is read.
"""

import hashlib
import json
import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from pytorch_lightning.loggers.logger import Logger

from domadapt.methods.setting import Setting
from domadapt.runs.key import cell_key
from domadapt.training.epochs import Epochs
from domadapt.training.options import read_options
from domadapt.utils import checkpoint
from domadapt.utils.files import one_at_a_time

log = logging.getLogger(__name__)
READS_TARGET = {"target", "corpus_parses"}  # of a method's ``reads``


class Network:
    """The weights of each epoch, in the cache, for runs that would train the same.

    Args:
        cfg: of the run that asks.
        setting: what it works with.

    Attributes:
        key: of the training; None where the target takes part in it, so that there is no other pair to share it with.
    """

    def __init__(self, cfg: DictConfig, setting: Setting) -> None:
        domains = setting.domains
        self._epochs, self._cache = int(cfg.trainer.epochs), setting.cache
        working = [method for method in setting.methods.values() if setting.task.kind in method.tasks]
        read = cfg.train_on == "target" or any(READS_TARGET & method.reads for method in working)
        reads: tuple[object, ...] = (domains.source_train, setting.task.labels)
        reads += (domains.source_dev, domains.unlabeled) if read else ()
        digest, least = hashlib.sha256(repr(reads).encode()).hexdigest(), read_options(cfg).least_steps
        content = json.dumps([cell_key(cfg, without=("data",)), digest, least])
        self._name = hashlib.sha256(content.encode()).hexdigest()[:16]
        self.key = None if read else self._name
        asked = cfg.paths.share_source
        several = len((cfg.get("benchmark") or {}).get("pairs") or ()) > 1
        self._shared = (several and not read) if asked is None else bool(asked)

    def once(self) -> AbstractContextManager[None]:
        """Hold it: another run that asks for the same network waits for this one's."""
        return one_at_a_time(self._file(1)) if self._shared else nullcontext()

    def keep(self, epochs: Epochs) -> None:
        """For others that share it: the weights of every epoch, and what the curve says of their training."""
        if self._shared:
            for line in epochs.curve:
                weights = epochs.weights(line["epoch"])
                content = {"step": line["step"], "losses": line["losses"], "weights": weights}
                checkpoint.save(content, self._file(line["epoch"]))

    def take(self, epochs: Epochs, logger: Logger | None) -> bool:
        """Put back what another run has kept, scored on this run's text; False where there is none that is whole.

        Args:
            epochs: of the run that asks.
            logger: hears of losses and scores.
        """
        kept = self._load() if self._shared else None
        if kept is None:
            return False
        log.info("%s: the network that it would train is in %s, taken from there", epochs.folder.parent, self._cache)
        with epochs.status.during("take"):
            for epoch, found in enumerate(kept, start=1):
                epochs.keep(epoch, found["weights"])
                epochs.restore(epoch)
                epochs.score(epoch, found["step"], found["losses"], [logger] if logger else [])
        return True

    def _load(self) -> list[dict[str, Any]] | None:
        try:
            return [checkpoint.load(self._file(epoch)) for epoch in range(1, self._epochs + 1)]
        except ValueError:
            return None  # not there, or damaged: it is made again

    def _file(self, epoch: int) -> Path:
        return Path(self._cache, f"network-{self._name}-epoch={epoch}.safetensors")


def forget_networks(cache: Path, keys: Iterable[str | None]) -> None:
    """Delete what a benchmark that is over has shared.

    Args:
        cache: folder of what runs share.
        keys: of the networks, as metrics.json has them.
    """
    for key in {key for key in keys if key}:
        for path in cache.glob(f"network-{key}-epoch=*.safetensors"):
            path.unlink(missing_ok=True)
