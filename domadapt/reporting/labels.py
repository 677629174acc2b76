"""Scores by number of target labels."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text, counted
from domadapt.reporting.examples import best_adapted
from domadapt.reporting.rows import rows
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import ROLES, MethodRuns, Pair, distinct, reference, settings
from domadapt.statistics.results import Interval, Statistics
from domadapt.utils.text import visible


@dataclass(frozen=True, slots=True)
class Point:
    """A way of training with one number of target labels.

    Attributes:
        labels: how many joined the source's.
        every: these are all that there are.
        score: headline score on the target test.
        method: whose runs.
    """

    labels: int
    every: bool
    score: Interval
    method: MethodRuns


@dataclass(frozen=True, slots=True)
class Way:
    """Methods that differ in their number of target labels alone.

    Attributes:
        name: the method's, without what it says of labels.
        role: of the method without labels.
        points: by rising number of labels.
    """

    name: str
    role: str
    points: tuple[Point, ...]


def ways(pair: Pair, statistics: Statistics | None = None) -> list[Way]:
    """A pair's ways of training, in the order of the bars; the ceiling is none, it has no source labels beside it.

    Args:
        statistics: where intervals come from; over seeds alone without it.
    """
    found: dict[str, list[Point]] = {}
    named: dict[str, tuple[str, dict[str, str]]] = {}
    for row in rows(pair, statistics):
        method, number = row.method, target_labels(row.method)
        if row.target is None or number is None or method.role == "in_domain":
            continue
        asked = method.config.get("target_labels")
        name = method.runs[0].method.replace(f"+{asked}_labels", "", 1)
        others = {key: value for key, value in settings(method.config).items() if key != "target_labels"}
        key = json.dumps([name, others], sort_keys=True)
        named[key] = name, others
        if all(point.labels != number for point in found.setdefault(key, [])):  # a number that is all of them, too
            found[key].append(Point(number, asked == "all", row.target, method))
    names = distinct([*named.values()])
    made = [
        Way(shown, _role(name, points), tuple(sorted(points, key=lambda point: point.labels)))
        for shown, (name, _), points in zip(names, named.values(), found.values(), strict=True)
    ]
    return sorted(made, key=lambda way: (ROLES.index(way.role), way.name))


def target_labels(method: MethodRuns) -> int | None:
    """How many target labels a method's runs were given beside the source's; None where that was not recorded.

    >>> from domadapt.runs.metrics import Counts, Metrics
    >>> runs = Metrics(counts=Counts(target_labels=200), config={"target_labels": "all"}), Metrics()
    >>> [target_labels(MethodRuns("a", "adapted", (run,))) for run in runs]
    [200, 0]
    """
    asked, known = method.config.get("target_labels") or 0, method.runs[0].counts.target_labels
    return known if known is not None else asked if isinstance(asked, int) else None


def place(labels: float, least: int) -> float:
    """Of a number on the figure's scale: even for a few labels, logarithmic for many, 0 where there are none.

    >>> [round(place(number, 8), 2) for number in (0, 8, 32, 128)]
    [0.0, 0.69, 1.61, 2.83]
    """
    return math.log1p(labels / least)


def reached(curve: Sequence[tuple[int, float]], score: float, least: int) -> tuple[float, float]:
    """The number of labels at which a curve first reaches a score.

    Args:
        curve: (labels, score) by rising number.
        score: to be reached.

    Returns:
        That number twice; or the two that it lies between, where nothing tells more: 0 and the smallest number that was
        tried, or the largest and infinity.

    >>> curve = [(0, 0.4), (8, 0.5), (32, 0.6)]
    >>> [tuple(round(end, 1) for end in reached(curve, score, 8)) for score in (0.3, 0.45, 0.5, 0.55)]
    [(0, 0), (0, 8), (8, 8), (17.3, 17.3)]
    >>> reached(curve, 0.65, 8)
    (32, inf)
    """
    before = (0, 0.0)
    for labels, value in curve:
        if value >= score:
            if value == score or labels == 0:
                return labels, labels
            if before[0] == 0:
                return 0, labels
            share = (score - before[1]) / (value - before[1])
            low, high = place(before[0], least), place(labels, least)
            found = least * math.expm1(low + share * (high - low))
            return found, found
        before = labels, value
    return before[0], math.inf


def _role(name: str, points: Sequence[Point]) -> str:
    own = [point.method.role for point in points if point.labels == 0]
    return own[0] if own and own[0] in ROLES else name if name in ROLES else "adapted"


CEILING = "#009e73"  # in_domain's, as in the palette
MARKS = "os^DvP*X"
APART = 0.012  # of the axis, between intervals at the same number of labels
TICK = 0.09  # of the axis, that a tick's number takes


def label_svg(
    headline: str, found: Sequence[Way], ceiling: Interval | None, colors: Mapping[str, str], alt: str
) -> str:
    """The figure as an SVG element in the page's text colour.

    Args:
        colors: by the methods' names; a way has that of its method without labels.
    """
    with drawing():
        return element(_drawn(headline, found, ceiling, colors), alt)


def number_name(number: int, found: Sequence[Way]) -> str:
    """Of a number of labels; says where it is all that there are."""
    every = any(point.every for way in found for point in way.points if point.labels == number)
    return f"{number} (all)" if every else str(number)


def _drawn(headline: str, found: Sequence[Way], ceiling: Interval | None, colors: Mapping[str, str]) -> Canvas:
    names = [wrapped(way.name, 60, 1) for way in found]
    columns = 2 if max(map(len, names)) <= 24 else 1
    count = len(found) + (ceiling is not None)
    figure = Canvas(figsize=(WIDTH, 2.9 + 0.19 * -(-count // columns)), layout="constrained", facecolor="none")
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


CAPTION = "By the number of labelled target examples that joined the source's. Marks are means over seeds"
INTERVALS = ", lines through them 95 % intervals, side by side where they share a number"
LABELS_CEILING = " Dashed: the ceiling, trained on the target's labels alone."


def target_label_sections(pairs: Sequence[Pair], statistics: Statistics, colors: Mapping[str, str]) -> list[Section]:
    """One section, where some way of training was run with several numbers of target labels on one pair; else none."""
    blocks: list[Block] = []
    several = len(pairs) > 1
    for pair in pairs:
        if found := drawn(pair, statistics):
            texts = [Text(sentence) for sentence in worth(pair, found)]
            ceiling = _ceiling(pair, statistics)
            figure = _figure(pair, found, ceiling, colors)
            numbers = label_table(pair, found, ceiling)
            name = Text(pair.name, "lead")
            blocks += [name, *texts, Folded("Figure and numbers", (figure, numbers))] if several else [
                figure, *texts, numbers
            ]  # fmt: skip
    return [Section("Target labels", tuple(blocks))] if blocks else []


def drawn(pair: Pair, statistics: Statistics | None = None) -> list[Way]:
    """Ways with several numbers of labels; beside them the adapted method that the report names, if there is no other.

    Args:
        statistics: where intervals come from.
    """
    every = ways(pair, statistics)
    found = [way for way in every if len(way.points) > 1]
    if not found or any(way.role == "adapted" for way in found):
        return found
    best = best_adapted(pair)
    return [way for way in every if way in found or (way.points[0].labels == 0 and way.points[0].method is best)]


def worth(pair: Pair, found: Sequence[Way]) -> list[str]:
    """One sentence an adapted way: with how many labels plain fine-tuning has what that one has with none."""
    adapted = [way for way in found if way.role == "adapted" and way.points[0].labels == 0]
    plain = [way for way in found if way.role == "source_only" and way.points[-1].labels]
    if not adapted or not plain:
        missing = "of an adapted method without target labels" if plain else "of source_only with target labels"
        return [f"How many labels adaptation is worth is not known: no run {missing} is among these."]
    sentences = []
    for way in adapted:
        base = reference(pair, way.points[0].method, "source_only")
        like = [other for other in plain if any(point.method is base for point in other.points)] or plain
        sentences.append(
            _sentence(pair, way, like[0])
            if len(like) == 1
            else f"How many labels {visible(way.name)} is worth is not said: source_only was run with "
            f"{len(like)} different settings."
        )
    return sentences


def label_table(pair: Pair, found: Sequence[Way], ceiling: Interval | None = None) -> Table:
    """Number of labels × way."""
    scores = {(way.name, point.labels): point.score for way in found for point in way.points}
    numbers = sorted({point.labels for way in found for point in way.points})
    cells = [
        [number_name(number, found), *(_score(scores.get((way.name, number))) for way in found)] for number in numbers
    ]
    over = dict.fromkeys(value.over for value in scores.values() if value.over)
    notes = [f"in brackets: 95 % interval over {what}" for what in over]
    notes += [f"no interval: {why}" for why in dict.fromkeys(v.reason for v in scores.values() if v.low is None)]
    if ceiling:
        notes.append(f"ceiling, trained on the target's labels alone: {_score(ceiling)}")
    title = f"{pair.name}: {pair.headline} on the target test by number of target labels, percent"
    return Table(title, ["labels", *(way.name for way in found)], cells, notes, narrow=True)


def _figure(pair: Pair, found: Sequence[Way], ceiling: Interval | None, colors: Mapping[str, str]) -> Figure:
    told = [
        f"{way.name} " + ", ".join(f"{_percent(point.score.mean)} with {point.labels}" for point in way.points)
        for way in found
    ]
    alt = f"{pair.headline} on the target test by number of target labels, {pair.name}: {'; '.join(told)}"
    intervals = INTERVALS if any(point.score.low is not None for way in found for point in way.points) else ""
    caption = f"{CAPTION}{intervals}.{CEILING if ceiling else ''}"
    return Figure(label_svg(pair.headline, found, ceiling, colors, alt), caption)


def _ceiling(pair: Pair, statistics: Statistics) -> Interval | None:
    own = [method for method in pair.methods if method.role == "in_domain"]
    return statistics.cell(pair.name, own[0].name).score if len(own) == 1 else None


def _sentence(pair: Pair, way: Way, plain: Way) -> str:
    start = way.points[0]
    curve = [(point.labels, point.score.mean) for point in plain.points]
    least = min(labels for labels, _ in curve if labels)
    found = reached(curve, start.score.mean, least)
    text = (
        f"Adaptation is worth {_labels(found)} here: {visible(way.name)} with none scores "
        f"{_percent(start.score.mean)}, and {visible(plain.name)} {_how(curve, found)}."
    )
    runs = [_by_seed(point.method, pair.headline) for point in (start, *plain.points)]
    seeds = sorted(set.intersection(*(set(one) for one in runs)))
    if len(seeds) < 2:
        one = max(map(len, runs)) == 1
        why = "One seed" if one else "Fewer than two seeds are shared by these runs"
        return f"{text} {why}: nothing tells how far training again would move this number."
    single = sorted(
        reached([(labels, run[seed]) for (labels, _), run in zip(curve, runs[1:], strict=True)], runs[0][seed], least)
        for seed in seeds
    )
    return (
        f"{text} That is of means; taken seed by seed, over {counted(len(seeds), 'seed')}, it is "
        f"{_labels(single[0])} at the least and {_labels(single[-1])} at the most."
    )


def _how(curve: Sequence[tuple[int, float]], found: tuple[float, float]) -> str:
    scores, (low, high) = dict(curve), found
    if high == inf:
        return f"has not reached that with {low:.0f} ({_percent(scores[int(low)])}), the most that was tried"
    if low != high:
        return f"has passed that with {high:.0f} ({_percent(scores[int(high)])}), the fewest that were tried"
    if low in scores:
        return f"has that with {low or 'none'}, too ({_percent(scores[int(low)])})"
    first, last = max(n for n in scores if n < low), min(n for n in scores if n > low)
    between = f"between {first} ({_percent(scores[first])}) and {last} ({_percent(scores[last])})"
    return f"first reaches that {between}, interpolated on the figure's scale"


def _labels(found: tuple[float, float]) -> str:
    low, high = found
    if high == inf:
        return f"more than {low:.0f} labels"
    if low != high:
        return f"fewer than {counted(round(high), 'label')}"
    return f"about {counted(round(low), 'label')}" if low else "no labels"


def _by_seed(method: MethodRuns, headline: str) -> dict[int, float]:
    return {run.seed: score for run in method.runs if (score := run.score(headline)) is not None}


def _score(value: Interval | None) -> str:
    if value is None:
        return ""
    ends = "" if value.low is None or value.high is None else f" ({_percent(value.low)}–{_percent(value.high)})"
    return _percent(value.mean) + ends


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
