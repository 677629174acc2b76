"""Texts that are there twice, and annotation that contradicts itself."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, Final

from domadapt.auditing import finding
from domadapt.auditing.finding import EXAMPLES, Finding, Part, Parts
from domadapt.config.resolvers import SIDES
from domadapt.data.records import Record, inside_word, unsayable
from domadapt.data.texts import COMPARED_BYTES, SIMILAR, letters, similar_pairs
from domadapt.utils.text import cut, percent, shortened

# Which texts a repetition spoils: the earlier in this list is counted, the later is where its texts turn up again.
ORDER: Final = (finding.TEST, finding.SOURCE_TEST, finding.DEV, finding.TARGET_TRAIN, finding.UNLABELLED, finding.TRAIN)
SEVERE: Final = 0.05  # of the texts whose score it spoils
FEW_COPIES: Final = 0.002  # of them: below it, short phrases that everybody writes
WITHIN: Final = 0.05  # of a part's texts: below it, repeats are worth a note


def duplicates(parts: Parts) -> Iterator[Finding]:
    """Exact duplicates across every two parts, within every part, and within each domain's labelled texts."""
    for counted, others in pairs(parts):
        keys, texts = set(others.keys), {record.text for record in others.records}
        copies = [i for i, key in enumerate(counted.keys) if key in keys]
        if copies:
            same = sum(counted.records[i].text in texts for i in copies)
            long = sorted(copies, key=lambda i: (-min(len(counted.keys[i]), 80), i))[:EXAMPLES]  # short ones are chance
            grade, why = grade_copies(counted, others, len(copies))
            text = f"stand in the {others.name} too ({same} letter by letter): {why}"
            examples = [shortened(counted.records[i].text) for i in long]
            yield counted.finding("duplicates", grade, len(copies), text, examples, verbatim=same)
    several = [side for side, labelled in parts.labelled.items() if len(labelled) > 1]
    every = [Part(f"labelled parts of {parts.domains[side]}", tuple(parts.records(side))) for side in several]
    for part in (*parts.texts, *every):
        count = Counter(part.keys)
        extra = len(part.keys) - len(count)
        if extra:
            weighs = "they weigh more" + (" than once in its score" if part.name.endswith(("test", "dev")) else "")
            if part in every:
                weighs = "random splits of them put copies on both sides"
            first = {key: i for i, key in reversed(list(enumerate(part.keys)))}
            most = sorted((k for k in count if count[k] > 1), key=lambda k: (-count[k], first[k]))[:EXAMPLES]
            examples = [f"{count[key]} × {shortened(part.records[first[key]].text)}" for key in most]
            grade = "warning" if extra / len(part.keys) >= WITHIN else "note"
            yield part.finding("duplicates", grade, extra, f"repeat an earlier one: {weighs}", examples)


def pairs(parts: Parts) -> Iterator[tuple[Part, Part]]:
    """Every two parts; the one whose score a repetition spoils comes first."""
    yield from combinations(sorted(parts.texts, key=lambda part: ORDER.index(part.name)), 2)


# What a text in both parts means where it makes a score too good, and where it does not.
SPOILT: Final = {
    finding.UNLABELLED: "read before the test by every method that reads target text",
    finding.TRAIN: "trained on with its label",
    finding.DEV: "used to choose the checkpoint",
    finding.TARGET_TRAIN: "trained on by the in-domain ceiling",
}
HARMLESS: Final = {
    finding.TEST: "two test sets",
    finding.SOURCE_TEST: "two test sets",
    finding.DEV: "the checkpoint is chosen on text that adaptation reads too",
}


def grade_copies(counted: Part, others: Part, texts: int, exact: bool = True) -> tuple[str, str]:
    """How bad it is that so many texts of a part stand in another too, and what to do about it."""
    share = texts / len(counted.records) if texts > 1 else 0.0
    known = "severe" if share >= SEVERE else "warning" if share >= FEW_COPIES else "note"
    if counted.name in (finding.TEST, finding.SOURCE_TEST) and others.name in SPOILT:
        return known, f"{SPOILT[others.name]}: print the clean score beside the published one"
    if (counted.name, others.name) == (finding.DEV, finding.TRAIN):
        return known, "the score that chooses the checkpoint rewards memory: hold out whole groups of repeats"
    grade = "warning" if share >= SEVERE and exact else "note"
    return grade, HARMLESS.get(counted.name, "the same text in both parts")


def near_duplicates(parts: Parts) -> Iterator[Finding]:
    """Near duplicates across parts and within them; exact ones are told elsewhere and left out."""
    keys = list(dict.fromkeys(key for part in parts.texts for key in part.keys))
    near: dict[str, set[str]] = defaultdict(set)
    for first, second, _ in similar_pairs(keys):
        near[keys[first]].add(keys[second])
        near[keys[second]].add(keys[first])
    for counted, others in (*pairs(parts), *((part, part) for part in parts.texts)):
        across, there = counted is not others, set(others.keys)
        alike = [i for i, k in enumerate(counted.keys) if k in near and near[k] & there and not (across and k in there)]
        if alike:
            grade, text = "note", f"have a near duplicate in it (Jaccard {SIMILAR} or more)"
            if across:
                grade, why = grade_copies(counted, others, len(alike), exact=False)
                text = f"have a near duplicate in the {others.name} and no exact one (Jaccard {SIMILAR} or more): {why}"
            examples = _side_by_side(counted, alike, others, near)
            yield counted.finding("near duplicates", grade, len(alike), text, examples)
    long = sum(len(key.encode()) > COMPARED_BYTES for key in keys)
    if long:
        text = f"{long} texts are longer than {COMPARED_BYTES} bytes and were compared by their beginning alone."
        yield Finding("near duplicates", "note", 0.0, text, {"texts": long})


def _side_by_side(counted: Part, indices: list[int], others: Part, near: dict[str, set[str]]) -> list[str]:
    where = {key: i for i, key in reversed(list(enumerate(others.keys)))}
    examples, seen = list[str](), set[str]()
    for i in indices:
        other = min(near[counted.keys[i]] & where.keys(), key=lambda key: where[key])
        if other not in seen:  # the same two the other way round say nothing new
            examples.append(f"{shortened(counted.records[i].text)} ≈ {shortened(others.records[where[other]].text)}")
        seen.add(counted.keys[i])
    return examples[:EXAMPLES]


OFTEN: Final = 0.01  # of the labelled texts: from here on conflicts are a warning
LUCK: Final = 0.1  # the same of the target's, severe: so much of its score is luck
REMEDIES: Final = {"source": "training is told both", "target": "no model can get all of them right"}


def conflicts(parts: Parts) -> Iterator[Finding]:
    """Groups of one text that disagree, in each domain and between the two."""
    for name, sides in (("source", SIDES[:1]), ("target", SIDES[1:]), ("source and target together", SIDES)):
        groups: dict[str, list[tuple[str, Record]]] = defaultdict(list)
        for part in (part for side in sides for part in parts.labelled[side]):
            for key, record in zip(part.keys, part.records, strict=True):
                groups[key].append((part.side, record))
        wanted = [g for g in groups.values() if len(g) > 1 and {side for side, _ in g} == {*sides}]
        for what in ("labels", "spans"):
            known = [[(side, r) for side, r in group if answer_of(r, what) is not None] for group in wanted]
            differing = [[r for _, r in group] for group in known if disagree(group, what, sides)]
            if not differing:
                continue
            texts, total = sum(map(len, differing)), sum(map(len, groups.values()))
            share = texts / total
            grade = "severe" if share >= LUCK and name == "target" else "warning" if share >= OFTEN else "note"
            remedy = REMEDIES.get(name, "the two domains are annotated by different rules, or without care")
            repeated = sum(len(group) > 1 for group in known)
            text = (
                f"Of {repeated} texts that are labelled more than once in the {name}, {len(differing)} carry different "
                f"{what} ({texts} of {total} records, {percent(share)}): {remedy}."
            )
            numbers = {"conflicting": len(differing), "repeated": repeated, "records": texts, "of": total}
            examples = tuple(_difference(group, what) for group in differing[:EXAMPLES])
            yield Finding("conflicts", grade, share, text, numbers, examples)


def disagree(group: Sequence[tuple[str, Record]], what: str, sides: Sequence[str]) -> bool:
    """Whether one domain contradicts itself, or two share no answer: what one says against itself is not both's."""
    told = [{answer_of(record, what) for own, record in group if own == side} for side in sides]
    return len(told[0]) > 1 if len(told) == 1 else all(told) and told[0].isdisjoint(told[1])


def answer_of(record: Record, what: str) -> Any:
    """A record's label, or its spans in a form that does not depend on case, whitespace and tokenisation."""
    if what == "labels" or record.spans is None:
        return record.label if what == "labels" else None
    parts = [(s.type, record.text[: s.start], record.text[s.start : s.end]) for s in record.spans]
    return frozenset((kind, len(letters(before)), letters(covered)) for kind, before, covered in parts)


def spelling(parts: Parts) -> Iterator[Finding]:
    """Labels, and types of spans, that differ in case or spaces alone."""
    records = [record for side in SIDES for record in parts.records(side)]
    names = [r.label for r in records if r.label is not None], [s.type for r in records for s in r.spans or ()]
    for what, count in zip(("labels", "span types"), map(Counter, names), strict=True):
        alike: dict[str, list[str]] = defaultdict(list)
        for name, _ in count.most_common():
            alike[" ".join(unicodedata.normalize("NFKC", name).casefold().split())].append(name)
        for most, *rare in (same for same in alike.values() if len(same) > 1):
            forms = ", ".join(
                f"{cut(name, 30)[0]!r} ({count[name]} time{'s' * (count[name] > 1)})" for name in (most, *rare)
            )
            fix = f"write {cut(most, 30)[0]!r} everywhere in your files, if they mean the same"
            differ = f"{what.capitalize()} differ in case or spaces alone: {forms}"
            text = f"{differ}. They are learnt and scored as different: {fix}."
            number = sum(count[name] for name in rare)
            yield Finding("spelling", "severe", number / count.total(), text, {"rare": number, "of": count.total()})


def _difference(group: list[Record], what: str) -> str:
    if what == "labels":
        return f"{shortened(group[0].text)}: {', '.join(sorted({shortened(str(r.label), 20) for r in group}))}"
    first, second = list({answer_of(record, what): record for record in group}.values())[:2]
    only = (
        [
            f"{shortened(record.text[s.start : s.end], 30)} ({shortened(s.type, 20)})"
            for s in record.spans or ()
            if not answer_of(replace(record, spans=(s,)), what) <= answer_of(other, what)
        ]
        for record, other in ((first, second), (second, first))
    )
    return f"{shortened(first.text)}: in one {', in another '.join(', '.join(spans) or 'nothing' for spans in only)}"


# Where tags tell B from I, one pair of neighbours of a type touches for every 6 to 20 pairs with one word between them
# (aspects and opinions of devices, laptops, restaurants). At 1 in 20, 90 such pairs leave none touching once in 100
# times. Aspects alone touch less: never in 176 such pairs of laptops, 3 times in 386 of restaurants. So this is a
# question to the owner and no proof, unless spans of different types do touch.
ENOUGH_TEXTS: Final = 90
MANY_WITHOUT: Final = 0.2  # share of sentences without a span from which leaving them out changes the task


def annotation(parts: Parts) -> Iterator[Finding]:
    """Spans that no tags can say, merged neighbours, and texts without spans, in each domain."""
    known = {side: [r for r in parts.records(side) if r.spans is not None] for side in SIDES}
    spans = {side: records for side, records in known.items() if any(r.spans for r in records)}
    for side, records in spans.items():
        crossed, inside = map(sum, zip(*map(unsayable, records), strict=True))
        if crossed or inside:
            text = (
                f"In {parts.domains[side]}, {crossed} spans overlap another, and {inside} begin or end inside a word. "
                f"Of spans that overlap the first is learnt; of a word all of it. Predictions hardly ever equal such "
                f"spans, and scores count them as missed: mend the file."
            )
            if unit := offset_unit(records):
                text += f" Their offsets seem to count {unit}; expected characters."
            examples = tuple(shortened(r.text) for r in records if any(unsayable(r)))[:EXAMPLES]
            numbers = {"overlapping": crossed, "inside_words": inside}
            yield Finding("annotation", "warning", (crossed + inside) / len(records), text, numbers, examples)
        between, others = gaps(records), gaps(records, one_type=False)[0]
        if between[0] or between[1] < ENOUGH_TEXTS:
            continue
        evidence = "either the texts have no such neighbours, or they were merged"
        if others:
            merged = "so neighbours of one type were most likely merged"
            evidence = f"spans of different types do ({others} times), {merged}"
        text = (
            f"In {parts.domains[side]}, {between[1]} pairs of spans of one type have a single word between them and "
            f"not one pair touches; {evidence}, as happens where the original tags had no B and I. Exact-span scores "
            f"then count two terms as one: ask the owner, and say so beside a score."
        )
        numbers = {"touching": between[0], "one_word_between": between[1], "different_touching": others}
        yield Finding("annotation", "warning", min(1.0, between[1] / len(records)), text, numbers)
    empty = {parts.domains[s]: (sum(not r.spans for r in records), len(records)) for s, records in spans.items()}
    shares = [without / total for without, total in empty.values()]
    if any(shares):
        listed = ", ".join(f"{e} of {t} in {name} ({percent(e / t)})" for name, (e, t) in empty.items())
        text = (
            f"Texts without any span: {listed}. Some published works leave them out, which changes precision and the "
            f"task; they are kept here: say so beside a score."
            + (" One domain has hardly any: somebody may have left them out." if min(shares) < 0.02 else "")
        )
        numbers = {f"{name} {what}": n for name, pair in empty.items() for what, n in zip(("empty", "of"), pair)}
        yield Finding("annotation", "warning" if max(shares) >= MANY_WITHOUT else "note", max(shares), text, numbers)


OFFSET_UNITS: Final = {"UTF-16 units, as JavaScript does": ("utf-16-le", 2), "bytes of UTF-8": ("utf-8", 1)}


def offset_unit(records: Sequence[Record]) -> str:
    """In which unit nearly all spans that begin inside a word would begin before one; empty if there is none.

    >>> from domadapt.data.records import Span
    >>> text = "\N{GRINNING FACE} A big fan"
    >>> offset_unit([Record("1", "fans", text, spans=(Span(5, 8, "part"),))]), text[5:8]
    ('UTF-16 units, as JavaScript does', 'ig ')
    """
    starts = [(r.text, s.start) for r in records for s in r.spans or () if inside_word(r.text, s.start)]
    right = dict.fromkeys(OFFSET_UNITS, 0)
    for unit, (encoding, size) in OFFSET_UNITS.items():
        for text, start in starts:
            before = text.encode(encoding)[: start * size].decode(encoding, "ignore")
            right[unit] += not inside_word(text, len(before))
    unit, most = max(right.items(), key=lambda one: one[1])
    return unit if starts and most >= 0.9 * len(starts) else ""


def gaps(records: Sequence[Record], one_type: bool = True) -> Counter[int]:
    """How many words stand between two spans, of one type or of two, that follow each other."""
    return Counter(
        len(record.text[first.end : second.start].split())
        for record in records
        for first, second in pairwise(sorted(record.spans or (), key=lambda span: (span.start, span.end)))
        if (first.type == second.type) == one_type and first.end <= second.start  # of two that overlap, none
    )
