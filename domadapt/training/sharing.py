"""What cells share: networks that no target takes part in, in-domain ceilings, source-only runs that others learn from.

What is alike is decided by content: settings, seed, what the source says, and the target's text where it is read.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from pytorch_lightning.loggers.logger import Logger

from domadapt.data.domains import Domains, SealedTest
from domadapt.methods.session import Session
from domadapt.runs.groups import load, sound
from domadapt.runs.key import cell_key, run_folder
from domadapt.training.epochs import Epochs
from domadapt.training.options import read_options
from domadapt.utils import checkpoint
from domadapt.utils.files import one_at_a_time, replace_folder, verify_checksums, write_atomic, write_checksums

log = logging.getLogger(__name__)
READS_TARGET = {"target", "corpus_parses"}  # of a method's ``reads``
BESIDE = ("predictions.jsonl", "card.json", "card.md")  # what lies with a run's model


def source_only(cfg: DictConfig) -> DictConfig:
    """The configuration of the run without methods that a run with some is set beside, and may learn from.

    Args:
        cfg: of the run with methods. Where it names its own folder, the other run is in that folder.
    """
    made = cfg.copy()
    with open_dict(made):
        made.injection = made.adaptation = made.control = {}
        made.trainer.extra_epochs = 0
        made.method = "${method_name:${train_on},${backbone},${injection},${adaptation},${control},${target_labels}}"
        made.selection = OmegaConf.load(str(files("domadapt.conf") / "selection" / "source_dev.yaml"))
        if cfg.paths.run:
            made.paths.run = str(run_folder(cfg) / "source_only")
    return made


class Network:
    """The weights of each epoch, in the cache, for runs that would train the same.

    Args:
        cfg: of the run that asks.
        session: what it works with.

    Attributes:
        key: of the training; None where the target takes part in it, so that there is no other pair to share it with.
    """

    def __init__(self, cfg: DictConfig, session: Session) -> None:
        domains = session.domains
        self._epochs, self._cache = read_options(cfg).epochs, session.cache
        working = [method for method in session.methods.values() if session.task.kind in method.tasks]
        read = cfg.train_on == "target" or any(READS_TARGET & method.reads for method in working)
        reads: tuple[object, ...] = (domains.source_train, session.task.labels)
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
        """Put back what another run has kept, scored on this run's text; False where there is none that is whole."""
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
    """
    for key in {key for key in keys if key}:
        for path in cache.glob(f"network-{key}-epoch=*.safetensors"):
            path.unlink(missing_ok=True)


class Ceiling:
    """One in-domain run: it knows nothing of the source, so pairs with the same target share it.

    Args:
        cfg: of the cell that asks.
        domains: the ceiling's own problem.
        sealed: its test, which stays sealed: only a hash of it is read.
    """

    def __init__(self, cfg: DictConfig, domains: Domains, sealed: SealedTest | None) -> None:
        reads = (domains.source_train, domains.source_dev, domains.source_test, domains.unlabeled)
        corpora = hashlib.sha256(repr(reads).encode()).hexdigest(), sealed.fingerprint() if sealed else None
        content = json.dumps([cell_key(cfg, without=("data",)), cfg.method, *corpora])
        self.key = hashlib.sha256(content.encode()).hexdigest()[:16]
        self._note = Path(cfg.paths.cache, f"ceiling-{self.key}.json")

    def once(self) -> AbstractContextManager[None]:
        """Hold it: another cell that asks for the same ceiling waits for this one's."""
        return one_at_a_time(self._note)

    def made(self, folder: Path) -> None:
        """A cell has made it: others may take it from its run folder."""
        write_atomic(self._note, json.dumps({"folder": str(folder.resolve())}))

    def take(self, folder: Path, source: str) -> dict[str, Any] | None:
        """Copy what another cell has made, model and predictions, unless there is none that is whole.

        Returns:
            The other cell's metrics, with the folder they are from.
        """
        try:
            other = Path(json.loads(self._note.read_text(encoding="utf-8"))["folder"])
            verify_checksums(other / "model")
            metrics = load(other / "metrics.json")
            description = json.loads((other / "model" / "domadapt.json").read_text(encoding="utf-8"))
            beside = {name: (other / name).read_text(encoding="utf-8") for name in BESIDE if (other / name).is_file()}
            if "predictions.jsonl" not in beside:
                return None
            if metrics["ceiling"] != self.key or not sound(metrics) or other == folder.resolve():
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # moved, deleted or damaged since: it is made again

        def copy(part: Path) -> None:
            shutil.copytree(other / "model", part)
            text = json.dumps({**description, "source": source}, indent=1)
            (part / "domadapt.json").write_text(text, encoding="utf-8")
            write_checksums(part)

        replace_folder(folder / "model", copy)
        for name, text in beside.items():
            write_atomic(folder / name, text)
        log.info("%s: the same ceiling as in %s, taken from there", folder, other)
        return {**metrics, "taken_from": str(other)}
