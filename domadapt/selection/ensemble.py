"""Choose the checkpoint that agrees most with all of them together: EnsV (Hu et al. 2024,
https://openreview.net/forum?id=LIBqoaXYfc).

The mean of all candidates is seldom worse than they are on average, so that the one nearest to it is not the worst. It
can't tell when most are wrong alike.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import Rows
from domadapt.tasks.tagged import tagged

Array = NDArray[np.float64]


class Ensemble:
    """Most agreement with the mean of all checkpoints on target text: of classes, or F1 of spans."""

    name = "ensemble"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """NaN: one checkpoint alone has nothing to agree with; see :meth:`together`."""
        return float("nan")

    def together(self, candidates: Sequence[Rows]) -> list[float]:
        """Each one's agreement with the mean of all.

        Args:
            candidates: rows of the same target text by each checkpoint.
        """
        return agreement([rows.that_matter() for rows in candidates])


def agreement(candidates: Sequence[Rows]) -> list[float]:
    """Share of texts that a candidate labels as their mean does; where words are tagged, F1 against the mean's spans.

    Args:
        candidates: rows of the same texts; words that one of them lacks are surely nothing to it.

    Returns:
        One number each, from 0 to 1.

    >>> def rows(*first):
    ...     sure, none = np.array([[p, 1 - p] for p in first], np.float32), np.zeros(len(first), np.int64)
    ...     return Rows(sure, none, np.arange(len(first)), none, none - 1)
    >>> agreement([rows(0.9, 0.9), rows(0.8, 0.9), rows(0.4, 0.3)])
    [1.0, 1.0, 0.0]
    """
    places = [np.stack([rows.texts, rows.words], 1) for rows in candidates]
    known, back = np.unique(np.concatenate(places), axis=0, return_inverse=True)
    cuts = np.cumsum([len(place) for place in places])[:-1]
    dense = [_dense(rows, own, len(known)) for rows, own in zip(candidates, np.split(back.ravel(), cuts), strict=True)]
    if not len(known):
        return [float("nan")] * len(candidates)
    mean = np.mean(dense, axis=0)
    if candidates[0].outside < 0:
        return [float((own.argmax(1) == mean.argmax(1)).mean()) for own in dense]
    begins = np.r_[True, (np.diff(known, axis=0) != [0, 1]).any(1)]
    wanted = set(tagged(mean.argmax(1), begins))
    return [_f1(set(tagged(own.argmax(1), begins)), wanted) for own in dense]


def _dense(rows: Rows, places: NDArray[np.int64], size: int) -> Array:
    whole = np.zeros((size, rows.probabilities.shape[1]))
    whole[:, max(rows.outside, 0)] = 1.0
    whole[places] = rows.probabilities
    return whole


def _f1(found: set[tuple[int, int, int]], wanted: set[tuple[int, int, int]]) -> float:
    return 2 * len(found & wanted) / (len(found) + len(wanted)) if found or wanted else 1.0
