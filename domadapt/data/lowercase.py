"""Lower-case a record: its words and spans move along where a character gets longer."""

from dataclasses import replace
from itertools import accumulate

from domadapt.data.records import Record, Span


def lowercased(record: Record) -> Record:
    """The same record in lower case.

    'İ' becomes two characters, so that every offset after it moves.

    Args:
        record: any.

    >>> record = lowercased(Record("1", "hotels", "İzmir Bay", words=((0, 5), (6, 9)), spans=(Span(6, 9, "place"),)))
    >>> record.text[record.spans[0].start : record.spans[0].end], record.words
    ('bay', ((0, 6), (7, 10)))
    """
    text = record.text.lower()
    moved = list(accumulate((len(character.lower()) for character in record.text), initial=0))
    return replace(
        record,
        text=text,
        words=None if record.words is None else tuple((moved[start], moved[end]) for start, end in record.words),
        spans=None if record.spans is None else tuple(Span(moved[s.start], moved[s.end], s.type) for s in record.spans),
    )


def lower_in_place(text: str) -> str:
    """Lower case, with every character where it was: those that would become two stay.

    >>> lower_in_place("İzmir BAY")
    'İzmir bay'
    """
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)
