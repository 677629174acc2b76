"""What the numbers say, in sentences that claim no more than intervals and tests allow."""

from collections.abc import Iterable, Sequence

from domadapt.reporting.blocks import counted, listed
from domadapt.reporting.claims import claim
from domadapt.reporting.examples import best_adapted
from domadapt.reporting.rows import Row, rows
from domadapt.runs.groups import Pair
from domadapt.statistics.results import Cell, Difference, Interval, Overall, Statistics
from domadapt.utils.text import visible

LEVEL = 0.05
NAMED = 6  # comparisons that are named one by one in a sentence


def overview(pairs: Sequence[Pair], statistics: Statistics) -> list[str]:
    """The report's first paragraphs: what ran, what was shown, over all pairs.

    Args:
        pairs: of the report.
        statistics: of these pairs.
    """
    runs = sum(len(method.runs) for pair in pairs for method in pair.methods)
    names = {method.name for pair in pairs for method in pair.methods}
    seeds = sorted({len(method.seeds) for pair in pairs for method in pair.methods})
    each = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    ran = (
        f"{counted(runs, 'run')}: {counted(len(names), 'method')} on {counted(len(pairs), 'pair')} of domains, {each}."
    )
    adapted = [cell for cell in statistics.cells if cell.role == "adapted"]
    if not adapted:
        return [f"{ran} No adapted method was run."]
    paragraphs = [ran, _against(adapted, statistics.baseline, [cell.baseline for cell in adapted])]
    controlled = [(cell, control) for cell in adapted for control in cell.controls if control.other]
    if controlled:
        words = _against([cell for cell, _ in controlled], "its own control", [control for _, control in controlled])
        paragraphs.append(f"Against controls, the same method with what it is about taken away. {words}")
    claims = [claim(one, statistics) for one in statistics.overall if one.role == "adapted" and one.controls]
    paragraphs += [f"{_over(pairs)}{text}" for text in claims]
    if len(pairs) > 1:
        paragraphs += [_over_pairs(overall) for overall in statistics.overall if _tells(overall)]
    return paragraphs


def summary(pair: Pair, statistics: Statistics) -> str:
    """One paragraph on a pair: what source labels alone reach, what target labels would, what adaptation changed.

    Args:
        pair: with at least one method.
        statistics: of this pair, and of others maybe.
    """
    lines = {row.method.name: row for row in rows(pair, statistics)}
    sentences = [_standing(lines, role) for role in ("source_only", "in_domain")]
    best = best_adapted(pair)
    if best is None:
        sentences.append("No adapted method was run.")
    else:
        sentences.append(_adapted(lines[best.name], statistics.cell(pair.name, best.name)))
    return " ".join(filter(None, sentences))


def shown(difference: Difference) -> str:
    """``gain`` or ``loss`` where the test over seeds shows one after Holm's correction, else an empty string.

    >>> from domadapt.statistics.results import Significance
    >>> both = Interval(0.1, 0.05, 0.15, "seeds"), Significance(0.01, 0.03, "seeds", 10)
    >>> shown(Difference("source_only", *both, both[1]))
    'gain'
    """
    p = difference.seeds.p_holm
    if difference.interval is None or p is None or p > LEVEL:
        return ""
    return "gain" if difference.interval.mean > 0 else "loss"


def verdict(difference: Difference) -> str:
    """What may be said of a difference on one pair.

    >>> from domadapt.statistics.results import Significance
    >>> few = Significance(None, None, "seeds", 3, "3 seeds can't reach 0.05")
    >>> verdict(Difference("source_only", Interval(0.02, -0.01, 0.05, "seeds"), few, few))
    "That is 2.0 points above source_only (-1.0 to 5.0 over seeds); no gain or loss is shown: 3 seeds can't reach 0.05."
    """
    if difference.interval is None:
        return f"It can't be compared: {difference.reason}."
    points = 100 * difference.interval.mean
    size = f"{abs(points):.1f} points {'above' if points >= 0 else 'below'} {visible(difference.other)}"
    start = f"That is {size}{_ends(difference.interval)}"
    if kind := shown(difference):
        return f"{start}, a {kind} that training again would show (p = {difference.seeds.p_holm:.2g} after Holm)."
    seeds = difference.seeds
    why = f"p = {seeds.p_holm:.2g} after Holm over seeds" if seeds.p_holm is not None else seeds.reason
    text = f"{start}; no gain or loss is shown: {why}."
    items = difference.items.p_holm
    if items is not None and items <= LEVEL:
        text += f" These trained models do differ on other texts of this kind (p = {items:.2g} over test texts)."
    return text


def score(value: Interval, seeds: int) -> str:
    """A mean with its interval, or with the number of seeds where there is none.

    >>> score(Interval(0.5, None, None, "", "one seed"), 1)
    '50.0 (1 seed, no interval)'
    """
    ends = _ends(value, f" over {value.over}")
    return (
        f"{100 * value.mean:.1f}{ends}" if ends else f"{100 * value.mean:.1f} ({counted(seeds, 'seed')}, no interval)"
    )


def _ends(value: Interval, what: str = "") -> str:
    what = what or f" over {value.over}"
    return (
        "" if value.low is None or value.high is None else f" ({100 * value.low:.1f} to {100 * value.high:.1f}{what})"
    )


def _closed(value: Interval) -> str:
    none = value.low is None or value.high is None
    ends = "no interval" if none else f"{100 * (value.low or 0):.0f} to {100 * (value.high or 0):.0f} over {value.over}"
    return f"{100 * value.mean:.0f} % ({ends})"


def _over(pairs: Sequence[Pair]) -> str:
    return f"Over {counted(len(pairs), 'pair')}: " if len(pairs) > 1 else ""


def _against(cells: Sequence[Cell], other: str, differences: Sequence[Difference]) -> str:
    found = {kind: [(c, d) for c, d in zip(cells, differences) if shown(d) == kind] for kind in ("gain", "loss", "")}
    of = f"{counted(len(cells), 'comparison')} of an adapted method with {other}"
    if not found["gain"] and not found["loss"]:
        text = f"No gain and no loss is shown in {of}, by tests over seeds after Holm's correction."
    else:
        text = f"Of {of}, tests over seeds after Holm's correction show "
        text += " and ".join(
            f"{counted(len(some), kind, {'gain': 'gains', 'loss': 'losses'}[kind])} ({_named(some)})"
            for kind, some in found.items()
            if kind and some
        )
        text += f"; {len(found[''])} show neither." if found[""] else "."
    reasons = _frequent(d.seeds.reason for _, d in found[""] if d.seeds.p is None and d.seeds.reason)
    if reasons:
        text += f" Why not: {'; '.join(reasons)}."
    differ = [(c, d) for c, d in found[""] if d.interval and d.items.p_holm is not None and d.items.p_holm <= LEVEL]
    if differ:
        text += (
            f" Of the models as they were trained, {counted(len(differ), 'differs', 'differ')} from {other} on other "
            f"texts of this kind (tests over test texts after Holm's correction: {_named(differ)}); "
            f"that says nothing about training again."
        )
    return text


def _named(some: Sequence[tuple[Cell, Difference]]) -> str:
    ordered = sorted(some, key=lambda both: -abs(both[1].interval.mean if both[1].interval else 0.0))
    names = [
        f"{visible(cell.method)} on {visible(cell.pair)} by {100 * d.interval.mean:+.1f} points"
        for cell, d in ordered[:NAMED]
        if d.interval
    ]
    return listed([*names, *([f"{len(some) - NAMED} more"] if len(some) > NAMED else [])])


def _frequent(reasons: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return [f"{reason} ({number} of them)" for reason, number in ordered[:3]]


def _tells(overall: Overall) -> bool:
    difference = overall.baseline
    tests = (difference.runs.p_holm, difference.pairs.p_holm)
    some = any(p is not None and p <= LEVEL for p in tests) or bool(difference.replicability.count)
    return overall.role == "adapted" and difference.interval is not None and some


def _over_pairs(overall: Overall) -> str:
    difference = overall.baseline
    assert difference.interval is not None
    points = 100 * difference.interval.mean
    text = f"Over {counted(len(overall.pairs), 'pair')}, {visible(overall.method)} is {abs(points):.1f} points "
    text += f"{'above' if points >= 0 else 'below'} {visible(difference.other)}{_ends(difference.interval)}"
    parts = []
    if (p := difference.runs.p_holm) is not None:
        parts.append(f"on at least one of these pairs: p = {p:.2g} after Holm's correction")
    if (p := difference.pairs.p_holm) is not None:
        parts.append(f"on other pairs of this kind: p = {p:.2g} after Holm's correction")
    if (count := difference.replicability.count) is not None:
        parts.append(f"the gain is real on at least {count} of {difference.replicability.of} pairs, 95 % confidence")
    return "; ".join([text, *parts]) + "."


def _standing(lines: dict[str, Row], role: str) -> str:
    found = [row for row in lines.values() if row.method.role == role]
    what = {"source_only": "Trained on source labels alone", "in_domain": "Trained on target labels (the ceiling)"}[
        role
    ]
    if not found:
        return f"No run of {role} is among these."
    if len(found) > 1:
        return f"{role} was run with {len(found)} different settings; see the table."
    row = found[0]
    if row.target is None:
        return f"{what}, it can't be scored: the target test has no labels."
    return f"{what}, the model scores {score(row.target, len(row.method.seeds))}."


def _adapted(row: Row, cell: Cell) -> str:
    name = visible(row.method.name)
    start = f"Of the adapted methods, {name} is best on source dev, by which it is named here without target labels"
    if row.target is None:
        return f"{start}; the target test has no labels to score it by."
    sentences = [f"{start}; on the target test it scores {score(row.target, len(row.method.seeds))}."]
    sentences.append(verdict(cell.baseline))
    if row.closed.value is not None and shown(cell.baseline):
        sentences.append(f"Of the gap to the ceiling it closes {_closed(row.closed.value)}.")
    return " ".join(sentences)
