"""The bar figure of a pair as a file: the bars that stand, and the adapted ones between them."""

from pathlib import Path

from matplotlib.figure import Figure

from domadapt.reporting.palette import palette
from domadapt.reporting.rows import Row, rows
from domadapt.reporting.svg import WIDTH, drawing, plain, wrapped
from domadapt.runs.groups import Pair
from domadapt.statistics.results import Interval
from domadapt.utils.text import visible

PRINT_INK = "#1f2328"


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
