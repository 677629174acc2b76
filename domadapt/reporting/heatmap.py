"""Pair × method: the gap closed, or the gain where there is no gap, as a table with colours."""

from collections.abc import Sequence

from domadapt.reporting.blocks import Block, Section, Table, Text, in_columns
from domadapt.reporting.rows import Row, rows
from domadapt.runs.groups import ROLES, Pair
from domadapt.statistics.results import Statistics

COLUMNS = 8  # of a table that fits a printed page


def heatmap(pairs: Sequence[Pair], statistics: Statistics) -> Section:
    """Two tables of colours: gap closed, and target score.

    Args:
        pairs: of the report.
        statistics: of these pairs.
    """
    by_pair = {pair.name: {row.method.name: row for row in rows(pair, statistics)} for pair in pairs}
    roles = {name: row.method.role for found in by_pair.values() for name, row in found.items()}
    methods = sorted(roles, key=lambda name: ROLES.index(roles[name]) if roles[name] in ROLES else 2)
    gaps = Table("Gap closed, percent of the way from source_only to in_domain", ["method", *by_pair], [], narrow=True)
    scores = Table("Headline score on the target test, percent", ["method", *by_pair], [], narrow=True)
    reasons: dict[str, int] = {}
    for name in methods:
        found = [by_pair[pair].get(name) for pair in by_pair]
        scores.rows.append([name, *(f"{100 * r.target.mean:.1f}" if r and r.target else "" for r in found)])
        if roles[name] == "adapted":
            gaps.rows.append([name, *(_gap(row, reasons) for row in found)])
            _shade(gaps, found)
    gaps.notes.extend(reasons)
    parts: list[Block] = [
        Text(
            "100 is the ceiling, 0 is source_only; green is better than source_only, red is worse. A colour is no "
            "test: which of these differences are more than chance, the next section says.",
            "soft",
        )
    ]
    parts += in_columns(gaps, COLUMNS) if gaps.rows else [Text("No adapted method was run.")]
    parts += in_columns(scores, COLUMNS)
    return Section("Pair × method", tuple(parts))


def _gap(row: Row | None, reasons: dict[str, int]) -> str:
    if row is None:
        return ""
    mark = f" [{reasons.setdefault(row.closed.reason, len(reasons) + 1)}]" if row.closed.reason else ""
    return f"-{mark}" if row.closed.value is None else f"{100 * row.closed.value.mean:.0f}{mark}"


def _shade(table: Table, found: Sequence[Row | None]) -> None:
    for column, row in enumerate(found, start=1):
        if row and row.closed.value is not None:
            table.shades[len(table.rows) - 1, column] = min(max(row.closed.value.mean, -1.0), 1.0)
