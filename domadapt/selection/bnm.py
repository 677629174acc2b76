"""Choose the checkpoint whose target predictions have the largest nuclear norm: sure, and of many classes (batch
nuclear norm, Cui et al. 2020, https://arxiv.org/abs/2003.12237).

A convex stand-in for the rank of the predictions, where :mod:`domadapt.selection.infomax` takes entropies. It fails as
that does: balanced nonsense scores high.
"""

import numpy as np

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import FloatArray


class BatchNuclearNorm:
    """Largest nuclear norm of target predictions, of words that could be something."""

    name = "bnm"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """The norm, as a share of the largest that there can be."""
        target = evidence.target.that_matter().probabilities
        return nuclear_norm(target) if len(target) else float("nan")


def nuclear_norm(probabilities: FloatArray) -> float:
    """Sum of singular values, divided by what certain and balanced rows have.

    Args:
        probabilities: (rows, classes).

    >>> certain, unsure = np.eye(2), np.full((2, 2), 0.5)
    >>> nuclear_norm(certain), round(nuclear_norm(unsure), 3)
    (1.0, 0.5)
    """
    rows, classes = probabilities.shape
    singular = np.linalg.svd(probabilities.astype(float), compute_uv=False)
    return float(singular.sum() / np.sqrt(rows * min(rows, classes)))
