"""Spans of characters, and the BIO tags of words that say the same; BIOES and BILOU are read as BIO."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from domadapt.data.errors import DataError, Location

# The one place where a corpus's name for a span type becomes ours. Types not listed keep their name.
CANONICAL_TYPES: Final = {"ASP": "aspect", "OP": "opinion"}
# What BIO calls the prefixes of BIOES (end, single) and BILOU (last, unit). After these, nothing continues.
_ENDS: Final = {"E": "I", "L": "I", "S": "B", "U": "B"}
_PREFIXES: Final = {"B": "B", "I": "I"} | _ENDS

Words = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A typed stretch of a record's text, in characters, end exclusive.

    ``confidence`` is a model's, where a model has found it: the mean probability of its words' tags. Spans are equal
    whatever it is.
    """

    start: int
    end: int
    type: str
    confidence: float | None = field(default=None, compare=False, repr=False)


def split_tag(tag: object, where: Location | None = None, field: str = "tag") -> tuple[str, str]:
    """The prefix (B, I or O) and the canonical type of a tag in BIO, BIOES or BILOU.

    Args:
        tag: The tag as the corpus has it.
        where: Its file and line, for the message.
        field: Its name there, for the message.

    Raises:
        DataError: If it is not ``O``, ``B-TYPE`` or ``I-TYPE``, nor what the other two add: ``E``, ``S``, ``L``, ``U``.

    Example:
        >>> split_tag("B-ASP"), split_tag("E-ASP"), split_tag("U-POS"), split_tag("O")
        (('B', 'aspect'), ('I', 'aspect'), ('B', 'POS'), ('O', ''))
    """
    if tag == "O":
        return "O", ""
    if isinstance(tag, str) and tag[:1] in _PREFIXES and tag[1:2] == "-" and len(tag) > 2:
        return _PREFIXES[tag[0]], CANONICAL_TYPES.get(tag[2:], tag[2:])
    raise DataError(where, field, tag, "O, B-TYPE or I-TYPE, or BIOES or BILOU", "convert the tags to BIO")


def from_tokens(
    tokens: Sequence[object],
    tags: Sequence[object] | None = None,
    where: Location | None = None,
    warnings: Counter[str] | None = None,
) -> tuple[str, Words, tuple[Span, ...] | None]:
    """Text, word ranges and spans of a tokenised sentence that is tagged in BIO, BIOES or BILOU.

    Args:
        tokens: The words; single spaces join them into the text.
        tags: One tag a word, or None where the words are not annotated: then the spans are None.
        where: File and line, for messages.
        warnings: Counts what continues nothing, such as an ``I-`` after ``O``: read as ``B-``, as CoNLL's scorer does.

    Raises:
        DataError: If a token is blank, a tag is of no such scheme, or there are more of one than of the other.

    Example:
        >>> from_tokens(["great", "battery", "life"], ["B-OP", "B-ASP", "I-ASP"])[2]
        (Span(start=0, end=5, type='opinion'), Span(start=6, end=18, type='aspect'))
    """
    words: list[tuple[int, int]] = []
    checked: list[str] = []
    start = 0
    for position, token in enumerate(tokens):
        if not isinstance(token, str) or not token.strip():
            raise DataError(where, f"tokens[{position}]", token, "a word", "drop the token and its tag")
        checked.append(token)
        words.append((start, start + len(token)))
        start += len(token) + 1
    spans = None if tags is None else tuple(_spans(words, tags, where, warnings))
    return " ".join(checked), tuple(words), spans


def _spans(
    words: Sequence[tuple[int, int]],
    tags: Sequence[object],
    where: Location | None,
    warnings: Counter[str] | None,
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

    A span that begins or ends inside a word is snapped outward to the whole word. BIO cannot say that spans
    overlap: the one that starts first stays, of two that start together the longer.

    Args:
        words: Character range of each word, in order.
        spans: Character ranges with types.
        warnings: Counts the spans that were snapped, and those left out: over another, or on no word.

    Example:
        >>> bio_tags(((0, 5), (6, 13), (14, 18)), [Span(6, 18, "aspect")])
        ['O', 'B-aspect', 'I-aspect']
        >>> counted = Counter()
        >>> bio_tags(((0, 5), (6, 13)), [Span(8, 13, "aspect")], counted), dict(counted)
        (['O', 'B-aspect'], {'span off word boundaries, snapped outward': 1})
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
