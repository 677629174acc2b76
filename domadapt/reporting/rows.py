"""Rows of tables: a method on a pair."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from domadapt.runs.groups import ROLES, MethodRuns, Pair
from domadapt.runs.metrics import Metrics
from domadapt.statistics.compare import parts, score_names, scored, share
from domadapt.statistics.resampling import interval, mean_of
from domadapt.statistics.results import Interval, Share, Statistics

Paths = str | Path | Iterable[str | Path]


def given(runs: Paths | None) -> Paths:
    """Folders of runs, if any are given.

    Raises:
        ValueError: there is none.
    """
    if isinstance(runs, Iterable) and not isinstance(runs, str):
        runs = [*runs]
    several = runs if isinstance(runs, list) else [runs]
    if runs is None or not several or not all(isinstance(one, str | Path) and str(one) for one in several):
        raise ValueError(
            f"runs={'null' if runs is None else runs}: expected a folder of runs, or several: runs=runs/mine"
        )
    return runs


def named_file(output: str | Path | None, name: str, suffixes: Sequence[str]) -> Path:
    """The file that other formats go beside, under its name with their own endings.

    Args:
        suffixes: that the file may have, the usual one first.

    Raises:
        ValueError: it is no file's name, or that of another format.

    >>> named_file("report.md", "report", (".html", ".htm"))
    Traceback (most recent call last):
    ValueError: output=report.md: expected a name that ends in .html or .htm, such as report.html; other formats go \
beside it
    """
    usual = f"{name}{suffixes[0]}"
    if not isinstance(output, str | Path) or not str(output):
        raise ValueError(
            f"output={'null' if output is None else output}: expected a file's name, such as output={usual}"
        )
    path = Path(output)
    if path.is_dir():
        raise ValueError(f"output={path}: is a folder; expected a file's name, such as {path / usual}")
    if path.suffix.lower() not in suffixes:
        better = path.with_suffix(suffixes[0])
        raise ValueError(
            f"output={path}: expected a name that ends in {' or '.join(suffixes)}, such as {better}; other formats go "
            f"beside it"
        )
    return path


BELOW = ("floor", "rnn_from_scratch")  # no network, or another one: nowhere on the way
CEILING = "ceiling: trained on target labels"


@dataclass(frozen=True, slots=True)
class Row:
    """One method's line.

    Attributes:
        method: whose it is.
        target: headline score on all of the target test; None without target labels.
        clean: the same without copies of training or unlabelled texts; None where nothing was left out.
        details: means of the other scores by name.
        source: mean headline score on the source; None for the ceiling, which sees no source data.
        closed: share of the way from source_only to in_domain.
        regret: mean over seeds of the oracle's score less the chosen checkpoint's; None where no run recorded it.
    """

    method: MethodRuns
    target: Interval | None
    clean: Interval | None
    details: dict[str, float]
    source: float | None
    closed: Share
    regret: float | None = None


def rows(pair: Pair, statistics: Statistics | None = None) -> list[Row]:
    """A pair's lines: those below, source_only, adapted ones by falling score with their controls, in_domain.

    Args:
        statistics: where the target scores' intervals come from; over seeds alone without it.
    """
    found = [_row(pair, method, statistics) for method in pair.methods]
    by_name = {row.method.name: row for row in found}

    def place(row: Row) -> tuple[int, float, str, float, str]:
        own = owner(pair, row.method) if row.method.role == "control" else None
        lead = row if own is None else by_name[own.name]
        return (
            _place(row.method.role),
            -_mean(lead),
            lead.method.name,
            1.0 - _mean(row) if own else 0.0,
            row.method.name,
        )

    return sorted(found, key=place)


def owner(pair: Pair, control: MethodRuns) -> MethodRuns | None:
    """The method that a control is the control of; None where it was not run."""
    names = {control.name, control.runs[0].method}
    return next((m for m in pair.methods if m.role == "adapted" and names & set(m.controls)), None)


def detail_names(pair: Pair) -> list[str]:
    """Scores shown beside the headline: F1 of each span type, or of accuracy and macro F1 the one that it is not.

    Where they come from: ``<type>_f1`` of extraction, ``accuracy`` and ``macro_f1`` of classification.
    """
    if pair.task == "classification":
        tests = [run.target_test for method in pair.methods for run in method.runs if run.target_test]
        return [n for n in ("accuracy", "macro_f1") if n != pair.headline and any(n in test for test in tests)]
    return score_names(pair)[1:]


def scores(method: MethodRuns, read: Callable[[Metrics], float | None]) -> list[float]:
    """One value a seed, of those seeds that have it."""
    return [value for value in map(read, method.runs) if value is not None]


def target_scores(pair: Pair, method: MethodRuns) -> list[float]:
    """Headline scores on the target test, one a seed."""
    return scores(method, lambda run: run.score(pair.headline))


def _row(pair: Pair, method: MethodRuns, statistics: Statistics | None) -> Row:
    sizes = [run.target_test_sizes for run in method.runs if run.target_test_sizes]
    fewer = any(size.all != size.clean for size in sizes)
    clean = scores(method, lambda run: (run.target_test_clean or {}).get(pair.headline))
    target, closed = _said(pair, method, statistics)
    if method.role in BELOW:
        closed = Share(pair.headline, None, None, 0)
    details = {
        name: scores(method, lambda run, name=name: run.score(name))  # type: ignore[misc]
        for name in detail_names(pair)
    }
    regrets = scores(method, lambda run: run.selection.gap)
    source = [] if method.role == "in_domain" else scores(method, lambda run: _source(run).get(pair.headline))
    return Row(
        method,
        target,
        interval(mean_of(clean)) if clean and fewer else None,
        {name: sum(values) / len(values) for name, values in details.items() if values},
        sum(source) / len(source) if source else None,
        closed,
        sum(regrets) / len(regrets) if regrets else None,
    )


def _said(pair: Pair, method: MethodRuns, statistics: Statistics | None) -> tuple[Interval | None, Share]:
    if statistics is not None:
        cell = statistics.cell(pair.name, method.name)
        return cell.score, cell.shares[0]
    one, _ = scored(pair, predictions=False)
    own = one.mean(method)
    return interval(own) if own else None, share(pair.headline, [parts(one, method, pair.headline)])


def _source(run: Metrics) -> dict[str, float]:
    return dict(run.source_test or run.source_dev)


def _mean(row: Row) -> float:
    return row.target.mean if row.target else 0.0


def _place(role: str) -> int:
    return ROLES.index(role) if role in ROLES and role != "control" else ROLES.index("adapted")
