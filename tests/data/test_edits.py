"""Edits of labelled text: what is not edited stays, with its labels, wherever it moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.data.records import Record, Span, from_tokens
from domadapt.data.texts import Edit, edited

WORD = st.text("aéß漢🙂b", min_size=1, max_size=4)


@st.composite
def edits_of_words(draw: st.DrawFn) -> tuple[list[str], list[int], dict[int, list[str]]]:
    """Words, a type for each (0 for none), and for some of them the words that replace them."""
    words = draw(st.lists(WORD, min_size=1, max_size=8))
    types = draw(st.lists(st.integers(0, 2), min_size=len(words), max_size=len(words)))
    places = draw(st.sets(st.integers(0, len(words) - 1)))
    return words, types, {place: draw(st.lists(WORD, min_size=1, max_size=3)) for place in places}


@given(edits_of_words(), st.booleans())
def test_against_rebuilding_the_sentence_word_by_word(
    case: tuple[list[str], list[int], dict[int, list[str]]], tokens: bool
) -> None:
    words, types, new = case

    def record(parts: list[list[str]]) -> Record:
        flat = [word for part in parts for word in part]
        tags = [f"B-{t}" if i == 0 else f"I-{t}" for part, t in zip(parts, types) for i in range(len(part))]
        tags = ["O" if tag.endswith("-0") else tag for tag in tags]
        text, ranges, spans = from_tokens(flat, tags)
        return Record("1", "camera", text, ranges if tokens else None, spans=spans)

    before = record([[word] for word in words])
    after = record([new.get(i, [word]) for i, word in enumerate(words)])
    places = from_tokens(words)[1]
    made = edited(before, [Edit(*places[i], " ".join(parts)) for i, parts in new.items()])
    assert (made.text, made.words, made.spans) == (after.text, after.words, after.spans)


@pytest.mark.parametrize("edits", [[Edit(0, 5, "a"), Edit(4, 8, "b")], [Edit(3, 3, "a")]])
def test_edits_that_overlap_or_are_empty(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match=r"record 1: the edits .* overlap, or are empty"):
        edited(Record("1", "camera", "The lens is sharp"), edits)


def test_an_edit_that_cuts_a_span() -> None:
    record = Record("1", "camera", "The lens is sharp", spans=(Span(4, 8, "aspect"),))
    with pytest.raises(ValueError, match="record 1: an edit cuts what begins or ends at character 4"):
        edited(record, [Edit(2, 6, "x")])
