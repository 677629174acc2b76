"""How far off expected scores are on runs whose target labels are known: `python -m benchmarks.expected`.

What it prints of the estimate with the least error is what `domadapt/analysis/expected.py` corrects by;
tests/analysis/test_expected.py checks that it is.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from domadapt.analysis.expected import ESTIMATES
from domadapt.runs.metrics import Metrics, read_runs

ROOT = Path(__file__).parents[1] / "results"
CORPORA = tuple(ROOT / name for name in ("aspect_opinion_best", "joint_absa_terms", "shipped"))
METHODS = ("best", "source_only")


class Record(NamedTuple):
    """Of an estimate, shares: mean of what it is too high, deviation from that, error, how many runs there were.

    The error is absolute, of the estimate less what it was too high on the other corpora.
    """

    bias: float
    spread: float
    error: float
    runs: int


def record(estimate: str, corpora: Sequence[Sequence[Metrics]]) -> Record:
    """Of an estimate on some corpora, a list of runs each; every pair and method counts once, however many seeds."""
    off = [_by_pair(estimate, runs) for runs in corpora]
    every = [value for some in off for value in some]
    errors = []
    for place, own in enumerate(off):
        elsewhere = fmean(value for other, some in enumerate(off) if other != place for value in some)
        errors += [abs(value - elsewhere) for value in own]
    return Record(fmean(every), stdev(every), fmean(errors), sum(map(len, corpora)))


def known(folders: Sequence[Path] = CORPORA) -> list[list[Metrics]]:
    """Runs of these folders that expected a score and have target labels."""
    return [
        [run for run in read_runs(folder).runs if run.method in METHODS and run.expected and run.score() is not None]
        for folder in folders
    ]


def _by_pair(estimate: str, runs: Sequence[Metrics]) -> list[float]:
    cells: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        cells.setdefault((run.source, run.target, run.method), []).append(_off(estimate, run))
    return [fmean(seeds) for seeds in cells.values()]


def _off(estimate: str, run: Metrics) -> float:
    score = run.score()
    assert run.expected is not None and score is not None
    return run.expected.estimates[estimate][run.headline] - score


if __name__ == "__main__":
    found = known([Path(path) for path in sys.argv[1:]] or CORPORA)
    for name in ESTIMATES:
        own = record(name, found)
        print(f"{name:8s} bias {own.bias:.3f}  spread {own.spread:.3f}  error {own.error:.3f}  runs {own.runs}")
