"""All pairs on one axis: a dot with its interval for each method, lines at source_only and at the ceiling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from domadapt.reporting.rows import BELOW, Row, rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import Pair
from domadapt.statistics.results import Interval, Statistics
from domadapt.utils.text import visible

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
        pairs: of the report.
        statistics: where intervals come from; over seeds alone without it.
        colors: by the methods' names.
        alt: what the figure shows, in words.

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
