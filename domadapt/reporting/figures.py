"""The bar figure of a pair: the three bars that stand, and the adapted ones between them."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from domadapt.reporting.curves import curve_svg
from domadapt.reporting.groups import Pair
from domadapt.reporting.intervals import Estimate
from domadapt.reporting.rows import Row, rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.reporting.visible import visible

__all__ = ["bar_svg", "curve_svg", "save_bars"]

PRINT_INK = "#1f2328"
# Okabe and Ito's palette: told apart by colour-blind readers, visible on white and on black.
COLORS = {"rnn_from_scratch": "#8c8c8c", "source_only": "#0072b2", "adapted": "#e69f00", "in_domain": "#009e73"}


def bar_svg(pair: Pair, alt: str) -> str:
    """Target scores with their intervals, as an SVG element in the page's text colour.

    Args:
        pair: whose scores.
        alt: what the figure shows, in words.

    Returns:
        The element, or an empty string without any target score.
    """
    bars = _scored(pair)
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
    bars = _scored(pair)
    if not bars:
        raise ValueError(f"{visible(pair.name)}: no run has target test labels, so there are no bars to draw")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None  # no date: the same bytes every time
    with drawing():
        _bars(pair, bars, PRINT_INK).savefig(path, dpi=200, facecolor="white", metadata=metadata)
    return path


def _scored(pair: Pair) -> list[tuple[Row, Estimate]]:
    return [(row, row.target) for row in rows(pair) if row.target]


def _bars(pair: Pair, bars: list[tuple[Row, Estimate]], ink: str) -> Figure:
    figure = Figure(figsize=(WIDTH, 3.5), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    top = 1.0
    for index, (row, score) in enumerate(bars):
        mean = 100 * score.mean
        low, high = (mean if end is None else 100 * end for end in (score.low, score.high))
        error = None if score.low is None else [[max(mean - low, 0)], [max(high - mean, 0)]]
        color = COLORS.get(row.method.role, COLORS["adapted"])
        axes.bar(index, mean, 0.72, color=color, yerr=error, ecolor=ink, capsize=4)
        above: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
        axes.annotate(f"{mean:.1f}", (index, max(mean, high)), color=ink, fontweight="bold", **above)
        top = max(top, mean, high)
    names = [row.method.name + (" (target labels)" if row.method.role == "in_domain" else "") for row, _ in bars]
    narrow = len(bars) > 4
    axes.set_xticks(range(len(bars)), [wrapped(name, 26, 2) if narrow else wrapped(name, 16) for name in names])
    axes.tick_params(axis="x", length=0)
    if narrow:
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="right", va="top", rotation_mode="anchor")
    axes.set_ylim(0, 1.15 * top)
    axes.set_ylabel(f"{visible(pair.headline)}, target test, %")
    plain(axes, ink)
    return figure
