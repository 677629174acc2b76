"""What cells share: networks that no target takes part in, and in-domain ceilings.

What is alike is decided by content: settings, seed, what the source says, and the target's text where it is read.
"""

import hashlib
import json
import logging
import shutil
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers.logger import Logger

from domadapt.data.domains import Domains, SealedTest
from domadapt.methods.session import Session
from domadapt.runs.groups import read_metrics
from domadapt.runs.key import cell_key
from domadapt.training.epochs import Epochs
from domadapt.training.options import RunConfig
from domadapt.utils import checkpoint
from domadapt.utils.files import one_at_a_time, replace_folder, verify_checksums, write_atomic, write_checksums

log = logging.getLogger(__name__)
MODEL_FILES = ("predictions.jsonl", "card.json", "card.md")  # what lies with a run's model


class SharedNetwork:
    """The weights of each epoch, in the cache, for runs that would train the same, where the run does share them.

    ``key`` is None where the target takes part in training, so that there is no other pair to share with.
    """

    def __init__(self, config: RunConfig, session: Session) -> None:
        domains = session.domains
        read = config.in_domain or session.reads("target") or session.reads("corpus_parses")
        reads: tuple[object, ...] = (domains.source_train, session.task.labels)
        reads += (domains.source_dev, domains.unlabelled) if read else ()
        content = hashlib.sha256(repr(reads).encode()).hexdigest()
        name = _digest(cell_key(config.values, without=("data",)), content, config.options.min_steps)
        self.key = None if read else name
        asked = config.values["paths"]["share_networks"]
        self.is_shared = ((config.pairs or 0) > 1 and not read) if asked is None else bool(asked)
        names = (f"network-{name}-epoch={epoch}.safetensors" for epoch in range(1, config.options.epochs + 1))
        self._files = [session.cache / file for file in names]

    def lock(self) -> AbstractContextManager[None]:
        """Hold it: another run that asks for the same network waits for this one's."""
        return one_at_a_time(self._files[0]) if self.is_shared else nullcontext()

    def keep(self, epochs: Epochs) -> None:
        """For others that share it: the weights of every epoch, and what the curve says of their training."""
        if self.is_shared and epochs.all_weights:
            for file, line in zip(self._files, epochs.curve, strict=True):
                weights = epochs.weights(line["epoch"])
                checkpoint.save({"step": line["step"], "losses": line["losses"], "weights": weights}, file)

    def take(self, epochs: Epochs, logger: Logger | None) -> bool:
        """Put back what another run has kept, scored on this run's text; False where there is none that is whole."""
        if not self.is_shared:
            return False
        try:
            checkpoints = [checkpoint.load(file) for file in self._files]
        except ValueError:  # not there, or damaged: it is made again
            return False
        cache = self._files[0].parent
        log.info("%s: the network that it would train is in %s, taken from there", epochs.folder.parent, cache)
        with epochs.status.during("take"):
            for epoch, saved in enumerate(checkpoints, start=1):
                epochs.keep(epoch, saved["weights"])
                epochs.restore(epoch)
                epochs.score(epoch, saved["step"], saved["losses"], [logger] if logger else [])
        return True


class SharedCeiling:
    """One in-domain run, which pairs with one target share, as it knows nothing of the source. Others share none."""

    def __init__(self, config: RunConfig, domains: Domains, sealed: SealedTest | None) -> None:
        self.key = None
        if config.in_domain:
            reads = (domains.source_train, domains.source_dev, domains.source_test, domains.unlabelled)
            content = hashlib.sha256(repr(reads).encode()).hexdigest(), sealed.fingerprint() if sealed else None
            self.key = _digest(cell_key(config.values, without=("data",)), config.values["method"], *content)
        self._note = Path(config.values["paths"]["cache"], f"ceiling-{self.key}.json")

    def lock(self) -> AbstractContextManager[None]:
        """Hold it: another cell that asks for the same ceiling waits for this one's."""
        return one_at_a_time(self._note) if self.key else nullcontext()

    def keep(self, folder: Path) -> None:
        """For others that take it: the run folder of the cell that made it."""
        if self.key:
            write_atomic(self._note, json.dumps({"folder": str(folder.resolve())}))

    def take(self, folder: Path, source: str) -> dict[str, Any] | None:
        """Copy what another cell has made, model and predictions; gives its metrics, None if there is none whole."""
        if not self.key:
            return None
        try:
            other = Path(json.loads(self._note.read_text(encoding="utf-8"))["folder"])
            verify_checksums(other / "model")
            read_metrics(other / "metrics.json")
            written = ("metrics.json", "model/domadapt.json")
            metrics, description = (json.loads((other / name).read_text(encoding="utf-8")) for name in written)
            beside = {
                name: (other / name).read_text(encoding="utf-8") for name in MODEL_FILES if (other / name).is_file()
            }
        except (OSError, ValueError, KeyError, TypeError):
            return None  # moved, deleted or damaged since: it is made again
        if "predictions.jsonl" not in beside or metrics.get("ceiling") != self.key or other == folder.resolve():
            return None

        def copy(part: Path) -> None:
            shutil.copytree(other / "model", part)
            text = json.dumps({**description, "source": source}, indent=1)
            (part / "domadapt.json").write_text(text, encoding="utf-8")
            write_checksums(part)

        replace_folder(folder / "model", copy)
        for name, text in beside.items():
            write_atomic(folder / name, text)
        log.info("%s: the same ceiling as in %s, taken from there", folder, other)
        return {**metrics, "copied_from": str(other)}


def _digest(*content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
