"""Predictions of an encoder on examples, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from domadapt.data.batches import Example
from domadapt.data.loaders import in_order
from domadapt.methods.setting import Setting
from domadapt.tasks.task import Prediction
from domadapt.utils.progress import progress


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One pass over examples.

    Attributes:
        predictions: one a text, in the order of the examples.
        probabilities: (rows, classes) of what is classified, texts or words, in no particular order.
        classes: (rows,) true classes; None for unlabelled examples.
    """

    predictions: list[Prediction]
    probabilities: NDArray[np.float32]
    classes: NDArray[np.int64] | None


@torch.no_grad()
def evaluate(encoder: Any, examples: Sequence[Example], setting: Setting, batch_size: int, title: str) -> Evaluation:
    """Predict texts in length order, and return predictions in the order of ``examples``.

    Args:
        encoder: put into evaluation mode and back.
        examples: tokenised texts, indexed from 0.
        setting: task, collator, device and precision.
        batch_size: texts a batch.
        title: of the progress bar.
    """
    results: list[Prediction | None] = [None] * len(examples)
    probabilities, classes = [np.empty((0, len(setting.task.labels)), np.float32)], [np.empty(0, np.int64)]
    labelled = True
    loader: Any = in_order(examples, setting.collator, batch_size) if examples else []
    was_training = encoder.training
    encoder.eval()
    for batch in progress(loader, title, len(loader), "batch"):
        batch = batch.to(setting.device)
        with setting.autocast():
            output = encoder(batch)
        places = batch.index.tolist()
        decoded = setting.task.decode(output, batch, [examples[i].words for i in places])
        for place, prediction in zip(places, decoded, strict=True):
            results[place] = prediction
        logits, true = setting.task.rows(output, batch)
        probabilities.append(logits.float().softmax(-1).cpu().numpy())
        labelled &= true is not None
        if true is not None:
            classes.append(true.cpu().numpy())
    encoder.train(was_training)
    return Evaluation(
        [r for r in results if r is not None],
        np.concatenate(probabilities),
        np.concatenate(classes) if labelled else None,
    )


def predict_examples(
    encoder: Any, examples: Sequence[Example], setting: Setting, batch_size: int, title: str
) -> list[Prediction]:
    """The predictions of :func:`evaluate` alone."""
    return evaluate(encoder, examples, setting, batch_size, title).predictions


def calibration(evaluation: Evaluation, bins: int = 10) -> dict[str, Any] | None:
    """How often the model is right where it says how sure it is (Guo et al. 2017, https://arxiv.org/abs/1706.04599).

    Args:
        evaluation: of labelled examples.
        bins: of equal width in confidence; empty ones are left out.

    Returns:
        ``error``, the expected calibration error, and ``bins`` with mean ``confidence``, ``accuracy`` and ``count``;
        None without labels.

    >>> sure = np.array([[0.9, 0.1], [0.8, 0.2]], np.float32)
    >>> calibration(Evaluation([], sure, np.array([0, 1])), bins=1)["error"]  # right half of the time
    0.35
    """
    if evaluation.classes is None or not len(evaluation.classes):
        return None
    confidence = evaluation.probabilities.max(-1).astype(float)
    right = evaluation.probabilities.argmax(-1) == evaluation.classes
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    sums = np.bincount(place, confidence, bins), np.bincount(place, right, bins)
    found = [
        {"confidence": round(sums[0][i] / count[i], 6), "accuracy": round(sums[1][i] / count[i], 6), "count": int(n)}
        for i, n in enumerate(count)
        if n
    ]
    error = float(np.abs(sums[0] - sums[1]).sum() / len(right))
    return {"error": round(error, 6), "bins": found}
