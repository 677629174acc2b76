"""How far off expected scores are on runs whose target labels are known: `python -m benchmarks.expected`.

What it prints of the estimate with the least error is what `domadapt/analysis/expected.py` corrects by;
tests/analysis/test_expected.py checks that it is.
"""

import sys
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from domadapt.analysis.expected import ESTIMATES, KNOWN
from domadapt.runs.groups import read_runs
from domadapt.runs.metrics import Metrics

ROOT = Path(__file__).parents[1] / "results"
CORPORA = tuple(ROOT / name for name in ("aspect_opinion_best", "joint_absa_terms", "shipped"))
METHODS = ("best", "source_only")
# Of whole texts, whose bias was learnt on linear models of words: none of these networks has had a part in it.
WHOLE_TEXTS = tuple(ROOT / name for name in ("shipped_sentences", "amazon_reviews", "camera_laptop_sentences"))


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


def record_with(bias: float, estimate: str, corpora: Sequence[Sequence[Metrics]]) -> Record:
    """The same where the bias was learnt on other runs altogether: the deviation is from it."""
    left = [value - bias for runs in corpora for value in _by_pair(estimate, runs)]
    return Record(bias, sqrt(fmean(x * x for x in left)), fmean(map(abs, left)), sum(map(len, corpora)))


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
    whole = KNOWN["sequence"]
    told = {name: record(name, found) for name in ESTIMATES}
    told["of whole texts: " + whole.estimate] = record_with(whole.bias, whole.estimate, known(WHOLE_TEXTS))
    for name, own in told.items():
        print(f"{name:8s} bias {own.bias:.3f}  spread {own.spread:.3f}  error {own.error:.3f}  runs {own.runs}")
