"""Reliability diagrams: is a model that is 80 percent sure right 80 times in 100?"""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from domadapt.reporting.blocks import Block, Figure, Table, Text
from domadapt.reporting.examples import best_adapted
from domadapt.reporting.rows import rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import Method, Pair
from domadapt.utils.text import visible

BINS = 10
Point = tuple[float, float, int]  # mean confidence, share right, how many


def calibration(pair: Pair, colors: Mapping[str, str]) -> list[Block]:
    """A diagram of the bars that stand and the best adapted method, and every method's error.

    Args:
        pair: whose runs.
        colors: by the methods' names.
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
        "Expected calibration error, points, mean over seeds, before and after temperature scaling on source dev",
        ["method", "test", "test, scaled", "source dev", "source dev, scaled", "temperature", unit],
        [[m.name, *_errors(m), f"{sum(p[2] for p in known[m.name]):,}"] for m in methods if m.name in known],
        [
            f"{unit}: predictions on the target test that were binned, all seeds together",
            "temperature: above 1 where the model is too sure on source dev; of the ceiling, dev is of the target",
        ],
    )
    alt = f"Share of right {unit} against confidence, {visible(pair.name)}: {', '.join(m.name for m in drawn)}"
    with drawing():
        svg = element(_diagram([(m, known[m.name]) for m in drawn], colors), alt)
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


def error(method: Method, of: str = "error") -> float | None:
    """Mean over seeds of a recorded expected calibration error.

    Args:
        method: whose runs.
        of: name of a field of :class:`~domadapt.runs.metrics.Calibration`.
    """
    values = [v for run in method.runs if (v := getattr(run.calibration, of)) is not None]
    return sum(values) / len(values) if values else None


def _errors(method: Method) -> list[str]:
    names = ("error", "scaled_error", "source_dev_error", "source_dev_scaled_error")
    points = ["-" if (e := error(method, name)) is None else f"{100 * e:.1f}" for name in names]
    return [*points, "-" if (heat := error(method, "temperature")) is None else f"{heat:.2f}"]


def _diagram(drawn: Sequence[tuple[Method, list[Point]]], colors: Mapping[str, str]) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 3.4 + 0.17 * len(drawn)), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], color=INK, linestyle=":", linewidth=1)
    handles = []
    for method, points in drawn:
        color = colors[method.name]
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
