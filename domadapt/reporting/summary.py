"""What the numbers of a pair say, in sentences that claim no more than they do."""

from domadapt.reporting.examples import best_adapted
from domadapt.reporting.groups import Pair
from domadapt.reporting.intervals import Estimate, overlap
from domadapt.reporting.rows import Row, reference, rows
from domadapt.reporting.visible import visible


def summary(pair: Pair) -> str:
    """One paragraph on a pair: what source labels alone reach, what target labels would, what adaptation changed.

    Args:
        pair: with at least one method.
    """
    lines = {row.method.name: row for row in rows(pair)}
    sentences = [_standing(lines, role) for role in ("source_only", "in_domain")]
    best = best_adapted(pair)
    if best is None:
        sentences.append("No adapted method was run.")
    else:
        base = reference(pair, best, "source_only")
        sentences.append(_adapted(lines[best.name], lines[base.name] if base else None))
    return " ".join(filter(None, sentences))


def verdict(base: Estimate, adapted: Estimate) -> str:
    """What may be said of a difference over seeds.

    >>> from domadapt.reporting.intervals import estimate
    >>> verdict(estimate([0.40, 0.41, 0.42]), estimate([0.60, 0.61, 0.62]))
    'That is a gain of 20.0 points over source_only; their intervals do not overlap.'
    """
    points = 100 * (adapted.mean - base.mean)
    size = f"{abs(points):.1f} points {'above' if points >= 0 else 'below'} source_only"
    together = overlap(base, adapted)
    if together is None:
        return f"That is {size}, with too few seeds (fewer than three) to say whether it is more than chance."
    if together:
        return f"That is {size}, but their intervals overlap: no gain or loss is shown."
    word = "gain" if points > 0 else "loss"
    against = "over" if points > 0 else "against"
    return f"That is a {word} of {abs(points):.1f} points {against} source_only; their intervals do not overlap."


def score(value: Estimate, seeds: int) -> str:
    """A mean with its interval, or with the number of seeds where that is too small for one.

    >>> from domadapt.reporting.intervals import estimate
    >>> score(estimate([0.5]), 1)
    '50.0 (1 seed, no interval)'
    """
    if value.low is None or value.high is None:
        return f"{100 * value.mean:.1f} ({seeds} seed{'s' * (seeds != 1)}, no interval)"
    return f"{100 * value.mean:.1f} ({100 * value.low:.1f} to {100 * value.high:.1f} over {seeds} seeds)"


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


def _adapted(row: Row, base: Row | None) -> str:
    name = visible(row.method.name)
    start = f"Of the adapted methods, {name} is best on source dev, by which it was chosen without target labels"
    if row.target is None:
        return f"{start}; the target test has no labels to score it by."
    sentences = [f"{start}; on the target test it scores {score(row.target, len(row.method.seeds))}."]
    if base is None or base.target is None:
        sentences.append("There is no one run of source_only to compare it with.")
    else:
        sentences.append(verdict(base.target, row.target))
    if row.gap_closed is not None and base and base.target and overlap(base.target, row.target) is False:
        sentences.append(f"Of the gap to the ceiling it closes {100 * row.gap_closed:.0f} %.")
    return " ".join(sentences)
