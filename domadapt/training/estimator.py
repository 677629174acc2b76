"""The face that scikit-learn's users know, over the same training and the same models."""

import tempfile
from collections.abc import Iterable, Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import ClassifierTags

from domadapt.config.compose import compose
from domadapt.config.overrides import one_of, quoted
from domadapt.data.domains import unlabelled
from domadapt.data.files import errors_naming, is_missing, save_data
from domadapt.data.records import NO_LABEL, Record, Span
from domadapt.inference.model import Model, load
from domadapt.training.build import run_config
from domadapt.training.cell import train


class DomainAdapter(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns from labelled texts of one domain, for texts of another.

    Args:
        task: ``classification``, where ``y`` holds a label a text, or ``extraction``, where it holds a list of
            ``(start, end, type)`` a text, in characters, end exclusive.
        overrides: settings as on the command line, such as ``["adaptation=recipe", "trainer.epochs=5"]``.
        seed: of everything random.
        folder: keeps the run: its metrics, and the model for :func:`domadapt.load`. None keeps both in memory alone.

    Attributes:
        model_: what :func:`domadapt.load` gives.
        metrics_: the content of the run's ``metrics.json``.
        classes_: the labels, sorted; of classification.

    >>> DomainAdapter(seed=2).get_params()["task"]
    'classification'
    """

    def __init__(
        self,
        task: str = "classification",
        overrides: Sequence[str] = (),
        seed: int = 1,
        folder: str | Path | None = None,
    ) -> None:
        self.task, self.overrides, self.seed, self.folder = task, overrides, seed, folder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.task == "classification":  # whose folds are to hold every label, and whose scorers ask for one of two
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def fit(self, X: Iterable[str], y: Iterable[Any], target: Iterable[str] | None = None) -> "DomainAdapter":
        """Train one run; ``target`` are texts of the target domain, without labels."""
        if target is None:
            raise ValueError("target=None: give texts of the domain that the model is for, as fit(X, y, target=texts)")
        one_of("task", self.task, "classification", "extraction")
        texts, given = _as_many(X, y)
        if (blank := next((i for i, text in enumerate(texts) if not text.strip()), -1)) >= 0:
            raise ValueError(f"X[{blank}] is blank: expected a text; leave it out, and its y")
        if self.task == "classification":
            if np.ndim(given) > 1:  # a column of a table: its rows are no labels
                raise ValueError(f"y[0] is {given[0]!r}: expected a label; of a column of many rows give y.ravel()")
            none = (is_missing(label) or _name(label) in {"", *NO_LABEL} for label in given)
            if (lost := next((i for i, absent in enumerate(none) if absent), -1)) >= 0:
                expected = "expected a label of each text; leave out those without"
                raise ValueError(f"y[{lost}] is {given[lost]!r}: {expected}")
            if len({isinstance(label, str) for label in given}) > 1:
                raise ValueError("y has words and numbers: expected labels of one type, such as [str(label) for …]")
            classes = np.unique(given)
            if len({_name(label) for label in classes}) < len(classes):
                raise ValueError(f"y: two of {classes.tolist()} are written alike; give each label a name")
            given = [_name(label) for label in given]
        else:
            for number, spans in enumerate(given):
                listed = isinstance(spans, Iterable) and not isinstance(spans, str)
                if not listed or not all(isinstance(s, tuple | list) and len(s) == 3 for s in spans):
                    raise ValueError(f"y[{number}] is {repr(spans)[:60]}: expected a list of (start, end, type)")
            given = [[_span(number, *span) for span in spans] for number, spans in enumerate(given)]
        with tempfile.TemporaryDirectory(prefix="domadapt-") as scratch:
            paths = {"data.source.path": save_data([*zip(texts, given, strict=True)], Path(scratch, "source"))}
            try:
                paths["data.target.path"] = save_data(target, Path(scratch, "target"))
            except ValueError as error:
                raise ValueError(f"target: {error}") from None
            paths["paths.runs"] = Path(str(self.folder)) if self.folder else Path(scratch, "runs")
            written = [f"{name}={quoted(str(path))}" for name, path in paths.items()]
            settings = ["data=my_files", f"task={self.task}", f"seed={self.seed}", *written, *self.overrides]
            config = run_config(compose("train", settings))
            with errors_naming({paths["data.source.path"]: "X, y", paths["data.target.path"]: "target"}):
                metrics = train(config)
            model = load(config.folder, config.options.device, config.options.precision)
        self.metrics_, self.model_ = metrics, model  # together: a fit that fails leaves what was fitted before
        if self.task == "classification":
            self.classes_ = classes
        return self

    def predict(self, X: Iterable[str]) -> Any:
        """(texts,) labels as ``y`` had them, or a list of spans a text, each a tuple like those of ``y``."""
        predictions = self._fitted().predict(X)
        if self.task != "classification":
            return [[(span.start, span.end, span.type) for span in prediction.spans] for prediction in predictions]
        known = {_name(label): place for place, label in enumerate(self.classes_)}
        return self.classes_[[known[str(prediction.label)] for prediction in predictions]]

    def predict_proba(self, X: Iterable[str]) -> Any:
        """(texts, classes) probabilities, the classes as in ``classes_``."""
        model = self._fitted()
        shares = model.probabilities(X)
        return shares[:, [model.session.task.labels.index(_name(label)) for label in self.classes_]]

    def score(self, X: Iterable[str], y: Iterable[Any]) -> float:
        """The score that runs are compared by: macro F1 of labels, or F1 of exact spans."""
        model, (texts, given) = self._fitted(), _as_many(X, y)
        task = model.session.task
        records = []
        for number, (text, truth) in enumerate(zip(texts, given, strict=True)):
            label = _name(truth) if self.task == "classification" else None
            spans = tuple(Span(*_span(number, *span)) for span in truth) if label is None else None
            records.append(Record(f"y[{number}]", "score", text, label=label, spans=spans))
        task.check(records)  # what the model cannot give would be left out of the mean
        return task.score(records, model.predict(texts))[task.headline]

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise NotFittedError("this DomainAdapter has not been fitted: call fit(X, y, target=texts) first")
        return self.model_


def _as_many(X: Iterable[str], y: Iterable[Any]) -> tuple[list[str], list[Any]]:
    texts, given = [text.text for text in unlabelled(X)], list(() if y is None else y)
    if len(texts) != len(given):
        raise ValueError(f"X has {len(texts)} texts and y {len(given)} entries: expected as many of both")
    return texts, given


def _span(number: int, start: Any, end: Any, kind: Any) -> tuple[int, int, str]:
    try:
        return index(start), index(end), str(kind)  # which takes numpy's whole numbers, too
    except TypeError:
        raise ValueError(f"y[{number}] has {(start, end, kind)}: expected whole numbers as start and end") from None


def _name(label: Any) -> str:
    """What a label is called in files, which have no spaces around it."""
    return str(label).strip()
