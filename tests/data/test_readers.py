"""Readers: each format on files written here, and the outcome of every kind of bad input."""

import ast
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domadapt.cli.verbs import delimited
from domadapt.data.domains import UnlabelledText
from domadapt.data.files import COLUMN_SETTINGS
from domadapt.data.readers import FORMATS, read
from domadapt.data.records import DataError, Location, Record, Span
from domadapt.data.streams import open_texts
from domadapt.tasks.task import Prediction, row

Write = Callable[..., Path]


def line(**fields: object) -> str:
    return json.dumps({"id": "a", "domain": "camera", "text": "sharp", **fields}) + "\n"


XML_2014 = """<?xml version="1.0" encoding="UTF-8"?>
<sentences>
  <sentence id="1"><text>A sharp lens &amp; body.</text>
    <aspectTerms>
      <aspectTerm term="lens" polarity="positive" from="8" to="12"/>
      <aspectTerm term="body" polarity="positive" from="15" to="19"/>
    </aspectTerms></sentence>
  <sentence id="2"><text>I like it.</text></sentence>
</sentences>
"""
XML_2015 = """<Reviews><Review rid="1"><sentences>
  <sentence id="1:0"><text>Good soup.</text><Opinions>
    <Opinion target="soup" category="FOOD#QUALITY" polarity="positive" from="5" to="9"/>
    <Opinion target="soup" category="FOOD#PRICES" polarity="positive" from="5" to="9"/>
    <Opinion target="NULL" category="SERVICE#GENERAL" polarity="negative" from="0" to="0"/>
  </Opinions></sentence>
</sentences></Review></Reviews>
"""
HU_LIU = """**********
* Annotated by somebody.
**********
[t]a title
zoom[+2], zoom lens[+1]##the zoom lens is good , and the zoomed zoom .
size[-2][u]##it does not fit a pocket .
screen[+1],menu[-2]##a bright screen , a slow menu .
strap[-1]##it broke .
flash[+1}##the flash is fine .
##i own it .
a stray line
"""
REVIEWS = "".join(
    "".join(["<review>\n", *(f"<{name}>\n{value}\n</{name}>\n" for name, value in review.items()), "</review>\n"])
    for review in (
        {"unique_id": "x", "rating": "5.0", "review_text": "Fits & works, &lt;b>\nas <b> hoped"},
        {"rating": "1.0", "review_text": "Broke"},
        {"rating": "3.0", "review_text": "So so"},
    )
)
CONLL = "The\tO\nzoom\tB-ASP\nlens\tI-ASP\n\n\nsharp\tB-OP\n"
GOOD = {
    "jsonl": ("a.jsonl", line(label="positive") + line(id="b")),
    "delimited": ("a.csv", 'id,text,label\na,"sharp, and\nlight",positive\nb,dull,\n'),
    "plain_text": ("a.txt", "sharp\nlight\n"),
    "semeval_xml": ("a.xml", XML_2014),
    "hu_liu": ("a.txt", HU_LIU),
    "blitzer_review": ("positive.review", REVIEWS),
    "conll": ("a.txt", CONLL),
    "json_list": (
        "a.txt",
        '[\n  {"text": "sharp",\n   "label": "positive"},\n  {"text": "light"}, {"id": "c", "text": "dull"}\n]\n',
    ),
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def cases(table: str) -> list[tuple[str, str, str]]:
    """Rows of a file's name, its content as Python writes it, and behind an arrow what is expected."""
    rows = re.findall(r"^(\S+) (.+)\s+-> (.+)$", table, re.MULTILINE)
    return [(name, ast.literal_eval(content), expected) for name, content, expected in rows]


LINES: dict[str, tuple[int, ...]] = {"jsonl": (1, 2), "delimited": (2, 4), "plain_text": (1, 2), "semeval_xml": (3, 8)}
LINES |= {"hu_liu": (5, 6, 7, 8, 9, 10), "blitzer_review": (1, 13, 21), "conll": (1, 6), "json_list": (2, 4, 4)}


@pytest.mark.parametrize("format", GOOD)
def test_what_holds_for_every_format(format: str, write: Write) -> None:
    """Text tells it, lines name its records, labels can be left unread, and Windows changes no more than cells."""
    assert set(GOOD) == set(FORMATS) == set(LINES)
    name, content = GOOD[format]
    path = write(name, content)
    plain = read(path, domain="camera")
    assert plain == read(path, domain="camera", format=format)
    places = [Location(path, number) for number in LINES[format]]
    assert [record.where for record in plain.records] == places
    assert len({record.id for record in plain.records}) == len(plain.records)
    unread = read(path, domain="camera", labelled=False).records
    assert unread and all(record.label is None and record.spans is None for record in unread)
    marked = read(write(name, "\ufeff" + content.replace("\n", "\r\n")), domain="camera")
    cell = ("\n", "\r\n" if format == "delimited" else "\n")
    assert marked.records == tuple(replace(record, text=record.text.replace(*cell)) for record in plain.records)
    assert [record.where for record in marked.records] == places
    assert marked.warnings - plain.warnings == {"byte order mark, dropped": 1}


# name and content; label of each record, or the texts of its spans; warnings
QUOTED = ["fan", "fan", "lid"]
UNTAGGED = "<sentences><sentence id='1'><text>Good soup.</text></sentence></sentences>"
OUT_OF_SCOPE = """<sentences><sentence OutOfScope="TRUE"><text>I am a cook.</text></sentence>
<sentence><text>Good soup.</text><Opinions><Opinion target="soup" from="5" to="9"/></Opinions></sentence></sentences>"""
OF_TEXTS = "<Reviews>" + UNTAGGED + "<Opinions><Opinion category='soup' polarity='positive'/></Opinions></Reviews>"
ROWS = "text\tscore\tlabel\na, b\t1\tx\u2028y\n\nc\t2\t\n"
READ: dict[str, tuple[str, str, list[str | list[str] | None], dict[str, int]]] = {
    "CSV": (*GOOD["delimited"], ["positive", None], {}),
    "TSV": ("b.tsv", ROWS, ["x\u2028y", None], {"unknown field 'score', ignored": 2, "blank line, skipped": 1}),
    "what Excel says of cells": (
        "a.csv", 'sep=;\ntext;label\nSharp, so.;good\n"Dull;\nodd";bad\n', ["good", "bad"], {}),
    "numbers of a spreadsheet": (
        "a.csv", "text,label\nsharp,1.0\ndull,0\nodd,1.5\n", ["1", "0", "1.5"], {"label N.0, read as N": 1}),
    "one other domain": ("a.jsonl", line(domain="lens", label="x"), ["x"], {}),
    "two other domains": (
        "a.jsonl", line(domain="lens", label="x") + line(id="b", domain="body", label="y"), ["x", "y"],
        {f"the file's domain {name!r} is read as 'camera'": 1 for name in ("lens", "body")}),
    "quotes behind spaces": (
        "a.csv", 'text, "label"\n"Sharp, so.", "very good"\nDull., bad\n', ["very good", "bad"], {}),
    "a header that quotes a comma": (
        "a.csv", 'text,"a, b",label\nSharp.,5,good\n', ["good"], {"unknown field 'a, b', ignored": 1}),
    "spans told by their words": (
        "a.jsonl", line(text="A fantastic fan, a loud fan.", spans=[{"text": w, "type": "aspect"} for w in QUOTED]),
        [["fan", "fan"]], {"span whose text has no place of its own in the text, left out": 1}),
    "a span with the space behind it": (
        "a.jsonl", line(text="A lens .", spans=[{"start": 1, "end": 7, "type": "a"}]),
        [["lens"]], {"span with spaces around it, read without them": 1}),
    "a word that stands in a longer span and again": (
        "a.jsonl", line(text="Fan noise, a fan.", spans=[{"text": w, "type": "a"} for w in ("fan", "Fan noise")]),
        [["Fan noise", "fan"]], {}),
    "words of one length that stand where another span is": (
        "a.jsonl", line(text="Fans fan.", spans=[{"text": "fan", "type": "a"}, {"start": 5, "end": 8, "type": "b"}]),
        [["fan"]], {"span whose text has no place of its own in the text, left out": 1}),
    "spaCy's list": (
        "a.json", '[["A lens.", {"entities": [[2, 6, "a"]]}],\n["Dull.", {"entities": []}]]', [["lens"], []], {}),
    "spans of a spreadsheet": (
        "a.csv", "text,start,end,type\nA lens.,2.0,6.0,a\nA lens.,0,1,b\nSharp.,,,\n", [["lens", "A"], []], {}),
    "spans of a spreadsheet, sorted by type": (
        "a.csv", "text,start,end,type\nA lens.,0,1,a\nSharp.,0,5,a\nA lens.,2,6,b\n", [["A", "lens"], ["Sharp"]], {}),
    "spans of a spreadsheet that has a text twice": (
        "a.csv", "text,start,end,type\nSharp.,0,5,a\nDull.,,,\nSharp.,0,5,a\n", [["Sharp"], []],
        {"span given twice, once kept": 1}),
    "spans of a spreadsheet, one in a text of two lines": (
        "a.csv", 'text,start,end,type\r\n"Sharp.\r\nA lens.",10,14,a\r\n', [["lens"]],
        {"CRLF inside a text, which counts as two characters in offsets": 1}),
    "spans of a DataFrame with another column": (
        "a.jsonl",
        "".join(line(text="A lens.", start=s, end=e, type="a", polarity=p) for s, e, p in ((0, 1, "x"), (2, 6, "y"))),
        [["A", "lens"]], {"unknown field 'polarity', ignored": 1}),
    "spans of a sorted DataFrame": (
        "a.jsonl",
        "".join(line(id=t, text=t, start=0, end=e, type=k) for k in "ab" for t, e in (("Sharp.", 5), ("A lens.", 6))),
        [["Sharp"] * 2, ["A lens"] * 2], {}),
    "a header that quotes the other delimiter": (
        "a.csv", 'text;"Good, or not, or what?";label\nSharp.;"a, b";good\n', ["good"],
        {"unknown field 'good, or not, or what?', ignored": 1}),
    "a header of several lines, and a table's empty margin": (
        "a.csv", 'text;"label";"more\n(if any)";;\nSharp.;good;;;\n', ["good"],
        {"unknown field 'more (if any)', ignored": 1, "unknown field '', ignored": 1}),
    "a header of a thousand columns": (
        "a.csv", f"text,{','.join(map(str, range(1200)))},label\nSharp.{',5' * 1200},good\n", ["good"],
        {f"unknown field '{n}', ignored": 1 for n in range(1200)}),
    "SemEval 2014": ("a.xml", XML_2014, [["lens", "body"], []], {}),
    "SemEval 2015": (
        "a.xml", XML_2015, [["soup"]],
        {"implicit target (NULL), no span": 1, "several opinions on one target, one span": 1}),
    "SemEval without annotation": ("a.xml", UNTAGGED, [None], {"labels asked for, record has none": 1}),
    "SemEval, a sentence out of scope": ("a.xml", OUT_OF_SCOPE, [None, ["soup"]], {}),
    "SemEval, texts annotated as a whole": ("a.xml", OF_TEXTS, [None], {"labels asked for, record has none": 1}),
    "Blitzer": ("positive.review", REVIEWS, ["positive", "negative", None], {"rating of 3, no label": 1}),
    "Hu and Liu": (
        "a.txt", HU_LIU, ["positive", "negative", ["screen", "menu"], "negative", [], []],
        {
            "title, left out": 1,
            "line without ##, left out": 1,
            "implicit feature ([u] or [p]), no span": 1,
            "positive and negative opinions in one sentence, no label": 1,
            "feature not in its sentence, no span": 1,
            "annotation not understood, left out": 1,
        }),
    "CoNLL": ("a.txt", CONLL, [["zoom lens"], ["sharp"]], {}),
    "CoNLL of more columns": (
        "b.conll", "The DT O\nlens NN I-ASP\n", [["lens"]], {"I- tag that continues nothing, read as B-": 1}),
    "CoNLL of 2003": (
        "d.conll", "-DOCSTART- -X- O O\n\nlens NN NP B-ASP\n", [["lens"]], {"-DOCSTART- lines, left out": 1}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "expected", "warnings"), READ.values(), ids=READ)
def test_what_is_read(name: str, content: str, expected: list[Any], warnings: Any, write: Write) -> None:
    corpus = read(write(name, content), domain="camera")
    spans = [r.spans and [r.text[s.start : s.end] for s in r.spans] for r in corpus.records]
    assert [r.label or (None if s is None else [*s]) for r, s in zip(corpus.records, spans)] == expected
    assert corpus.warnings == warnings


@pytest.mark.parametrize(("ending", "delimiter"), [("csv", ","), ("tsv", "\t"), ("csv", ";"), ("csv", "|")])
def test_spans_that_predict_writes_are_read_back(ending: str, delimiter: str, write: Write) -> None:
    text, found = 'A "big" lens,\nand a strap', (Span(8, 12, "aspect", 0.75), Span(20, 25, "aspect", 0.5))
    records = [Record(name, "camera", text, spans=spans) for name, spans in zip("abc", (found, (), found[:1]))]
    rows = [row(UnlabelledText(r.id, "", r.text), Prediction(spans=r.spans or ()), "token") for r in records]
    path = write(f"a.{ending}", "".join(delimited(rows, delimiter)))
    corpus = read(path, domain="camera")
    assert [*corpus.records] == records and not corpus.warnings
    assert [s.confidence for r in corpus.records for s in r.spans or ()] == [0.75, 0.5, 0.75]
    path.write_text(path.read_text().replace(f"{delimiter}8{delimiter}", f"{delimiter}x{delimiter}"))
    assert [text.id for text in open_texts(path, None, Counter())[1]] == ["a", "b", "c"]  # spans are left unread


def test_records_in_full(write: Write) -> None:
    records = read(write(*GOOD["delimited"]), domain="camera").records
    assert records == (Record("a", "camera", "sharp, and\nlight", label="positive"), Record("b", "camera", "dull"))
    assert [record.id for record in read(write("b.tsv", ROWS), domain="camera").records] == ["camera/b:2", "camera/b:4"]
    first, second = read(write("a.xml", XML_2014), domain="laptop").records
    assert first == Record("1", "laptop", "A sharp lens & body.", spans=(Span(8, 12, "aspect"), Span(15, 19, "aspect")))
    assert read(write("a.review", REVIEWS), domain="a").records[0].text == "Fits & works, <b>\nas <b> hoped"
    assert read(write("a.txt", HU_LIU), domain="a").records[0].spans == (Span(4, 13, "aspect"), Span(39, 43, "aspect"))
    first, second = read(write("a.txt", CONLL), domain="laptop").records
    assert (first.text, first.words) == ("The zoom lens", ((0, 3), (4, 8), (9, 13)))
    assert (first.spans, second.spans) == ((Span(4, 13, "ASP"),), (Span(0, 5, "OP"),))
    [found] = read(write("a.jsonl", READ["spans told by their words"][1]), domain="a").records
    assert [(s.start, s.end) for s in found.spans or ()] == [(12, 15), (24, 27)]
    assert read(write("c.conll", "The\nlens\n"), domain="laptop", labelled=False).records[0].text == "The lens"


COUNTED = r"""
a.txt 'caf\ufffd\n' -> text damaged by an earlier decoding (U+FFFD), kept
a.txt 'a\0b\n' -> control characters in the text, kept
a.txt 'a\rb\n' -> control characters in the text, kept
a.csv 'text,label\na\x1b[2J,x\n' -> control characters in the text, kept
a.txt '\ufeffsharp\n' -> byte order mark, dropped
a.xml '<?xml version="1.0" encoding="latin1"?><sentences><sentence><text>\ufffd</text></sentence></sentences>'
  -> text damaged by an earlier decoding (U+FFFD), kept
a.txt 'sharp\n \t\n' -> blank text, dropped
a.jsonl '{"text": "sharp"}\n{"text": " "}\n' -> blank text, dropped
a.jsonl '{"text": "sharp"}\n{"tokens": [], "tags": []}\n' -> blank text, dropped
a.jsonl '{"text": "sharp"}\n\n' -> blank line, skipped
a.csv 'text,label\nsharp,NaN\n' -> label 'NaN', read as no label
a.jsonl '{"text": "sharp", "label": "None"}' -> label 'None', read as no label
a.csv 'text,label\nsharp, nan \n' -> label 'nan', read as no label
a.csv 'text,start,end,type\nsharp,,,\nsharp,,,\n' -> row without a span whose text another row has: read as one text
a.csv 'text,label\nsharp, positive\n' -> spaces around a label, dropped
a.xml '<sentences><sentence><text>sharp</text><note>odd</note></sentence></sentences>'
  -> words outside of a sentence's <text>, left out
a.xml '<sentences><text>of nobody</text><sentence><text>sharp</text></sentence></sentences>'
  -> words outside of a sentence's <text>, left out
"""


@pytest.mark.parametrize(("name", "content", "warning"), cases(COUNTED))
def test_what_is_counted(name: str, content: str, warning: str, write: Write) -> None:
    corpus = read(write(name, content), domain="camera")
    [record] = corpus.records
    assert record.text in ("sharp", "a\0b", "a\rb", "a\x1b[2J") or "\ufffd" in record.text
    assert corpus.warnings[warning] == 1


def test_labels_that_are_none_and_labels_that_look_so(write: Write) -> None:
    labels = ["NaN", "nan", "None", "null", "NULL", "<NA>", "#N/A", " ", "", "NONE", "none", "NA", " positive ", "0"]
    path = write("a.csv", "text,label\n" + "".join(f"t{i},{label}\n" for i, label in enumerate(labels)))
    found = [record.label for record in read(path, domain="camera").records]
    assert found == [None] * 9 + ["NONE", "none", "NA", "positive", "0"]


def test_text_that_ends_as_a_tag_does_is_text(write: Write) -> None:
    for text in ("Wir kauften ein E-Bike\nNie wieder B-Ware\n", "Ich fahre mit der U-Bahn\n"):
        texts = [r.text for r in read(write("a.txt", text), domain="bikes", labelled=False).records]
        assert texts == text.splitlines()


def test_spans_by_their_text_are_found_where_no_space_parts_words(write: Write) -> None:
    line = {"text": "手机屏幕很亮", "spans": [{"text": "屏幕", "type": "aspect"}]}
    (record,) = read(write("a.jsonl", json.dumps(line)), domain="phones").records
    assert record.spans == (Span(2, 4, "aspect"),)


@pytest.mark.parametrize("space", ["\xa0", "\x85", "\u2028", "\u3000", "\x1f"])
@pytest.mark.parametrize("sep", [" ", "\t", " DT "])
def test_conll_columns_are_parted_by_spaces_and_tabs_alone(space: str, sep: str, write: Write) -> None:
    (record,) = read(write("a.conll", f"New{space}York{sep}B-ASP\nis{sep}O\n"), domain="camera").records
    assert (record.text, record.spans) == (f"New{space}York is", (Span(0, 8, "ASP"),))


@pytest.mark.parametrize("stray", ["##wow", "lens[+2]##wow", "[t]ime for tea"])
def test_a_stray_mark_makes_no_hu_liu(stray: str, write: Write) -> None:
    texts = [f"sentence {i}" for i in range(26)] + [stray] + [f"sentence {i}" for i in range(26)]
    corpus = read(write("a.txt", "\n".join(texts)), domain="camera", labelled=False)
    assert [record.text for record in corpus.records] == texts


REFUSED = r"""
a.txt b'sharp\ncaf\xe9 au lait\n'
  -> 2: byte 9 of the file is b'\xe9'; expected UTF-8; unpack it, or re-encode it: iconv -f windows-1252
a.txt b'\xff\xfes\x00h\x00a\x00r\x00p\x00'
  -> -: file is 'UTF-16, or no text'; expected UTF-8 text; re-encode it: iconv -f utf-16 -t utf-8
a.txt b'\xff\xfe\x4e\x7e\x0a\x00\x4e\x7e' -> -: file is 'UTF-16, or no text'; expected UTF-8 text; re-encode it: iconv
a.jsonl '{"review": {"body": "a"}, "stars": 1}' -> 1: list of fields is 'review, stars, review.body'; expected a field
a.json '[{"id": 1, "data": {"text": "a"}, "annotations": [{"result": []}]}]'
  -> 1: list of fields is 'id, data, annotations'; expected a field text; export it from Label Studio as JSON-MIN, or
a.csv 'sep=;\ntext;label\nok;x\nsharp;light;y\n' -> 4: row of 3 fields is ['sharp', 'light', 'y']; expected 2 fields,
a.csv 'sep=;\nreview;label\nok;x\n' -> 2: header is 'review;label'; expected a column text; say which
a.xlsx b'PK\x03\x04\x14\x00\x06\x00'
  -> -: file is an Excel or zip file; expected UTF-8 text; save the sheet as CSV, or unpack it
a.pdf b'%PDF-1.7\n%\xe2\xe3' -> -: file is a PDF file; expected UTF-8 text; save its text as a .txt file
a.jsonl '' -> -: file is 'empty'; expected records; check how it was written
a.jsonl '\n \n' -> -: file is 'blank'; expected records; check how it was written
a.jsonl '{"id": "a", "domain": "camera", "text": " "}\n'
  -> -: number of records is 0; expected at least one; check how the file was written
a.jsonl '{"id": "a", "domain": "camera", "text": "sharp"}\n{"id": "b", "text": sharp}\n'
  -> 2: JSON at column 21 (Expecting value) is 'sharp}'; expected one JSON object a line;
a.jsonl '{"text": "sharp"}\n\n{"text": 3}\n' -> 3: text is 3; expected a string
a.jsonl '{"text": "sharp", "label": ["a", "b"]}' -> 1: label is ['a', 'b']; expected one label for each text; keep one
a.jsonl '{"text": "a", "label": [{"value": "b"}, {"value": "c"}]}' -> 1: label is ['b', 'c']; expected one label for
a.jsonl '{"id": "b", "review": "c"}' -> 1: list of fields is 'id, review'; expected a field text; say which one holds
a.jsonl '{"id": "b"' -> 1: JSON at column 11 (Expecting ',' delimiter) is ''; expected
a.json '[{"text": "a"},\n{"text": "b"} {"text": "c"}]' -> 2: after an object is ' {
a.json '[{"text": "a"},\n]' -> 1: after an object is ',
a.json '[{"text": "a"},\n{"text":' -> 2: JSON at column 9 (Expecting value) is ''; expected a list of JSON objects;
a.json '["a"]' -> 1: start of the file is '[
a.json '[ ]' -> -: number of records is 0; expected at least one; check how the file was written
a.json '{"text": {"0": "a"}, "label": {"0": "b"}}' -> 1: line is '{
a.json '[\n{"text": "a", "text": "b"}]' -> 2: field is 'text'; expected
a.jsonl '{"id": "a", "id": "b", "text": "c"}\n'
  -> 1: field is 'id'; expected each field once in an object; drop one of the two
a.xml '<sentences><sentence>\n<text>sharp</text>\n<text>light</text></sentence></sentences>'
  -> 3: <text> is 'a second one'; expected one in each sentence; make it a sentence of its own, or join the two
a.xml '<sentences><sentence>\n<sentence><text>sharp</text></sentence></sentence></sentences>'
  -> 2: sentence is 'inside another'; expected one after the other; close it before the next
a.xml '<sentences>\r\n<sentence>\r\r<text>a & b</text>'
  -> 4: XML at column 10 (not well-formed (invalid token)): line is '<text>a & b</text>'; expected
a.csv 'sentence,label\na,b\n'
  -> 1: header is 'sentence,label'; expected a column text; say which one holds the text: source.text=COLUMN,
a.csv 'Reviews 2026,\ntext,label\na,b\n' -> 1: header is 'Reviews 2026,'; expected a column text; delete what
a.csv 'text,text\na,b\n' -> 1: header is 'text,text'; expected each column once; rename one of the two
a.csv 'text,label\nok,x\nsharp, light,y\n'
  -> 3: row of 3 fields is ['sharp', ' light', 'y']; expected 2 fields, as in the header ('text, label');
a.csv 'text,label\nok,x\n"sharp,y\nlight,z\n'
  -> 3: row (unexpected end of data) is '"sharp,y'; expected well-formed CSV;
a.csv 'text,start,end,type\nA lens.,2,6,a\nA lens.,x,1,b\n' -> 3: start is 'x'; expected a character offset; count
a.csv 'text,start,end,type,span\nok,,,,\nA lens.,2,6,a,strap\n' -> 3: spans[0] is {'end': 6, 'start': 2, 'text': 'strap
a.csv '\rid,text,label\na,sharp,good\n' -> 1: row (new-line character seen in unquoted field - do you need
a.tsv 'text\tlabel\n"Go" home\tx\n' -> 2: row ('TAB' expected after '"') is '"Go" home\tx'; expected well-formed CSV;
a.tsv 'text\tlabel\n"It whines\tneg\nOK\tpos\nGood"\tpos\n'
  -> 2: row is '"It whines\tneg'; expected one row, where each of its 3 lines looks like a row; a quote opens its cell
a.xml '<sentences>\n<sentence>\n<text>a & b</text>'
  -> 3: XML at column 10 (not well-formed (invalid token)): line is '<text>a & b</text>'; expected
a.xml '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "c">]>\n<sentences/>'
  -> 2: document type is 'a'; expected none, as in the owners' files; delete the DOCTYPE
a.xml "<sentences>\n<sentence id='1'/></sentences>"
  -> 2: text is missing; expected a <text> in each sentence; add it, or drop the sentence
a.conll 'The O\nlens\n' -> 2: line is 'lens'; expected a token and a tag; end each line with its tag;
a.conll 'The O\nlens M-ASP\n'
  -> 2: tag is 'M-ASP'; expected O, B-TYPE or I-TYPE, or BIOES or BILOU; convert the tags to BIO
a.review '<review>\n<rating>\n5.0\n</rating>\n'
  -> 1: <review> is 'open at the end of the file'; expected </review>; the file may have been cut off:
a.review '<review>\n<rating>\n5.0\n</review>\n'
  -> 2: field is '<rating>'; expected its end before line 4; close it with </rating> on a line of its own
a.review '<review>\n<rating>\n5.0\n</rating>\n</review>\n'
  -> 1: review is 'rating'; expected a field review_text; add it, or drop the review
a.review '<review>\nstray\n</review>\n'
  -> 2: line is 'stray'; expected a field of a <review>; put each tag on a line of its own
a.bin '\x1b[2J sharp\n' -> -: start of the file is '\x1b[2J sharp\n'; expected a format among blitzer_review, conll,
a.txt '<review> O\n' -> -: format is 'blitzer_review and conll'; expected one that fits; name it: format=blitzer_review
"""
TWICE = line() + line(id="b") + line()
HALF = line(spans=[{"start": 0, "end": 1, "type": "asp\udc00"}])
LONG = [  # as above, of contents that take more than a line
    ("a.jsonl", TWICE, "3: id is 'a'; expected an id used once (line 1 has it too); rename or drop one of the two"),
    ("a.csv", "a,b\n", f"1: header is 'a,b'; expected a column text; {COLUMN_SETTINGS['text']}; if this line is no"),
    ("a.jsonl", "[" * 100_000, "1: JSON (RecursionError) is '[[["),
    ("a.jsonl", "1" * 5000, "1: JSON (ValueError) is '111"),
    ("a.jsonl", HALF, r"1: spans[0] type is '\udc00'; expected whole characters; write both halves of the surrogate"),
    ("a.xml", XML_2014.replace('from="8"', 'from="7"'), "5: term at characters 7 to 12 (' lens') is 'lens'"),
    (
        "a.xml",
        XML_2014.replace("body.", "body").replace('to="19"', 'to="20"'),
        "6: term at characters 15 to 20 ('body')",
    ),
    ("a.xml", XML_2014.replace('from="8"', ""), "5: from is missing; expected a character offset; write it in digits"),
    ("a.review", REVIEWS.replace("1.0", "one"), "13: rating is 'one'; expected a number from 0 to 5; correct it, or"),
]


@pytest.mark.parametrize(("name", "content", "message"), [*cases(REFUSED), *LONG])
def test_what_is_refused_and_why(name: str, content: str | bytes, message: str, write: Write) -> None:
    path = write(name, content)
    with pytest.raises(DataError) as refused:
        read(path, domain="camera")
    number, _, said = message.partition(": ")
    assert str(refused.value).startswith(f"{path}{'' if number == '-' else f':{number}'}: {said}")
    assert str(refused.value).isprintable() and refused.value.expected and refused.value.fix
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize("content", ["{ or [ opens it\n", "text,label\nAh, so, yes.\n"])
def test_text_that_begins_as_another_format_is_told_how_to_be_read(content: str, write: Write) -> None:
    path = write("a.txt", content)
    with pytest.raises(DataError, match=r"one text a line, format=plain_text \(to train, target\.format=plain_text\)$"):
        read(path, domain="camera", labelled=False)
    assert len(read(path, domain="camera", labelled=False, format="plain_text").records) == content.count("\n")


def test_files_that_are_none(tmp_path: Path) -> None:
    missing = tmp_path / "gone.jsonl"
    rest = "expected a file that can be read"
    for path, problem in [(missing, "missing"), (tmp_path, "a folder")]:
        with pytest.raises(DataError) as refused:
            read(path, domain="camera")
        assert str(refused.value).startswith(f"{path}: file is {problem}; {rest}; ")
    with pytest.raises(DataError, match=r"file is not readable \(embedded null byte\)"):
        read("a\0b", domain="camera")


@pytest.mark.parametrize("format", GOOD)
def test_a_word_of_a_megabyte(format: str, write: Write) -> None:
    name, content = GOOD[format]
    long = re.sub("sharp|good|Fits", "x" * 1_000_000, content, count=1)
    records = read(write(name, long), domain="camera", labelled=False).records
    assert [record.text.count("x" * 1_000_000) for record in records].count(1) == 1
