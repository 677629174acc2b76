"""The score to expect without labels, and how far off that may be.

Classification and span extraction are the same sums, by class or by span type: what was predicted, how much of that is
right, how much there is to find. Without labels a prediction counts with the probability that it is right, and what
there is to find is the probability mass, that of untagged words too: the misses lie below the threshold.

Such expectations are as good as probabilities are calibrated. Temperature scaling (Guo et al. 2017,
https://arxiv.org/abs/1706.04599): one number makes confidence honest where labels are known, on source dev. Under shift
it stays too sure (Ovadia et al. 2019, https://arxiv.org/abs/1906.02530), and sees only what the model is unsure of, not
that the target's annotators would follow other rules. So all estimates are too high, by an amount known from runs whose
target labels are known (:data:`KNOWN`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import norm

from domadapt.statistics.items import f1
from domadapt.tasks.extraction import tag_names
from domadapt.tasks.rows import Predicted, spans_of_tags
from domadapt.tasks.task import Scores, Task

Array = NDArray[np.float64]
Places = NDArray[np.int64]
KindCounts = dict[str, Array]  # by kind, (texts, 3) true positives, false ones and misses


def kind_counts(rows: Predicted, labels: Sequence[str], labelled: bool) -> KindCounts:
    """Counts of a model's rows: of words with BIO tags where ``rows.o_class`` is 0, else of texts.

    What is right is counted by ``rows.classes`` if these are labels, else expected.
    """
    order = np.lexsort((rows.words, rows.texts))
    probabilities = rows.probabilities[order].astype(float)
    truth = rows.classes[order] if labelled else None
    if rows.o_class >= 0:
        return _span_counts(probabilities, np.unique(rows.texts[order], return_inverse=True)[1], labels, truth)
    result = {}
    for place, label in enumerate(labels):
        chosen = probabilities.argmax(1) == place
        actual = probabilities[:, place] if truth is None else (truth == place).astype(float)
        result[label] = _counts(chosen.astype(float), chosen * actual, actual)
    return result


def _counts(predicted: Array, right: Array, actual: Array) -> Array:
    return np.stack([right, predicted - right, actual - right], axis=-1)


def _span_counts(probabilities: Array, texts: Places, labels: Sequence[str], truth: Places | None) -> KindCounts:
    """Of tags as :func:`domadapt.tasks.extraction.tag_names` names them."""
    begins = np.r_[True, texts[1:] != texts[:-1]][: len(texts)]
    tags, size = probabilities.argmax(1), int(texts.max(initial=-1)) + 1
    predicted, wanted = spans_of_tags(tags, begins), set(spans_of_tags(tags if truth is None else truth, begins))
    result = {}
    for kind, label in enumerate(labels[1::2]):
        begin = 1 + 2 * kind
        spans = [span for span in predicted if span[2] == kind]
        places = texts[np.array([span[0] for span in spans], dtype=np.int64)]
        if truth is None:
            right = np.array([_span_probability(probabilities, begins, span) for span in spans])
            actual = np.bincount(texts, probabilities[:, begin], size).astype(float)
        else:
            right = np.array([float(span in wanted) for span in spans])
            actual = np.bincount(texts[[first for first, _, k in wanted if k == kind]], minlength=size).astype(float)
        result[label.removeprefix("B-")] = _counts(
            np.bincount(places, minlength=size).astype(float), np.bincount(places, right, size).astype(float), actual
        )
    return result


def _span_probability(probabilities: Array, begins: NDArray[np.bool_], span: tuple[int, int, int]) -> float:
    """Probability of this span and no longer or shorter one, as if words were independent."""
    first, last, kind = span
    begin, inside = 1 + 2 * kind, 2 + 2 * kind
    before = 0.0 if begins[first] else float(probabilities[first - 1, begin] + probabilities[first - 1, inside])
    result = float(probabilities[first, begin]) + float(probabilities[first, inside]) * (1 - before)
    for place in range(first + 1, last + 1):
        result *= float(probabilities[place, inside])
    ends = last + 1 == len(probabilities) or begins[last + 1]
    return result if ends else result * (1 - float(probabilities[last + 1, inside]))


def headline(sums: Array, name: str, average: str) -> Array:
    """(...) the score of a task from sums of counts, (kinds, ..., 3); accuracy: the share that is right."""
    if name == "accuracy":
        return np.asarray(sums[..., 0].sum(0) / np.maximum(sums[..., :2].sum((0, -1)), 1))
    return np.asarray(f1(np.moveaxis(sums, 0, -2), average), np.float64)


def scores(sums: Mapping[str, Array], name: str, average: str) -> Scores:
    """The headline and F1 of every kind, from kind → (3,) sums."""
    each = {f"{kind}_f1": float(f1(total[None])) for kind, total in sums.items()}
    average_of = {name: float(headline(np.stack([*sums.values()]), name, average))}
    return average_of | each | average_of  # as a task's scores are


RANGE = np.log(0.05), np.log(20.0)  # of the logarithm of a temperature
SPREAD = 0.5  # its prior's standard deviation, around a temperature of 1: decides with ten rows, not with hundreds


def temperature(rows: Predicted) -> float:
    """The likeliest temperature by labelled text not learnt from, and by a prior that a few rows do not outweigh.

    1 where all of it is right, which does not tell how sure the model may be: the likeliest one is then the least.

    >>> one = np.array([[0.6, 0.4]] * 8 + [[0.4, 0.6]], np.float32)  # little sure, and right but for one
    >>> def rows(times: int) -> Predicted:
    ...     none = np.zeros(9 * times, np.int64)
    ...     return Predicted(np.tile(one, (times, 1)), none[:, None], none, none, none)
    >>> [round(temperature(rows(times)), 2) for times in (1, 100)]
    [0.73, 0.2]
    """
    if (rows.probabilities.argmax(-1) == rows.classes).all():
        return 1.0
    logits = _logs(rows)

    def loss(log_of_temperature: float) -> float:
        logs = log_softmax(logits / np.exp(log_of_temperature), axis=-1)
        prior = (log_of_temperature / SPREAD) ** 2 / (2 * len(logits))
        return float(prior - np.take_along_axis(logs, rows.classes[:, None], -1).mean())

    return float(np.exp(minimize_scalar(loss, bounds=RANGE, method="bounded").x))


def tempered(rows: Predicted, temperature: float) -> Predicted:
    """The same rows at another temperature: above 1 they are less sure, and the likeliest class stays."""
    return replace(rows, probabilities=softmax(_logs(rows) / temperature, axis=-1).astype(np.float32))


def _logs(rows: Predicted) -> Array:
    return np.asarray(np.log(np.clip(rows.probabilities.astype(float), 1e-12, None)))


def calibration(rows: Predicted, bins: int = 10) -> dict[str, Any] | None:
    """How often the model is right where it says how sure it is (Guo et al. 2017, https://arxiv.org/abs/1706.04599).

    ``error`` is the expected calibration error; ``bins``, of equal width in confidence, have mean ``confidence``,
    ``accuracy`` and ``count``, and empty ones are left out. None without labels.

    >>> sure, none = np.array([[0.9, 0.1], [0.8, 0.2]], np.float32), np.zeros(2, np.int64)
    >>> calibration(Predicted(sure, none, none, none, np.array([0, 1])), bins=1)["error"]  # right half of the time
    0.35
    """
    if not rows.labelled:
        return None
    confidence = rows.probabilities.max(-1).astype(float)
    right = rows.probabilities.argmax(-1) == rows.classes
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    sums = np.bincount(place, confidence, bins), np.bincount(place, right, bins)
    shares = [(round(sure / n, 6), round(hits / n, 6), int(n)) for sure, hits, n in zip(*sums, count, strict=True) if n]
    filled_bins = [dict(zip(("confidence", "accuracy", "count"), row, strict=True)) for row in shares]
    return {"error": round(float(np.abs(sums[0] - sums[1]).sum() / len(right)), 6), "bins": filled_bins}


def calibration_under_shift(dev: Predicted, test: Predicted | None) -> dict[str, Any]:
    """Calibration on source dev and, where it has labels, on the target test, before and after temperature scaling.

    One number is fitted to all of source dev, so what it says of source dev itself is hardly flattered.
    """
    heat = temperature(dev)
    result: dict[str, Any] = {"temperature": round(heat, 4)}
    for name, rows in (("source_dev_", dev), ("", test)):
        if rows is None or (before := calibration(rows)) is None:
            continue
        after = calibration(tempered(rows, heat))
        result |= {f"{name}error": before["error"], f"{name}scaled_error": after and after["error"]}
        if rows is test:
            result["bins"] = before["bins"]
    return result


class TrackRecord(NamedTuple):
    """The estimate's record on runs whose target labels are known."""

    bias: float  #: mean of the estimate less the true score; it is subtracted
    spread: float  #: standard deviation of what is left
    error: float  #: mean absolute error of the corrected estimate, on corpora that the bias was not learnt on
    runs: int


ESTIMATE = "doc"  # difference of confidences, by its name in metrics.json
RESAMPLES, COVERED = 200, 0.9
FEWEST_DEV = 30  # texts of source dev, below which no score is expected
# By kind of task.
KNOWN = {
    # MiniLM, source_only and recipe on the development pairs of MEMD: results/expected.csv (benchmarks.expected).
    "token": TrackRecord(bias=0.086, spread=0.08, error=0.066, runs=72),
    # The bias is that of linear models of words on pairs of amazon_reviews and amazon_reviews_fdu; what is left is
    # MiniLM's, on eleven pairs of whole texts.
    "sequence": TrackRecord(bias=0.028, spread=0.059, error=0.047, runs=20),
}


def expected_score(dev: Predicted, target: Predicted, task: Task) -> dict[str, Any] | None:
    """The expected headline score on a target, with an interval: source dev's, changed by what confidence changes.

    As :class:`~domadapt.runs.metrics.Expected` has it; None with fewer than :data:`FEWEST_DEV` texts, or without BIO.
    """
    sizes = len(np.unique(dev.texts)), len(np.unique(target.texts))
    other_tags = task.kind == "token" and task.labels != tag_names([t[2:] for t in task.labels[1::2]])
    if sizes[0] < FEWEST_DEV or not sizes[1] or other_tags:
        return None
    known, heat = KNOWN[task.kind], temperature(dev)
    kinds = [kind_counts(tempered(rows, heat), task.labels, labelled=False) for rows in (dev, target)]
    kinds.insert(0, kind_counts(dev, task.labels, labelled=True))
    how = task.headline, getattr(task, "average", "macro")
    estimated = by_confidence(kinds, [np.ones(size) for size in sizes], *how)
    random, drawn = np.random.default_rng(0), []
    for _ in range(RESAMPLES):
        often = [np.bincount(random.integers(n, size=n), minlength=n).astype(float) for n in sizes]
        drawn.append(by_confidence(kinds, often, *how)[task.headline] - known.bias)
    score = estimated[task.headline] - known.bias
    low, high = interval(score, drawn, known.spread)
    return {
        "score": round(min(max(score, 0.0), 1.0), 6),
        "low": low,
        "high": high,
        "estimate": ESTIMATE,
        "usual_error": known.error,
        "temperature": round(heat, 4),
        "texts": sizes[1],
        "estimates": {ESTIMATE: {name: round(value, 6) for name, value in estimated.items()}},
    }


def interval(score: float, sampled: list[float], spread: float) -> tuple[float, float]:
    """From where to where a score lies nine times in ten: what texts were drawn, and what the estimate cannot see.

    >>> interval(0.6, [0.58, 0.6, 0.62], 0.0), interval(0.6, [0.6, 0.6], 0.1)
    ((0.567, 0.633), (0.436, 0.764))
    >>> interval(-0.18, [-0.18, -0.18], 0.09)
    (0.0, 0.0)
    """
    half = float(norm.ppf((1 + COVERED) / 2) * np.hypot(np.std(sampled, ddof=1), spread))
    low, high = np.clip([score - half, score + half], 0.0, 1.0)  # both: a score to expect may lie below 0 by itself
    return round(float(low), 3), round(float(high), 3)


def by_confidence(kinds: Sequence[KindCounts], weights: Sequence[Array], name: str, average: str) -> Scores:
    """Difference of confidences (Guillory et al. 2021, https://arxiv.org/abs/2107.03315).

    The score on source dev, plus what the expected score changes from source dev to target; an expected F1 is of
    expected counts, 2 E[right] / (predicted + E[actual]). Counts are of dev with its labels, then of dev and target as
    calibrated probabilities expect them; (texts,) weights of dev and target say how often each text counts.
    """
    often = weights[0], *weights
    sums = [{kind: weight @ one for kind, one in side.items()} for side, weight in zip(kinds, often, strict=True)]
    true, before, after = (scores(one, name, average) for one in sums)
    return {name: float(np.clip(true[name] + after[name] - before[name], 0, 1)) for name in true}
