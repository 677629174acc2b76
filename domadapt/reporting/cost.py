"""What a method costs, in time and parameters, against what it gains over source_only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure as Drawing

from domadapt.reporting.blocks import Block, Figure, Section, Table, Text
from domadapt.reporting.rows import target_scores
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.reporting.words import duration, run_time
from domadapt.runs.groups import MethodRuns, Pair, rank, reference


@dataclass(frozen=True, slots=True)
class Cost:
    """One method over the pairs that have it and source_only.

    Attributes:
        method, role: whose.
        seconds: mean of a run: building, preparing and training, without the test.
        times: seconds over those of source_only on the same pair, mean over pairs; None without them.
        parameters: mean; None where not recorded.
        gain: mean over pairs of the target score less source_only's; None without them.
        pairs: how many it is a mean over.
    """

    method: str
    role: str
    seconds: float | None
    times: float | None
    parameters: float | None
    gain: float | None
    pairs: int


def cost(pairs: Sequence[Pair], colors: Mapping[str, str]) -> Section:
    """A table, and a figure where seconds and gains of several adapted methods are known."""
    found = costs(pairs)
    table = Table(
        "Means over pairs and seeds",
        ["method", "seconds a run", "times source_only's", "parameters", "gain, points", "pairs"],
        [
            [
                c.method,
                _number(c.seconds, ".1f"),
                _number(c.times, ".2f"),
                _number(c.parameters, ",.0f"),
                _number(None if c.gain is None else 100 * c.gain, "+.1f"),
                str(c.pairs),
            ]
            for c in found
        ],
        ["seconds: build, prepare and fit, as recorded on each run's machine; what a cache already held cost none"],
    )
    blocks: list[Block] = [table, Text(f"All runs took {duration(run_time(pairs))}.")]
    points = [c for c in found if c.times is not None and c.gain is not None and c.role in ("adapted", "source_only")]
    if len(points) > 2:
        alt = "Gain over source_only in points against training time relative to source_only's: "
        alt += "; ".join(f"{c.method} {100 * (c.gain or 0):+.1f} at {c.times:.2f} times" for c in points)
        with drawing():
            svg = element(_drawing(points, colors), alt)
        blocks.insert(0, Figure(svg, "Up is better, left is cheaper. Means, without a test."))
    return Section("Cost against gain", tuple(blocks))


def costs(pairs: Sequence[Pair]) -> list[Cost]:
    """Every method's cost, in the order of the bars."""
    names: dict[tuple[str, str], list[tuple[Pair, MethodRuns]]] = {}
    for pair in pairs:
        for method in pair.methods:
            names.setdefault((method.name, method.role), []).append((pair, method))
    found = [_cost(name, role, some) for (name, role), some in names.items()]
    return sorted(found, key=lambda c: (rank(c.role), c.times or 0, c.method))


def seconds(method: MethodRuns) -> float | None:
    """Mean seconds of a method's runs before the test; runs that took another's network say nothing of them.

    >>> from domadapt.runs.metrics import Metrics
    >>> runs = Metrics(seconds={"fit": 2.0, "evaluate": 9.0}), Metrics(seconds={"fit": 4.0})
    >>> seconds(MethodRuns("a", "adapted", runs))
    3.0
    """
    return _mean(
        [sum(run.seconds.get(stage, 0) for stage in ("build", "prepare", "fit"))
         for run in method.runs if "fit" in run.seconds]
    )  # fmt: skip


def _cost(name: str, role: str, some: Sequence[tuple[Pair, MethodRuns]]) -> Cost:
    times, gains = [], []
    for pair, method in some:
        base = reference(pair, method, "source_only")
        if base is None:
            continue
        own, others = target_scores(pair, method), target_scores(pair, base)
        if own and others:
            gains.append(sum(own) / len(own) - sum(others) / len(others))
        mine, theirs = seconds(method), seconds(base)
        if mine and theirs:
            times.append(mine / theirs)
    parameters = [p for _, m in some for run in m.runs if (p := run.counts.parameters)]
    return Cost(
        name,
        role,
        _mean([value for _, m in some if (value := seconds(m)) is not None]),
        _mean(times),
        _mean(parameters),
        _mean(gains),
        len(some),
    )


def _drawing(points: Sequence[Cost], colors: Mapping[str, str]) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 3.0), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    for index, point in enumerate(sorted(points, key=lambda p: p.gain or 0)):
        x, y = point.times or 0, 100 * (point.gain or 0)
        axes.plot([x], [y], marker="o", color=colors[point.method], clip_on=False)
        if len(points) <= 24:
            right = x > (max(p.times or 0 for p in points) + min(p.times or 0 for p in points)) / 2
            axes.annotate(
                f" {wrapped(point.method, 30, 1)} ",
                (x, y),
                xytext=(-4 if right else 4, 5 if index % 2 else -5),
                textcoords="offset points",
                ha="right" if right else "left",
                va="center",
                color=INK,
                fontsize=8,
            )
    axes.axhline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xlabel("training time, times source_only's")
    axes.set_ylabel("gain over source_only, points")
    axes.margins(0.08, 0.15)
    plain(axes, INK, "both")
    return figure


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
