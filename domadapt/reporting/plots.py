"""Figures, drawn as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from domadapt.reporting.blocks import Block, Table, Text, in_columns
from domadapt.reporting.rows import BELOW, Row, rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, palette, plain, wrapped
from domadapt.runs.groups import MethodRuns, Pair
from domadapt.statistics.results import Cell, Interval, Statistics
from domadapt.utils.text import visible

PRINT_INK = "#1f2328"


def save_bars(pair: Pair, path: str | Path) -> Path:
    """Write the bar figure, black on white, to a file of its own, for a README.

    Args:
        path: where to; its suffix, ``.svg`` or ``.png``, says in which format.

    Raises:
        ValueError: another suffix, or no target scores.
    """
    path = Path(path)
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: suffix {path.suffix!r}, expected .svg or .png")
    bars = [(row, row.target) for row in rows(pair) if row.target]
    if not bars:
        raise ValueError(f"{visible(pair.name)}: no run has target test labels, so there are no bars to draw")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None  # no date: the same bytes every time
    with drawing():
        _bars(pair, bars).savefig(path, dpi=200, facecolor="white", metadata=metadata)
    return path


def _bars(pair: Pair, bars: list[tuple[Row, Interval]]) -> Figure:
    colors = palette([pair])
    figure = Figure(figsize=(WIDTH, 0.32 * len(bars) + 0.7), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    top = 1.0
    for index, (row, score) in enumerate(bars):
        mean = 100 * score.mean
        low, high = (mean if end is None else 100 * end for end in (score.low, score.high))
        axes.barh(index, mean, 0.72, color=colors[row.method.name])
        if score.low is not None:
            axes.plot([low, high], [index, index], color=PRINT_INK, linewidth=1.2, clip_on=False)
        axes.annotate(
            f"{mean:.1f}",
            (max(mean, high), index),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=PRINT_INK,
        )
        top = max(top, mean, high)
    names = [row.method.name + (" (target labels)" if row.method.role == "in_domain" else "") for row, _ in bars]
    axes.set_yticks(range(len(bars)), [wrapped(name, 26, 2) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.14 * top)
    axes.set_xlabel(f"{visible(pair.headline)}, target test, %")
    plain(axes, PRINT_INK, "x")
    axes.grid(visible=False)  # every bar has its number
    return figure


LINES = {"source_only": "source_only", "in_domain": "ceiling"}
PAD = 0.06  # of the axis, beside the outermost ends


@dataclass(frozen=True, slots=True)
class Group:
    """A pair's part of the figure.

    Attributes:
        pair: its name.
        lines: scores that are lines across its dots, by role: where one method has that role.
        dots: the others; all of them where nothing else would be left.
    """

    pair: str
    lines: dict[str, tuple[Row, Interval]]
    dots: list[tuple[Row, Interval]]


def dots_svg(pairs: Sequence[Pair], statistics: Statistics | None, colors: Mapping[str, str], alt: str) -> str:
    """The figure as an SVG element in the page's text colour.

    Args:
        statistics: where intervals come from; over seeds alone without it.

    Returns:
        The element, or an empty string without any target score.
    """
    groups = [found for pair in pairs if (found := _group(pair, statistics)).dots]
    if not groups:
        return ""
    with drawing():
        return element(_drawn(groups, colors, ", ".join(dict.fromkeys(pair.headline for pair in pairs))), alt)


def _group(pair: Pair, statistics: Statistics | None) -> Group:
    scored = [(row, row.target) for row in rows(pair, statistics) if row.target]
    lines = {}
    for role in LINES:
        same = [one for one in scored if one[0].method.role == role]
        if len(same) == 1:
            lines[role] = same[0]
    dots = [(row, score) for row, score in scored if row.method.role not in lines]
    return Group(pair.name, lines, dots) if dots else Group(pair.name, {}, scored)


def _drawn(groups: Sequence[Group], colors: Mapping[str, str], headline: str) -> Figure:
    # One method throughout needs no line for its name: the pair's is enough.
    alone = len({row.method.name for group in groups for row, _ in group.dots}) == 1
    count = sum(len(group.dots) + (not alone) for group in groups)
    figure = Figure(figsize=(WIDTH, 0.24 * count + 1.0), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    left, right = _limits(groups)
    axes.set_xlim(left, right)
    y, ticks, names = 0, list[int](), list[str]()
    for group in groups:
        top = y
        if not alone:
            ticks, names, y = [*ticks, y], [*names, wrapped(group.pair, 30, 1)], y + 1
        for row, score in group.dots:
            _dot(axes, y, score, colors[row.method.name], left)
            below = [group.lines["source_only"][1]] if alone and "source_only" in group.lines else []
            above = [group.lines["in_domain"][1]] if alone and "in_domain" in group.lines else []
            _in_margin(axes, y, " → ".join(f"{100 * one.mean:.1f}" for one in (*below, score, *above)))
            ticks, names = [*ticks, y], [*names, wrapped(group.pair if alone else row.method.name, 30, 1)]
            y += 1
        _lines(axes, group, colors, top, y, alone)
    axes.set_yticks(ticks, names)
    if not alone:
        heads = {group.pair for group in groups}
        for label, name in zip(axes.get_yticklabels(), names, strict=True):
            label.set_fontweight("bold" if name in {wrapped(head, 30, 1) for head in heads} else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.4, -0.6)
    axes.set_xlabel(f"{visible(headline)}, target test, %")
    plain(axes, INK, "x")
    handles = [
        Line2D([], [], color=colors[holder.lines[role][0].method.name], label=f" {name}")
        for role, name in LINES.items()
        if (holder := next((g for g in groups if role in g.lines), None))
    ]
    if alone:
        name = groups[0].dots[0][0].method.name
        handles.insert(1, Line2D([], [], color=colors[name], marker="o", label=f" {wrapped(name, 30, 1)}"))
    if handles:
        figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, labelcolor=INK, fontsize=8)
    return figure


def _dot(axes: Axes, y: int, score: Interval, color: str, left: float) -> None:
    mean = 100 * score.mean
    low, high = (mean if end is None else 100 * end for end in (score.low, score.high))
    outside = mean < left  # of a network from scratch: an arrow, so that it does not stretch the axis
    axes.plot([max(low, left), max(high, left)], [y, y], color=color, linewidth=2, alpha=0.75)
    if outside:
        axes.annotate("◂", (left, y), xytext=(3, 0), textcoords="offset points", va="center", color=color, fontsize=11)
    else:
        axes.plot([mean], [y], "o", color=color, markersize=6, clip_on=False, zorder=3)


def _in_margin(axes: Axes, y: int, text: str) -> None:
    """Beside the axis, where no line crosses it."""
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (6, 0), "textcoords": "offset points"}
    axes.annotate(text, (1, y), va="center", color=INK, fontsize=8, **where)


def _lines(axes: Axes, group: Group, colors: Mapping[str, str], top: int, end: int, alone: bool) -> None:
    ordered = sorted(group.lines.values(), key=lambda one: one[1].mean)
    for place, (row, score) in enumerate(ordered):
        color, mean = colors[row.method.name], 100 * score.mean
        axes.plot([mean, mean], [top - 0.42, end - 0.58], color=color, linewidth=1.8)
        if score.low is not None and score.high is not None:
            axes.fill_betweenx([top - 0.42, end - 0.58], 100 * score.low, 100 * score.high, color=color, alpha=0.13,
                               linewidth=0)  # fmt: skip
        if not alone:  # the lower of two to its left, so that they never meet
            first = place == 0 and len(ordered) > 1
            axes.annotate(f"{mean:.1f}", (mean, top), xytext=(-4 if first else 4, 0), textcoords="offset points",
                          ha="right" if first else "left", va="center", color=INK, fontsize=8)  # fmt: skip


def _limits(groups: Sequence[Group]) -> tuple[float, float]:
    """Of the axis: below, no floor or network from scratch stretches it, unless there is nothing else."""
    every = [one for group in groups for one in (*group.dots, *group.lines.values())]
    shown = [score for row, score in every if row.method.role not in BELOW] or [score for _, score in every]
    ends, all_ends = (
        [100 * end for score in some for end in (score.mean, score.low, score.high) if end is not None]
        for some in (shown, [score for _, score in every])
    )
    low, high = min(ends), max(all_ends)
    wide = max(high - low, 5.0)
    return max(0.0, low - PAD * wide) if low > 0 else low - PAD * wide, high + 2 * PAD * wide


DEV = "source dev"


def panels(pair: Pair) -> tuple[list[str], list[str]]:
    """What is drawn in front, the source dev score and the task's loss, and the other losses."""
    losses = {name for method in pair.methods for run in method.runs for step in run.curve for name in step.losses}
    if not any(run.curve for method in pair.methods for run in method.runs):
        return [], []
    # The total is a weighted sum of the others, on another scale for every method.
    return [DEV, *(["task"] if "task" in losses else [])], sorted(losses - {"total", "task"})


def curve_svg(pair: Pair, shown: Sequence[str], colors: Mapping[str, str], alt: str) -> str:
    """One panel each, as an SVG element in the page's text colour.

    Args:
        shown: of :func:`panels`.
    """
    with drawing():
        return element(_curves(pair, shown, colors), alt)


def mean_curve(method: MethodRuns, panel: str, headline: str) -> list[tuple[int, float]]:
    """(epoch, mean over seeds) of a loss, or of the source dev score in percent.

    >>> from domadapt.runs.metrics import Epoch, Metrics
    >>> run = Metrics(curve=(Epoch(1, losses={"task": 0.5}, source_dev={"span_f1": 0.25}),))
    >>> mean_curve(MethodRuns("a", "adapted", (run,)), "source dev", "span_f1")
    [(1, 25.0)]
    """
    by_epoch: dict[int, list[float]] = {}
    for run in method.runs:
        for step in run.curve:
            value = step.source_dev.get(headline) if panel == DEV else step.losses.get(panel)
            if value is not None:
                by_epoch.setdefault(step.epoch, []).append(100 * value if panel == DEV else value)
    return [(epoch, sum(values) / len(values)) for epoch, values in sorted(by_epoch.items())]


def _curves(pair: Pair, panels: Sequence[str], colors: Mapping[str, str]) -> Figure:
    methods = [row.method for row in rows(pair) if any(mean_curve(row.method, p, pair.headline) for p in panels)]
    names = [wrapped(method.name, 60).replace("\n", " ") for method in methods]
    columns = 2 if max(map(len, names), default=0) <= 24 else 1
    depth = (len(panels) + 1) // 2
    height = 1.8 * depth + 0.19 * -(-len(names) // columns) + 0.2
    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="none")
    grid = list(figure.subplots(depth, 2, squeeze=False).ravel())
    looks: list[dict[str, Any]] = [
        {"color": colors[m.name], "linestyle": "--" if m.role == "control" else "-"} for m in methods
    ]
    for panel, axes in zip(panels, grid, strict=False):
        for method, look in zip(methods, looks, strict=True):
            if points := mean_curve(method, panel, pair.headline):
                # One point is no line; and clipping paths would be as large as the lines.
                axes.plot(*zip(*points, strict=True), **look, marker="." if len(points) == 1 else "", clip_on=False)
        title = f"{visible(pair.headline)}, source dev, %" if panel == DEV else f"loss: {wrapped(panel, 30)}"
        axes.set_title(title, fontsize=9, color=INK)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        plain(axes, INK)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    # A leading space, for matplotlib hides labels that begin with an underscore.
    handles, labels = [Line2D([], [], **look) for look in looks], [f" {name}" for name in names]
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, frameon=False, labelcolor=INK, fontsize=8)
    return figure


COLUMNS = 8  # of a table that fits a printed page


def heatmap(pairs: Sequence[Pair], statistics: Statistics) -> list[Block]:
    """Two tables: target score, and gap closed with colours; a mean of each where a method was run on all pairs."""
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


def _means(one: Cell | None) -> tuple[list[str], list[str]]:
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
