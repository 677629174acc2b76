"""Predictions as counts per test item, from which the headline score is recomputed for any resample of the items."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from domadapt.reporting.runs import Metrics

FloatArray = npt.NDArray[np.floating[Any]]
CountArray = npt.NDArray[np.float32]  # whole numbers; float, because resampling is a matrix product
EXACT = 1e-9  # how near a recomputed score is to the one in metrics.json


@dataclass(frozen=True, slots=True)
class Items:
    """What one run got right and wrong on each test item.

    Attributes:
        digest: of the items and their gold labels; runs with the same digest can be compared item by item.
        counts: (items, kinds, 3) true positives, false positives, false negatives. A kind is a span type, or a class
            that occurs among the gold labels. Items are in the order of their names, whatever the file's.
        average: how kinds are put together: ``macro`` or ``micro``.
    """

    digest: str
    counts: CountArray
    average: str

    @property
    def score(self) -> float:
        """The headline score of all items."""
        return float(f1(self.counts.sum(axis=0), self.average))


def f1(totals: npt.NDArray[Any], average: str = "macro") -> FloatArray:
    """F1 of summed counts; 0 for a kind that neither occurs nor is found.

    Args:
        totals: (..., kinds, 3) true positives, false positives, false negatives.
        average: ``macro``, the mean over kinds, or ``micro``, of all kinds together.

    Returns:
        (...) scores.

    >>> f1(np.array([[2, 1, 1], [0, 0, 3]])).tolist(), f1(np.array([[2, 1, 1], [0, 0, 3]]), "micro").tolist()
    (0.3333333333333333, 0.4444444444444444)
    """
    totals = totals.astype(np.float64)
    if average == "micro":
        totals = totals.sum(axis=-2, keepdims=True)
    both = 2 * totals[..., 0]
    below = both + totals[..., 1] + totals[..., 2]
    return np.asarray(np.divide(both, below, out=np.zeros_like(both), where=below > 0).mean(axis=-1))


def read_items(run: Metrics) -> Items | str:
    """Counts of a run's ``predictions.jsonl``.

    Args:
        run: its metrics, with the ``folder`` they lie in.

    Returns:
        The counts, or why there are none, in words: without target labels, or in a folder that keeps only
        ``metrics.json``.

    Raises:
        ValueError: the file is damaged, or does not give the score that ``metrics.json`` names.
    """
    test = run["target_test"]
    if not test:
        return "the target test has no labels"
    path = Path(run.get("folder", ""), "predictions.jsonl")
    if not path.is_file():
        return f"{path.parent}: no predictions.jsonl"
    rows = sorted(_rows(path, run["task"]))
    if run["task"] == "classification":
        kinds = sorted({label for _, _, (label, _), _ in rows if label is not None})
        counts, average = _class_counts([(gold[0], found[0]) for _, _, gold, found in rows], kinds), "macro"
    else:
        kinds = sorted(name.removesuffix("_support") for name in test if name.endswith("_support"))
        counts = _span_counts([(gold[1], found[1]) for _, _, gold, found in rows], kinds)
        average = str((run["config"].get("task") or {}).get("average", "macro"))
    same = hashlib.sha256(repr([row[:3] for row in rows]).encode("utf-8", "surrogatepass"))
    items = Items(same.hexdigest(), counts, average)
    stored = test.get(run["headline"])
    if stored is None or abs(items.score - stored) > EXACT:
        raise ValueError(
            f"{path}: gives {run['headline']} {items.score:.6f}, but metrics.json beside it says {stored}; "
            f"the two are not of one run: run that cell again"
        )
    return items


Spans = tuple[tuple[int, int, str], ...]
Labels = tuple[str | None, Spans]


def _rows(path: Path, task: str) -> list[tuple[str, str, Labels, Labels]]:
    """Name, digest of the text, gold and predicted labels of every item."""
    rows = []
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
                text = hashlib.sha256(row["text"].encode("utf-8", "surrogatepass")).hexdigest()
                rows.append((str(row["id"]), text, _labels(row["gold"], task), _labels(row["predicted"], task)))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ValueError(
                    f"{path}:{number}: not a prediction ({type(error).__name__}: {error}); run that cell again"
                ) from error
    return rows


def _labels(value: dict[str, Any], task: str) -> Labels:
    if task == "classification":
        return str(value["label"]), ()
    return None, tuple(sorted({(int(s["start"]), int(s["end"]), str(s["type"])) for s in value["spans"]}))


def _class_counts(labels: Sequence[tuple[str | None, str | None]], kinds: Sequence[str]) -> CountArray:
    counts = np.zeros((len(labels), len(kinds), 3), dtype=np.float32)
    place = {kind: i for i, kind in enumerate(kinds)}
    for item, (gold, found) in enumerate(labels):
        if gold == found:
            counts[item, place[str(gold)], 0] = 1
        else:
            counts[item, place[str(gold)], 2] = 1
            if found in place:
                counts[item, place[found], 1] = 1
    return counts


def _span_counts(spans: Sequence[tuple[Spans, Spans]], kinds: Sequence[str]) -> CountArray:
    counts = np.zeros((len(spans), len(kinds), 3), dtype=np.float32)
    place = {kind: i for i, kind in enumerate(kinds)}
    for item, (gold, found) in enumerate(spans):
        for column, group in enumerate((set(gold) & set(found), set(found) - set(gold), set(gold) - set(found))):
            for _, _, kind in group:
                if kind in place:
                    counts[item, place[kind], column] += 1
    return counts
