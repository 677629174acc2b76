"""Choose the checkpoint whose target logits are largest: matrix norm, MaNo (Xie et al. 2024,
https://arxiv.org/abs/2405.18979).

Logits are known here up to a number a row, so they are centred first, where the paper takes them as they are.
"""

import numpy as np

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import FloatArray

UNSURE = 5.0  # mean −log p up to which logits are trusted too little for a softmax
POWER = 4


class MatrixNorm:
    """Largest norm of normalised target logits, of words that could be something."""

    name = "mano"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """The norm, from 0 to 1."""
        target = evidence.target.that_matter().probabilities
        return matrix_norm(target) if len(target) else float("nan")


def matrix_norm(probabilities: FloatArray) -> float:
    """(mean q⁴)^¼ of the Taylor softmax q of logits, or of their softmax where the model is sure of much.

    Args:
        probabilities: (rows, classes).

    >>> round(matrix_norm(np.full((2, 4), 0.25)), 3), matrix_norm(np.array([[0.9, 0.1]])) > 0.6
    (0.25, True)
    """
    logs = np.log(np.clip(probabilities.astype(float), np.finfo(np.float32).tiny, None))
    shares = probabilities.astype(float)
    if -logs.mean() <= UNSURE:
        logits = logs - logs.mean(1, keepdims=True)
        shares = 1 + logits + logits**2 / 2
        shares /= shares.sum(1, keepdims=True)
    return float((shares**POWER).mean() ** (1 / POWER))
