"""How many target labels adaptation is worth: every way of training by the number of labels that it was given."""

from collections.abc import Mapping, Sequence
from math import inf

from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text, counted
from domadapt.reporting.examples import best_adapted
from domadapt.reporting.label_curves import label_svg, number_name
from domadapt.reporting.ways import Way, reached, ways
from domadapt.runs.groups import Method, Pair, reference
from domadapt.statistics.results import Interval, Statistics
from domadapt.utils.text import visible

CAPTION = "By the number of labelled target examples that joined the source's. Marks are means over seeds"
INTERVALS = ", lines through them 95 % intervals, side by side where they share a number"
CEILING = " Dashed: the ceiling, trained on the target's labels alone."


def target_label_sections(pairs: Sequence[Pair], statistics: Statistics, colors: Mapping[str, str]) -> list[Section]:
    """One section, where some way of training was run with several numbers of target labels on one pair; else none.

    Args:
        pairs: of the report.
        statistics: of these pairs.
        colors: by the methods' names.
    """
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
        pair: whose methods.
        statistics: where intervals come from.
    """
    every = ways(pair, statistics)
    found = [way for way in every if len(way.points) > 1]
    if not found or any(way.role == "adapted" for way in found):
        return found
    best = best_adapted(pair)
    return [way for way in every if way in found or (way.points[0].labels == 0 and way.points[0].method is best)]


def worth(pair: Pair, found: Sequence[Way]) -> list[str]:
    """One sentence an adapted way: with how many labels plain fine-tuning has what that one has with none.

    Args:
        pair: whose ways.
        found: that are drawn.
    """
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
    """Number of labels × way.

    Args:
        pair: whose ways.
        found: that are drawn.
        ceiling: score of training on the target's labels alone.
    """
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


def _by_seed(method: Method, headline: str) -> dict[int, float]:
    return {run.seed: score for run in method.runs if (score := run.score(headline)) is not None}


def _score(value: Interval | None) -> str:
    if value is None:
        return ""
    ends = "" if value.low is None or value.high is None else f" ({_percent(value.low)}–{_percent(value.high)})"
    return _percent(value.mean) + ends


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
