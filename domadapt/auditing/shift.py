"""Labels, spans and lengths that are distributed otherwise in the target: each with a test and the effect's size."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from domadapt.auditing.finding import Finding, percent, shown
from domadapt.auditing.parts import SIDES, TEST, TRAIN, UNLABELLED, Part, Parts

SURE: Final = 0.01  # p-value above which a difference is not told
# Cramér's V of a table with two domains (Cohen 1988: 0.1 small, 0.3 medium); Cliff's delta (Romano et al. 2006).
SMALL_V: Final = 0.1
SMALL_DELTA: Final = 0.147
MEDIUM_DELTA: Final = 0.33


def cramers_v(table: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Cramér's V of a contingency table, and the p-value of Pearson's chi-squared test.

    >>> v, p = cramers_v([[30, 10], [10, 30]])
    >>> round(v, 2), p < 0.001
    (0.5, True)
    """
    from scipy.stats import chi2_contingency

    counts = np.asarray(table)
    result: Any = chi2_contingency(counts, correction=False)
    return float(np.sqrt(result.statistic / (counts.sum() * (min(counts.shape) - 1)))), float(result.pvalue)


def cliffs_delta(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """How much oftener a value of the second is the greater one (-1 to 1), and the p-value of Mann and Whitney's test.

    >>> cliffs_delta([1, 2, 3, 4], [5, 6, 7, 8])[0]
    1.0
    """
    from scipy.stats import mannwhitneyu

    result: Any = mannwhitneyu(second, first)
    return float(2 * result.statistic / (len(first) * len(second)) - 1), float(result.pvalue)


def shift(parts: Parts) -> Iterator[Finding]:
    """Shift of labels, of spans a text, of words a text; and words a text between parts of one domain."""
    yield from _labels(parts)
    yield from _spans(parts)
    yield from _lengths(parts)


def _labels(parts: Parts) -> Iterator[Finding]:
    source, target = (Counter(str(r.label) for r in parts.records(side) if r.label is not None) for side in SIDES)
    if source and target:
        unknown = sorted(target.keys() - source.keys())
        missed = sum(target[label] for label in unknown)
        if unknown:
            yield Finding(
                "label shift",
                "severe",
                missed / target.total(),
                f"{missed} labelled texts of {shown(parts.target)} carry labels that no text of {shown(parts.source)} "
                f"has ({', '.join(shown(label, 30) for label in unknown[:5])}): no model can learn them there.",
                {"texts": missed, "of": target.total()},
            )
        yield from _moved(shown(parts.source), source, shown(parts.target), target, told_anyway=True)
    for side in SIDES:
        counts = {p.name: Counter(str(r.label) for r in p.records if r.label is not None) for p in parts.labelled[side]}
        for a, b in combinations([name for name in counts if counts[name]], 2):
            yield from _moved(f"the {a}", counts[a], f"the {b}", counts[b], told_anyway=False)


def _moved(name: str, first: Counter[str], other: str, second: Counter[str], told_anyway: bool) -> Iterator[Finding]:
    labels = sorted(first.keys() | second.keys())
    if len(labels) < 2:
        return
    effect, p = cramers_v([[count[label] for label in labels] for count in (first, second)])
    shares = {label: (first[label] / first.total(), second[label] / second.total()) for label in labels}
    most = sorted(labels, key=lambda label: -abs(shares[label][0] - shares[label][1]))[:4]
    told = ", ".join(f"{shown(n, 30)} {percent(shares[n][0])} against {percent(shares[n][1])}" for n in most)
    moved = p < SURE and effect >= SMALL_V
    if not moved and not told_anyway:
        return
    yield Finding(
        "label shift",
        "warning" if moved else "note",
        effect,
        f"{'Labels shift' if moved else 'Labels hardly shift'} from {name} to {other}: {told} (Cramér's V "
        f"{effect:.2f}, p {_p(p)})."
        + (" Part of any loss is this: report macro F1, and accuracy only beside it." if moved else ""),
        {"cramers_v": effect, "p": p}
        | {f"{shown(n, 30)} {i}": shares[n][j] for n in most for j, i in enumerate(SIDES)},
    )


def _spans(parts: Parts) -> Iterator[Finding]:
    annotated = [[r.spans for r in parts.records(side) if r.spans is not None] for side in SIDES]
    if not all(annotated):
        return
    kinds = [sorted({s.type for spans in side for s in spans}) for side in annotated]
    unknown = [kind for kind in kinds[1] if kind not in kinds[0]]
    if unknown:
        yield Finding(
            "label shift",
            "severe",
            1.0,
            f"{shown(parts.target)} has span types that {shown(parts.source)} lacks "
            f"({', '.join(shown(kind, 30) for kind in unknown[:5])}): no model can learn them there.",
            {"types": len(unknown)},
        )
    for kind in (kind for kind in kinds[0] if kind in kinds[1]):
        counts = [[sum(s.type == kind for s in spans) for spans in side] for side in annotated]
        effect, p = cliffs_delta(counts[0], counts[1])
        means = [float(np.mean(count)) for count in counts]
        without = [float(np.mean(np.array(count) == 0)) for count in counts]
        moved = p < SURE and abs(effect) >= SMALL_DELTA
        yield Finding(
            "label shift",
            "warning" if moved else "note",
            abs(effect),
            f"{shown(kind, 30)} spans a text: {means[0]:.2f} in {shown(parts.source)}, {means[1]:.2f} in "
            f"{shown(parts.target)}; texts without one {percent(without[0])} against {percent(without[1])} (Cliff's "
            f"delta {effect:+.2f}, p {_p(p)}).",
            {"source": means[0], "target": means[1], "without_source": without[0], "without_target": without[1],
             "cliffs_delta": effect, "p": p},
        )  # fmt: skip


def _lengths(parts: Parts) -> Iterator[Finding]:
    for first, second in ((TRAIN, UNLABELLED), (UNLABELLED, TEST), (TRAIN, TEST)):
        a, b = parts.get(first), parts.get(second)
        if a is None or b is None or ((first, second) == (TRAIN, TEST) and parts.get(UNLABELLED) is not None):
            continue
        lengths = [[float(len(words)) for words in part.words] for part in (a, b)]
        effect, p = cliffs_delta(lengths[0], lengths[1])
        middle = [int(np.median(length)) for length in lengths]
        moved = p < SURE and abs(effect) >= SMALL_DELTA
        severity = "note"
        if moved:
            severity = "warning" if abs(effect) >= MEDIUM_DELTA or a.side == b.side else "note"
        yield Finding(
            "length shift",
            severity,
            abs(effect),
            f"Words a text, median: {middle[0]} in the {first}, {middle[1]} in the {second} (Cliff's delta "
            f"{effect:+.2f}, p {_p(p)}).",
            {"first": middle[0], "second": middle[1], "cliffs_delta": effect, "p": p, **_tails(a, b)},
        )


def _tails(first: Part, second: Part) -> dict[str, float]:
    pairs = (("first", first), ("second", second))
    return {f"p95_{name}": float(np.percentile([len(w) for w in part.words], 95)) for name, part in pairs}


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
