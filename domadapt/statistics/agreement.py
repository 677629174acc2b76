"""How far seeds of one method agree: an estimate of their score that reads no label (generalisation disagreement
equality, Jiang et al. 2022, https://arxiv.org/abs/2106.13799). It is too high where all of them err alike.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np

from domadapt.runs.metrics import Metrics
from domadapt.statistics.items import Row, f1, read_rows


def agreement(runs: Sequence[Metrics]) -> float | None:
    """Mean F1 of one run's predictions against another's, over pairs of runs.

    Args:
        runs: of one method on one test, with the folders they lie in.

    Returns:
        The mean; None for fewer than two runs with predictions of the same texts.

    Raises:
        ValueError: a file is damaged.
    """
    files = [Path(run.folder, "predictions.jsonl") for run in runs if run.folder]
    read = [{row[0]: row for row in read_rows(file, runs[0].task)} for file in files if file.is_file()]
    pairs = [(a, b) for a, b in combinations(read, 2) if a and a.keys() == b.keys()]
    return fmean(_f1([(a[name], b[name]) for name in a]) for a, b in pairs) if pairs else None


def _f1(both: Sequence[tuple[Row, Row]]) -> float:
    """Macro F1 over the kinds that either finds."""

    def kind(label: object) -> str:
        return str(label[2] if isinstance(label, tuple) else label)

    def found(place: int, name: str) -> set[tuple[int, object]]:
        return {(i, label) for i, rows in enumerate(both) for label in rows[place][3] if kind(label) == name}

    names = sorted({kind(label) for rows in both for row in rows for label in row[3]})
    sides = [(found(0, name), found(1, name)) for name in names]
    totals = np.array([(len(a & b), len(a - b), len(b - a)) for a, b in sides])
    return float(f1(totals)) if names else 1.0
