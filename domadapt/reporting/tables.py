"""Tables of scores, ranks and costs, and what is said beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from domadapt.reporting.blocks import Folded, Section, Table, Text, numbered
from domadapt.reporting.rows import CEILING, Row, detail_names, rows, scores
from domadapt.reporting.svg import INK, WIDTH, drawing, element, wrapped
from domadapt.runs.groups import MethodRuns, Pair, group, typed
from domadapt.statistics.compare import compare
from domadapt.statistics.results import Cell, Interval, Ranking, Share, Statistics
from domadapt.utils.text import visible

OVER = {
    "seeds and test items": ("s, t", "over seeds and test texts"),
    "seeds": ("s", "over seeds"),
    "test items": ("t", "over test texts, of these trained models and not of training again"),
}


def text_table(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Aligned tables for a terminal: one a pair, then the gap closed over pairs.

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
      [2] fewer than 3 seeds, and no predictions read to draw test items from
      source: the score on the source's dev part, for want of a source test
    """
    pairs = group([typed(content) for content in metrics])
    tables = [table(pair) for pair in pairs]
    roles = {method.role for pair in pairs for method in pair.methods}
    if {"source_only", "adapted", "in_domain"} <= roles and (
        shares := shares_table(compare(pairs, predictions=False).overall)
    ):
        tables.append(shares)
    return "\n\n".join(map(as_text, tables)) or "no finished runs"


def table(pair: Pair, statistics: Statistics | None = None) -> Table:
    """A pair's table with its footnotes.

    Args:
        statistics: where intervals come from; over seeds alone without it.
    """
    lines = rows(pair, statistics)
    names = detail_names(pair)
    clean_interval = any(row.clean and row.clean.low is not None for row in lines)
    with_clean, with_regret = any(row.clean for row in lines), any(row.regret is not None for row in lines)
    intervals = [e for row in lines for e in (row.target, row.clean if clean_interval else None) if e]
    no_interval = [e.reason for e in intervals if e.low is None]
    reasons = [*dict.fromkeys([*(row.closed.reason for row in lines if row.closed.reason), *no_interval])]

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
        details = [_percent(row.details.get(name)) for name in names]
        share = closed(row.closed, reasons)
        numbers = [_mean(row.target), interval(row.target), *clean, *details, _percent(row.source), share]
        regret = [_percent(row.regret)] if with_regret else []
        cells.append([_name(row), *numbers, *regret, str(len(row.method.seeds))])
    return Table(
        f"{visible(pair.name)}: {visible(pair.headline)} on the target test, percent",
        header,
        cells,
        [*reasons, *_remarks(pair, lines)],
    )


def closed(share: Share, reasons: Sequence[str]) -> str:
    """A share of the gap in percent with its interval, and the mark of a reason.

    >>> closed(Share("span_f1", Interval(0.25, 0.1, 0.412, "seeds"), None, 1), [])
    '25 % (10 to 41)'
    >>> closed(Share("span_f1", None, None, 1, "no gap"), ["no gap"])
    '- [1]'
    """
    mark = f" [{reasons.index(share.reason) + 1}]" if share.reason else ""
    if share.value is None:
        return f"-{mark}"
    low, high = share.value.low, share.value.high
    ends = "" if low is None or high is None or low == high else f" ({100 * low:.0f} to {100 * high:.0f})"
    return f"{100 * share.value.mean:.0f} %{ends}{mark}"


def gap_words(gap: Interval) -> str:
    """The paired difference that a share is of.

    >>> gap_words(Interval(0.018, 0.003, 0.034, "seeds"))
    'in_domain − source_only is 1.8 points (0.3 to 3.4, 95 % interval over seeds)'
    """
    none = gap.low is None or gap.high is None
    ends = (
        "no interval"
        if none
        else f"{100 * (gap.low or 0):.1f} to {100 * (gap.high or 0):.1f}, 95 % interval over {gap.over}"
    )
    return f"in_domain − source_only is {100 * gap.mean:.1f} points ({ends})"


def shares_table(overall: Sequence[Cell]) -> Table | None:
    """Adapted methods' shares of the gap over pairs, by each score; None where there is no gap."""
    lines = [one for one in overall if one.role == "adapted" and any(share.gap for share in one.shares)]
    names = list(dict.fromkeys(share.score for one in lines for share in one.shares))
    if not lines:
        return None
    notes = list(dict.fromkeys(share.reason for one in lines for share in one.shares if share.reason))
    cells = []
    for one in lines:
        found = {share.score: share for share in one.shares}
        shares = [closed(found[name], notes) if name in found else "" for name in names]
        cells.append([visible(one.method), *shares, str(max(share.pairs for share in one.shares))])
    gaps = {s.score: s.gap for one in reversed(lines) for s in one.shares if s.gap}
    notes += [f"{_title(name)}: {gap_words(gap)}" for name, gap in gaps.items()]
    title = "Gap closed by each score, percent: mean gain over mean gap of the pairs, with 95 % intervals"
    return Table(title, ["method", *map(_title, names), "pairs"], cells, notes)


def _remarks(pair: Pair, lines: Sequence[Row]) -> list[str]:
    over = {e.over for row in lines for e in (row.target, row.clean) if e}
    remarks = [f"({mark}): 95 % interval {words}" for kind, (mark, words) in OVER.items() if kind in over]
    if gap := next((row.closed.gap for row in lines if row.method.role == "in_domain" and row.closed.value), None):
        remarks.append(f"the gap: {gap_words(gap)}")
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
        padded = (
            cell.ljust(width) if column in {0, *table.left} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join([*lines, *(f"  {note}" for note in numbered(table))])


def _name(row: Row) -> str:
    return visible(row.method.name) + (f" ({CEILING})" if row.method.role == "in_domain" else "")


def _title(name: str) -> str:
    return visible(name.removesuffix("_f1") + " F1" if name.endswith("_f1") else name)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _mean(value: Interval | None) -> str:
    return _percent(value.mean if value else None)


MOST = 30  # methods in one diagram; more are a table's business


def rank_svg(ranking: Ranking, alt: str) -> str:
    """Mean ranks on a line, methods that are not told apart joined by bars.

    Returns:
        An SVG element; an empty string with too many methods to draw.
    """
    if len(ranking.methods) > MOST or not ranking.pairwise:
        return ""
    import pandas as pd
    import scikit_posthocs

    # Numbered, for two names may be the same after shortening.
    names = [f"{wrapped(name, 34, 1)}{chr(8203) * i}" for i, name in enumerate(ranking.methods)]
    with drawing():
        figure = Figure(figsize=(WIDTH, 0.9 + 0.26 * len(names)), layout="constrained", facecolor="none")
        axes = figure.add_subplot()
        axes.set_facecolor("none")
        scikit_posthocs.critical_difference_diagram(
            dict(zip(names, ranking.mean_ranks, strict=True)),
            pd.DataFrame(ranking.pairwise, index=names, columns=names),
            ax=axes,
            left_only=True,
            label_fmt_left="{label} ({rank:.2f})  ",
            label_props={"fontsize": 8},
            color_palette=dict.fromkeys(names, INK),
            crossbar_props={"color": INK},
            marker_props={"color": INK, "s": 14},
            elbow_props={"linewidth": 0.8},
        )
        axes.tick_params(colors=INK)
        axes.spines["top"].set_color(INK)
        for text in axes.texts:
            text.set_color(INK)
            text.set_text(text.get_text().replace(chr(8203), ""))
        return element(figure, alt)


BOUND = "oracle"  # chooses by target test labels: a bound, never a choice


def regret(pairs: Sequence[Pair]) -> Section:
    """One table a pair: mean target score of the checkpoint that each validator would have chosen."""
    tables = [table for pair in pairs if (table := regret_table(pair)) is not None]
    about = (
        "A validator chooses which epoch's model is kept. The oracle looks at target test labels, so it is only a "
        "bound; the difference to it is what choosing without them costs. In brackets: the mean epoch chosen. "
        "The validator that each run really used is marked *."
    )
    if not tables:
        none = "No run recorded what other validators would have chosen with their scores on the target test."
        return Section("Selection regret", (Text(none),))
    if len(tables) > 1:
        return Section("Selection regret", (Text(about, "soft"), Folded("Pair by pair", tuple(tables))))
    return Section("Selection regret", (Text(about, "soft"), *tables))


def regret_table(pair: Pair) -> Table | None:
    """A pair's validators, by method; None where no run recorded scores of their choices."""
    choices = {method.name: mean_choices(method, pair.headline) for method in pair.methods}
    names = list(dict.fromkeys(name for found in choices.values() for name in found))
    if not names:
        return None
    order = [*(name for name in names if name != BOUND), *([BOUND] if BOUND in names else [])]
    used = {m.name: {run.selection.validator for run in m.runs} for m in pair.methods}
    table = Table(
        f"{pair.name}: {pair.headline} on the target test by validator, percent",
        ["method", *(f"{name} (a bound)" if name == BOUND else name for name in order), "regret"],
        [],
    )
    for method, found in choices.items():
        if not found:
            continue
        cells = []
        for name in order:
            mark = "*" if name in used[method] else ""
            cells.append(f"{100 * found[name][0]:.1f} ({found[name][1]:.1f}){mark}" if name in found else "")
        gaps = scores(_of(pair, method), lambda run: run.selection.gap)
        table.rows.append([method, *cells, f"{100 * sum(gaps) / len(gaps):.1f}" if gaps else "-"])
    table.notes.append("regret: mean over seeds of the oracle's score less the chosen checkpoint's, in points")
    return table


def mean_choices(method: MethodRuns, headline: str) -> dict[str, tuple[float, float]]:
    """Validator → (mean target score, mean epoch) of its choices over seeds.

    >>> from domadapt.runs.metrics import Choice, Metrics, Selection
    >>> run = Metrics(selection=Selection(choices={"entropy": Choice(2, {"span_f1": 0.5})}))
    >>> mean_choices(MethodRuns("a", "adapted", (run,)), "span_f1")
    {'entropy': (0.5, 2.0)}
    """
    found: dict[str, list[tuple[float, int]]] = {}
    for run in method.runs:
        for name, choice in run.selection.choices.items():
            value = (choice.target_test or {}).get(headline)
            if value is not None:
                found.setdefault(name, []).append((value, choice.epoch))
    return {
        name: (sum(v for v, _ in pairs) / len(pairs), sum(e for _, e in pairs) / len(pairs))
        for name, pairs in found.items()
    }


def _of(pair: Pair, name: str) -> MethodRuns:
    return next(method for method in pair.methods if method.name == name)
