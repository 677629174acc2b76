"""Choose the checkpoint whose target labels teach a model that does well on source dev: reverse validation (Zhong et
al. 2010, https://doi.org/10.1007/978-3-642-15939-8_35).

The reverse model is a linear one on the checkpoint's frozen states, so that it costs a moment: it tells whether target
predictions follow the directions that separate the source's classes, not what a network trained back would.
"""

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import Rows

SHRINK = 100.0


class Reverse:
    """Largest score on source dev of a model of the target's predictions, of words that could be something."""

    name = "reverse"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Macro F1 of the classes that are something."""
        return back(evidence.target.that_matter(), evidence.source.that_matter())


def back(target: Rows, source: Rows) -> float:
    """Learn the predictions of target rows from their features; score on the classes of source rows.

    Args:
        target: rows with predictions.
        source: rows with classes.

    Returns:
        Macro F1 over the classes of the source, ``outside`` left out; NaN where there are no rows.

    >>> sure, place = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32), np.zeros(2, np.int64)
    >>> rows = Rows(sure, np.array([[-1.0], [1.0]], np.float16), place, place, np.array([0, 1]))
    >>> back(rows, rows)
    1.0
    """
    guesses = target.probabilities.argmax(1)
    wanted = np.setdiff1d(source.classes, [source.outside])
    if not len(guesses) or not len(wanted):
        return float("nan")
    found = np.full(len(source), guesses[0])  # all that can be learnt where only one class is predicted
    if len(np.unique(guesses)) > 1:
        model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=SHRINK))
        found = model.fit(target.features.astype(np.float32), guesses).predict(source.features.astype(np.float32))
    return float(f1_score(source.classes, found, labels=wanted, average="macro", zero_division=0.0))
