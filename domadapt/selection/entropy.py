"""Choose the checkpoint that is surest of its predictions on target text (Morerio et al. 2018,
https://openreview.net/forum?id=rJWechg0Z).

A model that gives everything one class is sure, too: see :mod:`domadapt.selection.infomax`.
"""

import numpy as np

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import FloatArray


class Entropy:
    """Least entropy of target predictions, of words that could be something."""

    name = "entropy"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Minus the mean entropy of target predictions, in nats."""
        target = evidence.target.that_matter().probabilities
        return -float(entropy(target).mean()) if len(target) else float("nan")


def entropy(probabilities: FloatArray) -> FloatArray:
    """Entropy of each row, in nats.

    Args:
        probabilities: (rows, classes).

    Returns:
        (rows,).

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
    [0.0, 0.693]
    """
    logs = np.log(np.clip(probabilities, np.finfo(np.float32).tiny, None))
    result: FloatArray = -(probabilities * logs).sum(-1)
    return np.abs(result)  # no minus zero
