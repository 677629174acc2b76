"""Choose the checkpoint whose predicted classes are least confused with one another on target text: class correlation
(Tu et al. 2023, https://arxiv.org/abs/2302.04178).

The matrix of how classes are predicted together is compared with the identity: the same where predictions are sure and
balanced; of rank one where one class takes all, or all rows are unsure.
"""

import numpy as np

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import FloatArray


class ClassCorrelation:
    """Least correlation between classes of target predictions, of words that could be something."""

    name = "corr_c"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Cosine of the class correlations with the identity."""
        target = evidence.target.that_matter().probabilities
        return cosine_with_identity(target) if len(target) else float("nan")


def cosine_with_identity(probabilities: FloatArray) -> float:
    """tr(PᵀP) / (‖PᵀP‖ √classes), from 1 / √classes to 1.

    Args:
        probabilities: (rows, classes).

    >>> round(cosine_with_identity(np.eye(4)), 3), round(cosine_with_identity(np.full((4, 4), 0.25)), 3)
    (1.0, 0.5)
    """
    together = probabilities.T.astype(float) @ probabilities
    return float(np.trace(together) / (np.linalg.norm(together) * np.sqrt(len(together))))
