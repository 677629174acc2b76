"""Finished runs as labellers of text that somebody else trains on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from domadapt.data.domains import UnlabelledText
from domadapt.inference.model import load
from domadapt.methods.setting import ReadText
from domadapt.models.output import word_logits


@dataclass(frozen=True, slots=True)
class Labelling:
    """What a run's model says of some texts.

    Attributes:
        kind: of its task, ``token`` or ``sequence``.
        labels: names of the classes.
        logits: of each text (words, classes), not a number for words that it did not read; or (1, classes).
    """

    kind: str
    labels: list[str]
    logits: list[Tensor]


class SavedRuns:
    """Loads the models of finished runs, one at a time."""

    def label(
        self, run: str, texts: Sequence[UnlabelledText], batch_size: int, device: str, precision: str
    ) -> Labelling:
        """A run's logits for texts, as it predicts: with all that its methods add.

        Args:
            run: its folder.
            texts: with their words, where words are classified.
            batch_size: texts a batch.
            device: ``cpu`` or ``cuda``.
            precision: of the run that asks, as its setting has it.

        Raises:
            ValueError: there is no finished run in the folder.
        """
        model = load(Path(run) / "model", device, "32")
        model.setting.precision = precision
        setting, token = model.setting, model.setting.task.kind == "token"
        examples = model.examples(texts)
        logits: dict[int, Tensor] = {}
        for batch, output in setting.outputs(examples, batch_size, f"{Path(run).name} labels"):
            rows, counts = output.logits.float().cpu(), torch.ones_like(batch.index)
            if token:
                rows, counts = word_logits(output, batch).float().cpu(), batch.words
                rows[(batch.node_first_piece < 0).cpu()] = torch.nan
            logits |= dict(zip(batch.index.tolist(), rows.split(counts.tolist()), strict=True))
        return Labelling(setting.task.kind, setting.task.labels, [logits[i] for i in range(len(examples))])

    def read(self, run: Path, texts: Sequence[UnlabelledText], device: str, precision: str) -> list[ReadText]:
        """What a run's model makes of texts; arguments as of :meth:`label`."""
        model = load(run / "model", device, "32")
        model.setting.precision = precision
        return model.setting.read(model.examples(texts), f"{run.name} reads target")

    def told(self, run: str) -> dict[str, object]:
        """What the run's metrics.json says of whose labels it has read.

        Returns:
            ``role``, ``source``, ``validator``, ``target_labels``, how many, and ``checksum``, of these.

        Raises:
            ValueError: there is no finished run in the folder.
        """
        path = Path(run) / "metrics.json"
        try:
            metrics = json.loads(path.read_text(encoding="utf-8"))
            told = {name: metrics[name] for name in ("role", "source")}
            told["target_labels"] = metrics["counts"].get("target_labels") or 0
            told["checksum"] = metrics["counts"].get("target_labels_checksum")
            return {**told, "validator": metrics["selection"]["validator"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: expected a finished run's ({type(error).__name__}: {error})") from error
