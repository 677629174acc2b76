"""Habits of the annotation that change what a score means: terms run together, sentences without any term."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from domadapt.auditing.finding import Finding, percent, shown
from domadapt.auditing.parts import SIDES, Parts
from domadapt.data.records import Record

# Where tags tell B from I, one pair of neighbours of a type touches for every 7 to 20 pairs with one word between
# them (devices, laptops, restaurants); where they don't, none does. At 1 in 20, 90 pairs give none once in 100 times.
ENOUGH: Final = 90
MANY: Final = 0.2  # share of sentences without a span from which leaving them out changes the task


def annotation(parts: Parts) -> Iterator[Finding]:
    """Merged neighbours, and texts without spans, in each domain."""
    for side in SIDES:
        records = [record for record in parts.records(side) if record.spans is not None]
        if records and any(record.spans for record in records):
            name = parts.source if side == "source" else parts.target
            yield from _merged(records, name)
    yield from _empty(parts)


def gaps(records: Sequence[Record]) -> Counter[int]:
    """How many words stand between two spans of one type that follow each other.

    >>> from domadapt.data.records import Span
    >>> record = Record("1", "d", "food and drinks", spans=(Span(0, 4, "aspect"), Span(9, 15, "aspect")))
    >>> gaps([record])
    Counter({1: 1})
    """
    found = Counter[int]()
    for record in records:
        spans = sorted(record.spans or (), key=lambda span: (span.start, span.end))
        for first, second in zip(spans, spans[1:], strict=False):
            if first.type == second.type:
                found[len(record.text[first.end : second.start].split())] += 1
    return found


def _merged(records: Sequence[Record], name: str) -> Iterator[Finding]:
    between = gaps(records)
    if between[0] or between[1] < ENOUGH:
        return
    yield Finding(
        "annotation",
        "warning",
        min(1.0, between[1] / len(records)),
        f"In {shown(name)}, {between[1]} pairs of spans of one type have a single word between them and not one pair "
        f"touches; with tags that tell B from I some 1 in 20 would. Neighbours of one type were merged into one span, "
        f"as happens where the original tags had no B and I: exact-span scores count such a pair as one term.",
        {"touching": between[0], "one_word_between": between[1]},
    )


def _empty(parts: Parts) -> Iterator[Finding]:
    told = {}
    for side in SIDES:
        annotated = [record for record in parts.records(side) if record.spans is not None]
        if annotated and any(record.spans for record in annotated):
            name = parts.source if side == "source" else parts.target
            told[name] = (sum(not record.spans for record in annotated), len(annotated))
    shares = {name: empty / total for name, (empty, total) in told.items()}
    if not told or not any(shares.values()):
        return
    listed = ", ".join(f"{e} of {t} in {shown(name)} ({percent(e / t)})" for name, (e, t) in told.items())
    uneven = max(shares.values()) - min(shares.values())
    yield Finding(
        "annotation",
        "warning" if max(shares.values()) >= MANY else "note",
        max(uneven, max(shares.values())),
        f"Texts without any span: {listed}. Some published works leave them out, which changes precision and the task; "
        f"they are kept here: say so beside a score."
        + (" One domain has hardly any: somebody may have left them out." if min(shares.values()) < 0.02 else ""),
        {f"{name} {what}": value for name, pair in told.items() for what, value in zip(("empty", "of"), pair)},
    )
