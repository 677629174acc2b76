"""The one time that target labels are read: after training and selection are over."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domadapt.analysis.expected import calibration_under_shift, expected_score
from domadapt.data.domains import Domains, SealedTest
from domadapt.data.records import Record
from domadapt.data.texts import identity
from domadapt.inference.evaluate import Evaluation, evaluate
from domadapt.inference.model import span_row
from domadapt.methods.session import Session
from domadapt.tasks.task import Prediction, Scores, Task
from domadapt.training.card import score_warnings
from domadapt.training.epochs import Epochs
from domadapt.utils.files import write_atomic
from domadapt.utils.text import json_lines

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tested:
    """What was read behind the seal: the chosen epoch's predictions on the target test, or every epoch's."""

    records: tuple[Record, ...]
    found: dict[int, Evaluation]
    scores: dict[int, Scores]

    def best(self, headline: str) -> int:
        """The oracle's epoch; the earlier one wins a tie."""
        return max(self.scores, key=lambda epoch: (self.scores[epoch][headline], -epoch))


def test(session: Session, sealed: SealedTest, epochs: Epochs, epoch: int) -> Tested:
    """Open the target test. The chosen epoch comes last, so that its weights stay."""
    records = session.task.usable(sealed.open(), session.domains.warnings)
    examples = session.examples(records, "target test", session.parses_at_prediction, labelled=True)
    tested = Tested(records, {}, {})
    others = [line["epoch"] for line in epochs.curve if line["epoch"] != epoch] if epochs.tests_all else []
    for one in (*others, epoch):
        epochs.restore(one)
        tested.found[one] = evaluate(examples, session, epochs.batch_size, f"target test, epoch {one}")
        tested.scores[one] = session.task.score(records, tested.found[one].predictions)
    return tested


def final_scores(
    session: Session, tested: Tested | None, epochs: Epochs, epoch: int, dev: Evaluation, folder: Path
) -> dict[str, Any]:
    """What metrics.json says of the chosen epoch, whose weights are in place, and of what others would have chosen.

    ``tested`` is None where there are no target labels; ``dev`` are predictions on source dev.
    """
    headline, scores = session.task.headline, tested.scores if tested else {}
    picked = {v.name: epochs.best(v) for v in epochs.validators if epochs.rated(v)}
    if epochs.tests_all and tested:
        picked["oracle"] = tested.best(headline)
    result: dict[str, Any] = {
        "selection": {
            "validator": epochs.chosen.name,
            "epoch": epoch,
            "gap": scores[picked["oracle"]][headline] - scores[epoch][headline] if "oracle" in picked else None,
            "choices": {name: {"epoch": e, "target_test": scores.get(e)} for name, e in picked.items()},
        },
        "source_dev": next(line["source_dev"] for line in epochs.curve if line["epoch"] == epoch),
    }
    result["calibration"] = calibration_under_shift(dev.rows, tested.found[epoch].rows if tested else None)
    if any(r.domain != session.domains.target for r in session.domains.source_dev):  # not of the ceiling
        target = evaluate(session.validation, session, epochs.batch_size, "target validation")
        result["expected"] = expected_score(dev.rows, target.rows, session.task)
    if len(scores) == len(epochs.curve):
        result["selection"]["target_curve"] = [scores[line["epoch"]][headline] for line in epochs.curve]
    if session.domains.source_test:
        records = session.domains.source_test
        examples = session.examples(records, "source test", session.parses_at_prediction, labelled=True)
        source = evaluate(examples, session, epochs.batch_size, "source test")
        result["source_test"] = session.task.score(records, source.predictions)
    if tested is None:
        return {**result, "target_test": None}
    predictions = tested.found[epoch].predictions
    for warning in score_warnings(session.task, tested.records, predictions, epochs.curve, epoch):
        log.warning("%s", warning)
    return result | scores_on_test(session.task, session.domains, tested.records, predictions, scores[epoch], folder)


def scores_on_test(
    task: Task,
    domains: Domains,
    records: Sequence[Record],
    predictions: Sequence[Prediction],
    scores: Scores,
    folder: Path,
) -> dict[str, Any]:
    """What metrics.json says of the target test; the predictions go into ``folder``."""
    texts = [r.text for r in domains.unlabelled.texts] + [r.text for r in domains.source_train]
    seen = {identity(text) for text in texts}  # as the audit knows copies: without case, spaces and marks
    clean = [(r, p) for r, p in zip(records, predictions, strict=True) if identity(r.text) not in seen]
    rows = (_row(r, p) for r, p in zip(records, predictions, strict=True))
    write_atomic(folder / "predictions.jsonl", "".join(json_lines(rows)))
    fair = task.score([r for r, _ in clean], [p for _, p in clean]) if clean else None
    sizes = {"all": len(records), "clean": len(clean)}
    return {"target_test": scores, "target_test_clean": fair, "target_test_sizes": sizes}


def _row(record: Record, prediction: Prediction) -> dict[str, Any]:
    return {
        "id": record.id,
        "text": record.text,
        "words": record.words,
        "gold": {"label": record.label, "spans": [*map(span_row, record.spans or ())]},
        "predicted": {"label": prediction.label, "spans": [*map(span_row, prediction.spans)]},
        "confidence": round(prediction.confidence, 4),
    }
