"""The result table: target score, interval over seeds, source score, gap closed."""

from collections.abc import Mapping, Sequence
from typing import Any

from domadapt.reporting.blocks import Table, numbered
from domadapt.reporting.rows import CEILING, Row, detail_names, rows
from domadapt.runs.groups import Pair, group
from domadapt.runs.metrics import typed
from domadapt.statistics.results import Interval, Statistics
from domadapt.utils.text import visible

OVER = {
    "seeds and test items": ("s, t", "over seeds and test texts"),
    "seeds": ("s", "over seeds"),
    "test items": ("t", "over test texts, of these trained models and not of training again"),
}


def text_table(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Aligned tables for a terminal, one a pair.

    Args:
        metrics: contents of ``metrics.json``.

    >>> run = {"source": "camera", "target": "laptop", "task": "extraction", "headline": "span_f1", "seed": 1,
    ...        "method": "source_only", "role": "source_only", "config": {}, "source_dev": {"span_f1": 0.7},
    ...        "target_test": {"span_f1": 0.5, "aspect_f1": 0.4}, "curve": []}
    >>> print(text_table([run]))
    camera → laptop: span_f1 on the target test, percent
    method       score  interval  aspect F1  source  gap closed  seeds
    source_only   50.0     - [2]       40.0    70.0       - [1]      1
      [1] no comparable run of in_domain among these
      [2] fewer than three seeds, too few for an interval
      source: the score on the source's dev part, for want of a source test
    """
    return (
        "\n\n".join(as_text(table(pair)) for pair in group([typed(content) for content in metrics]))
        or "no finished runs"
    )


def table(pair: Pair, statistics: Statistics | None = None) -> Table:
    """A pair's table with its footnotes.

    Args:
        pair: whose methods.
        statistics: where intervals come from; over seeds alone without it.
    """
    lines = rows(pair, statistics)
    names = detail_names(pair)
    clean_interval = any(row.clean and row.clean.low is not None for row in lines)
    with_clean, with_regret = any(row.clean for row in lines), any(row.regret is not None for row in lines)
    intervals = [e for row in lines for e in (row.target, row.clean if clean_interval else None) if e]
    no_interval = [e.reason for e in intervals if e.low is None]
    reasons = [*dict.fromkeys([*(row.gap_reason for row in lines if row.gap_reason), *no_interval])]

    def interval(value: Interval | None) -> str:
        if value is None:
            return "-"
        if value.low is None or value.high is None:
            return f"- [{reasons.index(value.reason) + 1}]"
        return f"{100 * value.low:.1f}–{100 * value.high:.1f} ({OVER[value.over][0]})"

    header = [
        "method",
        "score",
        "interval",
        *(["clean"] if with_clean else []),
        *(["clean interval"] if clean_interval else []),
    ]
    header += [*(_title(name) for name in names), "source", "gap closed", *(["regret"] if with_regret else []), "seeds"]
    cells = []
    for row in lines:
        clean = [*([_mean(row.clean)] if with_clean else []), *([interval(row.clean)] if clean_interval else [])]
        gap = f"- [{reasons.index(row.gap_reason) + 1}]" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %"
        details = [_percent(row.details.get(name)) for name in names]
        numbers = [_mean(row.target), interval(row.target), *clean, *details, _percent(row.source), gap]
        regret = [_percent(row.regret)] if with_regret else []
        cells.append([_name(row), *numbers, *regret, str(len(row.method.seeds))])
    return Table(
        f"{visible(pair.name)}: {visible(pair.headline)} on the target test, percent",
        header,
        cells,
        [*reasons, *_remarks(pair, lines)],
    )


def _remarks(pair: Pair, lines: Sequence[Row]) -> list[str]:
    over = {e.over for row in lines for e in (row.target, row.clean) if e}
    remarks = [f"({mark}): 95 % interval {words}" for kind, (mark, words) in OVER.items() if kind in over]
    if any(row.clean for row in lines):
        remarks.append("clean: without test texts that are copies of training or unlabelled texts")
    if any(row.source is not None and not row.method.runs[0].source_test for row in lines):
        remarks.append("source: the score on the source's dev part, for want of a source test")
    if any(row.regret is not None for row in lines):
        remarks.append("regret: points that the best checkpoint by target labels, which nobody may choose by, has more")
    if len({row.method.seeds for row in lines}) > 1:
        remarks.append("the methods were not all run with the same seeds")
    if pair.repeated:
        remarks.append(
            f"{pair.repeated} run{'s' * (pair.repeated > 1)} left out: a later run has the same settings and seed"
        )
    return remarks


def as_text(table: Table) -> str:
    """A table with its footnotes, aligned, for a terminal."""
    widths = [max(len(cell) for cell in column) for column in zip(table.header, *table.rows, strict=True)]
    lines = [table.title]
    for cells in (table.header, *table.rows):
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        lines.append("  ".join([cells[0].ljust(widths[0]), *rest]).rstrip())
    return "\n".join([*lines, *(f"  {note}" for note in numbered(table))])


def _name(row: Row) -> str:
    return visible(row.method.name) + (f" ({CEILING})" if row.method.role == "in_domain" else "")


def _title(name: str) -> str:
    return visible(name.removesuffix("_f1") + " F1" if name.endswith("_f1") else name)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _mean(value: Interval | None) -> str:
    return _percent(value.mean if value else None)
