"""Put a tokenised text together again, its spans and tokens moved along."""

import re
from typing import Final

from domadapt.data.edits import Edit, edited
from domadapt.data.normal import BRACKETS
from domadapt.data.records import Record

_BEFORE: Final = re.compile(
    r" +(?=(?:[.,!?;:%)\]}]|\.{2,}|[!?]{2,}|''|n['’]t|['’](?:s|m|re|ve|ll|d))(?: |$))", re.IGNORECASE
)
_AFTER: Final = re.compile(r"(?:(?<=^[(\[{$#])|(?<= [(\[{$#])|(?<=``)) +")
_BRACKET: Final = re.compile(r"-[lr][rsc]b-", re.IGNORECASE)


def detokenised(record: Record) -> Record:
    """The same record without the spaces that a tokeniser put beside punctuation and contractions.

    Args:
        record: any; of one that is not tokenised little changes.

    >>> found = detokenised(Record("1", "camera", "It is n't -LRB- too -RRB- big , `` honest '' ."))
    >>> found.text
    'It isn\\'t (too) big, "honest".'
    """
    plain = edited(record, (Edit(m.start(), m.end(), BRACKETS[m[0].lower()]) for m in _BRACKET.finditer(record.text)))
    spaces = {m.span() for pattern in (_BEFORE, _AFTER) for m in pattern.finditer(plain.text)}
    whole = edited(plain, (Edit(*place, "") for place in _apart(spaces)))
    return edited(whole, (Edit(m.start(), m.end(), '"') for m in re.finditer("``|''", whole.text)))


def _apart(places: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places that do not overlap, in their order."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept
