"""Texts that are nearly the same, across parts and within them."""

from collections.abc import Iterator

from domadapt.auditing.duplicates import consequence, pairs, severity
from domadapt.auditing.finding import EXAMPLES, Finding, percent, shown
from domadapt.auditing.parts import Part, Parts
from domadapt.data.near_duplicates import LONGEST, SIMILAR, similar_pairs


def near_duplicates(parts: Parts) -> Iterator[Finding]:
    """Near duplicates across parts and within them; exact ones are told elsewhere and left out."""
    keys = list(dict.fromkeys(key for part in parts.texts for key in part.keys))
    near: dict[str, set[str]] = {}
    for first, second, _ in similar_pairs(keys):
        near.setdefault(keys[first], set()).add(keys[second])
        near.setdefault(keys[second], set()).add(keys[first])
    for counted, others in pairs(parts):
        yield from _across(counted, others, near)
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


def _across(counted: Part, others: Part, near: dict[str, set[str]]) -> Iterator[Finding]:
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
