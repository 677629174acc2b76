"""Validators score every epoch without target labels; the chosen one decides which epoch is kept."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domadapt.config.compose import make
from domadapt.tasks.extraction import tagged
from domadapt.tasks.task import ARRAYS, FloatArray, Rows, Scores
from domadapt.utils.files import replace_atomic


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a validator may see of a checkpoint. There is no target label in it.

    Attributes:
        source_dev: scores on the source's dev part.
        headline: name of the task's headline score.
        source: rows of source dev, with their classes.
        target: rows of unlabelled target text, a fixed sample.
        train: rows of source training text, a fixed sample, with their classes.
        epoch: how many are over.
    """

    source_dev: Scores
    headline: str
    source: Rows
    target: Rows
    train: Rows
    epoch: int


class Validator(Protocol):
    """Chooses the checkpoint with the largest value. A new one is a class in its own file, and one yaml.

    One that compares checkpoints has ``together`` as well, see :class:`Comparing`.

    Attributes:
        name: in tables and in metrics.json.
        bound: True for the oracle alone, which target labels choose after training is over.
    """

    name: str
    bound: bool

    def __call__(self, evidence: Evidence) -> float:
        """The value to maximise."""


@runtime_checkable
class Comparing(Protocol):
    """A validator whose values are known when training is over, and all checkpoints are there to be compared."""

    def together(self, candidates: Sequence[Rows]) -> list[float]:
        """The values to maximise, one a checkpoint, from its rows of the same unlabelled target text."""


def best_epoch(values: Sequence[float]) -> int:
    """The epoch, from 1, with the largest value; the earlier one wins a tie, and what is not finite loses to all.

    Raises:
        ValueError: no value is a number.

    >>> best_epoch([0.25, float("nan"), 0.5, 0.5, float("inf")])
    3
    >>> best_epoch([float("nan")])
    Traceback (most recent call last):
    ValueError: values=[nan]: expected a number for at least one epoch; lower trainer.learning_rate, or choose another \
selection
    """
    numbers = [(value, -epoch) for epoch, value in enumerate(values, start=1) if isfinite(value)]
    if not numbers:
        raise ValueError(
            f"values={list(values)}: expected a number for at least one epoch; lower trainer.learning_rate, or choose "
            f"another selection"
        )
    return -max(numbers)[1]


class SourceDev:
    """The default validator."""

    name = "source_dev"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """The headline score on source dev."""
        return evidence.source_dev[evidence.headline]


class Last:
    """No choice at all, which no choice can be worse than by looking."""

    name = "last"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """How many epochs are over."""
        return float(evidence.epoch)


class Entropy:
    """Choose the checkpoint that is surest of its predictions on target text (Morerio et al. 2018,
    https://openreview.net/forum?id=rJWechg0Z).

    A model that gives everything one class is sure, too: see :mod:`domadapt.selection.validators`.
    """

    name = "entropy"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Minus the mean entropy of target predictions, in nats."""
        target = evidence.target.that_matter().probabilities
        return -float(entropy(target).mean()) if len(target) else float("nan")


def entropy(probabilities: FloatArray) -> FloatArray:
    """Entropy of each row, in nats.

    Args:
        probabilities: (rows, classes).

    Returns:
        (rows,).

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
    [0.0, 0.693]
    """
    logs = np.log(np.clip(probabilities, np.finfo(np.float32).tiny, None))
    result: FloatArray = -(probabilities * logs).sum(-1)
    return np.abs(result)  # no minus zero


class InfoMax:
    """Choose the checkpoint whose target predictions are sure one by one and diverse together (Musgrave et al. 2022,
    https://arxiv.org/abs/2208.07360, after Shi and Sha 2012).
    """

    name = "infomax"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Entropy of the mean prediction less the mean entropy of predictions, in nats."""
        target = evidence.target.that_matter().probabilities
        if not len(target):  # it finds nothing anywhere
            return float("nan")
        together = entropy(target.mean(0, keepdims=True))[0]
        return float(together - entropy(target).mean())


class BatchNuclearNorm:
    """Choose the checkpoint whose target predictions have the largest nuclear norm: sure, and of many classes (batch
    nuclear norm, Cui et al. 2020, https://arxiv.org/abs/2003.12237).

    A convex stand-in for the rank of the predictions, where :mod:`domadapt.selection.validators` takes entropies. It
    fails as that does: balanced nonsense scores high.
    """

    name = "bnm"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """The norm, as a share of the largest that there can be."""
        target = evidence.target.that_matter().probabilities
        return nuclear_norm(target) if len(target) else float("nan")


def nuclear_norm(probabilities: FloatArray) -> float:
    """Sum of singular values, divided by what certain and balanced rows have.

    Args:
        probabilities: (rows, classes).

    >>> certain, unsure = np.eye(2), np.full((2, 2), 0.5)
    >>> nuclear_norm(certain), round(nuclear_norm(unsure), 3)
    (1.0, 0.5)
    """
    rows, classes = probabilities.shape
    singular = np.linalg.svd(probabilities.astype(float), compute_uv=False)
    return float(singular.sum() / np.sqrt(rows * min(rows, classes)))


class ClassCorrelation:
    """Choose the checkpoint whose predicted classes are least confused with one another on target text: class
    correlation (Tu et al. 2023, https://arxiv.org/abs/2302.04178).

    The matrix of how classes are predicted together is compared with the identity: the same where predictions are sure
    and balanced; of rank one where one class takes all, or all rows are unsure.
    """

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


UNSURE = 5.0  # mean −log p up to which logits are trusted too little for a softmax
POWER = 4


class MatrixNorm:
    """Choose the checkpoint whose target logits are largest: matrix norm, MaNo (Xie et al. 2024,
    https://arxiv.org/abs/2405.18979).

    Logits are known here up to a number a row, so they are centred first, where the paper takes them as they are.
    """

    name = "mano"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """The norm, from 0 to 1."""
        target = evidence.target.that_matter().probabilities
        return matrix_norm(target) if len(target) else float("nan")


def matrix_norm(probabilities: FloatArray) -> float:
    """(mean q⁴)^¼ of the Taylor softmax q of logits, or of their softmax where the model is sure of much.

    Args:
        probabilities: (rows, classes).

    >>> round(matrix_norm(np.full((2, 4), 0.25)), 3), matrix_norm(np.array([[0.9, 0.1]])) > 0.6
    (0.25, True)
    """
    logs = np.log(np.clip(probabilities.astype(float), np.finfo(np.float32).tiny, None))
    shares = probabilities.astype(float)
    if -logs.mean() <= UNSURE:
        logits = logs - logs.mean(1, keepdims=True)
        shares = 1 + logits + logits**2 / 2
        shares /= shares.sum(1, keepdims=True)
    return float((shares**POWER).mean() ** (1 / POWER))


TEMPERATURE = 0.05
MOST = 2000  # rows: what is computed is quadratic in them


class SoftNeighbourhoodDensity:
    """Choose the checkpoint that gives each target prediction many near neighbours: soft neighbourhood density (Saito
    et al. 2021, https://arxiv.org/abs/2108.10860).

    Where classes hold together, a row is as near to all of its class; where they are cut through, it is near to few. A
    model that gives everything one class is densest of all.
    """

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


SHRINK = 100.0


class Reverse:
    """Choose the checkpoint whose target labels teach a model that does well on source dev: reverse validation (Zhong
    et al. 2010, https://doi.org/10.1007/978-3-642-15939-8_35).

    The reverse model is a linear one on the checkpoint's frozen states, so that it costs a moment: it tells whether
    target predictions follow the directions that separate the source's classes, not what a network trained back would.
    """

    name = "reverse"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Macro F1 of the classes that are something."""
        return back(evidence.target.that_matter(), evidence.source.that_matter())


def back(target: Rows, source: Rows) -> float:
    """Learn the predictions of target rows from their features; score on the classes of source rows.

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


States = NDArray[np.floating[Any]]
IMPORTANCE_WEIGHTED_SHRINK = 0.01  # strong: there are as many dimensions as rows


class ImportanceWeighted:
    """Choose the checkpoint with the least risk on the source dev that looks like the target: importance weighting
    (Sugiyama et al. 2007, https://jmlr.org/papers/v8/sugiyama07a.html) with the control variate of deep embedded
    validation (You et al. 2019, https://proceedings.mlr.press/v97/you19a.html).

    Weights are the odds of a linear domain classifier on the checkpoint's own states. They are right where the target
    is a part of the source seen more often; where annotators follow other rules, or states do not overlap, they are
    not.
    """

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
    model = make_pipeline(StandardScaler(), LogisticRegression(C=IMPORTANCE_WEIGHTED_SHRINK, max_iter=200)).fit(
        points, domains
    )
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


Array = NDArray[np.float64]


class Ensemble:
    """Choose the checkpoint that agrees most with all of them together: EnsV (Hu et al. 2024,
    https://openreview.net/forum?id=LIBqoaXYfc).

    The mean of all candidates is seldom worse than they are on average, so that the one nearest to it is not the
    worst. It can't tell when most are wrong alike.
    """

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


class Oracle:
    """The checkpoint that target labels would choose: a bound, never a way to select.

    Training and validators see no target label. The oracle is found by the final evaluation, after training and
    selection are over, when the sealed test is open; what the other validators lose against it is the selection gap.
    """

    name = "oracle"
    bound = True

    def __call__(self, evidence: Evidence) -> float:
        """Never called: there is nothing in the evidence that an oracle could read."""
        raise RuntimeError("the oracle reads target labels, which no evidence holds; the final evaluation finds it")


def every_validator() -> Iterator[Validator]:
    """In the order of their files' names, the bound among them.

    >>> sorted(validator.name for validator in every_validator())[:3]
    ['bnm', 'corr_c', 'ensemble']
    """
    for path in sorted((files("domadapt.conf") / "selection").iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            validator: Validator = make(OmegaConf.create(path.read_text(encoding="utf-8")))
            yield validator


PARTS = ("source", "target", "train")


def save_evidence(evidence: Evidence, path: Path) -> None:
    """Write an epoch's evidence, its rows that matter alone, as arrays: nothing in it is pickled.

    Args:
        path: of the file, ``….npz``.
    """
    about = {f.name: getattr(evidence, f.name) for f in fields(Evidence) if f.name not in PARTS}
    arrays = {"about": np.array(json.dumps(about))}
    for part in PARTS:
        rows: Rows = getattr(evidence, part).that_matter()
        arrays |= {f"{part}/{name}": getattr(rows, name) for name in ARRAYS}
        arrays[f"{part}/outside"] = np.array(rows.outside)

    def write(unfinished: Path) -> None:
        with unfinished.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomic(path, write)


def load_evidence(path: Path) -> Evidence:
    """What :func:`save_evidence` wrote; any validator can be called with it."""
    with np.load(path, allow_pickle=False) as file:
        rows: dict[str, Any] = {
            part: Rows(**{name: file[f"{part}/{name}"] for name in ARRAYS}, outside=int(file[f"{part}/outside"]))
            for part in PARTS
        }
        return Evidence(**json.loads(str(file["about"])), **rows)
