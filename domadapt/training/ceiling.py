"""An in-domain ceiling knows nothing of the source, so pairs with the same target share one run of it.

What is shared is decided by content: what the run reads, the sealed test included, its settings, and the code.
"""

import hashlib
import json
import logging
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from domadapt.data.domains import Domains, SealedTest
from domadapt.runs.key import cell_key
from domadapt.runs.reading import load, sound
from domadapt.utils.checksums import verify_checksums, write_checksums
from domadapt.utils.files import one_at_a_time, replace_folder, write_atomic

log = logging.getLogger(__name__)
BESIDE = ("predictions.jsonl", "card.json", "card.md")  # what lies with a run's model


class Ceiling:
    """One in-domain run, whatever the pair it is asked for.

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

        Args:
            folder: the run folder that it goes to.
            source: of the pair that asks.

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
