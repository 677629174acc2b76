"""Other words in a record's text, its labels moved along."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from domadapt.data.records import Record, Span


class Edit(NamedTuple):
    """A stretch of a text, in characters, end exclusive, and what stands there instead."""

    start: int
    end: int
    text: str


def edited(record: Record, edits: Iterable[Edit]) -> Record:
    """A record with other words in some places; spans and the owner's tokens move along.

    Args:
        record: labelled or not.
        edits: that overlap neither each other nor a part of a span or token: each covers whole ones, or none.

    Returns:
        A record with the same id. An edit's words, apart by spaces, are its tokens.

    Raises:
        ValueError: edits overlap, or one cuts a span.

    >>> record = Record("1", "camera", "The lens is good", spans=(Span(4, 8, "aspect"), Span(12, 16, "opinion")))
    >>> changed = edited(record, [Edit(4, 8, "battery life")])
    >>> changed.text, [changed.text[s.start : s.end] for s in changed.spans]
    ('The battery life is good', ['battery life', 'good'])
    """
    ordered = sorted(edits)
    parts, moves, end, grown = [], list[tuple[int, int, int]](), 0, 0
    for edit in ordered:
        if edit.start < end or edit.end <= edit.start:
            raise ValueError(f"record {record.id}: the edits {ordered} overlap, or are empty")
        parts += [record.text[end : edit.start], edit.text]
        end = edit.end
        moves.append((edit.start, edit.end, grown := grown + len(edit.text) - (edit.end - edit.start)))
    text = "".join([*parts, record.text[end:]])

    def moved(place: int) -> int:
        """Where a border between characters is now, if no edit has swallowed it."""
        if any(start < place < stop for start, stop, _ in moves):
            raise ValueError(f"record {record.id}: an edit cuts what begins or ends at character {place}")
        return place + next((by for _, stop, by in reversed(moves) if stop <= place), 0)

    spans = record.spans and tuple(Span(moved(s.start), moved(s.end), s.type) for s in record.spans)
    words = None
    if record.words is not None:
        inside = {edit.start: edit for edit in ordered}
        found: list[tuple[int, int]] = []
        for start, stop in record.words:
            if start in inside:
                place = moved(start)
                for word in inside[start].text.split():
                    place = text.index(word, place)
                    found.append((place, place + len(word)))
                    place += len(word)
            elif not any(edit.start < start < edit.end for edit in ordered):
                found.append((moved(start), moved(stop)))
        words = tuple(found)
    return replace(record, text=text, words=words, spans=spans)
