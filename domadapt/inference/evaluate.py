"""Predictions of an encoder on examples, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from domadapt.data.batches import Example
from domadapt.methods.session import Session
from domadapt.tasks.rows import Predicted, joined
from domadapt.tasks.task import Prediction


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One pass over examples."""

    predictions: list[Prediction]  # one a text, in the order of the examples
    rows: Predicted  # what is classified, texts or words


def evaluate(examples: Sequence[Example], session: Session, batch_size: int, title: str) -> Evaluation:
    """Predict texts in length order, and return predictions in the order of ``examples``, indexed from 0."""
    task = session.task
    results: list[Prediction | None] = [None] * len(examples)
    found: list[Predicted] = []
    for batch, output in session.outputs(examples, batch_size, title):
        places = batch.index.tolist()
        decoded = task.decode(output, batch, [examples[i].words for i in places])
        for place, prediction in zip(places, decoded, strict=True):
            results[place] = replace(prediction, truncated=True) if examples[place].cut else prediction
        found.append(task.rows(output, batch))
        if not np.isfinite(found[-1].probabilities).all():  # a NaN would be the largest of them, and a label
            why = "its weights are damaged, or its training diverged"
            fix = "copy its folder again, or train with a lower trainer.learning_rate"
            raise ValueError(f"{title}: the model's outputs are NaN: {why}; {fix}")
    return Evaluation([r for r in results if r is not None], joined(found, len(task.labels)))


def calibration(rows: Predicted, bins: int = 10) -> dict[str, Any] | None:
    """How often the model is right where it says how sure it is (Guo et al. 2017, https://arxiv.org/abs/1706.04599).

    ``error`` is the expected calibration error; ``bins``, of equal width in confidence, have mean ``confidence``,
    ``accuracy`` and ``count``, and empty ones are left out. None without labels.

    >>> sure, none = np.array([[0.9, 0.1], [0.8, 0.2]], np.float32), np.zeros(2, np.int64)
    >>> calibration(Predicted(sure, none, none, none, np.array([0, 1])), bins=1)["error"]  # right half of the time
    0.35
    """
    if not rows.labelled:
        return None
    confidence = rows.probabilities.max(-1).astype(float)
    right = rows.probabilities.argmax(-1) == rows.classes
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    sums = np.bincount(place, confidence, bins), np.bincount(place, right, bins)
    shares = [(round(sure / n, 6), round(hits / n, 6), int(n)) for sure, hits, n in zip(*sums, count, strict=True) if n]
    found = [dict(zip(("confidence", "accuracy", "count"), one, strict=True)) for one in shares]
    error = float(np.abs(sums[0] - sums[1]).sum() / len(right))
    return {"error": round(error, 6), "bins": found}
