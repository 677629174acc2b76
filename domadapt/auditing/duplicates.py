"""Texts that occur twice, case, whitespace, punctuation and tokenisation aside: across parts, and within one."""

from collections import Counter
from collections.abc import Iterator

from domadapt.auditing.finding import EXAMPLES, Finding, percent, shown
from domadapt.auditing.parts import DEV, SIDES, SOURCE_TEST, TARGET_TRAIN, TEST, TRAIN, UNLABELLED, Part, Parts

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
