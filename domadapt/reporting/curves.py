"""Learning curves: score on source dev and losses by epoch, the mean over seeds of each method."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from domadapt.reporting.rows import rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import Method, Pair
from domadapt.utils.text import visible

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
        pair: whose runs.
        shown: of :func:`panels`.
        colors: by the methods' names.
        alt: what the figure shows, in words.
    """
    with drawing():
        return element(_curves(pair, shown, colors), alt)


def mean_curve(method: Method, panel: str, headline: str) -> list[tuple[int, float]]:
    """(epoch, mean over seeds) of a loss, or of the source dev score in percent.

    >>> from domadapt.runs.metrics import Epoch, Metrics
    >>> run = Metrics(curve=(Epoch(1, losses={"task": 0.5}, source_dev={"span_f1": 0.25}),))
    >>> mean_curve(Method("a", "adapted", (run,)), "source dev", "span_f1")
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
