"""Readers and the stream on bytes nobody foresaw: all that goes in is a record, is counted, or is one clear error."""

import csv
import html
import io
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domadapt.data.files import Corpus
from domadapt.data.readers import FORMATS, read
from domadapt.data.records import DataError
from domadapt.data.streams import open_texts
from tests.data.test_readers import GOOD

Outcome = tuple[list[tuple[str, str]], Counter[str], str | None]  # ids and texts, what was counted, the error

# White space that is none of ours, halves of line ends, marks of the formats, bytes of other encodings.
ODD = [*"\xa0\x85\u2028\x0b\x1c\r\n\t \ufeff\ufffd\u200b😀é,", "\r\n"]
MARKS = """## [t] a[+2]## <text> </text> <sentence> <review> </review> & " ' { } \\ud800 NaN text label
    id 0 -1 ${x} ; ]]> <?xml""".split()  # noqa: SIM905
MARKS += [" O", "\tB-ASP", " I-x", "<!DOCTYPE a>"]
TEXT = st.lists(st.sampled_from(ODD + MARKS) | st.characters(exclude_categories=["Cs"]), max_size=12).map("".join)
RAW = st.sampled_from(
    [b"\0", b"\xff\xfe", b"\x1f\x8b", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"PK\x03\x04"]
)
BYTES = st.lists(TEXT.map(str.encode) | RAW | st.binary(max_size=6), max_size=6).map(b"".join)
BOUNDED = settings(max_examples=150, deadline=None)


def outcome(path: Path, format: str | None) -> Outcome:
    """All that comes out of a stream; an error of another kind than ours ends the test."""
    warnings, found = Counter[str](), list[tuple[str, str]]()
    try:
        for text in open_texts(path, format, warnings)[1]:
            found.append((text.id.rpartition(":")[2], text.text))
    except DataError as error:
        assert str(error).isprintable()
        return found, warnings, str(error).partition(": ")[2] if error.where else str(error)
    return found, warnings, None


def piped(content: bytes, format: str | None) -> Outcome:
    reader, writer = os.pipe()
    os.write(writer, content)  # less than a pipe holds
    os.close(writer)
    try:
        return outcome(Path(f"/dev/fd/{reader}"), format)
    finally:
        os.close(reader)


def lines(content: bytes) -> list[str]:
    """Of plain text, by another way than the stream's."""
    return content.decode().removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def in_the_file(format: str, corpus: Corpus, content: bytes) -> bool:
    """Whether what was read and what was counted are as many as what is in the file."""
    written = [line for line in lines(content) if line.strip()]
    if format == "plain_text":
        return [record.text for record in corpus.records] == written
    if format == "jsonl":
        return len(corpus.records) + corpus.warnings["blank text, dropped"] == len(written)
    if format == "conll":
        return sum(len(record.words or ()) for record in corpus.records) == len(written)
    if format == "hu_liu":
        left = ("blank text, dropped", "title, left out", "line without ##, left out")
        headers = sum(line.startswith("*") and "##" not in line for line in written)
        return len(corpus.records) + sum(corpus.warnings[name] for name in left) + headers == len(written)
    return bool(corpus.records)


@pytest.mark.parametrize("format", sorted(FORMATS))
@BOUNDED
@given(damage=BYTES, place=st.integers(0, 400), labelled=st.booleans(), whole=st.booleans())
@example(damage=b"", place=0, labelled=False, whole=True)
@example(damage=b"<sentences>\r<sentence>\r\r<text>a & b</text>", place=0, labelled=False, whole=True)
def test_a_damaged_file_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, format: str, damage: bytes, place: int, labelled: bool, whole: bool
) -> None:
    name, good = GOOD[format]
    sound = good.encode()
    content = damage if whole else sound[:place] + damage + sound[place:]
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    try:
        corpus = read(path, domain="input", labelled=labelled, format=format)
    except DataError as error:
        assert str(error).isprintable()
        corpus = None
    else:
        assert in_the_file(format, corpus, content)
    for chosen in (format, None):
        from_file = outcome(path, chosen)
        found, counted, error = piped(content, chosen)
        if error and chosen is None:  # a pipe has no extension to go by
            continue
        assert (found, counted) == from_file[:2]
        assert (error is None) == (from_file[2] is None)
    if not labelled:
        found, counted, error = outcome(path, format)
        assert (error is None) == (corpus is not None)
        if corpus is not None:
            assert [text for _, text in found] == [record.text for record in corpus.records]
            assert counted == corpus.warnings


def jsonl(texts: list[str]) -> str:
    return "".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts))


def delimited(texts: list[str]) -> str:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("id", "text"), *enumerate(texts)])
    return file.getvalue()


def semeval_xml(texts: list[str]) -> str:
    sentences = "".join(f"<sentence><text>{escape(text)}</text></sentence>\n" for text in texts)
    return f"<sentences>\n{sentences}</sentences>"


def blitzer_review(texts: list[str]) -> str:
    return "".join(f"<review>\n<review_text>\n{html.escape(text)}\n</review_text>\n</review>\n" for text in texts)


WRITERS: dict[str, Callable[[list[str]], str]] = {
    "plain_text": lambda texts: "".join(f"{text}\n" for text in texts),
    "jsonl": jsonl,
    "json_list": lambda texts: json.dumps([{"id": str(i), "text": text} for i, text in enumerate(texts)], indent=1),
    "delimited": delimited,
    "semeval_xml": semeval_xml,
    "hu_liu": lambda texts: "".join(f"##{text}\n" for text in texts),
    "blitzer_review": blitzer_review,
    "conll": lambda texts: "".join(f"{text} NN O\nend O\n\n" for text in texts),
}


def as_written(format: str, text: str) -> str:
    """A text as its format can hold it."""
    text = text.replace("\x00", "")
    if format in ("plain_text", "hu_liu"):
        text = text.replace("\r", "").replace("\n", "")
    if format == "conll":
        text = "x" + "".join(c for c in text if c not in " \t\r\n") + "x"  # a token of a sentence
    if format == "semeval_xml":
        text = "".join(c for c in text if c.isprintable() or c in "\t\r\n\xa0\x85\u2028")
        text = text.replace("\ufffe", "").replace("\uffff", "")
    return text


def as_read(format: str, text: str) -> str:
    """What the formats' own rules make of it: line ends, and white space around a text."""
    if not format.startswith("json") and format != "delimited":
        text = text.replace("\r\n", "\n")
    if format == "semeval_xml":
        text = text.replace("\r", "\n")
    if format == "conll":
        text += " end"
    return text.strip() if format in ("hu_liu", "blitzer_review") else text


def test_every_format_has_a_writer_here() -> None:
    assert set(WRITERS) == set(FORMATS)


@pytest.mark.parametrize("format", WRITERS)
@BOUNDED
@given(texts=st.lists(TEXT, min_size=1, max_size=6))
@example(texts=["New\xa0York", "##", "\r", "\x85"])
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, format: str, texts: list[str]) -> None:
    texts = [as_written(format, text) for text in texts]
    path = tmp_path_factory.getbasetemp() / "written.txt"
    content = ("\ufeff" + WRITERS[format](texts)).encode()
    path.write_bytes(content)
    expected = [found for found in (as_read(format, text) for text in texts) if found.strip()]
    for found, counted, error in (outcome(path, format), piped(content, format)):
        assert [text for _, text in found] == expected
        assert counted["blank text, dropped"] == len(texts) - len(expected) or not expected
        assert error is None if expected else error
