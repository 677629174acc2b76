"""How far off expected scores are on runs whose target labels are known.

``python -m benchmarks.expected RUNS ... results/expected.csv --judged RUNS ...`` writes two rows. The first is of
development pairs, and ``domadapt/analysis/expected.py`` corrects by it; tests/analysis/test_expected.py checks that it
does. The second says how good that correction is on confirmation pairs (docs/concepts.md).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.collect import write
from domadapt.analysis.expected import ESTIMATE, TrackRecord, interval
from domadapt.runs.groups import read_runs
from domadapt.runs.metrics import Metrics

METHODS = ("recipe", "source_only")


def off(run: Metrics) -> float:
    """What a run's estimate is too high by, uncorrected."""
    score = run.score()
    assert run.expected is not None and score is not None
    return run.expected.estimates[ESTIMATE][run.headline] - score


def record(runs: Sequence[Metrics]) -> TrackRecord:
    """Every pair and method counts once, however many seeds; the bias of an error is that on other target domains."""
    cells: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        cells.setdefault((run.source, run.target, run.method), []).append(off(run))
    means = {cell: fmean(seeds) for cell, seeds in cells.items()}
    errors = []
    for (_, target, _), value in means.items():
        elsewhere = [other for (_, domain, _), other in means.items() if domain != target]
        errors.append(abs(value - fmean(elsewhere)))
    return TrackRecord(fmean(means.values()), stdev(means.values()), fmean(errors), len(runs))


def judged(runs: Sequence[Metrics], fitted: TrackRecord) -> tuple[TrackRecord, int]:
    """The same of runs corrected by what is known of others, and how many scores lie in the range of ``fitted``.

    Every run counts once. The range is of the spread alone, without the chance of which texts were drawn: a narrow one.
    """
    left = [off(run) - fitted.bias for run in runs]
    low, high = interval(0.5, [0.5, 0.5], fitted.spread)
    errors = [abs(one) for one in left]
    inside = sum(error <= (high - low) / 2 for error in errors)
    return TrackRecord(fmean(left), stdev(left), fmean(errors), len(runs)), inside


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expected", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs of development pairs")
    parser.add_argument("output", type=Path, help="CSV to write")
    parser.add_argument("--judged", nargs="+", type=Path, required=True, help="the same of confirmation pairs")
    given = parser.parse_args(arguments)
    development, confirmation = (
        [run for run in read_runs(roots).runs if run.method in METHODS and run.expected and run.score() is not None]
        for roots in (given.runs, given.judged)
    )
    fitted = record(development)
    fitted = fitted._replace(bias=round(fitted.bias, 3), spread=round(fitted.spread, 3))
    others, inside = judged(confirmation, fitted)
    both = ("development", fitted, judged(development, fitted)[1]), ("confirmation", others, inside)
    rows = [
        {"pairs": pairs, "estimate": ESTIMATE, **{n: round(x, 3) for n, x in found._asdict().items()}, "inside": count}
        for pairs, found, count in both
    ]
    write(given.output, rows, rows[0])


if __name__ == "__main__":
    main()
