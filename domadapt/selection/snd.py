"""Choose the checkpoint that gives each target prediction many near neighbours: soft neighbourhood density (Saito et
al. 2021, https://arxiv.org/abs/2108.10860).

Where classes hold together, a row is as near to all of its class; where they are cut through, it is near to few. A
model that gives everything one class is densest of all.
"""

import numpy as np

from domadapt.selection.entropy import entropy
from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import FloatArray

TEMPERATURE = 0.05
MOST = 2000  # rows: what is computed is quadratic in them


class SoftNeighbourhoodDensity:
    """Densest neighbourhoods among target predictions, of words that could be something."""

    name = "snd"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """The density, from 0 to 1."""
        target = evidence.target.that_matter().probabilities
        chosen = np.random.default_rng(0).permutation(len(target))[:MOST]
        return density(target[chosen]) if len(target) > 2 else float("nan")


def density(vectors: FloatArray) -> float:
    """Mean entropy of each row's similarities to the others, as a share of the entropy of equal ones.

    Args:
        vectors: (rows, width), three rows or more; the paper takes predicted probabilities.

    >>> one, other = [1.0, 0.0], [0.0, 1.0]
    >>> [round(density(np.array(rows)), 3) for rows in ([one] * 4, [one, one, other, other])]
    [1.0, 0.0]
    """
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similar = (unit @ unit.T).astype(float) / TEMPERATURE
    np.fill_diagonal(similar, -np.inf)
    near = np.exp(similar - similar.max(1, keepdims=True))
    return float(entropy(near / near.sum(1, keepdims=True)).mean() / np.log(len(vectors) - 1))
