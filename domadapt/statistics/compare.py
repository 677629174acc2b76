"""Every comparison that a report makes, from its grouped runs."""

from collections.abc import Sequence

from domadapt.runs.groups import Pair
from domadapt.statistics.bootstrap import interval
from domadapt.statistics.correction import corrected
from domadapt.statistics.gap import parts, share
from domadapt.statistics.overall import overall, ranked
from domadapt.statistics.results import Cell, Difference, Significance, Statistics
from domadapt.statistics.scored import score_names, scored
from domadapt.statistics.versus import Row, Versus, rows, seeds_test, significance_over_items


def compare(pairs: Sequence[Pair], baseline: str = "source_only", predictions: bool = True) -> Statistics:
    """Compare methods per pair and over pairs.

    Holm's correction is over what is claimed: all per-pair tests of one unit of adapted methods, against the baseline
    and against their controls alike, are one family; all their tests over pairs of one unit are another. Nothing is
    tested of bounds, baselines and controls.

    Args:
        pairs: grouped runs (:func:`domadapt.runs.groups.group`); each method's controls are what its runs'
            ``config.benchmark.controls`` declare.
        baseline: a role, or the name of a method.
        predictions: read them; without, intervals are over seeds alone.

    Returns:
        The numbers, and words where there are none.
    """
    found = [scored(pair, predictions) for pair in pairs]
    table = [row for one, _ in found for row in rows(one, baseline)]
    messages = [message for _, some in found for message in some]
    headlines = sorted({pair.headline for pair in pairs})
    if len(headlines) > 1:
        messages.append(f"pairs are scored by {', '.join(headlines)}: means over pairs mix these")
    return Statistics(baseline, _cells(table), overall(table), ranked([one for one, _ in found]), tuple(messages))


def _cells(table: Sequence[Row]) -> tuple[Cell, ...]:
    sides = [side for row in table for side in (row.baseline, *row.controls.values())]
    seeds = corrected([seeds_test(side) for side in sides])
    items = corrected([significance_over_items(side) for side in sides])
    differences = iter([_difference(*three) for three in zip(sides, seeds, items, strict=True)])
    cells = []
    for row in table:
        sample = row.one.sample(row.method)
        cells.append(
            Cell(
                row.one.pair.name,
                row.method.name,
                row.method.role,
                interval(sample) if sample else None,
                next(differences),
                tuple(next(differences) for _ in row.controls),
                tuple(share(name, [parts(row.one, row.method, name)]) for name in score_names(row.one.pair)),
            )
        )
    return tuple(cells)


def _difference(side: Versus, seeds: Significance, items: Significance) -> Difference:
    other = side.other.name if side.other else ""
    return Difference(other, interval(side.sample) if side.sample else None, seeds, items, side.reason)
