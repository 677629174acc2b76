"""Predictions of a pass over texts as what precision, recall and F1 are summed from, with labels and without.

Classification and span extraction are the same sums, by class or by span type: what was predicted, how much of that is
right, how much there is to find. Without labels a prediction counts with the probability that it is right, and what
there is to find is the probability mass, that of untagged words too: the misses lie below the threshold. Such
expectations are as good as the probabilities are calibrated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from domadapt.tasks.extraction import tagged
from domadapt.tasks.task import Rows, Scores

Array = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Items:
    """Predictions, or places where something might be that is not predicted.

    Attributes:
        sure: (n,) probability that there is something: exactly the predicted, if there is a prediction.
        texts: (n,) which text it is in, counted from 0.
    """

    sure: Array
    texts: Places


@dataclass(frozen=True, slots=True)
class Counts:
    """One kind, which is a class or a span type, in every text.

    Attributes:
        predicted, right, there: (texts,) how many are predicted, are right, are there to find; the latter two are
            expected where no labels are known.
        found: the predictions.
        passed: what was passed over, and might be a miss.
    """

    predicted: Array
    right: Array
    there: Array
    found: Items
    passed: Items

    def sums(self, weights: Array) -> Array:
        """(3,) predicted, right and there over all texts, each as often as its weight says."""
        return np.array([weights @ self.predicted, weights @ self.right, weights @ self.there])


def counts(rows: Rows, labels: Sequence[str], labelled: bool) -> dict[str, Counts]:
    """Counts of a model's rows, by kind.

    Args:
        rows: of all texts; of words with BIO tags where ``rows.outside`` is 0, else of texts.
        labels: names of the classes, in the order of the probabilities.
        labelled: what is right is counted, by ``rows.classes``; else expected.

    >>> sure, none = np.array([[0.75, 0.25], [0.5, 0.5]], np.float32), np.zeros(2, np.int64)
    >>> found = counts(Rows(sure, none, np.array([0, 1]), none, none - 1), ["bad", "good"], labelled=False)
    >>> {kind: own.sums(np.ones(2)).tolist() for kind, own in found.items()}
    {'bad': [2.0, 1.25, 1.25], 'good': [0.0, 0.0, 0.75]}
    """
    order = np.lexsort((rows.words, rows.texts))
    _, texts = np.unique(rows.texts[order], return_inverse=True)
    sure = rows.probabilities[order].astype(float)
    truth = rows.classes[order] if labelled else None
    return (_of_classes if rows.outside < 0 else _of_spans)(sure, texts, labels, truth)


def scores(sums: Mapping[str, Array], headline: str, average: str) -> Scores:
    """F1 of every kind, and the headline.

    Args:
        sums: kind → (3,) predicted, right and there.
        headline: of the task; ``accuracy`` is the share of predictions that are right.
        average: ``macro``, the mean of the kinds' F1, or ``micro``, the F1 of all together.

    >>> scores({"aspect": np.array([4.0, 2.0, 4.0]), "opinion": np.array([1.0, 1.0, 1.0])}, "span_f1", "macro")
    {'span_f1': 0.75, 'aspect_f1': 0.5, 'opinion_f1': 1.0}
    """
    each = {f"{kind}_f1": _f1(own) for kind, own in sums.items()}
    total = np.sum([*sums.values()], axis=0)
    if headline == "accuracy":
        whole = float(total[1] / total[0]) if total[0] else 0.0
    else:
        whole = _f1(total) if average == "micro" else float(np.mean([*each.values()]))
    return {headline: whole, **each}


def _f1(sums: Array) -> float:
    both = float(sums[0] + sums[2])
    return float(2 * sums[1] / both) if both else 0.0


def _of_classes(sure: Array, texts: Places, labels: Sequence[str], truth: Places | None) -> dict[str, Counts]:
    best = sure.argmax(1)
    result = {}
    for place, label in enumerate(labels):
        chosen = best == place
        there = sure[:, place] if truth is None else (truth == place).astype(float)
        found, passed = (Items(sure[mask, place], texts[mask]) for mask in (chosen, ~chosen))
        result[label] = Counts(chosen.astype(float), chosen * there, there, found, passed)
    return result


def _of_spans(sure: Array, texts: Places, labels: Sequence[str], truth: Places | None) -> dict[str, Counts]:
    """Of tags as :func:`domadapt.tasks.extraction.tag_names` names them."""
    begins = np.r_[True, texts[1:] != texts[:-1]][: len(texts)]
    tags, size = sure.argmax(1), int(texts.max(initial=-1)) + 1
    predicted = tagged(tags, begins)
    wanted = None if truth is None else set(tagged(truth, begins))
    result = {}
    for kind, label in enumerate(labels[1::2]):
        own = [span for span in predicted if span[2] == kind]
        places = texts[np.array([span[0] for span in own], dtype=np.int64)]
        exact = np.array([_exactly(sure, begins, span) for span in own])
        passed = tags != 1 + 2 * kind
        if wanted is None:
            right, there = exact, np.bincount(texts, sure[:, 1 + 2 * kind], size).astype(float)
        else:
            right = np.array([float(span in wanted) for span in own])
            there = np.bincount(texts[[first for first, _, k in wanted if k == kind]], minlength=size).astype(float)
        result[label.removeprefix("B-")] = Counts(
            np.bincount(places, minlength=size).astype(float),
            np.bincount(places, right, size).astype(float),
            there,
            Items(exact, places),
            Items(sure[passed, 1 + 2 * kind], texts[passed]),
        )
    return result


def _exactly(sure: Array, begins: NDArray[np.bool_], span: tuple[int, int, int]) -> float:
    """Probability of this span and no longer or shorter one, as if words were independent."""
    first, last, kind = span
    begin, inside = 1 + 2 * kind, 2 + 2 * kind
    before = 0.0 if begins[first] else float(sure[first - 1, begin] + sure[first - 1, inside])
    result = float(sure[first, begin]) + float(sure[first, inside]) * (1 - before)
    for _, place in pairwise(range(first, last + 1)):
        result *= float(sure[place, inside])
    ends = last + 1 == len(sure) or begins[last + 1]
    return result if ends else result * (1 - float(sure[last + 1, inside]))
