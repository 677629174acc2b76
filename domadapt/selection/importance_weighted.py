"""Choose the checkpoint with the least risk on the source dev that looks like the target: importance weighting
(Sugiyama et al. 2007, https://jmlr.org/papers/v8/sugiyama07a.html) with the control variate of deep embedded validation
(You et al. 2019, https://proceedings.mlr.press/v97/you19a.html).

Weights are the odds of a linear domain classifier on the checkpoint's own states. They are right where the target is a
part of the source seen more often; where annotators follow other rules, or states do not overlap, they are not.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import FloatArray

States = NDArray[np.floating[Any]]
SHRINK = 0.01  # strong: there are as many dimensions as rows


class ImportanceWeighted:
    """Least weighted share of wrong rows on source dev, of words that are or are called something."""

    name = "importance_weighted"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Minus the risk."""
        train, dev, target = (rows.that_matter() for rows in (evidence.train, evidence.source, evidence.target))
        # What is nothing and is called so is not counted: an unsure model has more of it, and would look the better.
        dev = dev.where((dev.classes != dev.outside) | (dev.probabilities.argmax(1) != dev.outside))
        if not (len(train) and len(dev) and len(target)):
            return float("nan")
        weights = density_ratio(train.features, target.features, dev.features)
        return -risk(weights, (dev.probabilities.argmax(1) != dev.classes).astype(float))


def density_ratio(source: States, target: States, where: States) -> FloatArray:
    """How much likelier some points are on the target than on the source.

    Args:
        source, target: (rows, width) of each domain.
        where: (n, width).

    Returns:
        (n,).

    >>> left, right = np.array([[0.0], [0.1]] * 50), np.array([[0.9], [1.0]] * 50)
    >>> low, high = density_ratio(left, right, np.array([[0.0], [1.0]]))
    >>> bool(low < 0.5), bool(high > 2)
    (True, True)
    """
    points = np.concatenate([source, target]).astype(np.float32)
    domains = np.repeat([0, 1], [len(source), len(target)])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=SHRINK, max_iter=200)).fit(points, domains)
    odds = np.exp(model.decision_function(where.astype(np.float32)))
    result: FloatArray = odds * len(source) / len(target)
    return result


def risk(weights: FloatArray, losses: FloatArray) -> float:
    """Weighted mean loss, less what is explained by the weights' being off 1 in the mean.

    Args:
        weights, losses: (rows,).

    >>> risk(np.array([1.0, 1.0]), np.array([0.0, 1.0])), risk(np.array([0.5, 1.5]), np.array([1.0, 1.0]))
    (0.5, 1.0)
    """
    weighted, spread = weights * losses, weights.var()
    slope = -((weighted - weighted.mean()) * (weights - weights.mean())).mean() / spread if spread else 0.0
    return float(weighted.mean() + slope * (weights.mean() - 1))
