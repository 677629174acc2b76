"""Figures as SVG for a page, in its colours and words, with nothing that acts: scores, curves and calibration."""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from domadapt.reporting.frames import OTHER_BASELINES, TableRow, controlled_method, rows
from domadapt.runs.groups import MethodRuns, Pair
from domadapt.statistics.compare import Statistics
from domadapt.statistics.resampling import Interval
from domadapt.utils.text import escape_controls

Colors = Mapping[str, str]  # by the methods' names
Scored = tuple[TableRow, Interval]
# Okabe and Ito's palette: told apart by colour-blind readers, visible on white and on black.
COLORS = {"rule_baseline": "#bdbdbd", "rnn_from_scratch": "#8c8c8c", "source_only": "#0072b2", "in_domain": "#009e73"}
# The rest of it, then Tol's muted one.
ADAPTED_COLORS = ("#e69f00", "#d55e00", "#cc79a7", "#56b4e9", "#aa4499", "#999933", "#6699cc", "#882255")
LIGHTER = 0.5  # of a control: the share of what its method's colour lacks to white


def palette(pairs: Sequence[Pair]) -> dict[str, str]:
    """Colours by the methods' names; a control has its method's, lighter."""
    every = {method.name: (pair, method) for pair in pairs for method in pair.methods}
    adapted = sorted(name for name, (_, method) in every.items() if method.role not in (*COLORS, "control"))
    colors = {name: ADAPTED_COLORS[place % len(ADAPTED_COLORS)] for place, name in enumerate(adapted)}
    colors |= {name: COLORS[method.role] for name, (_, method) in every.items() if method.role in COLORS}
    for name, (pair, method) in every.items():
        if method.role == "control":
            lead = controlled_method(pair, method)
            color = to_rgb(colors[lead.name] if lead else COLORS["rnn_from_scratch"])
            lighter: Any = tuple(part + LIGHTER * (1 - part) for part in color)
            colors[name] = to_hex(lighter)
    return colors


SVG = "http://www.w3.org/2000/svg"
INK = "#010203"  # stands for the page's own text colour, and is replaced by it
NUMBER = re.compile(r"-?\d+\.\d+")
FONTS = re.compile(r"font(-family)?: [^;]*'DejaVu Sans'[^;]*;?\s*")  # the page's own font instead
WIDTH = 5.0  # inches: on a phone the figure is hardly shrunk, so that its text stays readable


def draw_svg(alt: str, height: float, draw: Callable[[Canvas], object]) -> str:
    """A figure of a height in inches as an SVG element in the page's text colour."""
    options: dict[Any, Any] = {
        "svg.hashsalt": escape_controls(alt),  # ids of its own: a page has many figures, and an id but once
        "svg.fonttype": "none",
        "text.parse_math": False,  # a method may be called $x$
        "font.size": 10.0,
        "font.family": "sans-serif",
    }
    with matplotlib.rc_context(options), warnings.catch_warnings():
        # Names in other scripts: the browser has the glyphs even where matplotlib's font has not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Canvas(figsize=(WIDTH, height), layout="constrained", facecolor="none")
        draw(figure)
        return element(figure, alt)


def key(name: str, **look: Any) -> Line2D:
    """A line of a legend; with a space in front, for matplotlib hides names that begin with an underscore."""
    return Line2D([], [], **look, label=f" {name}")


def legend(figure: Canvas, handles: Sequence[Any], columns: int = 3, place: Any = "outside upper left") -> None:
    """Names what colours and strokes mean, outside the axes."""
    figure.legend(handles=handles, loc=place, ncols=columns, frameon=False, labelcolor=INK, fontsize=8)


def style_axes(axes: Axes, grid: Literal["x", "y", "both"] = "y") -> None:
    """Only what is read: two axes, faint lines across, all in one colour."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(INK)
    axes.grid(axis=grid, color=INK, alpha=0.15)
    axes.set_axisbelow(True)


def wrap_name(name: str, width: int, lines: int = 3) -> str:
    """A name in lines of so many characters; of a longer one the middle is left out, for settings stand at its end.

    >>> wrap_name("recipe (adaptation.weight=1)", 14, 1), wrap_name("a_name_without_a_space", 14, 1)
    ('recipe…ght=1)', 'a_name…_space')
    """
    name = escape_controls(name)
    shown, keep = textwrap.wrap(name, width, break_on_hyphens=False), width * lines - 1
    while len(shown) > lines:
        shown = textwrap.wrap(f"{name[: keep // 2]}…{name[-(keep // 2) :]}", width, break_on_hyphens=False)
        keep -= 2
    return "\n".join(shown)


def element(figure: Canvas, alt: str) -> str:
    """A figure as an element: no prolog, metadata, page-wide styles, named groups."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    # HTML knows xlink:href by that very name: without it, marks and ticks are not drawn.
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            only_style = len(child) == 1 and child.find(f"{{{SVG}}}style") is not None
            if only_style or child.tag == f"{{{SVG}}}metadata":
                parent.remove(child)
    del root.attrib["width"], root.attrib["height"]
    _shrink(root)
    root.attrib |= {"role": "img", "aria-label": escape_controls(alt), "class": "figure"}
    return ElementTree.tostring(root, encoding="unicode").replace(INK, "currentColor")


def _shrink(root: ElementTree.Element) -> None:
    """Drop what draws nothing, and digits that nobody sees: a page holds hundreds of figures."""
    for item in root.iter():
        item.tail = None
        if item.tag != f"{{{SVG}}}text" and not (item.text or "").strip():
            item.text = None
        if item.tag == f"{{{SVG}}}g":
            item.attrib.pop("id", None)
        for name in ("d", "x", "y", "transform", "points"):
            if name in item.attrib:
                short = NUMBER.sub(lambda match: f"{float(match[0]):.1f}", item.get(name, ""))
                item.set(name, " ".join(short.split()))
        if item.get("transform", "").startswith("rotate(-0"):
            del item.attrib["transform"]
        if "style" in item.attrib:
            item.set("style", FONTS.sub("", item.get("style", "")).strip("; ").replace("; ", ";").replace(": ", ":"))
    for parent in reversed(list(root.iter())):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}g" and not len(child):
                parent.remove(child)


def _ends(score: Interval) -> tuple[float, float, float]:
    """Mean, low and high in percent; the mean where there is no interval."""
    low, high = (score.mean if end is None else end for end in (score.low, score.high))
    return 100 * score.mean, 100 * low, 100 * high


LINES = {"source_only": "source_only", "in_domain": "ceiling"}
PAD = 0.06  # of the axis, beside the outermost ends
ROOM = 0.2  # of the axis, that a number takes


@dataclass(frozen=True, slots=True)
class Group:
    """A pair's part of the figure: roles that one method has are lines across the dots, unless no dot would be left."""

    pair: str
    lines: dict[str, Scored]
    dots: list[Scored]


def dots_svg(pairs: Sequence[Pair], statistics: Statistics, colors: Colors, alt: str) -> str:
    """Target scores of every method, pair by pair."""
    groups = [candidate for pair in pairs if (candidate := _group(pair, statistics)).dots]
    # One method throughout needs no line for its name: the pair's is enough.
    alone = len({row.name for group in groups for row, _ in group.dots}) == 1
    count = sum(len(group.dots) + (not alone) for group in groups)
    headline = ", ".join(dict.fromkeys(pair.headline for pair in pairs))
    return draw_svg(alt, 0.24 * count + 1.0, lambda figure: _dots(figure, groups, colors, headline, alone))


def _group(pair: Pair, statistics: Statistics) -> Group:
    scored = [(row, row.target) for row in rows(pair, statistics) if row.target]
    by_role = {role: [item for item in scored if item[0].method.role == role] for role in LINES}
    lines = {role: same[0] for role, same in by_role.items() if len(same) == 1}
    dots = [item for item in scored if item[0].method.role not in lines]
    return Group(pair.name, lines, dots) if dots else Group(pair.name, {}, scored)


def _dots(figure: Canvas, groups: Sequence[Group], colors: Colors, headline: str, alone: bool) -> None:
    axes = figure.add_subplot()
    left, right = _limits(groups)
    axes.set_xlim(left, right)
    y, names = 0, list[tuple[str, bool]]()  # of each line: its name, and whether it is a pair's above its methods'
    for group in groups:
        top = y
        if not alone:
            names, y = [*names, (group.pair, True)], y + 1
        for row, score in group.dots:
            _dot(axes, y, score, colors[row.name], left)
            three = (group.lines.get("source_only"), (row, score), group.lines.get("in_domain"))
            scores = [f"{100 * item[1].mean:.1f}" for item in (three if alone else three[1:2]) if item]
            label_point(axes, " → ".join(scores), (1, y), 6, xycoords=("axes fraction", "data"))
            names, y = [*names, (group.pair if alone else row.name, False)], y + 1
        _lines(axes, group, colors, top, y, alone)
    axes.set_yticks(range(y), [wrap_name(name, 30, 1) for name, _ in names])
    for label, (_, bold) in zip(axes.get_yticklabels(), names, strict=True):
        label.set_fontweight("bold" if bold else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(y - 0.4, -0.6), xlabel=f"{escape_controls(headline)}, target test, %")
    style_axes(axes, "x")
    holders = {role: next((group for group in groups if role in group.lines), None) for role in LINES}
    handles = [key(LINES[r], color=colors[holder.lines[r][0].name]) for r, holder in holders.items() if holder]
    if alone:
        name = groups[0].dots[0][0].name
        handles.insert(1, key(wrap_name(name, 30, 1), color=colors[name], marker="o"))
    if handles:
        legend(figure, handles)


def label_point(axes: Axes, text: str, place: tuple[float, float], right: float, **look: Any) -> None:
    """Words so many points to the right of a place; to its left where that is below 0."""
    look = {"color": INK, "fontsize": 8, "ha": "left" if right > 0 else "right", "va": "center", **look}
    axes.annotate(text, place, xytext=(right, 0), textcoords="offset points", **look)


def _dot(axes: Axes, y: int, score: Interval, color: str, left: float) -> None:
    middle, low, high = _ends(score)
    axes.plot([max(low, left), max(high, left)], [y, y], color=color, linewidth=2, alpha=0.75)
    if middle < left:  # of a network from scratch: an arrow, so that it does not stretch the axis
        label_point(axes, "◂", (left, y), 3, color=color, fontsize=11)
    else:
        axes.plot([middle], [y], "o", color=color, markersize=6, clip_on=False, zorder=3)


def _lines(axes: Axes, group: Group, colors: Colors, top: int, end: int, alone: bool) -> None:
    ordered = sorted(group.lines.values(), key=lambda item: item[1].mean)
    ends = [top - 0.42, end - 0.58]
    for place, (row, score) in enumerate(ordered):
        color, (middle, low, high) = colors[row.name], _ends(score)
        axes.plot([middle, middle], ends, color=color, linewidth=1.8)
        if score.low is not None:
            axes.fill_betweenx(ends, low, high, color=color, alpha=0.13, linewidth=0)
        if not alone:  # the lower of two to its left, so that they never meet, unless the pair's name is in the way
            room = (middle - axes.get_xlim()[0]) / float(np.ptp(axes.get_xlim())) > ROOM
            label_point(axes, f"{middle:.1f}", (middle, top), -4 if place == 0 and len(ordered) > 1 and room else 4)


def _limits(groups: Sequence[Group]) -> tuple[float, float]:
    """Of the axis: below, no rule-based baseline or network from scratch stretches it, unless there is nothing else."""
    every = [item for group in groups for item in (*group.dots, *group.lines.values())]
    shown = [score for row, score in every if row.method.role not in OTHER_BASELINES] or [score for _, score in every]
    low, high = min(min(_ends(score)) for score in shown), max(max(_ends(score)) for _, score in every)
    wide = max(high - low, 5.0)
    return max(0.0, low - PAD * wide) if low > 0 else low - PAD * wide, high + 2 * PAD * wide


DEV = "source dev"
STROKES = ("-", "--", ":", "-.")  # controls begin with the second


def panels(pair: Pair) -> list[str]:
    """What is drawn of a pair's curves: the source dev score, and the task's loss where there is one."""
    steps = [step for run in pair.runs for step in run.curve]
    return [DEV, *(["task"] if any("task" in step.losses for step in steps) else [])] if steps else []


def mean_curve(method: MethodRuns, panel: str, headline: str) -> list[tuple[int, float]]:
    """(epoch, mean over seeds) of a loss, or of the source dev score in percent."""
    by_epoch: dict[int, list[float]] = {}
    for step in (step for run in method.runs for step in run.curve):
        value = step.source_dev.get(headline) if panel == DEV else step.losses.get(panel)
        if value is not None:
            by_epoch.setdefault(step.epoch, []).append(100 * value if panel == DEV else value)
    return [(epoch, sum(values) / len(values)) for epoch, values in sorted(by_epoch.items())]


def line_looks(methods: Sequence[MethodRuns], colors: Colors) -> list[dict[str, Any]]:
    """Each method's colour, which there are too few of, and a stroke that no other of that colour has, of four."""
    looks = list[dict[str, Any]]()
    for method in methods:
        color = colors[method.name]
        place = (method.role == "control") + sum(look["color"] == color for look in looks)
        looks.append({"color": color, "linestyle": STROKES[place % len(STROKES)]})
    return looks


def curve_svg(pair: Pair, shown: Sequence[str], colors: Colors, alt: str) -> str:
    """One panel each of :func:`panels`."""
    methods = [row.method for row in rows(pair) if any(mean_curve(row.method, p, pair.headline) for p in shown)]
    names = [wrap_name(method.name, 60).replace("\n", " ") for method in methods]
    columns = 2 if max(map(len, names), default=0) <= 24 else 1
    looks = line_looks(methods, colors)

    def draw(figure: Canvas) -> None:
        grid = figure.subplots(1, 2)
        for panel, axes in zip(shown, grid, strict=False):
            for method, look in zip(methods, looks, strict=True):
                if points := mean_curve(method, panel, pair.headline):
                    # One point is no line; and clipping paths would be as large as the lines.
                    axes.plot(*zip(*points, strict=True), **look, marker="." if len(points) == 1 else "", clip_on=False)
            title = f"{escape_controls(pair.headline)}, source dev, %" if panel == DEV else f"loss: {panel}"
            axes.set_title(title, fontsize=9, color=INK)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            style_axes(axes)
        for axes in grid[len(shown) :]:
            axes.set_axis_off()
        handles = [key(name, **look) for name, look in zip(names, looks, strict=True)]
        legend(figure, handles, columns, "outside lower left")

    return draw_svg(alt, 2.0 + 0.19 * -(-len(names) // columns), draw)


BINS = 10
Point = tuple[float, float, int]  # mean confidence, share right, how many


def pooled_bins(method: MethodRuns) -> list[Point]:
    """Ten bins by confidence, the seeds' bins put together by their counts."""
    sums: dict[int, list[float]] = {}
    for part in (part for run in method.runs for part in run.calibration.bins if part.count):
        total = sums.setdefault(min(int(part.confidence * BINS), BINS - 1), [0.0, 0.0, 0.0])
        for place, value in enumerate((part.confidence, part.accuracy, 1)):
            total[place] += part.count * value
    return [(round(c / n, 6), round(a / n, 6), int(n)) for _, (c, a, n) in sorted(sums.items())]


def calibration_svg(methods: Sequence[MethodRuns], colors: Colors, alt: str) -> str:
    """Share of right predictions against confidence, a line a method."""

    def draw(figure: Canvas) -> None:
        axes = figure.add_subplot()
        axes.plot([0, 100], [0, 100], color=INK, linestyle=":", linewidth=1)
        looks = line_looks(methods, colors)
        for method, look in zip(methods, looks, strict=True):
            points = pooled_bins(method)
            x, y = [100 * c for c, _, _ in points], [100 * a for _, a, _ in points]
            most = max(n for _, _, n in points)
            axes.plot(x, y, **look, linewidth=1.2)
            axes.scatter(x, y, s=[6 + 50 * n / most for _, _, n in points], color=look["color"], clip_on=False)
        axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="confidence, %", ylabel="right, %")
        style_axes(axes, "both")
        handles = [key(wrap_name(method.name, 40, 1), **look) for method, look in zip(methods, looks, strict=True)]
        legend(figure, handles, 1, "outside lower left")

    return draw_svg(alt, 3.4 + 0.17 * len(methods), draw)
