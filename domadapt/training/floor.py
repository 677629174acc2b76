"""A cell without a network: rules are learnt from the source, applied to the target, and scored as any model is."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from domadapt.config.compose import make
from domadapt.data.records import Record
from domadapt.inference.model import row
from domadapt.methods.rule_baseline import PathRules
from domadapt.runs.key import folder_of
from domadapt.runs.status import Status
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import Parse, Text
from domadapt.tasks.task import Prediction
from domadapt.training.build import Problem
from domadapt.training.test import scores_on_test
from domadapt.utils.files import write_atomic
from domadapt.utils.work import progress

log = logging.getLogger(__name__)


def make_floor(cfg: DictConfig) -> PathRules | None:
    """The floor of a run; None where it trains a network.

    Args:
        cfg: a composed ``train.yaml``.

    Raises:
        ValueError: there are several, or something else is asked for that only a network has.
    """
    if not cfg.floor:
        return None
    names, name = [str(name) for name in cfg.floor], next(iter(cfg.floor))
    if len(names) > 1:
        raise ValueError(f"floor={names}: expected one; run them one by one")
    given = [
        f"{group}={'+'.join(map(str, cfg[group]))}" for group in ("injection", "adaptation", "control") if cfg[group]
    ]
    if cfg.train_on != "source":
        given.append(f"train_on={cfg.train_on}")
    if given:
        raise ValueError(
            f"floor={name}: rules in place of a network, learnt from the source; leave out {' and '.join(given)}"
        )
    floor: PathRules = make(cfg.floor[name])
    return floor


def run_floor(cfg: DictConfig, floor: PathRules, problem: Problem, folder: Path, status: Status) -> dict[str, Any]:
    """Learn the rules, then apply them; target labels are opened after that.

    Args:
        folder: where predictions are written.

    Returns:
        For metrics.json: ``stages``, ``source_dev``, ``target_test`` and so on.

    Raises:
        ValueError: texts are to be classified, and rules extract spans.
    """
    domains, task = problem.domains, problem.task
    if task.kind != "token":
        raise ValueError(f"floor={next(iter(cfg.floor))}: extracts spans, and here texts are classified; leave it out")
    parser = ParseCache(make(cfg.parser), folder_of(cfg, "cache"))

    def parsed(texts: Sequence[Text], title: str) -> list[Parse]:
        return [*progress(parser.parse(texts), f"parse {title}", len(texts), "text")]

    def predicted(texts: Sequence[Text], title: str) -> list[Prediction]:
        return [floor.predict(text, parse) for text, parse in zip(texts, parsed(texts, title), strict=True)]

    def scored(records: tuple[Record, ...], title: str) -> dict[str, float]:
        task.check(records)
        return task.score(records, predicted(records, title))

    texts = domains.unlabeled.texts
    with status.during("prepare"):
        own, others = parsed(domains.source_train, "source train"), parsed(texts, "target unlabelled")
    with status.during("fit"):
        learnt = floor.learn(domains.source_train, own)
        for name, value in learnt.items():
            log.info("%s: %s", name, "\n  ".join(["", *value]) if isinstance(value, list) else value)
    with status.during("evaluate"):
        result: dict[str, Any] = {"stages": learnt, "source_dev": scored(domains.source_dev, "source dev"), "curve": []}
        if domains.source_test:
            result["source_test"] = scored(domains.source_test, "source test")
        if problem.sealed is not None:
            records = task.usable(problem.sealed.open(), domains.warnings)
            predictions = predicted(records, "target test")
            scores = task.score(records, predictions)
            return result | scores_on_test(task, domains, records, predictions, scores, folder)
        lines = [row(text, floor.predict(text, parse), task.kind) for text, parse in zip(texts, others, strict=True)]
        write_atomic(folder / "predictions.jsonl", "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines))
    return {**result, "target_test": None}
