"""Habits of the annotation that change what a score means: terms run together, sentences without any term."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from domadapt.auditing.finding import Finding, percent, shown
from domadapt.auditing.parts import SIDES, Parts
from domadapt.data.records import Record

# Where tags tell B from I, one pair of neighbours of a type touches for every 6 to 20 pairs with one word between them
# (aspects and opinions of devices, laptops, restaurants). At 1 in 20, 90 such pairs leave none touching once in 100
# times. Aspects alone touch less: never in 176 such pairs of laptops, 3 times in 386 of restaurants. So this is a
# question to the owner and no proof, unless spans of different types do touch.
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


def gaps(records: Sequence[Record], one_type: bool = True) -> Counter[int]:
    """How many words stand between two spans, of one type or of two, that follow each other.

    >>> from domadapt.data.records import Span
    >>> record = Record("1", "d", "food and drinks", spans=(Span(0, 4, "aspect"), Span(9, 15, "aspect")))
    >>> gaps([record])
    Counter({1: 1})
    """
    found = Counter[int]()
    for record in records:
        spans = sorted(record.spans or (), key=lambda span: (span.start, span.end))
        for first, second in pairwise(spans):
            if (first.type == second.type) == one_type:
                found[len(record.text[first.end : second.start].split())] += 1
    return found


def _merged(records: Sequence[Record], name: str) -> Iterator[Finding]:
    between = gaps(records)
    if between[0] or between[1] < ENOUGH:
        return
    others = gaps(records, one_type=False)[0]
    evidence = (
        f"spans of different types do ({others} times), so neighbours of one type were most likely merged"
        if others
        else "either the texts have no such neighbours, or they were merged"
    )
    yield Finding(
        "annotation",
        "warning",
        min(1.0, between[1] / len(records)),
        f"In {shown(name)}, {between[1]} pairs of spans of one type have a single word between them and not one pair "
        f"touches; {evidence}, as happens where the original tags had no B and I. Exact-span scores then count two "
        f"terms as one: ask the owner, and say so beside a score.",
        {"touching": between[0], "one_word_between": between[1], "different_touching": others},
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
        {f"{shown(name)} {what}": value for name, pair in told.items() for what, value in zip(("empty", "of"), pair)},
    )
