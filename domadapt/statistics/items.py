"""What is compared: scores of test items and of seeds, and which items belong together.

Which runs are one and the same network: they are drawn and swapped together, for copies are no evidence.

A network that reads no target is the same for all targets of its source and seed, and a ceiling for all sources of its
target. Scores that share a network, on either side of a difference, go up and down together.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from domadapt.runs.metrics import Metrics


def connected(keys: Sequence[Collection[object]]) -> list[int]:
    """A number for each entry, the same for all that have a key in common, directly or through others.

    Args:
        keys: of each entry.

    Returns:
        Numbers from 0, in the order of first appearance.

    >>> connected([{"a"}, {"b"}, {"c", "a"}, {"c"}])
    [0, 1, 0, 0]
    """
    joined: list[tuple[set[object], list[int]]] = []
    for place, own in enumerate(keys):
        met = [part for part in joined if part[0] & set(own)]
        joined = [part for part in joined if not part[0] & set(own)]
        joined.append((set(own).union(*(k for k, _ in met)), [place, *(i for _, some in met for i in some)]))
    label = {place: min(places) for _, places in joined for place in places}
    order = sorted(set(label.values()))
    return [order.index(label[place]) for place in range(len(keys))]


FloatArray = npt.NDArray[np.floating[Any]]
CountArray = npt.NDArray[np.float32]  # whole numbers; float, because resampling is a matrix product
EXACT = 1e-9  # how near a recomputed score is to the one in metrics.json


@dataclass(frozen=True, slots=True)
class Items:
    """What one run got right and wrong on each test item.

    Attributes:
        digest: of the items and their gold labels; runs with the same digest can be compared item by item.
        counts: (items, kinds, 3) true positives, false positives, false negatives. A kind is a span type, or a class
            that occurs among the gold labels; for a micro average all kinds are one. Items are in the order of their
            names, whatever the file's.
        average: how kinds are put together: ``macro`` or ``micro``.
        kinds: their names; empty where all kinds are one.
    """

    digest: str
    counts: CountArray
    average: str
    kinds: tuple[str, ...] = ()

    def only(self, kind: str) -> "Items | None":
        """The counts of one kind; None where they are not kept apart."""
        if kind not in self.kinds:
            return None
        place = self.kinds.index(kind)
        return Items(self.digest, self.counts[:, place : place + 1], "macro", (kind,))

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
        run: with the ``folder`` it lies in.

    Returns:
        The counts, or why there are none, in words: without target labels, or in a folder that keeps only
        ``metrics.json``.

    Raises:
        ValueError: the file is damaged, or does not give the score that ``metrics.json`` names.
    """
    test = run.target_test
    if not test:
        return "the target test has no labels"
    path = Path(run.folder, "predictions.jsonl")
    if not path.is_file():
        return f"{path.parent}: no predictions.jsonl"
    rows = sorted(read_rows(path, run.task), key=lambda row: row[:2])
    if run.headline == "accuracy":  # of one label each, the micro average of all classes
        kinds, average = sorted({label for row in rows for label in row[2] | row[3]}), "micro"
    elif run.task == "classification":
        kinds, average = sorted({label for row in rows for label in row[2]}), "macro"
    else:
        kinds = sorted(name.removesuffix("_support") for name in test if name.endswith("_support"))
        average = str((run.config.get("task") or {}).get("average", "macro"))
    if not kinds:
        return f"{path.parent}: metrics.json counts no kinds of label"
    items = counted(rows, kinds, average)
    stored = test.get(run.headline)
    if stored is None or abs(items.score - stored) > EXACT:
        raise ValueError(
            f"{path}: gives {run.headline} {items.score!r}, but metrics.json beside it says {stored!r}; "
            f"the two are not of one run: run that cell again"
        )
    return items


def counted(rows: Sequence["Row"], kinds: Sequence[str], average: str) -> Items:
    """Counts of predictions beside their gold labels.

    >>> row = ("1", "The lens", {(4, 8, "aspect")}, {(4, 8, "aspect"), (0, 3, "aspect")})
    >>> counted([row], ["aspect"], "macro").score
    0.6666666666666666
    """
    counts = _counts(rows, kinds)
    if average == "micro":  # runs may predict different classes: their counts are to have one shape
        counts = counts.sum(axis=1, keepdims=True)
    return Items(_digest(rows), counts, average, tuple(kinds) if counts.shape[1] == len(kinds) else ())


Row = tuple[str, str, set[Any], set[Any]]  # name, text, gold and predicted: (start, end, type) of spans, or a class


def read_rows(path: Path, task: str) -> list[Row]:
    """Name, text, gold and predicted labels of each line of a ``predictions.jsonl``.

    Raises:
        ValueError: at the first line that is none.
    """
    rows = []
    if not path.is_file():  # a pipe would be waited for
        raise ValueError(f"{path}: not a file; run that cell again")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line.decode("utf-8"))
                gold, found = _labels(row["gold"], task), _labels(row["predicted"], task)
                rows.append((str(row["id"]), str(row["text"]), gold, found))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(
                    f"{path}:{number}: not a prediction ({type(error).__name__}: {error}); run that cell again"
                ) from error
    return rows


def _labels(value: dict[str, Any], task: str) -> set[Any]:
    if task == "classification":
        return {value["label"]}
    return {(s["start"], s["end"], s["type"]) for s in value["spans"]}


def _digest(rows: Sequence[Row]) -> str:
    digest = hashlib.sha256()
    for name, text, gold, _ in rows:
        digest.update(repr((name, text, sorted(gold, key=repr))).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _counts(rows: Sequence[Row], kinds: Sequence[str]) -> CountArray:
    counts = np.zeros((len(rows), len(kinds), 3), dtype=np.float32)
    place = {kind: i for i, kind in enumerate(kinds)}
    for item, (_, _, gold, found) in enumerate(rows):
        for column, group in enumerate((gold & found, found - gold, gold - found)):
            for label in group:
                kind = label[2] if isinstance(label, tuple) else label
                if kind in place:
                    counts[item, place[kind], column] += 1
    return counts
