"""Scores by number of target labels, and how many labels adaptation is worth."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from domadapt.reporting.blocks import Block, Prose, Section, Table, for_each, tabled
from domadapt.reporting.formats import counted, listed, percent
from domadapt.reporting.frames import best_adapted, rows, target_labels
from domadapt.runs.groups import ROLES, MethodRuns, Pair, distinct, reference, settings
from domadapt.statistics.results import Interval, Statistics
from domadapt.utils.text import visible


@dataclass(frozen=True, slots=True)
class Budget:
    """A number of target labels that joined the source's, maybe all there are, and what a method scores with them."""

    labels: int
    every: bool
    score: Interval
    method: MethodRuns


@dataclass(frozen=True, slots=True)
class LabelCurve:
    """Methods that differ in their number of target labels alone; name and role are those of the one without."""

    name: str
    role: str
    points: tuple[Budget, ...]


def label_budgets(pair: Pair, statistics: Statistics | None = None) -> list[LabelCurve]:
    """A pair's methods by number of labels, in the order of the bars; not the ceiling, which has no source labels.

    Args:
        statistics: where intervals come from; over seeds alone without it.
    """
    found: dict[str, list[Budget]] = {}
    named: dict[str, tuple[str, dict[str, str]]] = {}
    for row in rows(pair, statistics):
        method, number = row.method, target_labels(row.method)
        if row.target is None or number is None or method.role == "in_domain":
            continue
        asked = method.config.get("target_labels")
        name = method.runs[0].method.replace(f"+{asked}_labels", "", 1)
        others = {k: value for k, value in settings(method.config).items() if k != "target_labels"}
        like = json.dumps([name, others], sort_keys=True)
        named[like] = name, others
        if all(point.labels != number for point in found.setdefault(like, [])):  # a number that is all of them, too
            found[like].append(Budget(number, asked == "all", row.target, method))
    made = []
    for shown, (name, _), points in zip(distinct([*named.values()]), named.values(), found.values(), strict=True):
        roles = [point.method.role for point in points if point.labels == 0] + [name, "adapted"]
        role = next(role for role in roles if role in ROLES)
        made.append(LabelCurve(shown, role, tuple(sorted(points, key=lambda point: point.labels))))
    return sorted(made, key=lambda curve: (ROLES.index(curve.role), curve.name))


def reached(curve: Sequence[tuple[int, float]], score: float) -> tuple[float, float]:
    """Between which two numbers of labels a curve, (labels, score) by rising number, first reaches a score.

    >>> curve = [(0, 0.4), (8, 0.5), (32, 0.6)]
    >>> [reached(curve, score) for score in (0.3, 0.45, 0.5, 0.55, 0.65)]
    [(0, 0), (0, 8), (8, 8), (8, 32), (32, inf)]
    """
    before = 0
    for labels, value in curve:
        if value >= score:
            return (labels if value == score or labels == 0 else before), labels
        before = labels
    return before, math.inf


def _number(number: int, curves: Sequence[LabelCurve]) -> str:
    """Of labels; says where it is all that there are."""
    every = any(point.every for curve in curves for point in curve.points if point.labels == number)
    return f"{number} (all)" if every else str(number)


def target_label_sections(pairs: Sequence[Pair], statistics: Statistics) -> list[Section]:
    """One section, where some method was run with several numbers of target labels on one pair; else none."""
    blocks: list[Block] = []
    for pair in pairs:
        if curves := drawn_curves(pair, statistics):
            own = [method for method in pair.methods if method.role == "in_domain"]
            ceiling = statistics.cell(pair.name, own[0].name).score if len(own) == 1 else None
            blocks += [Prose(sentence) for sentence in worth(pair, curves)]
            blocks.append(label_table(pair, curves, ceiling))
    return [Section("Target labels", tuple(blocks))] if blocks else []


def drawn_curves(pair: Pair, statistics: Statistics | None = None) -> list[LabelCurve]:
    """Those of several numbers of labels; and the adapted method that the report names, if there is no other."""
    every = label_budgets(pair, statistics)
    several = [curve for curve in every if len(curve.points) > 1]
    if not several or any(curve.role == "adapted" for curve in several):
        return several
    best = best_adapted(pair)
    return [c for c in every if c in several or (c.points[0].labels == 0 and c.points[0].method is best)]


def worth(pair: Pair, curves: Sequence[LabelCurve]) -> list[str]:
    """One sentence an adapted method: with how many labels plain fine-tuning has what that one has with none."""
    adapted = [curve for curve in curves if curve.role == "adapted" and curve.points[0].labels == 0]
    plain = [curve for curve in curves if curve.role == "source_only" and curve.points[-1].labels]
    if not adapted or not plain:
        missing = "of an adapted method without target labels" if plain else "of source_only with target labels"
        return [f"How many labels adaptation is worth is not known: no run {missing} is among these."]
    sentences = []
    for curve in adapted:
        base = reference(pair, curve.points[0].method, "source_only")
        like = [other for other in plain if any(point.method is base for point in other.points)] or plain
        several = f"How many labels {visible(curve.name)} is worth is not said: source_only was run with {len(like)} "
        several += "different settings."
        sentences.append(_sentence(pair, curve, like[0]) if len(like) == 1 else several)
    return sentences


def label_table(pair: Pair, curves: Sequence[LabelCurve], ceiling: Interval | None = None) -> Table:
    """Number of labels × method."""
    scores = {(curve.name, point.labels): point.score for curve in curves for point in curve.points}
    notes = [
        f"in brackets: 95 % interval over {what}" for what in dict.fromkeys(v.over for v in scores.values() if v.over)
    ]
    notes += [f"no interval: {why}" for why in dict.fromkeys(v.reason for v in scores.values() if v.low is None)]
    if ceiling:
        notes.append(f"ceiling, trained on the target's labels alone: {_score(ceiling)}")
    return tabled(
        f"{pair.name}: {pair.headline} on the target test by number of target labels, percent",
        sorted({number for _, number in scores}),
        [
            ("labels", lambda number: _number(number, curves)),
            *for_each([curve.name for curve in curves], lambda number, name: _score(scores.get((name, number)))),
        ],
        notes,
        narrow=True,
    )


def _sentence(pair: Pair, adapted: LabelCurve, plain: LabelCurve) -> str:
    start = adapted.points[0]
    curve = [(point.labels, point.score.mean) for point in plain.points]
    result, scores = reached(curve, start.score.mean), dict(curve)
    there = [f"{percent(scores[int(n)])} with {n or 'none'}" for n in dict.fromkeys(result) if n in scores]
    text = (
        f"Adaptation is worth {_labels(result)} here: {visible(adapted.name)} with none scores "
        f"{percent(start.score.mean)}, {visible(plain.name)} {listed(there)}."
    )
    runs = [{run.seed: s for run in point.method.runs if (s := run.score(pair.headline)) is not None}
            for point in (start, *plain.points)]  # fmt: skip
    seeds = sorted(set.intersection(*(set(one) for one in runs)))
    if len(seeds) < 2:
        one = max(map(len, runs)) == 1
        why = "One seed" if one else "Fewer than two seeds are shared by these runs"
        return f"{text} {why}: nothing tells how far training again would move this number."
    single = sorted(
        reached([(labels, run[seed]) for (labels, _), run in zip(curve, runs[1:], strict=True)], runs[0][seed])
        for seed in seeds
    )
    return (
        f"{text} That is of means; taken seed by seed, over {counted(len(seeds), 'seed')}, it is "
        f"{_labels(single[0])} at the least and {_labels(single[-1])} at the most."
    )


def _labels(result: tuple[float, float]) -> str:
    low, high = result
    if high == math.inf:
        return f"more than {low} labels"
    if low == high:
        return counted(int(low), "label") if low else "no labels"
    return f"between {low} and {high} labels" if low else f"fewer than {counted(int(high), 'label')}"


def _score(value: Interval | None) -> str:
    if value is None:
        return ""
    ends = "" if value.low is None or value.high is None else f" ({percent(value.low)}–{percent(value.high)})"
    return percent(value.mean) + ends
