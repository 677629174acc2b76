"""What a user is told who has no target labels: an audit before training, the target labelled, a card of the run."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from domadapt.auditing.audit import Audit, audit, write_audit
from domadapt.config.resolvers import own_files
from domadapt.data.batches import Truncation
from domadapt.inference.evaluate import evaluate
from domadapt.inference.model import row
from domadapt.methods.setting import Setting
from domadapt.reporting.target_card import as_markdown
from domadapt.runs.groups import typed
from domadapt.runs.target_card import write_card
from domadapt.tasks.task import FloatArray, Prediction, Rows
from domadapt.training.target_card import Labelled, target_card
from domadapt.utils.files import replace_atomic, write_atomic
from domadapt.utils.text import plain_json

log = logging.getLogger(__name__)
CHUNK = 16  # batches labelled together: wide enough to sort by length, small enough to hold


def label_target(setting: Setting, batch_size: int, path: Path) -> Labelled:
    """Label all unlabelled target text, and write it a line each, as ``domadapt predict`` does.

    Args:
        setting: with the weights of the chosen checkpoint.
        batch_size: texts a batch.
        path: of the file.
    """
    texts = setting.domains.unlabeled.texts
    predictions, sure, lost = list[Prediction](), list[FloatArray](), Truncation()

    def lines() -> Iterator[str]:
        nonlocal lost
        for start in range(0, len(texts), batch_size * CHUNK):
            chunk = texts[start : start + batch_size * CHUNK]
            examples = setting.examples(chunk, "target", setting.parses_at_prediction, labelled=False)
            cut_off = setting.truncation["target"]
            lost = Truncation(lost.texts + cut_off.texts, lost.words + cut_off.words)
            found = evaluate(examples, setting, batch_size, "label target")
            predictions.extend(found.predictions)
            sure.append(certainty(found.rows))
            for text, prediction in zip(chunk, found.predictions, strict=True):
                yield json.dumps(row(text, prediction, setting.task.kind), ensure_ascii=False) + "\n"

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines())

    replace_atomic(path, write)
    setting.truncation["target"] = lost
    return Labelled(predictions, np.concatenate(sure) if sure else np.empty(0, np.float32))


def certainty(rows: Rows) -> FloatArray:
    """Probabilities of what was predicted, nothing left out: (texts,), or (words in spans,).

    >>> some = np.zeros(2, np.int64)
    >>> certainty(Rows(np.array([[0.9, 0.1], [0.25, 0.75]], np.float32), some, some, some, some, outside=0)).tolist()
    [0.75]
    """
    best = rows.probabilities.argmax(-1)
    found: FloatArray = rows.probabilities.max(-1, initial=0.0)[best != rows.outside]
    return found


def audit_own_files(cfg: DictConfig, setting: Setting, folder: Path) -> Audit | None:
    """The fast part of the audit, of a user's own files, into the run's folder; benchmarks are audited apart.

    The test stays sealed: nothing in ``setting`` leads to it.

    Args:
        cfg: of the run.
        setting: with its texts.
        folder: of the run.
    """
    if not own_files(cfg.data) or "benchmark" in cfg:
        return None
    found = audit(setting.domains, None, setting.task.kind, cfg.seed, fast=True)
    write_audit(found, folder / "audit.json")  # metrics.json holds the configuration, without secrets
    for finding in found.findings:
        if finding.severity != "note":
            log.warning("audit: %s", finding.text)
    return found


def leave_card(
    setting: Setting, labelled: Labelled, metrics: dict[str, Any], audit: Audit | None, folder: Path
) -> None:
    """Write ``card.json`` and ``card.md``; the arguments are those of :func:`target_card`, and the run's folder."""
    card = target_card(setting, labelled, typed(plain_json(metrics)), audit)
    write_card(card, folder)
    write_atomic(folder / "card.md", as_markdown(replace(card, folder=str(folder))))
