"""How far off expected scores are on runs whose target labels are known.

``python -m benchmarks.expected RUNS ... results/expected.csv`` writes a row, and ``domadapt/analysis/expected.py``
corrects by it; tests/analysis/test_expected.py checks that it does. Runs should be of development pairs: what is
corrected here is judged on others (docs/concepts.md).
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from domadapt.analysis.expected import ESTIMATE
from domadapt.runs.groups import read_runs
from domadapt.runs.metrics import Metrics

METHODS = ("recipe", "source_only")


class Record(NamedTuple):
    """Of the estimate, shares: mean of what it is too high, deviation from that, error, how many runs there were.

    The error is absolute, of the estimate less what it was too high on the other target domains.
    """

    bias: float
    spread: float
    error: float
    runs: int


def record(runs: Sequence[Metrics]) -> Record:
    """Every pair and method counts once, however many seeds."""
    cells: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        score = run.score()
        assert run.expected is not None and score is not None
        off = run.expected.estimates[ESTIMATE][run.headline] - score
        cells.setdefault((run.source, run.target, run.method), []).append(off)
    means = {cell: fmean(seeds) for cell, seeds in cells.items()}
    errors = []
    for (_, target, _), value in means.items():
        elsewhere = [other for (_, domain, _), other in means.items() if domain != target]
        errors.append(abs(value - fmean(elsewhere)))
    return Record(fmean(means.values()), stdev(means.values()), fmean(errors), len(runs))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expected", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("output", type=Path, help="CSV to write")
    given = parser.parse_args(arguments)
    every = read_runs(given.runs).runs
    known = [run for run in every if run.method in METHODS and run.expected and run.score() is not None]
    with given.output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("estimate", *Record._fields))
        found = record(known)
        writer.writerow((ESTIMATE, *(round(number, 3) for number in found[:3]), found.runs))


if __name__ == "__main__":
    main()
