"""A report's numbers for a notebook: one row a run, and one row a pair and method, as CSV and parquet."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from domadapt.reporting.cost import seconds
from domadapt.reporting.rows import Row, rows, scores
from domadapt.reporting.ways import target_labels
from domadapt.runs.groups import Method, Pair
from domadapt.runs.metrics import Metrics
from domadapt.statistics.results import Difference, Interval, Share, Statistics
from domadapt.utils.files import replace_atomic, write_atomic
from domadapt.utils.text import visible

Value = str | int | float | None
Record = dict[str, Value]
FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the beginning of a formula
INSTALL = "pip install 'domadapt[report]'"


def run_records(pairs: Sequence[Pair]) -> list[Record]:
    """One record a run: names, scores as shares, seconds, selection.

    Args:
        pairs: grouped runs.
    """
    return [_run(pair, method, run) for pair in pairs for method in pair.methods for run in method.runs]


def method_records(pairs: Sequence[Pair], statistics: Statistics) -> list[Record]:
    """One record a pair and method: means, intervals, differences, p-values, gap closed.

    Args:
        pairs: grouped runs.
        statistics: of these pairs.
    """
    return [_method(pair, row, statistics) for pair in pairs for row in rows(pair, statistics)]


def write_csv(records: Sequence[Record], path: Path) -> None:
    """Write records; strings that a spreadsheet would run as formulas get an apostrophe in front.

    Args:
        records: that may have different keys.
        path: the file; replaced whole.
    """
    file = io.StringIO()
    columns = _columns(records)
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writerow({name: inert(name) for name in columns})
    writer.writerows({k: inert(v) if isinstance(v, str) else v for k, v in record.items()} for record in records)
    write_atomic(path, file.getvalue())


def write_parquet(records: Sequence[Record], path: Path) -> None:
    """Write records with a type for each column.

    Args:
        records: that may have different keys.
        path: the file; replaced whole.

    Raises:
        ValueError: pyarrow is not installed; says how to install it.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"{path}: parquet needs pyarrow: {INSTALL}") from error
    columns = {name: [_clean(record.get(name)) for record in records] for name in _columns(records)}
    table = pa.table({visible(name): pa.array(_same(values)) for name, values in columns.items()})
    replace_atomic(path, lambda part: pq.write_table(table, part))


def inert(text: str) -> str:
    """A string that no spreadsheet runs, without control characters.

    >>> inert("=cmd()"), inert("lisa"), inert("\\t=1")
    ("'=cmd()", 'lisa', "' =1")
    """
    shown = visible(text)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) else shown


def _columns(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _same(values: list[Value]) -> list[Value]:
    """Numbers where all are numbers, else strings: metrics of strangers may mix them."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float}:
        return [float(v) if float in kinds and v is not None else v for v in values]
    return [None if v is None else str(v) for v in values]


def _clean(value: Value) -> Value:
    return visible(value) if isinstance(value, str) else value


def _run(pair: Pair, method: Method, run: Metrics) -> Record:
    record: Record = {
        "pair": pair.name,
        "source": run.source,
        "target": run.target,
        "task": run.task,
        "method": method.name,
        "role": method.role,
        "seed": run.seed,
        "target_labels": run.counts.target_labels,
        "key": run.key,
        "headline": pair.headline,
        "score": run.score(),
        "score_clean": (run.target_test_clean or {}).get(pair.headline),
        "selection_validator": run.selection.validator,
        "selection_epoch": run.selection.epoch,
        "selection_gap": run.selection.gap,
        "calibration_error": run.calibration.error,
        "parameters": run.counts.parameters,
        "attempts": run.attempts,
        "seconds": sum(run.seconds.values()) if run.seconds else None,
        "folder": run.folder or None,
    }
    record |= {f"seconds_{stage}": value for stage, value in run.seconds.items()}
    for part in ("source_dev", "source_test", "target_test", "target_test_clean"):
        record |= {f"{part}_{name}": value for name, value in (getattr(run, part) or {}).items()}
    for name, choice in run.selection.choices.items():
        record[f"epoch_by_{name}"] = choice.epoch
        record[f"score_by_{name}"] = (choice.target_test or {}).get(pair.headline)
    return {name: value for name, value in record.items() if isinstance(value, str | int | float | None)}


def _method(pair: Pair, row: Row, statistics: Statistics) -> Record:
    cell = statistics.cell(pair.name, row.method.name)
    parameters = scores(row.method, lambda run: run.counts.parameters)
    return {
        "pair": pair.name,
        "method": row.method.name,
        "role": row.method.role,
        "headline": pair.headline,
        "seeds": len(row.method.seeds),
        "target_labels": target_labels(row.method),
        **_ends("score", row.target),
        "score_clean": row.clean.mean if row.clean else None,
        **row.details,
        "source_score": row.source,
        **{key: value for part in cell.shares for key, value in _share(pair, part).items()},
        "selection_gap": row.regret,
        **_difference("baseline", cell.baseline),
        **{k: v for i, part in enumerate(cell.controls, 1) for k, v in _difference(_nth("control", i), part).items()},
        "seconds": seconds(row.method),
        "parameters": sum(parameters) / len(parameters) if parameters else None,
    }


def _share(pair: Pair, found: Share) -> Record:
    name = "gap_closed" if found.score == pair.headline else f"gap_closed_{found.score}"
    ends = {key: value for key, value in _ends(name, found.value).items() if not key.endswith("_over")}
    return {**ends, f"{name}_reason": found.reason or None, **_ends(name.replace("closed", "points"), found.gap)}


def _nth(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"


def _ends(name: str, value: Interval | None) -> Record:
    low, high, over = (value.low, value.high, value.over) if value else (None, None, None)
    return {name: value.mean if value else None, f"{name}_low": low, f"{name}_high": high, f"{name}_over": over}


def _difference(name: str, found: Difference) -> Record:
    return {
        name: found.other or None,
        **_ends(f"{name}_difference", found.interval),
        f"{name}_p_seeds": found.seeds.p,
        f"{name}_p_seeds_holm": found.seeds.p_holm,
        f"{name}_p_items": found.items.p,
        f"{name}_p_items_holm": found.items.p_holm,
    }
