"""Which differences are more than chance: per pair, against controls, over pairs, by ranks."""

from collections.abc import Sequence

from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text, counted
from domadapt.reporting.ranks import rank_svg
from domadapt.reporting.tables import shares_table
from domadapt.runs.groups import Pair
from domadapt.statistics.results import (
    Cell,
    Difference,
    Interval,
    Overall,
    Ranking,
    Replicability,
    Significance,
    Statistics,
)

ABOUT = (
    "Differences are in points. Two questions are kept apart. Over seeds: would training again show it? That is the "
    "test that a claim about a method needs. Over texts: do these trained models differ on other texts of this kind? "
    "p-values are two-sided, of paired permutation tests, after Holm's correction over all comparisons of adapted "
    "methods with the baseline and with their controls; nothing else is tested."
)


def significance(pairs: Sequence[Pair], statistics: Statistics) -> Section:
    """Tables of differences and tests, and the critical-difference diagram.

    Args:
        pairs: of the report.
        statistics: of these pairs.
    """
    blocks: list[Block] = [Text(ABOUT, "soft")]
    several = len(pairs) > 1
    against = [(cell, cell.baseline) for cell in statistics.cells if cell.baseline.other]
    controlled = [(cell, control) for cell in statistics.cells for control in cell.controls if control.other]
    by_pair: list[Block] = []
    if against:
        by_pair.append(_differences(f"Against {statistics.baseline}", against, several))
    if controlled:
        by_pair.append(_differences("Against each method's own controls", controlled, several, True))
    if several:
        blocks += _over_pairs(statistics.overall)
    shares = shares_table(statistics.overall)
    blocks += [
        *([Folded("Pair by pair", tuple(by_pair))] if several and by_pair else by_pair),
        *([shares] if shares else []),
    ]
    if several:  # with one pair, ranks say what its scores say
        blocks += _ranking(statistics.ranking)
    if len(blocks) == 1:
        blocks.insert(1, Text("Nothing was tested: there is nothing to compare with."))
    return Section("Significance", tuple(blocks))


class Notes:
    """Footnotes of one table: the same words get the same mark."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """The mark of a footnote, as cells carry it; without words, no mark."""
        if not text:
            return "-"
        if text not in self.texts:
            self.texts.append(text)
        return f"- [{self.texts.index(text) + 1}]"


def _differences(title: str, sides: Sequence[tuple[Cell, Difference]], several: bool, control: bool = False) -> Table:
    notes = Notes()
    table = Table(
        title,
        ["method", *(["control"] if control else []), "difference", "interval", "p over seeds", "p over texts"],
        [],
        notes.texts,
        left=frozenset((0, 1) if control else (0,)),
    )
    for cell, found in sides:
        name = f"{cell.pair}: {cell.method}" if several else cell.method
        numbers = [*_interval(found.interval, found.reason, notes), _p(found.seeds, notes), _p(found.items, notes)]
        table.rows.append([name, *([found.other] if control else []), *numbers])
        if found.seeds.p_holm is not None and found.seeds.p_holm <= 0.05 and found.interval:
            table.shades[len(table.rows) - 1, 3 + control] = 0.5 if found.interval.mean > 0 else -0.5
    return table


def _interval(value: Interval | None, reason: str, notes: Notes) -> list[str]:
    if value is None:
        return [notes.mark(reason), "-"]
    mean = f"{100 * value.mean:+.1f}"
    if value.low is None or value.high is None:
        return [mean, notes.mark(value.reason)]
    if value.over != "seeds and test items":
        text = f"interval over {value.over} alone: {value.reason}" if value.reason else f"interval over {value.over}"
        mark = notes.mark(text).removeprefix("- ")
        return [mean, f"{100 * value.low:+.1f} to {100 * value.high:+.1f} {mark}"]
    return [mean, f"{100 * value.low:+.1f} to {100 * value.high:+.1f}"]


def _p(test: Significance, notes: Notes) -> str:
    if test.p_holm is None:
        return notes.mark(test.reason)
    return "<0.001" if test.p_holm < 0.001 else f"{test.p_holm:.3f}"


def _over_pairs(overall: Sequence[Overall]) -> list[Block]:
    tables: list[Block] = []
    both = {
        "baseline": [(one, one.baseline) for one in overall if one.baseline.other],
        "control": [(one, control) for one in overall for control in one.controls if control.other],
    }
    for what, found in both.items():
        if not found:
            continue
        notes = Notes()
        title = f"Over pairs, against {found[0][1].other if what == 'baseline' else 'controls'}"
        left = frozenset((0,) if what == "baseline" else (0, 1))
        rows = [
            [
                one.method,
                *([difference.other] if what == "control" else []),
                str(len(one.pairs)),
                *_interval(difference.interval, difference.reason, notes),
                _p(difference.runs, notes),
                _p(difference.pairs, notes),
                _replicated(difference.replicability, notes),
                _replicated(difference.replicability_items, notes),
            ]
            for one, difference in found
        ]
        header = ["method", *(["control"] if what == "control" else []), "pairs", "difference", "interval"]
        header += ["p, some pair", "p, other pairs"]
        header += ["real on (seeds)", "real on (texts)"]
        tables.append(Table(title, header, rows, notes.texts, left=left))
    if tables:
        tables.append(
            Text(
                "p, some pair: is there a difference on at least one of these pairs, each trained model being one "
                "observation? p, other pairs: would there be one on other pairs of this kind? Runs and pairs that "
                "share a network count as one. Real on: the least number of pairs with a gain, right with 95 % "
                "confidence (Dror et al. 2017).",
                "soft",
            )
        )
    return tables


def _replicated(found: Replicability, notes: Notes) -> str:
    if found.count is None:
        return notes.mark(found.reason)
    return f"{found.count} of {found.of}"


def _ranking(ranking: Ranking) -> list[Block]:
    if not ranking.methods:
        return [Text(f"No ranks: {ranking.reason}.")] if ranking.reason else []
    rows = [[name, f"{rank:.2f}"] for name, rank in zip(ranking.methods, ranking.mean_ranks, strict=True)]
    over = counted(len(ranking.pairs), "pair")
    table = Table(f"Mean rank over {over} that all these methods were run on; 1 is best", ["method", "mean rank"], rows)
    if ranking.critical_difference is None:
        return [table, Text(f"No critical difference: {ranking.reason}.")]
    told = ranking.reason
    if ranking.p is not None:
        told = f"Friedman's test over {over}: p {'< 0.001' if ranking.p < 0.001 else f'= {ranking.p:.3f}'}"
    words = (
        f"{told}. Critical difference {ranking.critical_difference:.2f} (Nemenyi, 0.05): methods joined by a bar are "
        f"not told apart."
    )
    svg = rank_svg(ranking, f"Critical-difference diagram. {'; '.join(f'{n} {r}' for n, r in rows)}")
    text = tuple((name, rank / len(rows), f"{rank:.2f}") for name, rank in zip(ranking.methods, ranking.mean_ranks))
    return [Figure(svg, words, text), table] if svg else [Text(words), table]
