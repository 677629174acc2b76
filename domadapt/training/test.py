"""The one time that target labels are read: after training and selection are over."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from domadapt.analysis.expected import calibration_under_shift, expected_score
from domadapt.data.domains import Domains, SealedTest
from domadapt.data.records import Record
from domadapt.data.texts import identity
from domadapt.inference.evaluate import Evaluation, evaluate
from domadapt.methods.session import Session
from domadapt.tasks.task import Prediction, Scores, Task
from domadapt.training.card import score_warnings
from domadapt.training.epochs import Epochs
from domadapt.utils.files import write_atomic

log = logging.getLogger(__name__)


def final_evaluation(session: Session, sealed: SealedTest | None, epochs: Epochs, folder: Path) -> dict[str, Any]:
    """Score the chosen epoch on everything, and every other epoch on the target test; the chosen one's weights stay.

    Args:
        sealed: the target test; None where there are no labels.
        folder: where predictions are written.

    Returns:
        For metrics.json: ``selection``, ``source_dev``, ``target_test`` and so on.
    """
    chosen = epochs.validators[0]
    picked = {v.name: epochs.best(v) for v in epochs.validators if epochs.rated(v)}
    scores: dict[int, Scores] = {}
    found: dict[int, Evaluation] = {}
    records: tuple[Record, ...] = ()
    headline = session.task.headline
    if sealed is not None:
        records = session.task.usable(sealed.open(), session.domains.warnings)
        examples = _examples(session, records, "target test")
        for line in epochs.curve:
            epoch = line["epoch"]
            epochs.restore(epoch)
            found[epoch] = evaluate(examples, session, epochs.batch_size, f"target test, epoch {epoch}")
            scores[epoch] = session.task.score(records, found[epoch].predictions)
        picked["oracle"] = max(scores, key=lambda epoch: (scores[epoch][headline], -epoch))
    epoch = picked[chosen.name]
    epochs.restore(epoch)
    result: dict[str, Any] = {
        "selection": {
            "validator": chosen.name,
            "epoch": epoch,
            "gap": scores[picked["oracle"]][headline] - scores[epoch][headline] if scores else None,
            "choices": {name: {"epoch": e, "target_test": scores.get(e)} for name, e in picked.items()},
        },
        "source_dev": next(line["source_dev"] for line in epochs.curve if line["epoch"] == epoch),
    }
    dev = evaluate(session.dev, session, epochs.batch_size, "source dev")
    result["calibration"] = calibration_under_shift(dev.rows, found[epoch].rows if scores else None)
    if any(r.domain != session.domains.target for r in session.domains.source_dev):  # not of the ceiling
        target = evaluate(session.validation, session, epochs.batch_size, "target validation")
        result["expected"] = expected_score(dev.rows, target.rows, session.task)
    if scores:
        result["selection"]["target_curve"] = [scores[line["epoch"]][headline] for line in epochs.curve]
    if session.domains.source_test:
        examples = _examples(session, session.domains.source_test, "source test")
        source = evaluate(examples, session, epochs.batch_size, "source test")
        result["source_test"] = session.task.score(session.domains.source_test, source.predictions)
    if not scores:
        return {**result, "target_test": None}
    predictions = found[epoch].predictions
    for warning in score_warnings(session.task, records, predictions, epochs.curve, epoch):
        log.warning("%s", warning)
    return result | scores_on_test(session.task, session.domains, records, predictions, scores[epoch], folder)


def scores_on_test(
    task: Task,
    domains: Domains,
    records: Sequence[Record],
    predictions: Sequence[Prediction],
    scores: Scores,
    folder: Path,
) -> dict[str, Any]:
    """What metrics.json says of the target test, and the predictions as a file.

    Args:
        folder: where predictions are written.
    """
    texts = [r.text for r in domains.unlabeled.texts] + [r.text for r in domains.source_train]
    seen = {identity(text) for text in texts}  # as the audit knows copies: without case, spaces and marks
    clean = [(r, p) for r, p in zip(records, predictions, strict=True) if identity(r.text) not in seen]
    lines = [json.dumps(_row(r, p), ensure_ascii=False) for r, p in zip(records, predictions, strict=True)]
    write_atomic(folder / "predictions.jsonl", "".join(line + "\n" for line in lines))
    return {
        "target_test": scores,
        "target_test_clean": task.score([r for r, _ in clean], [p for _, p in clean]) if clean else None,
        "target_test_sizes": {"all": len(records), "clean": len(clean)},
    }


def _examples(session: Session, records: tuple[Record, ...], part: str) -> Any:
    return session.examples(records, part, session.parses_at_prediction, labelled=True)


def _row(record: Record, prediction: Prediction) -> dict[str, Any]:
    def spans(items: Any) -> list[dict[str, Any]]:
        return [
            {"start": s.start, "end": s.end, "type": s.type}
            | ({} if s.confidence is None else {"confidence": round(s.confidence, 4)})
            for s in items or ()
        ]

    return {
        "id": record.id,
        "text": record.text,
        "words": record.words,
        "gold": {"label": record.label, "spans": spans(record.spans)},
        "predicted": {"label": prediction.label, "spans": spans(prediction.spans)},
        "confidence": round(prediction.confidence, 4),
    }
