"""The bar figure of a pair: the three bars that stand, and the adapted ones between them."""

from pathlib import Path

from matplotlib.figure import Figure

from domadapt.reporting.rows import Row, rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import Pair
from domadapt.statistics.results import Interval, Statistics
from domadapt.utils.text import visible

PRINT_INK = "#1f2328"
# Okabe and Ito's palette: told apart by colour-blind readers, visible on white and on black.
COLORS = {
    "rnn_from_scratch": "#8c8c8c",
    "source_only": "#0072b2",
    "adapted": "#e69f00",
    "control": "#cc79a7",
    "in_domain": "#009e73",
}


def bar_svg(pair: Pair, alt: str, statistics: Statistics | None = None) -> str:
    """Target scores with their intervals, as an SVG element in the page's text colour.

    Args:
        pair: whose scores.
        alt: what the figure shows, in words.
        statistics: where intervals come from; over seeds alone without it.

    Returns:
        The element, or an empty string without any target score.
    """
    bars = scored(pair, statistics)
    if not bars:
        return ""
    with drawing():
        return element(_bars(pair, bars, INK), alt)


def save_bars(pair: Pair, path: str | Path) -> Path:
    """Write the bar figure, black on white, to a file of its own, for a README.

    Args:
        pair: whose scores.
        path: where to; its suffix, ``.svg`` or ``.png``, says in which format.

    Raises:
        ValueError: another suffix, or no target scores.
    """
    path = Path(path)
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: suffix {path.suffix!r}, expected .svg or .png")
    bars = scored(pair)
    if not bars:
        raise ValueError(f"{visible(pair.name)}: no run has target test labels, so there are no bars to draw")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None  # no date: the same bytes every time
    with drawing():
        _bars(pair, bars, PRINT_INK).savefig(path, dpi=200, facecolor="white", metadata=metadata)
    return path


def scored(pair: Pair, statistics: Statistics | None = None) -> list[tuple[Row, Interval]]:
    """The methods that have a target score, in the order of the bars."""
    return [(row, row.target) for row in rows(pair, statistics) if row.target]


def _bars(pair: Pair, bars: list[tuple[Row, Interval]], ink: str) -> Figure:
    figure = Figure(figsize=(WIDTH, 0.32 * len(bars) + 0.7), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    top = 1.0
    for index, (row, score) in enumerate(bars):
        mean = 100 * score.mean
        low, high = (mean if end is None else 100 * end for end in (score.low, score.high))
        color = COLORS.get(row.method.role, COLORS["adapted"])
        axes.barh(index, mean, 0.72, color=color)
        if score.low is not None:
            axes.plot([low, high], [index, index], color=ink, linewidth=1.2, clip_on=False)
        axes.annotate(
            f"{mean:.1f}", (max(mean, high), index), xytext=(5, 0), textcoords="offset points", va="center", color=ink
        )
        top = max(top, mean, high)
    names = [row.method.name + (" (target labels)" if row.method.role == "in_domain" else "") for row, _ in bars]
    axes.set_yticks(range(len(bars)), [wrapped(name, 26, 2) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.14 * top)
    axes.set_xlabel(f"{visible(pair.headline)}, target test, %")
    plain(axes, ink, "x")
    return figure
