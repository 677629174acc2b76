"""Every comparison that a report makes, from its grouped runs."""

from collections.abc import Mapping, Sequence

from domadapt.runs.groups import Pair
from domadapt.statistics.bootstrap import interval
from domadapt.statistics.correction import corrected
from domadapt.statistics.overall import overall, ranked
from domadapt.statistics.results import Cell, Difference, Significance, Statistics
from domadapt.statistics.scored import scored
from domadapt.statistics.versus import Row, Versus, rows, seeds_test, significance_over_items


def compare(
    pairs: Sequence[Pair], baseline: str = "source_only", controls: Mapping[str, str] | None = None
) -> Statistics:
    """Compare methods per pair and over pairs.

    Holm's correction is over the table: all per-pair tests of one unit, against baseline and control alike, are one
    family; all tests over pairs of one unit are another.

    Args:
        pairs: grouped runs (:func:`domadapt.runs.groups.group`).
        baseline: a role, or the name of a method.
        controls: name of each method's control; added to what the runs' ``config.benchmark.controls`` declare.

    Returns:
        The numbers, and words where there are none.
    """
    found = [scored(pair) for pair in pairs]
    table = [row for one, _ in found for row in rows(one, baseline, controls or {})]
    ranking = ranked([one for one, _ in found])
    messages = [message for _, some in found for message in some]
    headlines = sorted({pair.headline for pair in pairs})
    if len(headlines) > 1:
        messages.append(f"pairs are scored by {', '.join(headlines)}: means over pairs mix these")
    return Statistics(baseline, _cells(table), overall(table, ranking), ranking, tuple(messages))


def _cells(table: Sequence[Row]) -> tuple[Cell, ...]:
    sides = [side for row in table for side in (row.baseline, row.control)]
    seeds = corrected([seeds_test(side) for side in sides])
    items = corrected([significance_over_items(side) for side in sides])
    differences = [_difference(*three) for three in zip(sides, seeds, items, strict=True)]
    cells = []
    for row, baseline, control in zip(table, differences[::2], differences[1::2], strict=True):
        sample = row.one.sample(row.method)
        score = interval(sample) if sample else None
        cells.append(Cell(row.one.pair.name, row.method.name, row.method.role, score, baseline, control))
    return tuple(cells)


def _difference(side: Versus, seeds: Significance, items: Significance) -> Difference:
    other = side.other.name if side.other else ""
    return Difference(other, interval(side.sample) if side.sample else None, seeds, items, side.reason)
