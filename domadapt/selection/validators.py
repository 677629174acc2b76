"""Validators score every epoch without target labels; the chosen one decides which epoch is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domadapt.tasks.rows import FloatArray, Predicted, spans_of_tags
from domadapt.tasks.task import Scores

States = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a validator may see of a checkpoint. There is no target label in it."""

    source_dev: Scores  #: scores on the source's dev part
    headline: str  #: name of the task's headline score
    source: Predicted  #: rows of source dev, with their classes
    target: Predicted  #: of unlabelled target text, a fixed sample; empty unless a validator reads them
    train: Predicted  #: of source training text, with their classes; likewise
    epoch: int  #: how many are over


class Validator:
    """Chooses the checkpoint with the largest value. Those of the package are functions of this file, by their names; a
    stranger's is a subclass of his own with a ``name`` and a ``__call__``, and one yaml.
    """

    name: str  #: in tables and in metrics.json
    #: Of the oracle alone, a bound and never a way to select: target labels choose after training is over, when the
    #: sealed test is open; what the others lose against it is the selection gap.
    uses_target_labels = False
    compares_epochs = False  #: its values are known when training is over: all checkpoints are there to be compared
    #: Parts of the evidence that are made for it; source dev always is.
    reads: frozenset[str] = frozenset({"target", "train"})

    def __init__(self, name: str) -> None:
        self.name, self.uses_target_labels, self.compares_epochs = name, name == "oracle", name in OF_EPOCHS
        reads = {"reverse": {"target"}, "importance_weighted": {"target", "train"}}
        self.reads = frozenset({"target"} if name in {*OF_TARGET, *OF_EPOCHS} else reads.get(name, ()))
        if name not in NAMES:
            raise ValueError(f"selection.name={name!r}: expected {', '.join(NAMES)}")

    @np.errstate(invalid="ignore")  # OpenBLAS now and then flags finite float32 products (numpy's issue 24067)
    def __call__(self, evidence: Evidence) -> float:
        """The value to maximise; NaN where one checkpoint alone has none, or nothing is predicted anywhere."""
        if self.name in OF_TARGET:
            target = evidence.target.candidates().probabilities
            return OF_TARGET[self.name](target) if len(target) else float("nan")
        if self.uses_target_labels:
            raise RuntimeError("the oracle reads target labels, which no evidence holds; the final evaluation finds it")
        return OF_EVIDENCE[self.name](evidence) if self.name in OF_EVIDENCE else float("nan")

    def compare(self, epochs: Sequence[Predicted]) -> list[float]:
        """The values to maximise, one a checkpoint, from its rows of the same unlabelled target text."""
        return OF_EPOCHS[self.name]([rows.candidates() for rows in epochs])


def best_epoch(values: Sequence[float]) -> int:
    """The epoch, from 1, with the largest value; the earlier one wins a tie, and what is not finite loses to all.

    >>> best_epoch([0.25, float("nan"), 0.5, 0.5, float("inf")])
    3
    >>> best_epoch([float("nan")])
    Traceback (most recent call last):
    ValueError: values=[nan]: expected a number for at least one epoch; lower trainer.learning_rate, or choose another \
selection
    """
    numbers = [(value, -epoch) for epoch, value in enumerate(values, start=1) if isfinite(value)]
    if not numbers:
        fix = "lower trainer.learning_rate, or choose another selection"
        raise ValueError(f"values={list(values)}: expected a number for at least one epoch; {fix}")
    return -max(numbers)[1]


def entropies(probabilities: FloatArray) -> FloatArray:
    """Entropy of each row, in nats.

    >>> entropies(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
    [0.0, 0.693]
    """
    logs = np.log(np.clip(probabilities, np.finfo(np.float32).tiny, None))
    return np.asarray(np.abs((probabilities * logs).sum(-1)))  # no minus zero


# Of what is predicted on target text, (rows, classes).


def entropy(target: FloatArray) -> float:
    """Minus the mean entropy: how sure they are (Morerio et al. 2018, https://openreview.net/forum?id=rJWechg0Z).

    A model that gives everything one class is sure, too.
    """
    return -float(entropies(target).mean())


def infomax(target: FloatArray) -> float:
    """Entropy of the mean prediction less the mean entropy: sure one by one and diverse together (Musgrave et al. 2022,
    https://arxiv.org/abs/2208.07360, after Shi and Sha 2012)."""
    return float(entropies(target.mean(0, keepdims=True))[0] - entropies(target).mean())


def bnm(target: FloatArray) -> float:
    """Nuclear norm, as a share of what certain and balanced rows have: sure, and of many classes (batch nuclear norm,
    Cui et al. 2020, https://arxiv.org/abs/2003.12237).

    A convex stand-in for the rank, where :func:`infomax` takes entropies. As with that, balanced nonsense scores high.

    >>> certain, unsure = np.eye(2), np.full((2, 2), 0.5)
    >>> bnm(certain), round(bnm(unsure), 3)
    (1.0, 0.5)
    """
    rows, classes = target.shape
    singular = np.linalg.svd(target.astype(float), compute_uv=False)
    return float(singular.sum() / np.sqrt(rows * min(rows, classes)))


def corr_c(target: FloatArray) -> float:
    """Class correlation (Tu et al. 2023, https://arxiv.org/abs/2302.04178): tr(PᵀP) / (‖PᵀP‖ √classes), the cosine with
    the identity of how classes are predicted together.

    1 where predictions are sure and balanced; 1 / √classes where one class takes all, or all rows are unsure.

    >>> round(corr_c(np.eye(4)), 3), round(corr_c(np.full((4, 4), 0.25)), 3)
    (1.0, 0.5)
    """
    correlation = target.T.astype(float) @ target
    return float(np.trace(correlation) / (np.linalg.norm(correlation) * np.sqrt(len(correlation))))


UNSURE = 5.0  # mean −log p up to which logits are trusted too little for a softmax
POWER = 4


def mano(target: FloatArray) -> float:
    """Matrix norm (Xie et al. 2024, https://arxiv.org/abs/2405.18979): (mean q⁴)^¼ of the Taylor softmax q of logits,
    or of their softmax where the model is sure of much.

    Logits are known here up to a number a row, so they are centred first, where the paper takes them as they are.

    >>> round(mano(np.full((2, 4), 0.25)), 3), mano(np.array([[0.9, 0.1]])) > 0.6
    (0.25, True)
    """
    logs = np.log(np.clip(target.astype(float), np.finfo(np.float32).tiny, None))
    shares = target.astype(float)
    if -logs.mean() <= UNSURE:
        logits = logs - logs.mean(1, keepdims=True)
        shares = 1 + logits + logits**2 / 2
        shares /= shares.sum(1, keepdims=True)
    return float((shares**POWER).mean() ** (1 / POWER))


TEMPERATURE = 0.05
MOST_ROWS = 2000  # rows: what is computed is quadratic in them


def snd(target: FloatArray) -> float:
    """Soft neighbourhood density (Saito et al. 2021, https://arxiv.org/abs/2108.10860): mean entropy of each row's
    similarities to the others, as a share of the entropy of equal ones.

    Where classes hold together, a row is as near to all of its class; where they are cut through, it is near to few. A
    model that gives everything one class is densest of all.

    >>> one, other = [1.0, 0.0], [0.0, 1.0]
    >>> [round(snd(np.array(rows)), 3) for rows in ([one] * 4, [one, one, other, other])]
    [1.0, 0.0]
    """
    if len(target) < 3:
        return float("nan")
    rows = target[np.random.default_rng(0).permutation(len(target))[:MOST_ROWS]]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    similar = (unit @ unit.T).astype(float) / TEMPERATURE
    np.fill_diagonal(similar, -np.inf)
    near = np.exp(similar - similar.max(1, keepdims=True))
    return float(entropies(near / near.sum(1, keepdims=True)).mean() / np.log(len(rows) - 1))


def source_dev(evidence: Evidence) -> float:
    """The headline score on source dev: the default."""
    return evidence.source_dev[evidence.headline]


def last(evidence: Evidence) -> float:
    """How many epochs are over: no choice at all, which no choice can be worse than by looking."""
    return float(evidence.epoch)


RIDGE = 100.0


def reverse(evidence: Evidence) -> float:
    """Reverse validation (Zhong et al. 2010, https://doi.org/10.1007/978-3-642-15939-8_35): macro F1 on source dev,
    over the classes that are something, of a model that learns from the predicted target labels.

    That is a linear one on the checkpoint's frozen states, so that it costs a moment: it tells whether target
    predictions follow the directions that separate the source's classes, not what a network trained back would.
    """
    target, source = evidence.target.candidates(), evidence.source.candidates()
    guesses = target.probabilities.argmax(1)
    wanted = np.setdiff1d(source.classes, [source.o_class])
    if not len(guesses) or not len(wanted):
        return float("nan")
    learnt = np.full(len(source), guesses[0])  # all that can be learnt where only one class is predicted
    if len(np.unique(guesses)) > 1:
        model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=RIDGE))
        learnt = model.fit(target.features.astype(np.float32), guesses).predict(source.features.astype(np.float32))
    return float(f1_score(source.classes, learnt, labels=wanted, average="macro", zero_division=0.0))


SHRINK = 0.01  # strong: there are as many dimensions as rows


def importance_weighted(evidence: Evidence) -> float:
    """Minus the risk on the source dev that looks like the target: importance weighting (Sugiyama et al. 2007,
    https://jmlr.org/papers/v8/sugiyama07a.html) with the control variate of deep embedded validation (You et al. 2019,
    https://proceedings.mlr.press/v97/you19a.html).

    Weights are the odds of a linear domain classifier on the checkpoint's own states. They are right where the target
    is a part of the source seen more often, not where annotators follow other rules, or states do not overlap.
    """
    train, dev, target = (rows.candidates() for rows in (evidence.train, evidence.source, evidence.target))
    # What is nothing and is called so is not counted: an unsure model has more of it, and would look the better.
    dev = dev.where((dev.classes != dev.o_class) | (dev.probabilities.argmax(1) != dev.o_class))
    if not (len(train) and len(dev) and len(target)):
        return float("nan")
    weights = density_ratio(train.features, target.features, dev.features)
    return -risk(weights, (dev.probabilities.argmax(1) != dev.classes).astype(float))


def density_ratio(source: States, target: States, where: States) -> FloatArray:
    """(n,) how much likelier the points ``where``, (n, width), are on the target than on the source.

    >>> left, right = np.array([[0.0], [0.1]] * 50), np.array([[0.9], [1.0]] * 50)
    >>> low, high = density_ratio(left, right, np.array([[0.0], [1.0]]))
    >>> bool(low < 0.5), bool(high > 2)
    (True, True)
    """
    points = np.concatenate([source, target]).astype(np.float32)
    domains = np.repeat([0, 1], [len(source), len(target)])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=SHRINK, max_iter=200)).fit(points, domains)
    odds = np.exp(model.decision_function(where.astype(np.float32)))
    return np.asarray(odds * len(source) / len(target))


def risk(weights: FloatArray, losses: FloatArray) -> float:
    """Weighted mean loss, less what is explained by the weights' being off 1 in the mean.

    >>> risk(np.array([1.0, 1.0]), np.array([0.0, 1.0])), risk(np.array([0.5, 1.5]), np.array([1.0, 1.0]))
    (0.5, 1.0)
    """
    weighted, spread = weights * losses, weights.var()
    slope = -((weighted - weighted.mean()) * (weights - weights.mean())).mean() / spread if spread else 0.0
    return float(weighted.mean() + slope * (weights.mean() - 1))


def ensemble(epochs: Sequence[Predicted]) -> list[float]:
    """EnsV (Hu et al. 2024, https://openreview.net/forum?id=LIBqoaXYfc): share of texts that an epoch labels as the
    mean of all does; where words are tagged, F1 against the mean's spans.

    The mean of all candidates is seldom worse than they are on average, so that the one nearest to it is not the
    worst. It can't tell when most are wrong alike. Words that an epoch's rows lack are surely nothing to it.

    >>> def rows(*first):
    ...     sure, none = np.array([[p, 1 - p] for p in first], np.float32), np.zeros(len(first), np.int64)
    ...     return Predicted(sure, none, np.arange(len(first)), none, none - 1)
    >>> ensemble([rows(0.9, 0.9), rows(0.8, 0.9), rows(0.4, 0.3)])
    [1.0, 1.0, 0.0]
    """
    places = [np.stack([rows.texts, rows.words], 1) for rows in epochs]
    known, back = np.unique(np.concatenate(places), axis=0, return_inverse=True)
    if not len(known):
        return [float("nan")] * len(epochs)
    dense = np.zeros((len(epochs), len(known), epochs[0].probabilities.shape[1]))
    dense[:, :, max(epochs[0].o_class, 0)] = 1.0
    cuts = np.cumsum([len(place) for place in places])[:-1]
    for whole, rows, indices in zip(dense, epochs, np.split(back.ravel(), cuts), strict=True):
        whole[indices] = rows.probabilities
    best, wanted = dense.argmax(2), dense.mean(axis=0).argmax(1)
    if epochs[0].o_class < 0:
        return [float((labels == wanted).mean()) for labels in best]
    begins = np.r_[True, (np.diff(known, axis=0) != [0, 1]).any(1)]
    gold, *spans = (set(spans_of_tags(tags, begins)) for tags in (wanted, *best))
    return [2 * len(s & gold) / (len(s) + len(gold)) if s or gold else 1.0 for s in spans]


OF_TARGET = {f.__name__: f for f in (entropy, infomax, bnm, corr_c, mano, snd)}
OF_EVIDENCE = {f.__name__: f for f in (source_dev, last, reverse, importance_weighted)}
OF_EPOCHS: dict[str, Callable[[Sequence[Predicted]], list[float]]] = {"ensemble": ensemble}
NAMES = tuple(sorted({*OF_TARGET, *OF_EVIDENCE, *OF_EPOCHS, "oracle"}))
