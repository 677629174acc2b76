"""Readers: each format on files written here, and the outcome of every kind of bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from domadapt.data.readers import FORMATS, read
from domadapt.data.records import DataError, Record, Span
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction


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
REVIEWS = """<review>
<unique_id>
x
</unique_id>
<rating>
5.0
</rating>
<review_text>
Fits & works, &lt;b>
as <b> hoped
</review_text>
</review>
<review>
<rating>
1.0
</rating>
<review_text>
Broke
</review_text>
</review>
<review>
<rating>
3.0
</rating>
<review_text>
So so
</review_text>
</review>
"""
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
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_every_format_has_a_sample_here() -> None:
    assert set(GOOD) == set(FORMATS)


@pytest.mark.parametrize("format", GOOD)
def test_the_format_is_found_by_the_text(format: str, write: Callable[..., Path]) -> None:
    path = write(*GOOD[format])
    assert read(path, domain="camera") == read(path, domain="camera", format=format)


@pytest.mark.parametrize("format", GOOD)
def test_labels_are_left_unread(format: str, write: Callable[..., Path]) -> None:
    corpus = read(write(*GOOD[format]), domain="camera", labelled=False)
    assert corpus.records
    assert all(record.label is None and record.spans is None for record in corpus.records)


@pytest.mark.parametrize("format", GOOD)
def test_byte_order_mark_and_carriage_returns_change_nothing(format: str, write: Callable[..., Path]) -> None:
    name, content = GOOD[format]
    plain = read(write(name, content), domain="camera")
    marked = read(write(name, "\ufeff" + content.replace("\n", "\r\n")), domain="camera")
    assert (marked.records, marked.lines) == (plain.records, plain.lines)
    assert marked.warnings - plain.warnings == {"byte order mark, dropped": 1}


@pytest.mark.parametrize("format", GOOD)
def test_every_line_number_names_the_record(format: str, write: Callable[..., Path]) -> None:
    corpus = read(write(*GOOD[format]), domain="camera")
    lines: dict[str, tuple[int, ...]] = {
        "jsonl": (1, 2),
        "delimited": (2, 4),
        "plain_text": (1, 2),
        "semeval_xml": (3, 8),
    }
    lines |= {"hu_liu": (5, 6, 7, 8, 9, 10), "blitzer_review": (1, 13, 21), "conll": (1, 6), "json_list": (2, 4, 4)}
    assert corpus.lines == lines[format]
    assert len({record.id for record in corpus.records}) == len(corpus.records)


def test_delimited(write: Callable[..., Path]) -> None:
    records = read(write(*GOOD["delimited"]), domain="camera").records
    assert records == (
        Record("a", "camera", "sharp, and\nlight", label="positive"),
        Record("b", "camera", "dull"),
    )
    tabs = read(write("b.tsv", "text\tscore\tlabel\na, b\t1\tx\u2028y\n\nc\t2\t\n"), domain="camera")
    assert [(record.id, record.label) for record in tabs.records] == [
        ("camera/b:2", "x\u2028y"),
        ("camera/b:4", None),
    ]
    assert tabs.warnings == {"unknown field 'score', ignored": 2, "blank line, skipped": 1}


def test_semeval_2014(write: Callable[..., Path]) -> None:
    first, second = read(write("a.xml", XML_2014), domain="laptop").records
    assert first == Record("1", "laptop", "A sharp lens & body.", spans=(Span(8, 12, "aspect"), Span(15, 19, "aspect")))
    assert second.spans == ()


def test_semeval_2015(write: Callable[..., Path]) -> None:
    corpus = read(write("a.xml", XML_2015), domain="restaurant")
    assert corpus.records[0].spans == (Span(5, 9, "aspect"),)
    assert corpus.warnings == {
        "implicit target (NULL), no span": 1,
        "several opinions on one target, one span": 1,
    }


def test_semeval_without_annotation(write: Callable[..., Path]) -> None:
    path = write("a.xml", "<sentences><sentence id='1'><text>Good soup.</text></sentence></sentences>")
    corpus = read(path, domain="restaurant")
    assert corpus.records[0].spans is None
    assert corpus.warnings == {"labels asked for, record has none": 1}


def test_hu_liu(write: Callable[..., Path]) -> None:
    corpus = read(write("a.txt", HU_LIU), domain="camera")
    assert [record.label for record in corpus.records] == [
        "positive",
        "negative",
        None,
        "negative",
        None,
        None,
    ]
    texts = [[record.text[span.start : span.end] for span in record.spans or ()] for record in corpus.records]
    assert texts == [["zoom lens", "zoom"], [], ["screen", "menu"], [], [], []]
    assert corpus.warnings == {
        "title, left out": 1,
        "line without ##, left out": 1,
        "implicit feature ([u] or [p]), no span": 1,
        "positive and negative opinions in one sentence, no label": 1,
        "feature not in its sentence, no span": 1,
        "annotation not understood, left out": 1,
    }


def test_blitzer_review(write: Callable[..., Path]) -> None:
    corpus = read(write("positive.review", REVIEWS), domain="electronics")
    assert [record.label for record in corpus.records] == ["positive", "negative", None]
    assert corpus.records[0].text == "Fits & works, <b>\nas <b> hoped"
    assert corpus.warnings == {"rating of 3, no label": 1}


def test_whole_numbers_of_a_spreadsheet_are_the_same_labels(write: Callable[..., Path]) -> None:
    corpus = read(write("a.csv", "text,label\nsharp,1.0\ndull,0\nodd,1.5\n"), domain="camera")
    assert [record.label for record in corpus.records] == ["1", "0", "1.5"]
    assert corpus.warnings["label N.0, read as N"] == 1


def test_conll(write: Callable[..., Path]) -> None:
    first, second = read(write("a.txt", CONLL), domain="laptop").records
    assert (first.text, first.words) == ("The zoom lens", ((0, 3), (4, 8), (9, 13)))
    assert first.spans == (Span(4, 13, "aspect"),)
    assert second.spans == (Span(0, 5, "opinion"),)
    spaced = read(write("b.conll", "The DT O\nlens NN I-ASP\n"), domain="laptop")
    assert spaced.records[0].spans == (Span(4, 8, "aspect"),)
    assert spaced.warnings == {"I- tag that continues nothing, read as B-": 1}
    marked = read(write("d.conll", "-DOCSTART- -X- O O\n\nlens NN NP B-ASP\n"), domain="laptop")
    assert [record.text for record in marked.records] == ["lens"]
    assert marked.warnings["-DOCSTART- lines, left out"] == 1
    untagged = read(write("c.conll", "The\nlens\n"), domain="laptop", labelled=False)
    assert untagged.records[0].text == "The lens"


COUNTED = {
    "U+FFFD": ("a.txt", "caf\ufffd\n", "caf\ufffd", "text damaged by an earlier decoding (U+FFFD), kept"),
    "NUL": ("a.txt", "a\0b\n", "a\0b", "control characters in the text, kept"),
    "carriage return alone": ("a.txt", "a\rb\n", "a\rb", "control characters in the text, kept"),
    "escape": ("a.csv", "text,label\na\x1b[2J,x\n", "a\x1b[2J", "control characters in the text, kept"),
    "byte order mark": ("a.txt", "\ufeffsharp\n", "sharp", "byte order mark, dropped"),
    "another encoding declared": (
        "a.xml",
        "<?xml version='1.0' encoding='latin1'?>"
        + "<sentences><sentence><text>caf\u00e9 \ufffd</text></sentence></sentences>",
        "caf\u00e9 \ufffd",
        "text damaged by an earlier decoding (U+FFFD), kept",
    ),
    "blank text": ("a.txt", "sharp\n \t\n", "sharp", "blank text, dropped"),
    "blank field": ("a.jsonl", line() + line(id="b", text=" "), "sharp", "blank text, dropped"),
    "no words": (
        "a.jsonl",
        line() + '{"id": "b", "tokens": [], "tags": []}\n',
        "sharp",
        "blank text, dropped",
    ),
    "blank line": ("a.jsonl", line() + "\n", "sharp", "blank line, skipped"),
    "what programs write for no label": ("a.csv", "text,label\nsharp,NaN\n", "sharp", "label 'NaN', read as no label"),
    "the same in JSON": ("a.jsonl", line(label="None"), "sharp", "label 'None', read as no label"),
    "spaces around a label": ("a.csv", "text,label\nsharp, positive\n", "sharp", "spaces around a label, dropped"),
    "XML beside the texts": (
        "a.xml",
        "<sentences><text>of nobody</text><sentence><text>sharp</text><note>odd</note></sentence></sentences>",
        "sharp",
        "words outside of a sentence's <text>, left out",
    ),
}
COUNTED_TWICE = ("XML beside the texts",)


@pytest.mark.parametrize("case", COUNTED)
def test_what_is_counted(case: str, write: Callable[..., Path]) -> None:
    name, content, text, warning = COUNTED[case]
    corpus = read(write(name, content), domain="camera")
    assert [record.text for record in corpus.records] == [text]
    assert corpus.warnings[warning] == 1 + (case in COUNTED_TWICE)


def test_labels_that_are_none_and_labels_that_look_so(write: Callable[..., Path]) -> None:
    labels = ["NaN", "nan", "None", "null", "NULL", "<NA>", "#N/A", " ", "", "NONE", "none", "NA", " positive ", "0"]
    path = write("a.csv", "text,label\n" + "".join(f"t{i},{label}\n" for i, label in enumerate(labels)))
    found = [record.label for record in read(path, domain="camera").records]
    assert found == [None] * 9 + ["NONE", "none", "NA", "positive", "0"]


@pytest.mark.parametrize("space", ["\xa0", "\x85", "\u2028", "\u3000", "\x1f"])
@pytest.mark.parametrize("sep", [" ", "\t", " DT "])
def test_conll_columns_are_parted_by_spaces_and_tabs_alone(space: str, sep: str, write: Callable[..., Path]) -> None:
    (record,) = read(write("a.conll", f"New{space}York{sep}B-ASP\nis{sep}O\n"), domain="camera").records
    assert record.text == f"New{space}York is"
    assert record.spans == (Span(0, 8, "aspect"),)


@pytest.mark.parametrize("stray", ["##wow", "lens[+2]##wow", "[t]ime for tea"])
def test_a_stray_mark_makes_no_hu_liu(stray: str, write: Callable[..., Path]) -> None:
    texts = [f"sentence {i}" for i in range(26)] + [stray] + [f"sentence {i}" for i in range(26)]
    corpus = read(write("a.txt", "\n".join(texts)), domain="camera", labelled=False)
    assert [record.text for record in corpus.records] == texts


DOCTYPE = '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "c">]>\n<sentences/>'
OFFSET = XML_2014.replace('from="8"', 'from="7"')
# name of the file, its content, line in the message, the message from there
REFUSED: dict[str, tuple[str, str | bytes, str, str]] = {
    "invalid UTF-8": (
        "a.txt",
        b"sharp\ncaf\xe9 au lait\n",
        ":2",
        r"byte 9 of the file is b'\xe9'; expected UTF-8; unpack it, or re-encode it, for instance: iconv -f latin1 ",
    ),
    "UTF-16": (
        "a.txt",
        "sharp".encode("utf-16"),
        "",
        "file is 'UTF-16, or no text'; expected UTF-8 text; re-encode it: iconv -f utf-16 -t utf-8 ",
    ),
    "empty file": ("a.jsonl", "", "", "file is 'empty'; expected records; check how it was written"),
    "blank file": ("a.jsonl", "\n \n", "", "file is 'blank'; expected records; check how it was written"),
    "only blank texts": (
        "a.jsonl",
        line(text=" "),
        "",
        "number of records is 0; expected at least one; check how the file was written",
    ),
    "duplicate ids": (
        "a.jsonl",
        line() + line(id="b") + line(),
        ":3",
        "id is 'a'; expected an id used once (line 1 has it too); rename or drop one of the two",
    ),
    "invalid JSON": (
        "a.jsonl",
        line() + '{"id": "b", "text": sharp}\n',
        ":2",
        "JSON at column 21 (Expecting value) is 'sharp}'; expected one JSON object a line; ",
    ),
    "JSON cut off": (
        "a.jsonl",
        '{"id": "b"',
        ":1",
        "JSON at column 11 (Expecting ',' delimiter) is ''; expected ",
    ),
    "JSON too deep": ("a.jsonl", "[" * 100_000, ":1", "JSON (RecursionError) is '[[["),
    "JSON number too long": ("a.jsonl", "1" * 5000, ":1", "JSON (ValueError) is '111"),
    "a JSON list": ("a.jsonl", '["sharp"]\n', ":1", "record is ['sharp']; expected a JSON object; "),
    "a JSON list without a comma": (
        "a.json",
        '[{"text": "a"},\n{"text": "b"} {"text": "c"}]',
        ":2",
        "after an object is ' {",
    ),
    "a JSON list with a comma too many": ("a.json", '[{"text": "a"},\n]', ":1", "after an object is ',"),
    "a JSON list cut off": (
        "a.json",
        '[{"text": "a"},\n{"text":',
        ":2",
        "JSON at column 9 (Expecting value) is ''; expected a list of JSON objects; ",
    ),
    "a JSON list of other things": ("a.json", '["a"]', ":1", "start of the file is '["),
    "a field twice in a JSON list": ("a.json", '[\n{"text": "a", "text": "b"}]', ":2", "field is 'text'; expected "),
    "a field twice": (
        "a.jsonl",
        '{"id": "a", "id": "b", "text": "c"}\n',
        ":1",
        "field is 'id'; expected each field once in an object; drop one of the two",
    ),
    "half a surrogate in a tag": (
        "a.jsonl",
        '{"id": "a", "tokens": ["b"], "tags": ["B-\\ud800"]}\n',
        ":1",
        r"tags[0] is '\ud800'; expected whole characters; write both halves of the surrogate pair",
    ),
    "half a surrogate in a domain": (
        "a.jsonl",
        line(domain="hot\udc00"),
        ":1",
        r"domain is '\udc00'; expected whole characters; write both halves of the surrogate pair",
    ),
    "half a surrogate in a span type": (
        "a.jsonl",
        line() + line(id="b", spans=[{"start": 0, "end": 1, "type": "asp\udc00"}]),
        ":2",
        r"spans[0] type is '\udc00'; expected whole characters; write both halves of the surrogate pair",
    ),
    "blank label": ("a.jsonl", line(label=" "), ":1", "label is ' '; expected a string that is not blank, or null; "),
    "a second text": (
        "a.xml",
        "<sentences><sentence>\n<text>sharp</text>\n<text>light</text></sentence></sentences>",
        ":3",
        "<text> is 'a second one'; expected one in each sentence; make it a sentence of its own, or join the two",
    ),
    "a sentence in another": (
        "a.xml",
        "<sentences><sentence>\n<sentence><text>sharp</text></sentence></sentence></sentences>",
        ":2",
        "sentence is 'inside another'; expected one after the other; close it before the next",
    ),
    "XML that is none, with carriage returns": (
        "a.xml",
        "<sentences>\r\n<sentence>\r\r<text>a & b</text>",
        ":4",
        "XML at column 10 (not well-formed (invalid token)): line is '<text>a & b</text>'; expected ",
    ),
    "too few tags": (
        "a.jsonl",
        '{"id": "a", "tokens": ["b", "c"], "tags": ["O"]}\n',
        ":1",
        "number of tags is 1; expected 2, the number of tokens; give each token one tag",
    ),
    "tags of another scheme": (
        "a.jsonl",
        '{"id": "a", "tokens": ["b"], "tags": ["T-POS"]}\n',
        ":1",
        "tags[0] is 'T-POS'; expected O, B-TYPE or I-TYPE, or BIOES or BILOU; convert the tags to BIO",
    ),
    "no column text": (
        "a.csv",
        "sentence,label\na,b\n",
        ":1",
        "header is 'sentence,label'; expected a column text; say which one holds the text: source.text=COLUMN, ",
    ),
    "a column twice": (
        "a.csv",
        "text,text\na,b\n",
        ":1",
        "header is 'text,text'; expected each column once; rename one of the two",
    ),
    "a comma without quotes": (
        "a.csv",
        "text,label\nok,x\nsharp, light,y\n",
        ":3",
        "row of 3 fields is ['sharp', ' light', 'y']; expected 2 fields, as in the header ('text, label'); ",
    ),
    "a quote never closed": (
        "a.csv",
        'text,label\nok,x\n"sharp,y\nlight,z\n',
        ":3",
        "row (unexpected end of data) is '\"sharp,y'; expected well-formed CSV; ",
    ),
    "a quote inside a field": (
        "a.tsv",
        'text\tlabel\n"Go" home\tx\n',
        ":2",
        "row ('TAB' expected after '\"') is '\"Go\" home\\tx'; expected well-formed CSV; ",
    ),
    "XML that is none": (
        "a.xml",
        "<sentences>\n<sentence>\n<text>a & b</text>",
        ":3",
        "XML at column 10 (not well-formed (invalid token)): line is '<text>a & b</text>'; expected ",
    ),
    "entities": (
        "a.xml",
        DOCTYPE,
        ":2",
        "document type is 'a'; expected none, as in the owners' files; delete the DOCTYPE",
    ),
    "offset of another word": (
        "a.xml",
        OFFSET,
        ":5",
        "term at characters 7 to 12 (' lens') is 'lens'; expected the text at these offsets; count ",
    ),
    "no offset": (
        "a.xml",
        XML_2014.replace('from="8"', ""),
        ":5",
        "from is missing; expected a character offset; write it in digits",
    ),
    "sentence without text": (
        "a.xml",
        "<sentences>\n<sentence id='1'/></sentences>",
        ":2",
        "text is missing; expected a <text> in each sentence; add it, or drop the sentence",
    ),
    "column without tag": (
        "a.conll",
        "The O\nlens\n",
        ":2",
        "line is 'lens'; expected a token and a tag; end each line with its tag; ",
    ),
    "column of other tags": (
        "a.conll",
        "The O\nlens M-ASP\n",
        ":2",
        "tag is 'M-ASP'; expected O, B-TYPE or I-TYPE, or BIOES or BILOU; convert the tags to BIO",
    ),
    "review cut off": (
        "a.review",
        "<review>\n<rating>\n5.0\n</rating>\n",
        ":1",
        "<review> is 'open at the end of the file'; expected </review>; the file may have been cut off: ",
    ),
    "field never closed": (
        "a.review",
        "<review>\n<rating>\n5.0\n</review>\n",
        ":2",
        "field is '<rating>'; expected its end before line 4; close it with </rating> on a line of its own",
    ),
    "rating no number": (
        "a.review",
        REVIEWS.replace("1.0", "one"),
        ":13",
        "rating is 'one'; expected a number from 0 to 5; correct it, or drop the review",
    ),
    "review without text": (
        "a.review",
        "<review>\n<rating>\n5.0\n</rating>\n</review>\n",
        ":1",
        "review is 'rating'; expected a field review_text; add it, or drop the review",
    ),
    "text between fields": (
        "a.review",
        "<review>\nstray\n</review>\n",
        ":2",
        "line is 'stray'; expected a field of a <review>; put each tag on a line of its own ",
    ),
    "no known format": (
        "a.bin",
        "\x1b[2J sharp\n",
        "",
        r"start of the file is '\x1b[2J sharp\n'; expected a format among blitzer_review, conll, ",
    ),
    "two formats": (
        "a.txt",
        "<review> O\n",
        "",
        "format is 'blitzer_review and conll'; expected one that fits; name it: format=blitzer_review",
    ),
}


@pytest.mark.parametrize(("name", "content", "number", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(
    name: str, content: str | bytes, number: str, message: str, write: Callable[..., Path]
) -> None:
    path = write(name, content)
    with pytest.raises(DataError) as refused:
        read(path, domain="camera")
    assert str(refused.value).startswith(f"{path}{number}: {message}")
    assert str(refused.value).isprintable()
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_files_that_are_none(tmp_path: Path) -> None:
    missing = tmp_path / "gone.jsonl"
    rest = "expected a file that can be read"
    for path, problem in [(missing, "No such file or directory"), (tmp_path, "Is a directory")]:
        with pytest.raises(DataError) as refused:
            read(path, domain="camera")
        assert str(refused.value).startswith(f"{path}: file is '{problem}'; {rest}; ")
    with pytest.raises(DataError, match=r"file is 'embedded null byte'"):
        read("a\0b", domain="camera")


def test_a_format_that_is_unknown_lists_the_others(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="format is 'xlsx'; expected one of blitzer_review, conll, delimited, "):
        read(write("a.txt", "sharp\n"), domain="camera", format="xlsx")


@pytest.mark.parametrize("format", ["jsonl", "delimited", "plain_text", "semeval_xml", "hu_liu", "blitzer_review"])
def test_a_line_of_a_megabyte(format: str, write: Callable[..., Path]) -> None:
    text = "sharp lens " * 100_000 + "."
    long = {
        "jsonl": ("a.jsonl", line(text=text)),
        "delimited": ("a.csv", f"text,label\n{text},positive\n"),
        "plain_text": ("a.txt", text),
        "semeval_xml": ("a.xml", f"<sentences><sentence id='1'><text>{text}</text></sentence></sentences>"),
        "hu_liu": ("a.txt", f"[t]a\nuse[+2]##ok .\nlens[+2]##{text}\n"),
        "blitzer_review": ("a.review", f"<review>\n<review_text>\n{text}\n</review_text>\n</review>\n"),
    }
    assert read(write(*long[format]), domain="camera").records[-1].text == text


def test_labels_unknown_to_the_task(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", line(label="positive") + line(id="b", label="postive\x1b"))
    records = read(path, domain="camera").records
    task = Classification(["negative", "positive"])
    task.check(records[:1])
    with pytest.raises(DataError) as refused:
        task.check(records)
    assert str(refused.value) == (
        rf"{path}:2: label is 'postive\x1b'; expected 'negative' or 'positive'; did you mean 'positive'?"
    )
    with pytest.raises(DataError, match="rename it, or train with it in task.labels"):
        Classification(["x", "y"]).check(records)


def test_span_types_unknown_to_the_task(write: Callable[..., Path]) -> None:
    records = read(write("a.conll", CONLL), domain="laptop").records
    Extraction(["aspect", "opinion"]).check(records)
    with pytest.raises(DataError, match=r"a.conll:6: span type is 'opinion'; expected 'aspect'; rename it"):
        Extraction(["aspect"]).check(records)
