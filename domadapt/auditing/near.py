"""Texts that are nearly the same: MinHash finds candidates (Broder 1997), their exact Jaccard similarity decides."""

from collections.abc import Iterator, Sequence
from typing import Final

from domadapt.auditing.duplicates import consequence, pairs, severity
from domadapt.auditing.finding import EXAMPLES, Finding, percent, shown
from domadapt.auditing.parts import Part, Parts

SHINGLE: Final = 5  # bytes, of the text without case and whitespace
SIMILAR: Final = 0.8  # Jaccard similarity of two texts' shingles from which they are near duplicates
BANDS, ROWS = 20, 5  # of the signature: 1 - (1 - 0.8 ** 5) ** 20, so that 3 of 10,000 pairs at 0.8 share no band
LONGEST: Final = 10_000  # bytes compared of a text; longer ones are counted


def shingles(key: str) -> set[bytes]:
    """Overlapping pieces of a text's first 10,000 bytes.

    >>> sorted(shingles("abcdef"))
    [b'abcde', b'bcdef']
    """
    content = key.encode()[:LONGEST]
    return {content[i : i + SHINGLE] for i in range(max(1, len(content) - SHINGLE + 1))}


def similar_pairs(keys: Sequence[str], seed: int = 1) -> list[tuple[int, int, float]]:
    """Pairs of different texts whose shingles have a Jaccard similarity of at least 0.8.

    Args:
        keys: different texts, as :func:`~domadapt.data.normal.identity` gives them.
        seed: of the hash functions. At most 4 of 10,000 such pairs are missed; no false one is returned.

    Returns:
        Positions, the smaller first, and similarity.

    >>> [(a, b) for a, b, _ in similar_pairs(["thebatterylastsfortwodays", "ahinge", "batterylastsfortwodays"])]
    [(0, 2)]
    """
    from zlib import crc32

    from datasketch import MinHash, MinHashLSH

    cut = [shingles(key) for key in keys]
    lsh = MinHashLSH(num_perm=BANDS * ROWS, params=(BANDS, ROWS))
    found = []
    hashes = MinHash.generator(cut, num_perm=BANDS * ROWS, seed=seed, hashfunc=crc32)
    for position, sketch in enumerate(hashes):
        for other in lsh.query(sketch):
            a, b = cut[other], cut[position]
            if min(len(a), len(b)) < SIMILAR * max(len(a), len(b)):
                continue
            similarity = len(a & b) / len(a | b)
            if similarity >= SIMILAR:
                found.append((int(other), position, similarity))
        lsh.insert(position, sketch)
    return sorted(found)


def near_duplicates(parts: Parts, seed: int = 1) -> Iterator[Finding]:
    """Near duplicates across parts and within them; exact ones are told elsewhere and left out."""
    keys = list(dict.fromkeys(key for part in parts.texts for key in part.keys))
    near: dict[str, set[str]] = {}
    for first, second, _ in similar_pairs(keys, seed):
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
