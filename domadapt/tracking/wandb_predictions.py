"""A run's predictions of the target test as W&B shows them: a table, and of classes the confusion matrix."""

import json
from pathlib import Path
from typing import Any


def show_predictions(wandb: Any, run: Any, folder: Path, rows: int) -> None:
    """Log ``predictions.jsonl``; nothing where there is none.

    Args:
        wandb: the package.
        run: an open run.
        folder: of the run.
        rows: of the table; the matrix is of all texts.
    """
    path = folder / "predictions.jsonl"
    if not path.is_file():
        return
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    told = [[row["text"], said(row, "gold"), said(row, "predicted"), row["confidence"]] for row in found[:rows]]
    shown = {"predictions": wandb.Table(columns=["text", "gold", "predicted", "confidence"], data=told)}
    pairs = [[row.get(side, {}).get("label") for side in ("gold", "predicted")] for row in found]
    if pairs and all(isinstance(label, str) for pair in pairs for label in pair):
        names = sorted({label for pair in pairs for label in pair})
        gold, predicted = ([names.index(label) for label in side] for side in zip(*pairs, strict=True))
        shown["confusion"] = wandb.plot.confusion_matrix(y_true=gold, preds=predicted, class_names=names)
    run.log(shown)


def said(row: dict[str, Any], side: str) -> str:
    """A label, or spans as ``type: words``.

    >>> gold = {"label": None, "spans": [{"start": 2, "end": 7, "type": "opinion"}]}
    >>> said({"text": "A sharp lens", "gold": gold}, "gold")
    'opinion: sharp'
    """
    labels = row.get(side, {})
    if labels.get("label") is not None:
        return str(labels["label"])
    return "; ".join(f"{s['type']}: {row['text'][s['start'] : s['end']]}" for s in labels.get("spans", ()))
