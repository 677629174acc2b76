"""Reliability diagrams: is a model that is 80 percent sure right 80 times in 100?"""

from collections.abc import Sequence

from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from domadapt.reporting.blocks import Block, Figure, Table, Text
from domadapt.reporting.examples import best_adapted
from domadapt.reporting.figures import COLORS
from domadapt.reporting.rows import rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import Method, Pair
from domadapt.utils.text import visible

BINS = 10
Point = tuple[float, float, int]  # mean confidence, share right, how many


def calibration(pair: Pair) -> list[Block]:
    """A diagram of the bars that stand and the best adapted method, and every method's error.

    Args:
        pair: whose runs.
    """
    methods = [row.method for row in rows(pair)]
    known = {m.name: points for m in methods if (points := pooled(m))}
    if not known:
        return [Text("No run recorded how sure it was of its predictions on the target test.")]
    best = best_adapted(pair)
    drawn = [
        m
        for m in methods
        if m.name in known and (m.role not in ("adapted", "control") or (best and m.name == best.name))
    ]
    unit = "words" if pair.task == "extraction" else "texts"
    errors = Table(
        "Expected calibration error on the target test, points, mean over seeds",
        ["method", "error", unit],
        [
            [m.name, "-" if (e := error(m)) is None else f"{100 * e:.1f}", f"{sum(p[2] for p in known[m.name]):,}"]
            for m in methods
            if m.name in known
        ],
        [f"{unit}: predictions that were binned, all seeds together"],
    )
    alt = f"Share of right {unit} against confidence, {visible(pair.name)}: {', '.join(m.name for m in drawn)}"
    with drawing():
        svg = element(_diagram([(m, known[m.name]) for m in drawn]), alt)
    caption = (
        f"Share of {unit} that are right, against the model's confidence, target test, seeds pooled. On the dotted "
        f"line a model is as sure as it should be; below it, too sure. Larger dots hold more {unit}."
    )
    return [Figure(svg, caption), errors]


def pooled(method: Method) -> list[Point]:
    """Ten bins by confidence, the seeds' bins put together by their counts.

    >>> from domadapt.runs.metrics import Bin, Calibration, Metrics
    >>> bins = Bin(0.95, 0.5, 2), Bin(0.99, 1.0, 2)
    >>> pooled(Method("a", "adapted", (Metrics(calibration=Calibration(bins=bins)),)))
    [(0.97, 0.75, 4)]
    """
    sums: dict[int, list[float]] = {}
    for run in method.runs:
        for part in run.calibration.bins:
            if count := part.count:
                total = sums.setdefault(min(int(part.confidence * BINS), BINS - 1), [0.0, 0.0, 0.0])
                total[0] += count * part.confidence
                total[1] += count * part.accuracy
                total[2] += count
    return [(round(c / n, 6), round(a / n, 6), int(n)) for _, (c, a, n) in sorted(sums.items())]


def error(method: Method) -> float | None:
    """Mean over seeds of the recorded expected calibration error."""
    values = [v for run in method.runs if (v := run.calibration.error) is not None]
    return sum(values) / len(values) if values else None


def _diagram(drawn: Sequence[tuple[Method, list[Point]]]) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 3.4 + 0.17 * len(drawn)), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], color=INK, linestyle=":", linewidth=1)
    handles = []
    for method, points in drawn:
        color = COLORS.get(method.role, COLORS["adapted"])
        most = max(n for _, _, n in points)
        axes.plot([100 * c for c, _, _ in points], [100 * a for _, a, _ in points], color=color, linewidth=1.2)
        sizes = [6 + 50 * n / most for _, _, n in points]
        axes.scatter(
            [100 * c for c, _, _ in points], [100 * a for _, a, _ in points], s=sizes, color=color, clip_on=False
        )
        handles.append(Line2D([], [], color=color, label=f" {wrapped(method.name, 40, 1)}"))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.set_xlabel("confidence, %")
    axes.set_ylabel("right, %")
    plain(axes, INK, "both")
    figure.legend(handles=handles, loc="outside lower left", frameon=False, labelcolor=INK, fontsize=8)
    return figure
