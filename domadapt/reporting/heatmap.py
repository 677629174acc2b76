"""Pair × method: the gap closed, or the gain where there is no gap, as a table with colours."""

from collections.abc import Sequence

from domadapt.reporting.blocks import Block, Table, Text, in_columns
from domadapt.reporting.rows import Row, rows
from domadapt.runs.groups import Pair
from domadapt.statistics.results import Overall, Statistics

COLUMNS = 8  # of a table that fits a printed page


def heatmap(pairs: Sequence[Pair], statistics: Statistics) -> list[Block]:
    """Two tables: target score, and gap closed with colours; a mean of each where a method was run on all pairs.

    Args:
        pairs: of the report.
        statistics: of these pairs.
    """
    by_pair = {pair.name: {row.method.name: row for row in rows(pair, statistics)} for pair in pairs}
    longest = sorted(by_pair.values(), key=len, reverse=True)
    roles = {name: row.method.role for found in longest for name, row in found.items()}
    methods = sorted(roles, key=lambda name: roles[name] == "in_domain")
    overall = {one.method: one for one in statistics.overall if len(one.pairs) == len(pairs)}
    comparable = len({pair.headline for pair in pairs}) == 1
    header = ["method", *(["mean"] if comparable else []), *by_pair]
    gaps = Table("Gap closed, percent of the way from source_only to in_domain", header, [], narrow=True)
    scores = Table("Headline score on the target test, percent", list(header), [], narrow=True)
    reasons: dict[str, int] = {}
    for name in methods:
        found = [by_pair[pair].get(name) for pair in by_pair]
        score, gap = _means(overall.get(name)) if comparable else ([], [])
        scores.rows.append([name, *score, *(f"{100 * r.target.mean:.1f}" if r and r.target else "" for r in found)])
        if roles[name] == "adapted":
            gaps.rows.append([name, *gap, *(_gap(row, reasons) for row in found)])
            _shade(gaps, found, 1 + comparable)
    gaps.notes.extend(reasons)
    if comparable:
        gaps.notes.append("mean: mean gain over mean gap, of methods that were run on all pairs")
    parts: list[Block] = [*in_columns(scores, COLUMNS)]
    parts.append(
        Text(
            "100 is the ceiling, 0 is source_only; green is better than source_only, red is worse. A colour is no "
            "test: which of these differences are more than chance, the next section says.",
            "soft",
        )
    )
    parts += in_columns(gaps, COLUMNS) if gaps.rows else [Text("No adapted method was run.")]
    return parts


def _means(one: Overall | None) -> tuple[list[str], list[str]]:
    share = one.shares[0].value if one and one.shares else None
    return (
        [f"{100 * one.score.mean:.1f}" if one and one.score else ""],
        [f"{100 * share.mean:.0f}" if share else ""],
    )


def _gap(row: Row | None, reasons: dict[str, int]) -> str:
    if row is None:
        return ""
    mark = f" [{reasons.setdefault(row.closed.reason, len(reasons) + 1)}]" if row.closed.reason else ""
    return f"-{mark}" if row.closed.value is None else f"{100 * row.closed.value.mean:.0f}{mark}"


def _shade(table: Table, found: Sequence[Row | None], first: int) -> None:
    for column, row in enumerate(found, start=first):
        if row and row.closed.value is not None:
            table.shades[len(table.rows) - 1, column] = min(max(row.closed.value.mean, -1.0), 1.0)
