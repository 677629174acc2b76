"""Proxy A-distance: how well a linear classifier tells two domains apart by a model's states.

Ben-David et al. 2007 (https://papers.nips.cc/paper/2983); Glorot et al. 2011 found it higher, not lower, where adapted
representations transfer better: it measures what can be seen, not what harms.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FOLDS: Final = 5
SHRINK: Final = 0.01  # strong: there may be as many dimensions as texts
FEWEST: Final = 20  # texts of each domain


def proxy_a_distance(source: NDArray[Any], target: NDArray[Any], seed: int = 1) -> float | None:
    """2 (1 - 2e), e the classifier's share of mistakes on held-out texts: 0 for chance, 2 where it makes none.

    As many texts of each domain, so that chance is a half; at less than chance, 0.

    Args:
        source, target: (texts, width).
        seed: of which texts, and of the folds.

    Returns:
        None for fewer than 20 texts of one domain.

    >>> left, right = np.zeros((40, 2)), np.ones((60, 2))
    >>> proxy_a_distance(left, right), proxy_a_distance(left, left), proxy_a_distance(left[:9], right)
    (2.0, 0.0, None)
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    size = min(len(source), len(target))
    if size < FEWEST:
        return None
    random = np.random.default_rng(seed)
    points = np.concatenate([side[random.permutation(len(side))[:size]] for side in (source, target)])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=SHRINK, max_iter=500))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    right = cross_val_score(model, points.astype(np.float64), np.repeat([0, 1], size), cv=folds).mean()
    return max(0.0, float(2 * (1 - 2 * (1 - right))))
