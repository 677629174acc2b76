"""Ways of training, each with several numbers of target labels: what a label more brings, and what adaptation saves."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from domadapt.reporting.rows import rows
from domadapt.runs.groups import GROUPS_ROLES as ROLES
from domadapt.runs.groups import Method, Pair, distinct, settings
from domadapt.statistics.results import Interval, Statistics


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
    method: Method


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
        pair: whose methods.
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


def target_labels(method: Method) -> int | None:
    """How many target labels a method's runs were given beside the source's; None where that was not recorded.

    >>> from domadapt.runs.metrics import Counts, Metrics
    >>> runs = Metrics(counts=Counts(target_labels=200), config={"target_labels": "all"}), Metrics()
    >>> [target_labels(Method("a", "adapted", (run,))) for run in runs]
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
        least: of the figure's scale, on which it is interpolated.

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
