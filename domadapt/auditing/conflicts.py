"""The same text with other labels, or with other spans: one of the two annotations is wrong, or the task is unclear."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from domadapt.auditing.finding import EXAMPLES, Finding, percent, shown
from domadapt.auditing.parts import SIDES, Part, Parts
from domadapt.data.normal import letters
from domadapt.data.records import Record

OFTEN = 0.01  # of the labelled texts: from here on conflicts are a warning

SEVERE = 0.1  # of the target's: so much of its score is luck

Spans = frozenset[tuple[str, int, str]]


def spans_of(record: Record) -> Spans:
    """Spans in a form that does not depend on case, whitespace and tokenisation."""
    return frozenset(
        (span.type, len(letters(record.text[: span.start])), letters(record.text[span.start : span.end]))
        for span in record.spans or ()
    )


def conflicts(parts: Parts) -> Iterator[Finding]:
    """Groups of one text that disagree, in each domain and between the two."""
    for name, sides in (("source", SIDES[:1]), ("target", SIDES[1:]), ("source and target together", SIDES)):
        labelled = [part for side in sides for part in parts.labelled[side]]
        across = len(sides) > 1
        yield from _labels(labelled, name, across)
        yield from _spans(labelled, name, across)


def _groups(parts: list[Part], across: bool) -> tuple[list[list[Record]], int]:
    groups: dict[str, list[tuple[str, Record]]] = defaultdict(list)
    for part in parts:
        for key, record in zip(part.keys, part.records, strict=True):
            groups[key].append((part.side, record))
    wanted = [g for g in groups.values() if len(g) > 1 and (not across or len({side for side, _ in g}) > 1)]
    return [[record for _, record in group] for group in wanted], sum(len(part.records) for part in parts)


def _labels(parts: list[Part], name: str, across: bool) -> Iterator[Finding]:
    groups, total = _groups(parts, across)
    told = [[r for r in group if r.label is not None] for group in groups]
    found = [group for group in told if len({r.label for r in group}) > 1]
    if found:
        examples = [f"{shown(g[0].text)}: {', '.join(sorted({shown(str(r.label), 20) for r in g}))}" for g in found]
        yield _finding("labels", name, found, sum(len(g) > 1 for g in told), total, examples)


def _spans(parts: list[Part], name: str, across: bool) -> Iterator[Finding]:
    groups, total = _groups(parts, across)
    told = [[r for r in group if r.spans is not None] for group in groups]
    found = [group for group in told if len({spans_of(r) for r in group}) > 1]
    if found:
        yield _finding(
            "spans", name, found, sum(len(g) > 1 for g in told), total, [_difference(group) for group in found]
        )


def _difference(group: list[Record]) -> str:
    first, second = list({spans_of(record): record for record in group}.values())[:2]
    only = (
        [
            f"{shown(record.text[s.start : s.end], 30)} ({shown(s.type, 20)})"
            for s in record.spans or ()
            if not spans_of(replace(record, spans=(s,))) <= spans_of(other)
        ]
        for record, other in ((first, second), (second, first))
    )
    return f"{shown(first.text)}: in one {', in another '.join(', '.join(spans) or 'nothing' for spans in only)}"


def _finding(what: str, name: str, found: list[list[Record]], groups: int, total: int, examples: list[str]) -> Finding:
    texts = sum(len(group) for group in found)
    share = texts / total
    remedy = {
        "source": "training is told both",
        "target": "no model can get all of them right",
    }.get(name, "the two domains are annotated by different rules, or without care")
    return Finding(
        "conflicts",
        "severe" if share >= SEVERE and name == "target" else "warning" if share >= OFTEN else "note",
        share,
        f"Of {groups} texts that are labelled more than once in the {name}, {len(found)} carry different {what} "
        f"({texts} of {total} records, {percent(share)}): {remedy}.",
        {"conflicting": len(found), "repeated": groups, "records": texts, "of": total},
        tuple(examples[:EXAMPLES]),
    )
