"""Records: what is accepted, what is refused with which words, and tags against spans."""

import pickle
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.data import records
from domadapt.data.records import MISSING, DataError, Location, Record, Span, bio_tags, from_tokens, quoted
from domadapt.utils.pairs import BOUNDARY

HERE = Location("some.jsonl", 7)
TYPES = st.sampled_from(["aspect", "opinion", "POS", "NEG"])
TOKENS = st.text(min_size=1, max_size=6).filter(lambda token: bool(token.strip()))


def parsed(obj: object, labelled: bool = True, warnings: Counter[str] | None = None) -> Record:
    return records.parse_record(obj, HERE, "camera", labelled, Counter() if warnings is None else warnings)


@st.composite
def tagged(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Tokens with tags in which every I- continues something."""
    tokens = draw(st.lists(TOKENS, max_size=12))
    tags: list[str] = []
    for _ in tokens:
        inside = [f"I-{tags[-1][2:]}"] if tags and tags[-1] != "O" else []
        tags.append(draw(st.sampled_from(["O", f"B-{draw(TYPES)}", *inside])))
    return tokens, tags


@given(tagged())
def test_tags_come_back_from_their_spans(sentence: tuple[list[str], list[str]]) -> None:
    tokens, tags = sentence
    warnings = Counter[str]()
    text, words, spans = from_tokens(tokens, tags, HERE, warnings)
    assert [text[start:end] for start, end in words] == tokens
    assert bio_tags(words, spans, warnings) == tags and not warnings


@given(tagged(), st.data())
def test_any_span_gives_tags_that_read_back_without_repair(sentence: Any, data: st.DataObject) -> None:
    text, words, _ = from_tokens(sentence[0])
    ends = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    pairs = data.draw(st.lists(st.tuples(ends, TYPES), max_size=5))
    spans = [Span(min(pair), max(pair), kind) for pair, kind in pairs]
    warnings = Counter[str]()
    from_tokens(sentence[0], bio_tags(words, spans), HERE, warnings)
    assert not warnings


@pytest.mark.parametrize(
    ("tags", "expected", "count"),
    [("I-A I-B O", (Span(0, 1, "A"), Span(2, 3, "B")), 2), ("B-x E-x I-x", (Span(0, 3, "x"), Span(4, 5, "x")), 1)],
)
def test_a_tag_that_continues_nothing_is_repaired_and_counted(tags: str, expected: object, count: int) -> None:
    _, _, spans = from_tokens(["a", "b", "c"], tags.split(), HERE, warnings := Counter[str]())
    assert (spans, warnings) == (expected, {"I- tag that continues nothing, read as B-": count})


@pytest.mark.parametrize("scheme", ["BIES", "BILU"])
@given(lengths=st.lists(st.integers(-2, 3), min_size=1), kinds=st.data())
def test_other_schemes_say_the_same(scheme: str, lengths: list[int], kinds: st.DataObject) -> None:
    begin, inside, end, single = scheme
    bio, other = list[str](), list[str]()
    for length in lengths:
        kind = kinds.draw(st.sampled_from(["x", "y"]))
        if length <= 0:
            bio.append("O")
            other.append("O")
        else:
            bio += [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]
            middle = [f"{inside}-{kind}"] * (length - 2)
            other += [f"{single}-{kind}"] if length == 1 else [f"{begin}-{kind}", *middle, f"{end}-{kind}"]
    words = ["w"] * len(bio)
    warnings = Counter[str]()
    assert from_tokens(words, other, warnings=warnings) == from_tokens(words, bio) and not warnings


def test_spans_that_bio_cannot_say_are_counted() -> None:
    words = ((0, 5), (6, 13), (14, 18))
    spans = [Span(8, 16, "aspect"), Span(6, 13, "opinion"), Span(5, 6, "aspect")]
    warnings = Counter[str]()
    assert bio_tags(words, spans, warnings) == ["O", "B-opinion", "O"]
    assert warnings == {"span over another, left out of the tags": 1, "span on no word, left out of the tags": 1}


def test_the_three_forms_of_a_record() -> None:
    document = parsed({"id": "a", "text": "sharp", "label": "positive"})
    assert document == Record("a", "camera", "sharp", label="positive")
    tokens = parsed({"id": "a", "tokens": ["sharp", "lens"], "tags": ["B-OP", "B-ASP"]})
    spans = [{"start": 0, "end": 5, "type": "OP"}, {"start": 6, "end": 10, "type": "ASP"}]
    characters = parsed({"id": "a", "text": "sharp lens", "label": None, "spans": spans})
    assert tokens.spans == characters.spans == (Span(0, 5, "OP"), Span(6, 10, "ASP"))
    assert (tokens.words, characters.words) == (((0, 5), (6, 10)), None)
    assert parsed({"id": "a", "text": "sharp", "spans": []}).spans == ()
    # Labels can be left unread, even where they are wrong.
    record = parsed({"id": "a", "tokens": ["sharp"], "tags": ["?", "?"], "label": 7}, labelled=False)
    assert (record.label, record.spans) == (None, None)


def test_unknown_fields_and_other_domains_are_counted() -> None:
    warnings = Counter[str]()
    given_object = {"id": "a", "domain": "rest", "text": "good", "lable": "positive", "rating": "5"}
    assert parsed(given_object, warnings=warnings).domain == "camera"
    assert warnings == {"unknown field 'lable', ignored": 1, "the file's domain 'rest' is read as 'camera'": 1}


GOOD = {"id": "a", "domain": "camera", "text": "sharp"}


def test_a_text_without_tokens_may_say_so() -> None:
    assert parsed({**GOOD, "tokens": None, "tags": None}) == parsed(GOOD)


TOKENISED = {"id": "a", "domain": "camera", "tokens": ["sharp", "lens"], "tags": ["O", "O"]}


def spanned(**fields: object) -> dict[str, object]:
    return {**GOOD, "spans": [{"start": 0, "end": 2, "type": "ASP", **fields}]}


REFUSED = {
    "not an object": ([1, 2], "record is [1, 2]; expected a JSON object"),
    "no id": ({"domain": "camera", "text": "sharp"}, "id is missing; expected a string"),
    "empty id": ({**GOOD, "id": ""}, "id is ''; expected a string that is not empty"),
    "no text": ({"id": "a", "domain": "camera"}, "text is missing; expected a string"),
    "a null for a text": ({**GOOD, "text": None}, "text is None; expected a string; drop the rows without text"),
    "a missing number": ({**GOOD, "text": float("nan")}, "text is nan; expected a string; drop the rows without text"),
    "a number for a label": ({**GOOD, "label": 1}, "label is 1; expected a string"),
    "blank label": ({**GOOD, "label": " "}, "label is ' '; expected a string that is not blank, or null;"),
    "half a domain": (
        {**GOOD, "domain": "hot\udc00"},
        r"domain is '\udc00'; expected whole characters; write both halv",
    ),
    "half a tag": ({**TOKENISED, "tags": ["O", "B-\ud800"]}, r"tags[1] is '\ud800'; expected whole characters; write"),
    "a tag too few": ({**TOKENISED, "tags": ["O"]}, "number of tags is 1; expected 2, the number of tokens; give each"),
    "another scheme": ({**TOKENISED, "tags": ["O", "T-A"]}, "tags[1] is 'T-A'; expected O, B-TYPE or I-TYPE, or BIOES"),
    "half a character": ({**GOOD, "text": "a \ud83d"}, r"text is '\ud83d'; expected whole characters"),
    "half a token": ({**TOKENISED, "tokens": ["\ud83d", "b"]}, r"tokens is '\ud83d'; expected whole characters"),
    "text and tokens": ({**TOKENISED, "text": "x"}, "text is 'x'; expected text or tokens, not both"),
    "tags beside text": ({**GOOD, "tags": ["O"]}, "tags is ['O']; expected spans beside a text"),
    "spans beside tokens": ({**TOKENISED, "spans": []}, "spans is []; expected tags beside tokens"),
    "spans no list": ({**GOOD, "spans": "none"}, "spans is 'none'; expected a list of objects"),
    "tokens no list": ({**TOKENISED, "tokens": "a b"}, "tokens is 'a b'; expected a list of strings"),
    "blank token": ({**TOKENISED, "tokens": ["a", " "]}, "tokens[1] is ' '; expected a word"),
    "token no string": ({**TOKENISED, "tokens": ["a", 3]}, "tokens[1] is 3; expected a word"),
    "tag without type": ({**TOKENISED, "tags": ["O", "B-"]}, "tags[1] is 'B-'; expected O, B-TYPE or I-TYPE"),
    "tag no string": ({**TOKENISED, "tags": ["O", None]}, "tags[1] is None; expected O, B-TYPE or I-TYPE"),
    "span too long": (spanned(end=6), "spans[0] is {'end': 6, 'start': 0, 'type': 'ASP'}; expected 0 <= start"),
    "empty span": (spanned(end=0), "spans[0] is {'end': 0, 'start': 0, 'type': 'ASP'}; expected 0 <= start"),
    "a truth value for an end": (spanned(end=True), "spans[0] is {'end': True, 'start': 0, 'type': 'ASP'}; expected"),
    "no span": ({**GOOD, "spans": [4]}, "spans[0] is 4; expected an object with start, end and type, or text and type"),
    "a span of other words": (spanned(text="x"), "spans[0] is {'end': 2, 'start': 0, 'text': 'x', 'type': 'ASP'}"),
    "a type that Hydra would read": (spanned(type="${x}"), "spans[0] type is '${x}'; expected a name without '${'"),
    "a label that Hydra would read": ({**GOOD, "label": "${x}"}, "label is '${x}'; expected a name without '${'"),
    "half a pair": ({**GOOD, "text_pair": " "}, "text_pair is ' '; expected text"),
    "a pair's number": ({**GOOD, "text_pair": 3}, "text_pair is 3; expected a string"),
    "a pair of tokens": ({**TOKENISED, "text_pair": "x"}, "text_pair is 'x'; expected text or tokens, not both"),
    "a boundary": ({**GOOD, "text": f"a{BOUNDARY}", "text_pair": "x"}, f"text is 'a{BOUNDARY}'; expected text"),
}


@pytest.mark.parametrize(("obj", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(obj: object, message: str) -> None:
    with pytest.raises(DataError) as refused:
        parsed(obj)
    assert str(refused.value).startswith(f"some.jsonl:7: {message}") and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("said", "read"), [(0, 0.0), (0.5, 0.5), ("0.25", 0.25), ("", None), (None, None), (95, None), (True, None),
                       ("high", None), (float("nan"), None), ([1], None), (10**400, None)]
)  # fmt: skip
def test_what_a_file_is_sure_of_is_a_probability_or_counted(said: object, read: float | None) -> None:
    spans = [{**where, "type": "ASP", "confidence": said} for where in ({"start": 0, "end": 2}, {"text": "p"})]
    warnings = Counter[str]()
    about = {"label": "good", "spans": spans, "confidence": said}
    record = parsed({**GOOD, "text": "sh p", **about}, warnings=warnings)
    assert [record.confidence, *(span.confidence for span in record.spans or ())] == [read] * 3
    assert record.spans == (Span(0, 2, "ASP"), Span(3, 4, "ASP")) and record == replace(record, confidence=None)
    assert parsed({**TOKENISED, "label": "good", "confidence": said}).confidence == read
    told = f"{records.NO_PROBABILITY}; first {records.quoted(said)} at {HERE}"
    assert warnings == ({told: 3} if read is None and said not in (None, "") else {})


@given(st.text() | st.binary() | st.recursive(st.integers() | st.text(), st.lists))
def test_a_quoted_value_is_one_short_printable_line(value: object) -> None:
    shown = quoted(value)
    assert len(shown) <= 80 and shown.isprintable()


@pytest.mark.parametrize(
    ("text", "quote", "place"), [("कीमत की बात", "की", 5), ("cafe\u0301 cafe", "cafe", 6), ("นี้TV", "TV", 3)]
)
def test_a_quote_ends_before_no_mark_of_its_word(text: str, quote: str, place: int) -> None:
    spans = parsed({"id": "1", "text": text, "spans": [{"text": quote, "type": "aspect"}]}).spans
    assert spans == (Span(place, place + len(quote), "aspect"),)


def test_an_error_survives_pickling() -> None:
    error = DataError(HERE, "label", 7, "a string", "quote it")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert quoted(MISSING) == "missing"
