"""The figure of target scores by number of target labels: one line a way of training, dashed at the ceiling."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.reporting.ways import Way, place
from domadapt.statistics.results import Interval

CEILING = "#009e73"  # in_domain's, as in the palette
MARKS = "os^DvP*X"
APART = 0.012  # of the axis, between intervals at the same number of labels
TICK = 0.09  # of the axis, that a tick's number takes


def label_svg(
    headline: str, found: Sequence[Way], ceiling: Interval | None, colors: Mapping[str, str], alt: str
) -> str:
    """The figure as an SVG element in the page's text colour.

    Args:
        headline: name of the score.
        found: ways of training; some have several numbers of labels.
        ceiling: score of training on the target's labels alone.
        colors: by the methods' names; a way has that of its method without labels.
        alt: what the figure shows, in words.
    """
    with drawing():
        return element(_drawn(headline, found, ceiling, colors), alt)


def number_name(number: int, found: Sequence[Way]) -> str:
    """Of a number of labels; says where it is all that there are."""
    every = any(point.every for way in found for point in way.points if point.labels == number)
    return f"{number} (all)" if every else str(number)


def _drawn(headline: str, found: Sequence[Way], ceiling: Interval | None, colors: Mapping[str, str]) -> Figure:
    names = [wrapped(way.name, 60, 1) for way in found]
    columns = 2 if max(map(len, names)) <= 24 else 1
    count = len(found) + (ceiling is not None)
    figure = Figure(figsize=(WIDTH, 2.9 + 0.19 * -(-count // columns)), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    numbers = sorted({point.labels for way in found for point in way.points})
    least = next(number for number in numbers if number)
    places = [place(number, least) for number in numbers]
    wide = places[-1]
    # Never so far that a line goes back from one number to the next.
    apart = min(APART * wide, *(0.5 * (b - a) / len(found) for a, b in pairwise(places)))
    handles = []
    for index, way in enumerate(found):
        look: dict[str, Any] = {
            "color": colors[way.points[0].method.name],
            "marker": MARKS[index % len(MARKS)],
            "markersize": 5,
        }
        aside = (index - (len(found) - 1) / 2) * apart
        at = [place(point.labels, least) + aside for point in way.points]
        for x, point in zip(at, way.points, strict=True):
            if point.score.low is not None and point.score.high is not None:
                ends = [100 * point.score.low, 100 * point.score.high]
                axes.plot([x, x], ends, color=look["color"], linewidth=1.5, alpha=0.5, clip_on=False)
        axes.plot(at, [100 * point.score.mean for point in way.points], **look, clip_on=False)
        handles.append(Line2D([], [], **look, label=f" {names[index]}"))
    if ceiling:
        line: dict[str, Any] = {"color": CEILING, "linestyle": "--", "linewidth": 1.5}
        axes.axhline(100 * ceiling.mean, **line)
        handles.append(Line2D([], [], **line, label=" ceiling"))
    axes.set_xticks(places, _tick_names(numbers, places, found))
    axes.set_xlim(-0.05 * wide, 1.05 * wide)
    axes.set_xlabel("target labels beside the source's")
    axes.set_ylabel(f"{wrapped(headline, 30, 1)}, target test, %")
    plain(axes, INK)
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, frameon=False, labelcolor=INK, fontsize=8)
    return figure


def _tick_names(numbers: Sequence[int], places: Sequence[float], found: Sequence[Way]) -> list[str]:
    """The numbers that there is room for, the largest first."""
    names, free = [], inf
    for number, at in zip(reversed(numbers), reversed(places), strict=True):
        room = free - at > TICK * places[-1]
        names.append(number_name(number, found).replace(" ", "\n") if room else "")
        free = at if room else free
    return names[::-1]
