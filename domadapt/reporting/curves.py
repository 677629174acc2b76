"""Learning curves: score on source dev and losses by epoch, the mean over seeds of each method."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from domadapt.reporting.rows import rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import Method, Pair
from domadapt.utils.text import visible

# Okabe and Ito's palette: told apart by colour-blind readers, visible on white and on black.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c")
STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
DEV = "source dev"


def curve_svg(pair: Pair, alt: str) -> str:
    """One panel for source dev and one for each loss, as an SVG element in the page's text colour.

    Args:
        pair: whose runs.
        alt: what the figure shows, in words.

    Returns:
        The element, or an empty string if no run has a curve.
    """
    if not any(run.curve for method in pair.methods for run in method.runs):
        return ""
    with drawing():
        return element(_curves(pair), alt)


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


def _curves(pair: Pair) -> Figure:
    losses = {name for method in pair.methods for run in method.runs for step in run.curve for name in step.losses}
    # The total is a weighted sum of the others, on another scale for every method.
    panels = [DEV, *sorted(losses - {"total"}, key=lambda name: (name != "task", name))]
    methods = [row.method for row in rows(pair)]
    names = [wrapped(method.name, 60).replace("\n", " ") for method in methods]
    columns = 2 if max(map(len, names)) <= 24 else 1
    depth = (len(panels) + 1) // 2
    height = 1.8 * depth + 0.19 * -(-len(names) // columns) + 0.2
    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="none")
    grid = list(figure.subplots(depth, 2, squeeze=False).ravel())
    looks = [
        {"color": COLORS[i % len(COLORS)], "linestyle": STYLES[i // len(COLORS) % len(STYLES)]}
        for i in range(len(methods))
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
