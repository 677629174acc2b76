"""What differs between domains: words, surface, encoding, length.

How much of the target's words, and of its terms, the source has ever shown.

Published for comparison: of the occurrences of aspect terms, devices, laptops and restaurants share 7 to 12 % with each
other, devices and laptops 42 % (Klein et al. 2022).
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from domadapt.auditing.finding import EXAMPLES, SIDES, TEST, TRAIN, UNLABELLED, Finding, Part, Parts, percent, shown
from domadapt.data.texts import words

UNSEEN = 0.05  # of the target's running words: from here on it is worth a warning


def vocabulary(parts: Parts) -> Iterator[Finding]:
    """Words, and terms of each span type, that source and target share."""
    source, target = (
        Counter(word for part in parts.side(side) for text in part.words for word in text) for side in SIDES
    )
    if not source or not target:
        return
    types, tokens = overlap(source, target)
    unseen = [word for word, _ in target.most_common() if word not in source][:8]
    yield Finding(
        "vocabulary",
        "note" if 1 - tokens < UNSEEN * 4 else "warning",
        1 - tokens,
        f"{percent(types)} of the {len(target)} different words of {shown(parts.target)} occur in "
        f"{shown(parts.source)}, and {percent(tokens)} of its running words. Commonest that don't: "
        f"{', '.join(shown(word, 20) for word in unseen) or 'none'}.",
        {"types": types, "tokens": tokens, "jaccard": len(source.keys() & target.keys()) / len(source | target)},
    )
    yield from _terms(parts, source)


def overlap(source: Counter[str], target: Counter[str]) -> tuple[float, float]:
    """Share of the target's different items, and of all their occurrences, that the source has too.

    >>> overlap(Counter("aab"), Counter("accc"))
    (0.5, 0.25)
    """
    shared = source.keys() & target.keys()
    return len(shared) / len(target), sum(target[item] for item in shared) / target.total()


def _terms(parts: Parts, source_words: Counter[str]) -> Iterator[Finding]:
    terms: dict[str, dict[str, Counter[str]]] = {side: {} for side in SIDES}
    for side in SIDES:
        for record in parts.records(side):
            for span in record.spans or ():
                term = " ".join(words(record.text[span.start : span.end]))
                terms[side].setdefault(span.type, Counter())[term] += 1
    for kind in sorted(terms["source"].keys() & terms["target"].keys()):
        source, target = terms["source"][kind], terms["target"][kind]
        types, tokens = overlap(source, target)
        common = len(source.keys() & target.keys()) / len(source.keys() | target.keys())
        seen = sum(c for t, c in target.items() if all(w in source_words for w in t.split())) / target.total()
        missed = [term for term, _ in target.most_common() if term not in source][: 2 * EXAMPLES]
        yield Finding(
            "terms",
            "note",
            1 - tokens,
            f"Of the {len(target)} different {shown(kind, 30)} terms of {shown(parts.target)}, {percent(types)} are "
            f"terms of {shown(parts.source)} too, which is {percent(tokens)} of their occurrences ({percent(common)} "
            f"of the different terms of both); {percent(seen)} of the occurrences are made of words that the source's "
            f"texts hold. "
            f"Commonest new ones: {', '.join(shown(term, 30) for term in missed) or 'none'}.",
            {"types": types, "tokens": tokens, "jaccard": common, "words_seen": seen, "terms": len(target)},
        )


APART: Final = 0.5  # difference between the shares of two parts' texts from which they are prepared in two ways
FEW: Final = 20  # texts with a mark to judge by; with fewer a part is not judged
_MARK: Final = re.compile(r"\w( ?)[.,!?;](?= |$)")  # a mark behind a word, and whether a space parts the two
_SPLIT: Final = re.compile(r"\w n't\b|\w '(?:s|m|re|ve|ll|d)\b", re.IGNORECASE)
_WHOLE: Final = re.compile(r"\wn't\b|\w'(?:s|m|re|ve|ll|d)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Surface:
    """How a part is written.

    Attributes:
        cased: share of its texts that hold an upper-case letter.
        tokenised: share of texts with punctuation or a contraction in which it is spaced off, as tokenisers do.
        judged: texts that hold such a mark.
    """

    cased: float
    tokenised: float
    judged: int


def is_tokenised(text: str) -> bool | None:
    """Whether most marks of a text stand apart from their words; None where it has none.

    >>> is_tokenised("it is n't fast , sadly ."), is_tokenised("It isn't fast, sadly."), is_tokenised("fast")
    (True, False, None)
    """
    marks = _MARK.findall(text)
    apart = sum(map(bool, marks)) + len(_SPLIT.findall(text))
    joined = len(marks) + len(_WHOLE.findall(text)) - sum(map(bool, marks))
    return apart > joined if apart + joined else None


def surface(part: Part) -> Surface:
    """Count a part's case and tokenisation.

    Owners' tokens were joined by single spaces when they were read, so such parts are tokenised as a matter of course.
    """
    cased = sum(record.text != record.text.lower() for record in part.records)
    told = [judgement for record in part.records if (judgement := is_tokenised(record.text[:2000])) is not None]
    return Surface(cased / len(part.records), sum(told) / len(told) if told else 0.0, len(told))


def surfaces(parts: Parts) -> dict[str, dict[str, float]]:
    """Each part's case and tokenisation, for ``audit.json``."""
    return {part.name: asdict(surface(part)) for part in parts.texts}


def preparation(parts: Parts) -> Iterator[Finding]:
    """Parts that are cased or tokenised in two ways; within one domain nothing excuses it."""
    known = {part.name: surface(part) for part in parts.texts}
    for what, verb in (("cased", "hold an upper-case letter"), ("tokenised", "are tokenised")):
        told = {name: getattr(found, what) for name, found in known.items() if what == "cased" or found.judged >= FEW}
        for side in ("source", "target"):
            names = [part.name for part in parts.side(side) if part.name in told]
            for a, b in combinations(names, 2):
                if abs(told[a] - told[b]) >= APART:
                    yield _finding(parts, what, verb, a, b, told, one_domain=True)
        sides = [[part.name for part in parts.side(side) if part.name in told] for side in ("source", "target")]
        gaps = [(abs(told[a] - told[b]), a, b) for a in sides[0] for b in sides[1]]
        if gaps and max(gaps)[0] >= APART:
            _, a, b = max(gaps, key=lambda gap: gap[0])
            yield _finding(parts, what, verb, a, b, told, one_domain=False)


def _finding(parts: Parts, what: str, verb: str, a: str, b: str, told: dict[str, float], one_domain: bool) -> Finding:
    where = f"Two parts of {shown(getattr(parts, a.split()[0]))}" if one_domain else "Source and target"
    remedy = {
        (
            "cased",
            True,
        ): "a domain classifier learns the case in place of the domain: lower-case both (data.lowercase=true), or "
        "take other texts",
        ("tokenised", True): "a domain classifier learns the tokeniser in place of the domain: undo the tokenisation "
        "(data.detokenise=true), or take other texts",
        ("cased", False): "part of the shift is case: report a run with both lower-cased too (data.lowercase=true)",
        ("tokenised", False): "part of the shift is the tokeniser: report a run with the tokenisation undone too "
        "(data.detokenise=true)",
    }[what, one_domain]
    examples = []
    for name in (a, b):
        part = parts.get(name)
        assert part is not None
        examples += [f"{name}: {shown(record.text)}" for record in part.records[: EXAMPLES - 1]]
    return Finding(
        "preparation",
        "severe" if one_domain else "warning",
        abs(told[a] - told[b]),
        f"{where} are prepared in two ways: {percent(told[a])} of the texts of the {a} {verb}, {percent(told[b])} of "
        f"the {b}; {remedy}.",
        {a: told[a], b: told[b]},
        tuple(examples),
    )


OFTEN: Final = 0.01  # of a part's texts: from here on damage is a warning
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff]")
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]\w{1,30});")
_TAG: Final = re.compile(r"</?(?:br|p|b|i|em|strong|div|span|a|li|ul|ol|font|script|img|hr)\b[^<>]{0,200}>", re.I)
# First characters that two- to four-byte UTF-8 sequences show when they are read as Windows-1252 or Latin-1.
_SUSPECT: Final = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u0192\u02c6-\u02dc\u2013-\u2122]{1,3}")


def misread(text: str) -> str | None:
    """The first stretch that is UTF-8 read as Windows-1252 or Latin-1; None if there is none.

    >>> misread("a cafÃ© nearby"), misread("it â€™s"), misread("Ça, São Ângelo «é»") is None
    ('Ã©', 'â€™', True)
    """
    for match in _SUSPECT.finditer(text):
        for length in range(2, len(match[0]) + 1):
            for codec in ("cp1252", "latin-1"):
                try:
                    match[0][:length].encode(codec).decode("utf-8")
                except UnicodeError:
                    continue
                return match[0][:length]
    return None


def _entity(text: str) -> bool:
    return any(html.unescape(match[0]) != match[0] for match in _ENTITY.finditer(text))


# What is looked for: does a text have it, and what to do.
DAMAGE: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "U+FFFD in place of a lost character": (lambda text: "\ufffd" in text, "find the original files"),
    "UTF-8 read as Windows-1252 (Ã© for é)": (lambda text: misread(text) is not None, "decode the file as UTF-8"),
    "control or invisible characters": (lambda text: _CONTROL.search(text) is not None, "remove them"),
    "HTML entities": (_entity, "unescape them"),
    "HTML tags": (lambda text: _TAG.search(text) is not None, "strip them"),
}


def encoding(parts: Parts) -> Iterator[Finding]:
    """Damaged texts of each part, by kind of damage."""
    for kind, (has, remedy) in DAMAGE.items():
        for part in parts.texts:
            found = [record.text for record in part.records if has(record.text)]
            if not found:
                continue
            share = len(found) / len(part.records)
            yield Finding(
                "encoding",
                "warning" if share >= OFTEN else "note",
                share,
                f"{len(found)} of {len(part.records)} texts of the {part.name} ({percent(share)}) hold {kind}: "
                f"{remedy}.",
                {"texts": len(found), "of": len(part.records)},
                tuple(shown(_around(text, has)) for text in found[:EXAMPLES]),
            )


def _around(text: str, has: Callable[[str], bool], width: int = 60) -> str:
    """The stretch of a text that holds the damage, so that an example shows it."""
    starts = range(0, min(len(text), 100_000), width // 2)
    return next((text[start : start + width] for start in starts if has(text[start : start + width])), text[:width])


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
