"""Texts that are there twice: exactly, nearly, in both domains, with other labels."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from domadapt.auditing.finding import (
    DEV,
    EXAMPLES,
    SIDES,
    SOURCE_TEST,
    TARGET_TRAIN,
    TEST,
    TRAIN,
    UNLABELLED,
    Finding,
    Part,
    Parts,
    percent,
    shown,
)
from domadapt.data.records import Record
from domadapt.data.texts import LONGEST, SIMILAR, letters, similar_pairs

# Which texts a repetition spoils: the earlier in this list is counted, the later is where its texts turn up again.
ORDER = (TEST, SOURCE_TEST, DEV, TARGET_TRAIN, UNLABELLED, TRAIN)
SEVERE = 0.05  # of the texts whose score it spoils
FEW = 0.002  # of them: below it, short phrases that everybody writes
WITHIN = 0.05  # of a part's texts: below it, repeats are worth a note


def duplicates(parts: Parts) -> Iterator[Finding]:
    """Exact duplicates across every two parts, within every part, and within each domain's labelled texts."""
    for counted, others in pairs(parts):
        yield from _across(counted, others)
    for part in parts.texts:
        yield from _within(part)
    for side in SIDES:
        yield from _domain(parts, side)


def pairs(parts: Parts) -> Iterator[tuple[Part, Part]]:
    """Every two parts; the one whose score a repetition spoils comes first."""
    placed = sorted(parts.texts, key=lambda part: ORDER.index(part.name))
    yield from ((a, b) for i, a in enumerate(placed) for b in placed[i + 1 :])


def consequence(counted: str, others: str) -> tuple[bool, str]:
    """Whether a text in both parts makes a score too good, and what to do about it."""
    if counted in (TEST, SOURCE_TEST):
        how = {
            UNLABELLED: "read before the test by every method that reads target text",
            TRAIN: "trained on with its label",
            DEV: "used to choose the checkpoint",
            TARGET_TRAIN: "trained on by the in-domain ceiling",
        }.get(others)
        return (True, f"{how}: print the clean score beside the published one") if how else (False, "two test sets")
    if counted == DEV:
        return (
            (True, "the score that chooses the checkpoint rewards memory: hold out whole groups of repeats")
            if others == TRAIN
            else (False, "the checkpoint is chosen on text that adaptation reads too")
        )
    return False, "the same text in both parts"


def severity(share: float, texts: int) -> str:
    """How bad it is that this share of a test, or of the texts that choose the checkpoint, is known beforehand."""
    if share >= SEVERE and texts > 1:
        return "severe"
    return "warning" if share >= FEW and texts > 1 else "note"


def _across(counted: Part, others: Part) -> Iterator[Finding]:
    seen = set(others.keys)
    found = [i for i, key in enumerate(counted.keys) if key in seen]
    if not found:
        return
    verbatim = {record.text for record in others.records}
    same = sum(counted.records[i].text in verbatim for i in found)
    share = len(found) / len(counted.records)
    spoils, why = consequence(counted.name, others.name)
    yield Finding(
        "duplicates",
        severity(share, len(found)) if spoils else "warning" if share >= SEVERE and len(found) > 1 else "note",
        share,
        f"{len(found)} of {len(counted.records)} texts of the {counted.name} ({percent(share)}) stand in the "
        f"{others.name} too ({same} letter by letter): {why}.",
        {"texts": len(found), "of": len(counted.records), "verbatim": same},
        tuple(shown(counted.records[i].text) for i in _longest(counted, found)),
    )


def _within(part: Part) -> Iterator[Finding]:
    count = Counter(part.keys)
    extra = len(part.keys) - len(count)
    if not extra:
        return
    share = extra / len(part.keys)
    first = {key: i for i, key in reversed(list(enumerate(part.keys)))}
    most = sorted((key for key in count if count[key] > 1), key=lambda key: (-count[key], first[key]))[:EXAMPLES]
    weighs = "they weigh more than once in its score" if "test" in part.name or part.name == DEV else "they weigh more"
    yield Finding(
        "duplicates",
        "warning" if share >= WITHIN else "note",
        share,
        f"{extra} of {len(part.keys)} texts of the {part.name} ({percent(share)}) repeat an earlier one: {weighs}.",
        {"texts": extra, "of": len(part.keys)},
        tuple(f"{count[key]} × {shown(part.records[first[key]].text)}" for key in most),
    )


def _domain(parts: Parts, side: str) -> Iterator[Finding]:
    labelled = [part for part in parts.labelled[side] if part.records]
    keys = [key for part in labelled for key in part.keys]
    extra = len(keys) - len(set(keys))
    if len(labelled) < 2 or not extra:  # one part has been told of
        return
    name = parts.source if side == "source" else parts.target
    share = extra / len(keys)
    yield Finding(
        "duplicates",
        "warning" if share >= WITHIN else "note",
        share,
        f"{extra} of {len(keys)} labelled texts of {shown(name)}, all parts together ({percent(share)}), repeat "
        f"another: random splits of them put copies on both sides.",
        {"texts": extra, "of": len(keys)},
    )


def _longest(part: Part, found: list[int]) -> list[int]:
    """A few examples that say something: short texts repeat by chance."""
    return sorted(found, key=lambda i: (-min(len(part.keys[i]), 80), i))[:EXAMPLES]


def near_duplicates(parts: Parts) -> Iterator[Finding]:
    """Near duplicates across parts and within them; exact ones are told elsewhere and left out."""
    keys = list(dict.fromkeys(key for part in parts.texts for key in part.keys))
    near: dict[str, set[str]] = {}
    for first, second, _ in similar_pairs(keys):
        near.setdefault(keys[first], set()).add(keys[second])
        near.setdefault(keys[second], set()).add(keys[first])
    for counted, others in pairs(parts):
        yield from _across_of_near_duplicates(counted, others, near)
    for part in parts.texts:
        inside = set(part.keys)
        found = [i for i, key in enumerate(part.keys) if near.get(key, set()) & inside]
        if found:
            share = len(found) / len(part.keys)
            yield Finding(
                "near duplicates",
                "note",
                share,
                f"{len(found)} of {len(part.keys)} texts of the {part.name} ({percent(share)}) have a near duplicate "
                f"in it (Jaccard {SIMILAR} or more).",
                {"texts": len(found), "of": len(part.keys)},
                _shown(part, found, part, near),
            )
    long = sum(len(key.encode()) > LONGEST for key in keys)
    if long:
        yield Finding(
            "near duplicates",
            "note",
            0.0,
            f"{long} texts are longer than {LONGEST} bytes and were compared by their beginning alone.",
            {"texts": long},
        )


def _across_of_near_duplicates(counted: Part, others: Part, near: dict[str, set[str]]) -> Iterator[Finding]:
    there = set(others.keys)
    found = [i for i, key in enumerate(counted.keys) if key not in there and near.get(key, set()) & there]
    if not found:
        return
    share = len(found) / len(counted.keys)
    spoils, why = consequence(counted.name, others.name)
    yield Finding(
        "near duplicates",
        severity(share, len(found)) if spoils else "note",
        share,
        f"{len(found)} more of {len(counted.keys)} texts of the {counted.name} ({percent(share)}) have a near "
        f"duplicate in the {others.name} (Jaccard {SIMILAR} or more): {why}.",
        {"texts": len(found), "of": len(counted.keys)},
        _shown(counted, found, others, near),
    )


def _shown(counted: Part, found: list[int], others: Part, near: dict[str, set[str]]) -> tuple[str, ...]:
    where = {key: i for i, key in reversed(list(enumerate(others.keys)))}
    told, seen = [], set[str]()
    for i in found:
        other = min(near[counted.keys[i]] & where.keys(), key=lambda key: where[key])
        if other not in seen:  # the same two the other way round say nothing new
            told.append(f"{shown(counted.records[i].text)} ≈ {shown(others.records[where[other]].text)}")
        seen.add(counted.keys[i])
        if len(told) == EXAMPLES:
            break
    return tuple(told)


OFTEN = 0.01  # of the labelled texts: from here on conflicts are a warning

CONFLICTS_SEVERE = 0.1  # of the target's: so much of its score is luck

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
        "severe" if share >= CONFLICTS_SEVERE and name == "target" else "warning" if share >= OFTEN else "note",
        share,
        f"Of {groups} texts that are labelled more than once in the {name}, {len(found)} carry different {what} "
        f"({texts} of {total} records, {percent(share)}): {remedy}.",
        {"conflicting": len(found), "repeated": groups, "records": texts, "of": total},
        tuple(examples[:EXAMPLES]),
    )
