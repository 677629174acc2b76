"""Runs as rows: of tables, a method on a pair; for notebooks, a record a run and a record a method and pair."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from domadapt.runs.groups import ROLES, MethodRuns, Pair
from domadapt.runs.metrics import Metrics
from domadapt.statistics.compare import Difference, Share, Statistics, gain_and_gap, read_scores, score_names, share
from domadapt.statistics.resampling import Interval, mean_of, score_interval
from domadapt.utils.files import write_atomic
from domadapt.utils.text import csv_lines, escape_controls

OTHER_BASELINES = ("rule_baseline", "rnn_from_scratch")  # no network, or another one: nowhere on the way
Value = str | int | float | None
Record = dict[str, Value]
FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the beginning of a formula


@dataclass(frozen=True, slots=True)
class TableRow:
    """One method's line."""

    method: MethodRuns
    target: Interval | None  #: headline score on all of the target test
    clean: Interval | None  #: the same without copies of what the run has read; None where nothing was left out, or all
    details: dict[str, float]  #: means of the other scores by name
    source: float | None  #: mean headline score on the source; None for the ceiling, which sees no source data
    gap_closed: Share  #: of the way from source_only to in_domain
    regret: float | None = None  #: mean over seeds of the oracle's score less the chosen checkpoint's

    @property
    def name(self) -> str:
        return self.method.name


def rows(pair: Pair, statistics: Statistics | None = None) -> list[TableRow]:
    """A pair's lines: those below, source_only, adapted ones by falling score with their controls, in_domain."""
    lines = [_row(pair, method, statistics) for method in pair.methods]
    scores = {row.name: row.target.mean if row.target else 0.0 for row in lines}

    def place(row: TableRow) -> tuple[int, float, str, float, str]:
        role = "adapted" if row.method.role == "control" else row.method.role
        parent = controlled_method(pair, row.method) if row.method.role == "control" else None
        lead = parent.name if parent else row.name
        return ROLES.index(role), -scores[lead], lead, 1.0 - scores[row.name] if parent else 0.0, row.name

    return sorted(lines, key=place)


def controlled_method(pair: Pair, control: MethodRuns) -> MethodRuns | None:
    """The method that a control is the control of; None where it was not run."""
    names = {control.name, control.runs[0].method}
    return next((m for m in pair.methods if m.role == "adapted" and names & set(m.controls)), None)


def best_overall(pairs: Sequence[Pair]) -> list[tuple[Pair, MethodRuns]]:
    """The adapted method with the best mean score on source dev, chosen without a look at target labels, by pair.

    Of those methods that were run on the most pairs; one that was given target labels only where no other was run.
    """
    methods = [(pair, method) for pair in pairs for method in pair.methods if not method.oracle]
    adapted = [entry for entry in methods if entry[1].role == "adapted"]
    blind = [entry for entry in adapted if not entry[1].config.get("target_labels")]
    by_name: dict[str, list[tuple[Pair, MethodRuns]]] = {}
    for pair, method in blind or adapted:
        by_name.setdefault(method.name, []).append((pair, method))

    def place(group: list[tuple[Pair, MethodRuns]]) -> tuple[int, float]:
        dev = [run_mean(method, lambda run, pair=pair: run.source_dev.get(pair.headline)) for pair, method in group]  # type: ignore[misc]
        return len(group), sum(score or 0.0 for score in dev) / len(dev)

    return max(by_name.values(), key=place, default=[])


def best_adapted(pair: Pair) -> MethodRuns | None:
    """The same of one pair."""
    return next((method for _, method in best_overall([pair])), None)


def detail_names(pair: Pair) -> list[str]:
    """Scores shown beside the headline: F1 of each span type, or of accuracy and macro F1 the one that it is not."""
    if pair.task == "classification":
        tests = [run.target_test for run in pair.runs if run.target_test]
        return [n for n in ("accuracy", "macro_f1") if n != pair.headline and any(n in test for test in tests)]
    return score_names(pair)[1:]


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def run_mean(method: MethodRuns, read: Callable[[Metrics], float | None]) -> float | None:
    """Mean over a method's runs of those that have it."""
    return mean(map(read, method.runs))


def seconds(method: MethodRuns) -> float | None:
    """Mean seconds of a method's runs before the test; runs that reused another run's network do not count."""
    stages = ("build", "prepare", "fit")
    return mean(sum(run.seconds.get(stage, 0) for stage in stages) for run in method.runs if "fit" in run.seconds)


def target_labels(method: MethodRuns) -> int | None:
    """How many target labels a method's runs were given beside the source's; None where that was not recorded."""
    asked, known = method.config.get("target_labels") or 0, method.runs[0].counts.target_labels
    return known if known is not None else asked if isinstance(asked, int) else None


def _row(pair: Pair, method: MethodRuns, statistics: Statistics | None) -> TableRow:
    sizes = [run.target_test_sizes for run in method.runs if run.target_test_sizes]
    clean = [c for run in method.runs if (c := (run.target_test_clean or {}).get(pair.headline)) is not None]
    if statistics is not None:
        cell = statistics.cell(pair.name, method.name)
        target, closed = cell.score, cell.shares[0]
    else:
        scored_pair, _ = read_scores(pair, predictions=False)
        mean_score = scored_pair.mean(method)
        target = score_interval(mean_score) if mean_score else None
        closed = share(pair.headline, [gain_and_gap(scored_pair, method, pair.headline)])
    details = {name: run_mean(method, lambda run, name=name: run.score(name)) for name in detail_names(pair)}  # type: ignore[misc]
    source = run_mean(method, lambda run: (run.source_test or run.source_dev).get(pair.headline))
    without = score_interval(mean_of(clean)) if clean and any(size.all != size.clean for size in sizes) else None
    known = {name: value for name, value in details.items() if value is not None}
    source = None if method.role == "in_domain" else source
    closed = Share(pair.headline, None, None, 0) if method.role in OTHER_BASELINES else closed
    return TableRow(method, target, without, known, source, closed, run_mean(method, lambda run: run.selection.gap))


def run_record(pair: Pair, method: MethodRuns, run: Metrics) -> Record:
    """Names, scores as shares, seconds, selection."""
    record: Record = {"pair": pair.name, "source": run.source, "target": run.target, "task": run.task}
    record |= {"method": method.name, "role": method.role, "seed": run.seed, "target_labels": run.counts.target_labels}
    record |= {"key": run.key, "headline": pair.headline, "score": run.score()}
    record["score_clean"] = (run.target_test_clean or {}).get(pair.headline)
    record |= {f"selection_{name}": getattr(run.selection, name) for name in ("validator", "epoch", "gap")}
    record |= {"calibration_error": run.calibration.error, "parameters": run.counts.parameters}
    record |= {"attempts": run.attempts, "seconds": sum(run.seconds.values()) if run.seconds else None}
    record["folder"] = run.folder or None
    record |= {f"seconds_{stage}": value for stage, value in run.seconds.items()}
    for part in ("source_dev", "source_test", "target_test", "target_test_clean"):
        record |= {f"{part}_{name}": value for name, value in (getattr(run, part) or {}).items()}
    for name, choice in run.selection.choices.items():
        record[f"epoch_by_{name}"] = choice.epoch
        record[f"score_by_{name}"] = (choice.target_test or {}).get(pair.headline)
    return {name: value for name, value in record.items() if isinstance(value, str | int | float | None)}


def method_record(pair: Pair, row: TableRow, statistics: Statistics) -> Record:
    """Means, intervals, differences, p-values, gap closed."""
    cell = statistics.cell(pair.name, row.name)
    record: Record = {"pair": pair.name, "method": row.name, "role": row.method.role, "headline": pair.headline}
    record |= {"seeds": len(row.method.seeds), "target_labels": target_labels(row.method), **_ends("score", row.target)}
    record |= {"score_clean": row.clean.mean if row.clean else None, **row.details, "source_score": row.source}
    for part in cell.shares:
        name = "gap_closed" if part.score == pair.headline else f"gap_closed_{part.score}"
        record |= {key: value for key, value in _ends(name, part.value).items() if not key.endswith("_over")}
        record |= {f"{name}_reason": part.reason or None, **_ends(name.replace("closed", "points"), part.gap)}
    record |= {"selection_gap": row.regret, **_difference("baseline", cell.baseline)}
    for place, control in enumerate(cell.controls, start=1):
        record |= _difference("control" if place == 1 else f"control_{place}", control)
    parameters = run_mean(row.method, lambda run: run.counts.parameters)
    return {**record, "seconds": seconds(row.method), "parameters": parameters}


def _ends(name: str, value: Interval | None) -> Record:
    low, high, over = (value.low, value.high, value.units) if value else (None, None, None)
    return {name: value.mean if value else None, f"{name}_low": low, f"{name}_high": high, f"{name}_over": over}


def _difference(name: str, difference: Difference) -> Record:
    tests = {"seeds": difference.retraining, "items": difference.new_data}
    p = {f"{name}_p_{unit}{end}": v for unit, t in tests.items() for end, v in (("", t.p), ("_holm", t.p_holm))}
    return {name: difference.other or None, **_ends(f"{name}_difference", difference.interval), **p}


def write_csv(records: Sequence[Record], path: Path) -> None:
    """Write records; strings that a spreadsheet would run as formulas get an apostrophe in front."""
    columns = list(dict.fromkeys(name for record in records for name in record))
    table: list[list[Value]] = [[*columns], *([record.get(name) for name in columns] for record in records)]
    lines = csv_lines([spreadsheet_safe(value) if isinstance(value, str) else value for value in row] for row in table)
    write_atomic(path, "".join(lines))


def spreadsheet_safe(text: str) -> str:
    """A string that no spreadsheet runs, without control characters.

    >>> spreadsheet_safe("=cmd()"), spreadsheet_safe("lisa"), spreadsheet_safe("\\t=1")
    ("'=cmd()", 'lisa', "' =1")
    """
    shown = escape_controls(text)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) else shown


def html_file(output: str | Path | None, name: str) -> Path:
    """The file that other formats go beside, under its name with their own endings."""
    path = Path(str(output or ""))
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        ends = f"expected a name that ends in .html or .htm, such as {name}.html"
        raise ValueError(f"output={'null' if output is None else output}: {ends}; other formats go beside it")
    return path
