"""The record: one text, whose it is, and what is known about it. Every reader ends here.

Spans, tags and errors are defined in files of their own and can be imported from here.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from domadapt.data.errors import MISSING, DataError, Location, quoted
from domadapt.data.spans import CANONICAL_TYPES, Span, Words, bio_tags, from_tokens

__all__ = ["MISSING", "DataError", "Location", "Record", "Span", "Words", "bio_tags", "from_tokens", "parse_record"]

FIELDS: Final = frozenset({"id", "domain", "text", "tokens", "label", "tags", "spans"})
# Met in published corpora, not needed here. Any other field is counted: it may be a misspelt one of ours.
KNOWN_EXTRAS: Final = frozenset(
    {
        "product",
        "rating",
        "text_detok",
        "dup_in_file",
        "perl_dev_splits",
        "pos",
        "title",
        "source",
        "date",
        "split",
    }
)
# What programs write for nothing, letter by letter: NONE and none are classes of published corpora.
NO_LABEL: Final = frozenset({"NaN", "nan", "None", "null", "NULL", "<NA>", "#N/A"})


@dataclass(frozen=True, slots=True)
class Record:
    """One document or sentence.

    ``words`` are the character ranges of the owner's tokens, where the corpus came tokenised. ``spans`` is
    None where nobody annotated, and empty where somebody did and found nothing. ``where`` it was read is for errors.
    """

    id: str
    domain: str
    text: str
    words: Words | None = None
    label: str | None = None
    spans: tuple[Span, ...] | None = None
    where: Location | None = field(default=None, compare=False, repr=False)


def parse_record(
    obj: object,
    where: Location,
    *,
    domain: str | None = None,
    labelled: bool = True,
    warnings: Counter[str] | None = None,
) -> Record:
    """A record from a decoded JSON object, with nothing guessed.

    Args:
        obj: ``{"id", "domain", "text"}`` or ``{"id", "domain", "tokens"}``, with ``label``; with ``spans``
            (a list of ``{"start", "end", "type"}``) beside a text, ``tags`` (BIO) beside tokens.
        where: Its file and line.
        domain: Overrides the object's own domain, which may then be absent.
        labelled: False leaves ``label``, ``spans`` and ``tags`` unread.
        warnings: Counts unknown fields, overridden domains, mended labels and repaired tags.

    Raises:
        DataError: If a field is absent, of the wrong type or out of range.

    Example:
        >>> parse_record({"id": "a", "domain": "camera", "text": "sharp"}, Location("a.jsonl", 1))
        Record(id='a', domain='camera', text='sharp', words=None, label=None, spans=None)
    """
    if not isinstance(obj, Mapping):
        raise DataError(where, "record", obj, "a JSON object", 'write {"id": ..., "domain": ..., "text": ...}')
    counted = Counter[str]() if warnings is None else warnings
    for name in obj.keys() - FIELDS - KNOWN_EXTRAS:
        counted[f"unknown field {quoted(name)}, ignored"] += 1
    identifier = _string(obj, "id", where)
    if domain is None:
        domain = _string(obj, "domain", where)
    elif "domain" in obj and obj["domain"] != domain:
        encodable(str(obj["domain"]), "domain", where)
        counted[f"domain {quoted(obj['domain'])} read as {quoted(domain)}, as asked for"] += 1
    label = _label(obj, where, counted) if labelled and obj.get("label") is not None else None
    if "tokens" not in obj:
        text = _string(obj, "text", where)
        spans = _spans(obj, text, where) if labelled else None
        return Record(identifier, domain, text, None, label, spans)
    if "text" in obj:
        raise DataError(where, "text", obj["text"], "text or tokens, not both", "drop one of the two")
    if labelled and obj.get("spans") is not None:
        raise DataError(where, "spans", obj["spans"], "tags beside tokens", "give BIO tags, or a text")
    tags = _list(obj, "tags", where) if labelled and obj.get("tags") is not None else None
    for position, tag in enumerate(tags or ()):
        encodable(str(tag), f"tags[{position}]", where)
    text, words, spans = from_tokens(_list(obj, "tokens", where), tags, where, counted)
    encodable(text, "tokens", where)
    return Record(identifier, domain, text, words, label, spans)


def _label(obj: Mapping[str, object], where: Location, counted: Counter[str]) -> str | None:
    label = _string(obj, "label", where)
    if not label.strip():
        raise DataError(where, "label", label, "a string that is not blank, or null", "fill it in")
    if label in NO_LABEL:
        counted[f"label {quoted(label)}, read as no label"] += 1
        return None
    if label != label.strip():
        counted["spaces around a label, dropped"] += 1
    return label.strip()


def _string(obj: Mapping[str, object], name: str, where: Location) -> str:
    value = obj.get(name, MISSING)
    if not isinstance(value, str):
        raise DataError(where, name, value, "a string", f'write it in quotes: "{name}": "..."')
    if not value and name != "text":
        raise DataError(where, name, value, "a string that is not empty", "fill it in")
    encodable(value, name, where)
    return value


def encodable(value: str, name: str, where: Location) -> None:
    """Refuse half a surrogate pair, which JSON can escape; no tokeniser takes it, and no file of results.

    Raises:
        DataError: There is one.
    """
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        half = value[error.start]
        raise DataError(where, name, half, "whole characters", "write both halves of the surrogate pair") from None


def _list(obj: Mapping[str, object], name: str, where: Location) -> list[object]:
    value = obj[name]
    if not isinstance(value, list):
        raise DataError(where, name, value, "a list of strings", f'write "{name}": ["...", "..."]')
    return value


def _spans(obj: Mapping[str, object], text: str, where: Location) -> tuple[Span, ...] | None:
    if obj.get("tags") is not None:
        raise DataError(where, "tags", obj["tags"], "spans beside a text", "give tokens with the tags")
    if obj.get("spans") is None:
        return None
    spans = []
    for position, item in enumerate(_list(obj, "spans", where)):
        field = f"spans[{position}]"
        match item:
            # A bool is an int to Python, not to whoever wrote the file.
            case {"start": int(start), "end": int(end), "type": str(kind)} if kind and bool not in (
                type(start),
                type(end),
            ):
                if not 0 <= start < end <= len(text):
                    expected = f"0 <= start < end <= {len(text)}, the length of the text"
                    raise DataError(where, field, item, expected, "count characters from 0, end exclusive")
                encodable(kind, f"{field} type", where)
                spans.append(Span(start, end, CANONICAL_TYPES.get(kind, kind)))
            case _:
                fix = 'write {"start": 0, "end": 5, "type": "aspect"}'
                raise DataError(where, field, item, "an object with start, end and type", fix)
    return tuple(spans)
