"""Case and tokenisation of each part, counted: what betrays who prepared a text, and not what it is about."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Final

from domadapt.auditing.finding import EXAMPLES, Finding, percent, shown
from domadapt.auditing.parts import Part, Parts

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
