"""The score to expect without labels, from calibrated confidence.

Temperature scaling (Guo et al. 2017, https://arxiv.org/abs/1706.04599): one number makes confidence honest where
labels are known. Under shift it stays too sure (Ovadia et al. 2019, https://arxiv.org/abs/1906.02530).

What a model will score on text without labels, and how far off that may be.

Three estimates, from probabilities calibrated on source dev. All see only what the model is unsure of: none sees that
the target's annotators would follow other rules, so all are too high, by an amount known from runs whose target labels
are known (:data:`KNOWN`).

- counts: F1 of the expected counts, 2 E[right] / (predicted + E[there]);
- doc, difference of confidences (Guillory et al. 2021, https://arxiv.org/abs/2107.03315): the score on source dev, plus
  what the expected score changes from source dev to target;
- atc, average thresholded confidence (Garg et al. 2022, https://arxiv.org/abs/2201.04234): the threshold above which as
  many of source dev's predictions lie as are right; and another above which lie as many of the places passed over as
  are missed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import norm

from domadapt.analysis.subject import Array, Counts, Items, counts, scores
from domadapt.inference.evaluate import calibration
from domadapt.tasks.extraction import tag_names
from domadapt.tasks.task import Rows, Scores, Task

RANGE = np.log(0.05), np.log(20.0)  # of the logarithm of a temperature


def temperature(rows: Rows) -> float:
    """The temperature with the least negative log likelihood; 1 without rows.

    Args:
        rows: of labelled text that the model has not learnt from.

    >>> always, none = np.array([[0.9, 0.1]] * 4, np.float32), np.zeros(4, np.int64)
    >>> round(temperature(Rows(always, none, none, none, np.array([0, 0, 0, 1]))), 2)  # sure by .9, right by .75
    2.0
    """
    if not len(rows):
        return 1.0
    logits = _logs(rows)

    def loss(log_of_temperature: float) -> float:
        logs = log_softmax(logits / np.exp(log_of_temperature), axis=-1)
        return -float(np.take_along_axis(logs, rows.classes[:, None], -1).mean())

    return float(np.exp(minimize_scalar(loss, bounds=RANGE, method="bounded").x))


def tempered(rows: Rows, temperature: float) -> Rows:
    """The same rows at another temperature: above 1 they are less sure, and the likeliest class stays."""
    return replace(rows, probabilities=softmax(_logs(rows) / temperature, axis=-1).astype(np.float32))


def calibration_under_shift(dev: Rows, test: Rows | None) -> dict[str, Any]:
    """Calibration on source dev and on the target test, before and after temperature scaling on source dev.

    One number is fitted to all of source dev, so what it says of source dev itself is hardly flattered.

    Args:
        test: of the target test; None where there are no labels.

    Returns:
        As :class:`domadapt.runs.metrics.Calibration` has it.
    """
    heat = temperature(dev)
    found: dict[str, Any] = {"temperature": round(heat, 4)}
    for name, rows in (("source_dev_", dev), ("", test)):
        if rows is None or (before := calibration(rows)) is None:
            continue
        after = calibration(tempered(rows, heat))
        found |= {f"{name}error": before["error"], f"{name}scaled_error": after and after["error"]}
        if rows is test:
            found["bins"] = before["bins"]
    return found


def _logs(rows: Rows) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.log(np.clip(rows.probabilities.astype(float), 1e-12, None))
    return logs


RESAMPLES, COVERED = 200, 0.9
FEW = 10  # texts of source dev: drawn again, fewer do not tell how others would differ
Sums = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Known:
    """An estimate's record on runs whose target labels are known.

    Attributes:
        estimate: its name.
        bias: mean of the estimate less the true score; it is subtracted.
        spread: standard deviation of what is left.
        error: mean absolute error of the corrected estimate, on corpora that the bias was not learnt on; None where
            nothing was measured.
        runs: how many there were.
    """

    estimate: str
    bias: float
    spread: float
    error: float | None
    runs: int


# By kind of task.
KNOWN = {
    # MiniLM, source_only and recipe on the development pairs of MEMD: results/expected.csv (benchmarks.expected).
    "token": Known("doc", bias=0.1, spread=0.086, error=0.072, runs=55),
    # The bias is that of linear models of words on pairs of amazon_reviews and amazon_reviews_fdu; what is left is
    # MiniLM's, on eleven pairs of whole texts.
    "sequence": Known("doc", bias=0.028, spread=0.059, error=0.047, runs=20),
}


def expected_score(dev: Rows, target: Rows, task: Task) -> dict[str, Any] | None:
    """The expected headline score on a target, with an interval, and all estimates.

    Returns:
        As :class:`domadapt.runs.metrics.Expected` has it; None without rows, and for tags other than BIO.
    """
    tags = task.kind == "token"
    if not len(dev) or not len(target) or (tags and task.labels != tag_names([t[2:] for t in task.labels[1::2]])):
        return None
    known, heat = KNOWN[task.kind], temperature(dev)
    sides = Sides(
        counts(dev, task.labels, labelled=True),
        counts(tempered(dev, heat), task.labels, labelled=False),
        counts(tempered(target, heat), task.labels, labelled=False),
        task.headline,
        getattr(task, "average", "macro"),
    )
    texts = len(np.unique(dev.texts)), len(np.unique(target.texts))
    estimates = {name: made(sides, np.ones(texts[0]), np.ones(texts[1])) for name, made in ESTIMATES.items()}
    dice = np.random.default_rng(0)
    drawn = []
    for _ in range(RESAMPLES):
        often = [np.bincount(dice.integers(n, size=n), minlength=n).astype(float) for n in texts]
        drawn.append(ESTIMATES[known.estimate](sides, *often))
    score = estimates[known.estimate][task.headline] - known.bias
    sampled = [one[task.headline] - known.bias for one in drawn]
    few = 0.5 / np.sqrt(texts[0]) if texts[0] < FEW else 0.0
    low, high = interval(score, sampled, float(np.hypot(known.spread, few)))
    return {
        "score": round(min(max(score, 0.0), 1.0), 6),
        "low": low,
        "high": high,
        "estimate": known.estimate,
        "usual_error": known.error,
        "temperature": round(heat, 4),
        "texts": texts[1],
        "estimates": {name: {k: round(v, 6) for k, v in own.items()} for name, own in estimates.items()},
    }


def interval(score: float, sampled: list[float], spread: float) -> tuple[float, float]:
    """From where to where a score lies nine times in ten: what texts were drawn, and what the estimate can't see.

    Args:
        sampled: the same from texts of source dev and target drawn again.

    >>> interval(0.6, [0.58, 0.6, 0.62], 0.0), interval(0.6, [0.6, 0.6], 0.1)
    ((0.567, 0.633), (0.436, 0.764))
    >>> interval(-0.18, [-0.18, -0.18], 0.09)
    (0.0, 0.0)
    """
    half = float(norm.ppf((1 + COVERED) / 2) * np.hypot(np.std(sampled, ddof=1), spread))
    low, high = np.clip([score - half, score + half], 0.0, 1.0)  # both: a score to expect may lie below 0 by itself
    return round(float(low), 3), round(float(high), 3)


@dataclass(frozen=True, slots=True)
class Sides:
    """What estimates are made from.

    Attributes:
        counted: kind → of source dev, with its labels.
        dev, target: kind → the same expected from calibrated probabilities.
        headline, average: of the task.
    """

    counted: Mapping[str, Counts]
    dev: Mapping[str, Counts]
    target: Mapping[str, Counts]
    headline: str
    average: str

    def scores(self, sums: Sums) -> Scores:
        """Of kind → (3,) sums."""
        return scores(sums, self.headline, self.average)


def by_counts(sides: Sides, dev: Array, target: Array) -> Scores:
    """Scores of the expected counts; ``dev`` and ``target`` are how often each text counts."""
    return sides.scores({kind: own.sums(target) for kind, own in sides.target.items()})


def by_confidence(sides: Sides, dev: Array, target: Array) -> Scores:
    """DoC."""
    true = sides.scores({kind: own.sums(dev) for kind, own in sides.counted.items()})
    before = sides.scores({kind: own.sums(dev) for kind, own in sides.dev.items()})
    after = by_counts(sides, dev, target)
    return {name: float(np.clip(true[name] + after[name] - before[name], 0, 1)) for name in true}


def by_threshold(sides: Sides, dev: Array, target: Array) -> Scores:
    """ATC."""
    sums: Sums = {}
    for kind, own in sides.target.items():
        _, right, there = sides.counted[kind].sums(dev)
        on_dev, found = sides.dev[kind], float(target @ own.predicted)
        kept = _above(on_dev.found, dev, right, own.found, target)
        missed = _above(on_dev.passed, dev, there - right, own.passed, target)
        sums[kind] = np.array([found, kept, kept + missed])
    return sides.scores(sums)


def _above(dev: Items, dev_texts: Array, wanted: float, target: Items, target_texts: Array) -> float:
    """How many of the target's items lie above the threshold above which ``wanted`` of dev's lie."""
    order = np.argsort(-dev.sure)
    place = int(np.searchsorted(np.cumsum(dev_texts[dev.texts][order]), wanted - 1e-9))
    if wanted <= 0 or not len(order):
        return 0.0
    threshold = dev.sure[order[place]] if place < len(order) else 0.0
    return float(target_texts[target.texts] @ (target.sure >= threshold))


ESTIMATES: dict[str, Callable[[Sides, Array, Array], Scores]] = {
    "counts": by_counts,
    "doc": by_confidence,
    "atc": by_threshold,
}
