"""A cell without a network: rules are learnt from the source, applied to the target, and scored as any model is."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from domadapt.data.records import Record
from domadapt.methods.rule_baseline import PathRules
from domadapt.runs.status import Status
from domadapt.syntax.parser import Parse, Parser, Text
from domadapt.tasks.task import Prediction
from domadapt.training.build import Problem
from domadapt.training.card import write_predictions
from domadapt.training.test import scores_on_test
from domadapt.utils.work import progress

log = logging.getLogger(__name__)


def run_rules(rules: PathRules, problem: Problem, parser: Parser, folder: Path, status: Status) -> dict[str, Any]:
    """Learn the rules, then apply them, with predictions in ``folder``; target labels are opened after that.

    What metrics.json says: ``stages``, ``source_dev``, ``target_test`` and so on.
    """
    domains, task, texts = problem.domains, problem.task, problem.domains.unlabelled.texts
    if task.kind != "token":
        raise ValueError("floor=path_rules: extracts spans, and here texts are classified; leave it out")

    def parsed(texts: Sequence[Text], title: str) -> list[Parse]:
        return [*progress(parser.parse(texts), f"parse {title}", len(texts), "text")]

    def predicted(texts: Sequence[Text], parses: Sequence[Parse]) -> list[Prediction]:
        return [rules.predict(text, parse) for text, parse in zip(texts, parses, strict=True)]

    def scored(records: tuple[Record, ...], title: str) -> dict[str, float]:
        task.check(records)
        return task.score(records, predicted(records, parsed(records, title)))

    with status.during("prepare"):
        parses = {"source": parsed(domains.source_train, "source train"), "target": parsed(texts, "target unlabelled")}
    with status.during("fit"):
        learnt = rules.learn(domains.source_train, parses["source"])
        for name, value in learnt.items():
            log.info("%s: %s", name, "\n  ".join(["", *value]) if isinstance(value, list) else value)
    with status.during("evaluate"):
        result: dict[str, Any] = {"stages": learnt, "source_dev": scored(domains.source_dev, "source dev"), "curve": []}
        if domains.source_test:
            result["source_test"] = scored(domains.source_test, "source test")
        if problem.sealed is not None:
            records = task.usable(problem.sealed.open(), domains.warnings)
            predictions = predicted(records, parsed(records, "target test"))
            scores = task.score(records, predictions)
            return result | scores_on_test(task, domains, records, predictions, scores, folder)
        found = predicted(texts, parses["target"])
        write_predictions(texts, found, task.kind, folder / "predictions.jsonl")
    return {**result, "target_test": None}
