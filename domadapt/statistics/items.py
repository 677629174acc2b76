"""What runs got right and wrong on each test item, read from their ``predictions.jsonl``."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from domadapt.runs.metrics import Metrics

FloatArray = npt.NDArray[np.floating[Any]]
CountArray = npt.NDArray[np.float32]  # whole numbers; float, because resampling is a matrix product
EXACT = 1e-9  # how near a recomputed score is to the one in metrics.json


class Answer(NamedTuple):
    """One text with its gold and predicted labels: (start, end, type) of spans, or a class."""

    name: str
    text: str
    gold: set[Any]
    predicted: set[Any]


@dataclass(frozen=True, slots=True)
class ItemCounts:
    """What one run got right and wrong on each test item, in the order of the items' names, whatever the file's.

    A kind is a span type, or a class that occurs among the gold labels; for a micro average all kinds are one.
    """

    digest: str  #: of the items and their gold labels; runs with the same digest can be compared item by item
    counts: CountArray  #: (items, kinds, 3) true positives, false positives, false negatives
    average: str  #: how kinds are put together: ``macro``, the mean over those in the gold, or ``micro``
    kinds: tuple[str, ...] = ()  #: their names; empty where all kinds are one

    def of_kind(self, kind: str) -> "ItemCounts | None":
        """The counts of one kind; None where they are not kept apart."""
        if kind not in self.kinds:
            return None
        place = self.kinds.index(kind)
        return ItemCounts(self.digest, self.counts[:, place : place + 1], "macro", (kind,))

    @property
    def score(self) -> float:
        """The headline score of all items."""
        return float(f1(self.counts.sum(axis=0), self.average))


def f1(totals: npt.NDArray[Any], average: str = "macro") -> FloatArray:
    """(...) F1 of (..., kinds, 3) true positives, false positives, false negatives.

    Macro leaves out a kind that the gold lacks, and one of which no text was drawn again.
    """
    totals = totals.astype(np.float64)
    if average == "micro":
        totals = totals.sum(axis=-2, keepdims=True)
    doubled = 2 * totals[..., 0]
    below = doubled + totals[..., 1] + totals[..., 2]
    each = np.divide(doubled, below, out=np.zeros_like(doubled), where=below > 0)
    present = totals[..., 0] + totals[..., 2] > 0
    return np.asarray((each * present).sum(axis=-1) / np.maximum(present.sum(axis=-1), 1))


def read_items(run: Metrics) -> ItemCounts | str:
    """Counts of a run's ``predictions.jsonl``, or in words why there are none."""
    test = run.target_test
    if not test:
        return "the target test has no labels"
    path = Path(run.folder, "predictions.jsonl")
    if not path.is_file():
        return "no predictions.jsonl"
    answers = sorted(read_answers(path, run.task), key=lambda answer: answer[:2])
    if run.headline == "accuracy":  # of one label each, the micro average of all classes
        kinds, average = sorted({label for a in answers for label in a.gold | a.predicted}), "micro"
    elif run.task == "classification":
        kinds, average = sorted({label for a in answers for label in a.gold}), "macro"
    else:
        kinds = sorted(name.removesuffix("_support") for name in test if name.endswith("_support"))
        average = str((run.config.get("task") or {}).get("average", "macro"))
    if not kinds:
        return "no kind of label that metrics.json counts"
    items = count_items(answers, kinds, average)
    stored = test.get(run.headline)
    if stored is None or abs(items.score - stored) > EXACT:
        mismatch = f"gives {run.headline} {items.score!r}, but metrics.json beside it says {stored!r}"
        raise ValueError(f"{path}: {mismatch}; the two are not of one run: run that cell again")
    return items


def count_items(answers: Sequence[Answer], kinds: Sequence[str], average: str) -> ItemCounts:
    """Counts of predictions beside their gold labels.

    >>> one = Answer("1", "The lens", {(4, 8, "aspect")}, {(4, 8, "aspect"), (0, 3, "aspect")})
    >>> count_items([one], ["aspect"], "macro").score
    0.6666666666666666
    """
    counts = np.zeros((len(answers), len(kinds), 3), dtype=np.float32)
    place = {kind: i for i, kind in enumerate(kinds)}
    digest = hashlib.sha256()
    for item, (name, text, gold, predicted) in enumerate(answers):
        digest.update(repr((name, text, sorted(gold, key=repr))).encode("utf-8", "surrogatepass"))
        for column, group in enumerate((gold & predicted, predicted - gold, gold - predicted)):
            for label in group:
                kind = label[2] if isinstance(label, tuple) else label
                if kind in place:
                    counts[item, place[kind], column] += 1
    if average == "micro":  # runs may predict different classes: their counts are to have one shape
        counts = counts.sum(axis=1, keepdims=True)
    return ItemCounts(digest.hexdigest(), counts, average, tuple(kinds) if counts.shape[1] == len(kinds) else ())


def read_answers(path: Path, task: str) -> list[Answer]:
    """Texts, gold and predicted labels of each line of a ``predictions.jsonl``."""

    def labels(value: dict[str, Any]) -> set[Any]:
        if task == "classification":
            return {value["label"]}
        return {(index(s["start"]), index(s["end"]), s["type"]) for s in value["spans"]}

    answers = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line.decode("utf-8"))
                gold, predicted = labels(row["gold"]), labels(row["predicted"])
                answers.append(Answer(str(row["id"]), str(row["text"]), gold, predicted))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                why = f"{type(error).__name__}: {error}"
                raise ValueError(f"{path}:{number}: not a prediction ({why}); run that cell again") from error
    return answers
