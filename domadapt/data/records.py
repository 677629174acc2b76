"""Records: labelled text with its label or spans, and errors that name file, line and fix."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import Repr
from typing import Any, Final

from domadapt.utils.pairs import BOUNDARY, paired

_WIDTH: Final = 80
_short = Repr()
_short.maxstring = _short.maxother = _short.maxlong = _WIDTH


class Unquoted:
    """What is told of a value without quotes, since it stands in no file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


MISSING: Final = Unquoted("missing")


@dataclass(frozen=True, slots=True)
class Location:
    """A file and, where one is known, a line of it (counted from 1)."""

    path: Path | str
    line: int | None = None

    def __str__(self) -> str:
        # A file name may hold control characters too; a terminal must not obey them.
        path = repr(str(self.path))[1:-1]
        return path if self.line is None else f"{path}:{self.line}"


def quoted(value: object) -> str:
    """The value as it can be shown in a log: on one line, control characters escaped, at most 80 characters.

    >>> len(quoted("long " * 1000))
    80
    """
    # Cut first: the text may be a megabyte. The end goes, because the start is what one searches for.
    shown = repr(value[:_WIDTH]) if isinstance(value, str) else _short.repr(value)
    return shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…"


class DataError(ValueError):
    """A file that cannot be used as it is, or a value that came from none (``where`` is None).

    ``field`` is what is wrong, a field, a column, a byte; ``value`` what was found there, ``MISSING`` for nothing.

    >>> print(DataError(Location("a.jsonl", 3), "label", 7, "a string or null", "write it in quotes"))
    a.jsonl:3: label is 7; expected a string or null; write it in quotes
    """

    def __init__(self, where: Location | None, field: str, value: object, expected: str, fix: str) -> None:
        # All five go to the base class, so that the error survives pickling between processes.
        super().__init__(where, field, value, expected, fix)
        self.where, self.field, self.value, self.expected, self.fix = where, field, value, expected, fix

    def __str__(self) -> str:
        place = "" if self.where is None else f"{self.where}: "
        return f"{place}{self.field} is {quoted(self.value)}; expected {self.expected}; {self.fix}"


# What BIO calls the prefixes of BIOES (end, single) and BILOU (last, unit). After these, nothing continues.
_ENDS: Final = {"E": "I", "L": "I", "S": "B", "U": "B"}
_PREFIXES: Final = {"B": "B", "I": "I"} | _ENDS

Words = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A typed stretch of a record's text, in characters, end exclusive.

    ``confidence`` (0 to 1): its words' tags' mean probability, or what a file says. Spans are equal whatever it is.
    """

    start: int
    end: int
    type: str
    confidence: float | None = field(default=None, compare=False, repr=False)


def split_tag(tag: object, where: Location | None = None, field: str = "tag") -> tuple[str, str]:
    """The prefix (B, I or O) and the type of a tag in BIO, BIOES or BILOU.

    >>> split_tag("B-ASP"), split_tag("E-ASP"), split_tag("U-POS"), split_tag("O")
    (('B', 'ASP'), ('I', 'ASP'), ('B', 'POS'), ('O', ''))
    """
    if tag == "O":
        return "O", ""
    if isinstance(tag, str) and tag[:1] in _PREFIXES and tag[1:2] == "-" and len(tag) > 2:
        return _PREFIXES[tag[0]], tag[2:]
    raise DataError(where, field, tag, "O, B-TYPE or I-TYPE, or BIOES or BILOU", "convert the tags to BIO")


def from_tokens(
    tokens: Sequence[object],
    tags: Sequence[object] | None = None,
    where: Location | None = None,
    warnings: Counter[str] | None = None,
) -> tuple[str, Words, tuple[Span, ...] | None]:
    """Text, word ranges and spans of a tokenised sentence that is tagged in BIO, BIOES or BILOU; no tags, no spans.

    ``warnings`` count what continues nothing, such as an ``I-`` after ``O``: read as ``B-``, as CoNLL's scorer does.
    """
    words: list[tuple[int, int]] = []
    start = 0
    for position, token in enumerate(tokens):
        if not isinstance(token, str) or not token.strip():
            raise DataError(where, f"tokens[{position}]", token, "a word", "drop the token and its tag")
        words.append((start, start + len(token)))
        start += len(token) + 1
    spans = None if tags is None else tuple(_spans(words, tags, where, warnings))
    return " ".join(map(str, tokens)), tuple(words), spans


def _spans(
    words: Sequence[tuple[int, int]], tags: Sequence[object], where: Location | None, warnings: Counter[str] | None
) -> Iterable[Span]:
    if len(words) != len(tags):
        fix = "give each token one tag"
        raise DataError(where, "number of tags", len(tags), f"{len(words)}, the number of tokens", fix)
    spans: list[Span] = []
    continues: str | None = None
    for position, ((start, end), tag) in enumerate(zip(words, tags, strict=True)):
        prefix, kind = split_tag(tag, where, f"tags[{position}]")
        if prefix == "I" and kind == continues:
            spans[-1] = Span(spans[-1].start, end, kind)
        elif prefix != "O":
            spans.append(Span(start, end, kind))
            if prefix == "I" and warnings is not None:
                warnings["I- tag that continues nothing, read as B-"] += 1
        continues = None if prefix == "O" or str(tag)[0] in _ENDS else kind
    return spans


def bio_tags(words: Words, spans: Iterable[Span], warnings: Counter[str] | None = None) -> list[str]:
    """One BIO tag a word; the inverse of :func:`from_tokens`.

    A span that begins or ends inside a word is snapped outward to the whole word, and counted. BIO cannot say that
    spans overlap: the one that starts first stays, of two that start together the longer.
    """
    counted = Counter[str]() if warnings is None else warnings
    tags = ["O"] * len(words)
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        covered = [index for index, (start, end) in enumerate(words) if start < span.end and span.start < end]
        if not covered:
            counted["span on no word, left out of the tags"] += 1
        elif any(tags[index] != "O" for index in covered):
            counted["span over another, left out of the tags"] += 1
        else:
            if (words[covered[0]][0], words[covered[-1]][1]) != (span.start, span.end):
                counted["span off word boundaries, snapped outward"] += 1
            for index in covered:
                tags[index] = f"I-{span.type}"
            tags[covered[0]] = f"B-{span.type}"
    return tags


FIELDS: Final = frozenset({"id", "domain", "text", "text_pair", "tokens", "label", "tags", "spans", "confidence"})
# Met in published corpora, or written by predict, and not needed here. Any other is counted: it may be a misspelt one.
KNOWN_EXTRAS: Final = frozenset(
    {"product", "rating", "text_detok", "dup_in_file", "perl_dev_splits", "pos", "title", "source", "date", "split"}
    | {"truncated"}
)
NO_PROBABILITY: Final = "confidence that is no number from 0 to 1, ignored"
# What programs write for nothing, letter by letter: NONE and none are classes of published corpora.
NO_LABEL: Final = frozenset({"NaN", "nan", "None", "null", "NULL", "<NA>", "#N/A"})
_AS_NONE: Final = ", read as no label"


@dataclass(frozen=True, slots=True)
class Record:
    """The record: one text, whose it is, and what is known about it. Every reader ends here.

    ``words`` are the character ranges of the owner's tokens, where the corpus came tokenised. ``spans`` is
    None where nobody annotated, and empty where somebody did and found nothing. ``where`` it was read is for errors.
    ``confidence`` (0 to 1) is that of the label, where whoever wrote it says so.
    """

    id: str
    domain: str
    text: str
    words: Words | None = None
    label: str | None = None
    spans: tuple[Span, ...] | None = None
    where: Location | None = field(default=None, compare=False, repr=False)
    confidence: float | None = field(default=None, compare=False, repr=False)


RENAMED = "the file's domain"


def parse_record(obj: object, where: Location, domain: str, labelled: bool, warnings: Counter[str]) -> Record:
    """A record from a decoded JSON object, with nothing guessed.

    That is ``{"id", "text"}`` or ``{"id", "tokens"}``, with ``label``; with ``text_pair``, the second text of a pair,
    or ``spans`` (a list of ``{"start", "end", "type"}``) beside a text, ``tags`` (BIO) beside tokens. It is of
    ``domain``, whatever it says. Unless ``labelled``, labels, spans and tags stay unread. ``warnings`` counts unknown
    fields, other domains, mended labels and repaired tags.
    """
    if not isinstance(obj, Mapping):
        raise DataError(where, "record", obj, "a JSON object", 'write {"id": ..., "domain": ..., "text": ...}')
    for name in obj.keys() - FIELDS - KNOWN_EXTRAS:
        warnings[f"unknown field {quoted(name)}, ignored"] += 1
    identifier = _string(obj, "id", where)
    if "domain" in obj and obj["domain"] != domain:
        check_encodable(str(obj["domain"]), "domain", where)
        warnings[f"{RENAMED} {quoted(obj['domain'])} is read as {quoted(domain)}"] += 1
    label = _label(obj, where, warnings) if labelled and obj.get("label") is not None else None
    confidence = _confidence(obj, where, warnings) if label is not None else None
    if obj.get("tokens") is None:  # null where a table has both
        text = _text(obj, where)
        spans = _spans_of_records(obj, text, where, warnings) if labelled else None
        return Record(identifier, domain, text, None, label, spans, confidence=confidence)
    if given := [name for name in ("text", "text_pair") if obj.get(name) is not None]:
        raise DataError(where, given[0], obj[given[0]], "text or tokens, not both", "drop one of the two")
    if labelled and obj.get("spans") is not None:
        raise DataError(where, "spans", obj["spans"], "tags beside tokens", "give BIO tags, or a text")
    tags = _list(obj, "tags", where) if labelled and obj.get("tags") is not None else None
    for position, tag in enumerate(tags or ()):
        check_encodable(str(tag), f"tags[{position}]", where)
    text, words, spans = from_tokens(_list(obj, "tokens", where), tags, where, warnings)
    check_encodable(text, "tokens", where)
    return Record(identifier, domain, text, words, label, spans, confidence=confidence)


def _text(obj: Mapping[str, object], where: Location) -> str:
    """Its text, or its two as one."""
    text = _string(obj, "text", where)
    if obj.get("text_pair") is None:
        return text
    other = _string(obj, "text_pair", where)
    for name, part in (("text", text), ("text_pair", other)):
        if not part.strip():
            raise DataError(where, name, part, "text, as the other one of the pair has", "fill it in, or drop the pair")
        if BOUNDARY in part:
            raise DataError(where, name, part, f"text without {BOUNDARY}, which parts the two of a pair", "drop it")
    return paired(text, other)


def _label(obj: Mapping[str, object], where: Location, counted: Counter[str]) -> str | None:
    if isinstance(several := obj["label"], list):
        raise DataError(where, "label", several, "one label for each text", "keep one, or leave the text out")
    label = _string(obj, "label", where)
    if not label.strip():
        raise DataError(where, "label", label, "a string that is not blank, or null", "fill it in")
    if label.strip() in NO_LABEL:
        counted[f"label {quoted(label.strip())}{_AS_NONE}"] += 1
        return None
    _check_name(label, "label", where)
    if label != label.strip():
        counted["spaces around a label, dropped"] += 1
    return label.strip()


def labels_as_none(counted: Counter[str]) -> str:
    """What to add where labels are missing: those that were read as none.

    >>> labels_as_none(Counter({"label 'null', read as no label": 30, "blank text, dropped": 1}))
    " (30 times: label 'null', read as no label)"
    """
    return "".join(f" ({count} times: {what})" for what, count in counted.items() if what.endswith(_AS_NONE))


def _confidence(obj: Mapping[str, object], where: Location, counted: Counter[str]) -> float | None:
    """How sure whoever wrote a label or a span says to be; None where nothing is said, or not as a probability."""
    value: Any = obj.get("confidence")
    if value is None or value == "":
        return None
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if 0 <= number <= 1:
        return number
    earlier = (message for message in counted if message.startswith(NO_PROBABILITY))
    counted[next(earlier, f"{NO_PROBABILITY}; first {quoted(value)} at {where}")] += 1
    return None


def _check_name(name: str, field: str, where: Location) -> None:
    """A saved model names its labels and types, and refuses what OmegaConf would evaluate in them."""
    check_encodable(name, field, where)
    if "${" in name:
        raise DataError(where, field, name, "a name without '${'", "rename it")


def _string(obj: Mapping[str, object], name: str, where: Location) -> str:
    value = obj.get(name, MISSING)
    if not isinstance(value, str):
        missing = value is None or value != value  # as tables write it: null, or not a number
        fix = f"drop the rows without {name}" if missing else f'write it in quotes: "{name}": "..."'
        raise DataError(where, name, value, "a string", fix)
    if not value and name != "text":
        raise DataError(where, name, value, "a string that is not empty", "fill it in")
    check_encodable(value, name, where)
    return value


def check_encodable(value: str, name: str, where: Location) -> None:
    """Refuse half a surrogate pair, which JSON can escape; no tokeniser takes it, and no file of results."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        half = value[error.start]
        raise DataError(where, name, half, "whole characters", "write both halves of the surrogate pair") from None


def _list(obj: Mapping[str, object], name: str, where: Location) -> list[Any]:
    value = obj[name]
    if not isinstance(value, list):
        of, item = ("objects", '{"start": 4, "end": 7, "type": "..."}') if name == "spans" else ("strings", '"..."')
        raise DataError(where, name, value, f"a list of {of}", f'write "{name}": [{item}]')
    return value


# Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Chinese characters.
SPACELESS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_INSIDE: Final = re.compile(f"[^\\W{SPACELESS}]{{2}}")  # two letters or digits of a script that parts words by spaces


def _whole_words(quote: str) -> re.Pattern[str]:
    """What finds a quote where it cuts no word in two, as far as the script parts words.

    >>> pairs = ("fan", "fans"), ("屏幕", "手机屏幕很亮"), ("TV", "这TV好")
    >>> [bool(_whole_words(quote).search(text)) for quote, text in pairs]
    [False, True, True]
    """
    letter = f"[^\\W{SPACELESS}]"
    before, after = (re.match(letter, end) for end in (quote[0], quote[-1]))
    start, end = f"(?<!{letter})" if before else "", f"(?!{letter})" if after else ""
    return re.compile(f"{start}{re.escape(quote)}{end}")


def marks_as_letters(text: str) -> str:
    """With a letter for each combining mark, a part of its word that re takes for none: accents, vowels of Hindi.

    >>> marks_as_letters("cafe\u0301, cafe")
    'cafex, cafe'
    """
    return text if text.isascii() else "".join("x" if _is_mark(character) else character for character in text)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" and not re.match(f"[{SPACELESS}]", character)


def _places_of(quote: str, text: str) -> Iterator[int]:
    """Where a quote begins in a text, without cutting a word in two.

    >>> list(_places_of("cafe", "cafe\u0301, cafe"))
    [7]
    """
    found = _whole_words(marks_as_letters(quote)).finditer(marks_as_letters(text))
    return (match.start() for match in found if text.startswith(quote, match.start()))


def learnt(record: Record, kind: str) -> Record:
    """Without the annotation that a task of this kind does not learn; ``kind`` is ``sequence`` or ``token``.

    >>> learnt(Record("1", "camera", "Sharp.", label="positive", spans=()), "token").label is None
    True
    """
    return replace(record, label=None) if kind == "token" else replace(record, spans=None)


def unsayable(record: Record) -> tuple[int, int]:
    """How many of a record's spans overlap one before, and how many begin or end inside a word: BIO says neither,
    unless the parser's words are shorter than those between spaces ('5GB', 'cannot').

    >>> unsayable(Record("1", "fans", "A big fan", spans=(Span(2, 9, "a"), Span(6, 9, "a"), Span(0, 3, "a"))))
    (2, 1)
    """
    reach = crossed = inside = 0
    for span in sorted(record.spans or (), key=lambda span: (span.start, -span.end)):
        crossed, reach = crossed + (span.start < reach), max(reach, span.end)
        inside += any(inside_word(record.text, place) for place in (span.start, span.end))
    return crossed, inside


def inside_word(text: str, place: int) -> bool:
    return place > 0 and _INSIDE.match(text, place - 1) is not None


def _without_spaces(span: Span, text: str, counted: Counter[str]) -> Span:
    """No word ends in a space, so no prediction equals a span that does, as some annotation tools leave it."""
    covered = text[span.start : span.end]
    words = covered.strip()
    if words in ("", covered):
        return span
    counted["span with spaces around it, read without them"] += 1
    start = span.start + covered.index(words)
    return replace(span, start=start, end=start + len(words))


def _spans_of_records(
    obj: Mapping[str, object], text: str, where: Location, counted: Counter[str]
) -> tuple[Span, ...] | None:
    if obj.get("tags") is not None:
        raise DataError(where, "tags", obj["tags"], "spans beside a text", "give tokens with the tags")
    if obj.get("spans") is None:
        return None
    spans, quotes = list[Span](), list[tuple[str, str, float | None]]()
    for position, item in enumerate(_list(obj, "spans", where)):
        field = f"spans[{position}]"
        match item:
            # A bool is an int to Python, not to whoever wrote the file.
            case {"start": int(start), "end": int(end), "type": str(kind)} if kind and type(start) is type(end) is int:
                if not 0 <= start < end <= len(text):
                    expected = f"0 <= start < end <= {len(text)}, the length of the text"
                    raise DataError(where, field, item, expected, "count characters from 0, end exclusive")
                _check_name(kind, f"{field} type", where)
                if isinstance(covered := item.get("text"), str) and covered != text[start:end]:
                    fix = "count characters from 0, end exclusive, in this very text, or leave out start and end"
                    raise DataError(where, field, item, f"the text of its characters, {quoted(text[start:end])}", fix)
                spans.append(Span(start, end, kind, _confidence(item, where, counted)))
            case {"text": str(quote), "type": str(kind), **more} if kind and quote and not more.keys() - {"confidence"}:
                _check_name(kind, f"{field} type", where)
                quotes.append((quote, kind, _confidence(item, where, counted)))
            case _:
                fix = 'write {"start": 0, "end": 5, "type": "aspect"} or {"text": "the fan", "type": "aspect"}'
                raise DataError(where, field, item, "an object with start, end and type, or text and type alone", fix)
    for quote, kind, confidence in sorted(quotes, key=lambda given: -len(given[0])):  # 'life' not in 'battery life'
        size = len(quote)
        free = (a for a in _places_of(quote, text) if not any(s.start < a + size and a < s.end for s in spans))
        if (at := next(free, -1)) < 0:
            counted["span whose text has no place of its own in the text, left out"] += 1
        else:
            spans.append(Span(at, at + size, kind, confidence))
    once = dict.fromkeys(_without_spaces(span, text, counted) for span in spans)
    if repeats := len(spans) - len(once):  # as of a text that stands twice in a table of spans
        counted["span given twice, once kept"] += repeats
    return tuple(once)
