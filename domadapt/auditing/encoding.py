"""Damage done to characters before the corpus got here: lost ones, misread ones, invisible ones, HTML."""

import html
import re
from collections.abc import Callable, Iterator
from typing import Final

from domadapt.auditing.finding import EXAMPLES, Finding, percent, shown
from domadapt.auditing.parts import Parts

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
