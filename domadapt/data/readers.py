"""Readers of corpora: one family, a table of formats.

A reader yields ``(line, record)`` and counts what it mends or leaves out. A new one has a line in :data:`FORMATS`.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from domadapt.data import files
from domadapt.data.files import Columns, Corpus, OpenedFile, Records, canonical, count_damage, open_file, rename_columns
from domadapt.data.published import blitzer_review, hu_liu, is_hu_liu, semeval_xml
from domadapt.data.records import RENAMED, DataError, Location, Record, from_tokens, quoted, split_tag

HEAD: Final = 4096  # characters that tell the format


def read(
    path: Path | str,
    *,
    domain: str,
    labelled: bool = True,
    format: str | None = None,
    content: bytes | None = None,
    columns: Columns | None = None,
) -> Corpus:
    r"""Read a corpus, in whichever ``format`` it is; None looks at the text, then at the extension.

    Its records are of ``domain``, whatever the file says. Unless ``labelled``, labels, tags and spans stay unread, as
    target text's must. ``columns``: by our name of a field, the columns that may hold it, the likeliest first.

    >>> corpus = read("camera.csv", domain="camera", content=b"text,label\nsharp,positive\n ,negative\n")
    >>> [(record.id, record.text, record.label) for record in corpus.records], dict(corpus.warnings)
    ([('camera/camera:2', 'sharp', 'positive')], {'blank text, dropped': 1})
    """
    path = Path(path)
    file = open_file(path, domain, labelled, content, columns)
    first_line: dict[str, int] = {}
    records: list[Record] = []
    name = choose_format(path, file.text[:HEAD], format)
    if name == "plain_text":
        refuse_columns(path, [own for own, *others in (columns or {}).values() if not others])  # not of the other side
    with _suggest_plain_text(name, file):
        for line, record in FORMATS[name].read(file):
            if not record.text.strip():
                file.warnings["blank text, dropped"] += 1
                continue
            if record.id in first_line:
                expected = f"an id used once (line {first_line[record.id]} has it too)"
                raise file.error(line, "id", record.id, expected, "rename or drop one of the two")
            first_line[record.id] = line
            records.append(replace(record, where=file.where(line)))
            count_damage(record.text, file.warnings)
    if not records:
        raise DataError(Location(path), "number of records", 0, "at least one", "check how the file was written")
    renamed = [what for what in file.warnings if what.startswith(RENAMED)]
    if len(renamed) == 1 and file.warnings[renamed[0]] == len(records):
        del file.warnings[renamed[0]]  # one domain under another name mixes nothing up
    if labelled and all(record.label is None and record.spans is None for record in records):
        file.warnings["labels asked for, record has none"] += len(records)
    return Corpus(tuple(records), file.warnings)


@contextmanager
def _suggest_plain_text(name: str, file: OpenedFile) -> Iterator[None]:
    """Of unlabelled text whose first line looks like another format, an error says how to have it read as text."""
    try:
        yield
    except DataError as error:
        if file.labelled or file.columns or name == "plain_text" or ".txt" not in file.path.suffixes:
            raise
        fix = f"{error.fix}; or, if it is one text a line, format=plain_text (to train, target.format=plain_text)"
        raise DataError(error.where, error.field, error.value, error.expected, fix) from None


def refuse_columns(path: Path, columns: Sequence[str]) -> None:
    if columns:
        fix = "leave it out, or say which format has them: format=delimited"
        raise DataError(Location(path), "column", columns[0], "none, as plain text has no columns", fix)


def choose_format(path: Path, head: str, format: str | None) -> str:
    """The name of the format that a file is in, by what the user says, its first characters, then its extension."""
    names, where = ", ".join(FORMATS), Location(path)
    if format is not None:
        if str(format) not in FORMATS:
            raise DataError(None, "format", format, f"one of {names}", "delimited is for CSV and TSV, or leave it out")
        return format
    fitting = [name for name, known in FORMATS.items() if known.fits(head)]
    # Text first, then extension: published .txt files hold three formats.
    extension = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    fitting = fitting or [name for name, known in FORMATS.items() if extension in known.extensions]
    if not fitting:
        fix = (
            "say format=plain_text if it is one text a line (to train, target.format=plain_text), or let it end in "
            ".txt or .csv; JSON is one object a line or a list of them"
        )
        raise DataError(where, "start of the file", head, f"a format among {names}", fix)
    if len(fitting) > 1:
        fix = "name it: format={0}, and to train source.format={0} or target.format={0}".format(fitting[0])
        raise DataError(where, "format", " and ".join(fitting), "one that fits", fix)
    return fitting[0]


def plain_text(file: OpenedFile) -> Records:
    """Unlabelled text: one document or sentence a line. It has no marks, so the extension tells it."""
    return ((line, Record(file.generated_id(line), file.domain, text)) for line, text in file.lines())


Row = TypeVar("Row")
Decoded = Iterator[tuple[int, int, Any]]  # the line of an object, its number for a generated id, the object


def jsonl(file: OpenedFile) -> Decoded:
    """JSON Lines: one object a line, ours (:func:`~domadapt.data.records.parse_record`), doccano's or spaCy's."""
    expected, fix = "one JSON object a line", "write each record with json.dumps on a line of its own"
    for line, content in file.lines():
        if not content.strip():
            file.warnings["blank line, skipped"] += 1
            continue
        with _as_data_error(file.where(line), line, content, expected, fix):
            fields = _decoder(file, line).decode(content)
        rows = [[*one] if isinstance(one, dict) else [] for one in fields.values()] if isinstance(fields, dict) else []
        if len(rows) > 1 and rows[0] and rows == rows[:1] * len(rows):
            pandas = "write it from pandas with frame.to_json(path, orient='records', lines=True)"
            raise file.error(line, "line", content, "a record, not a table of columns", pandas)
        yield line, line, fields


_START: Final = re.compile(r"\s*\[\s*(?=[\[{])")
_BETWEEN: Final = re.compile(r"\s*,\s*(?=[\[{])")
_END: Final = re.compile(r"\s*\]\s*\Z")


def json_list(file: OpenedFile) -> Decoded:
    """JSON: a list of objects, on one line or many, or of spaCy's [text, object]. Where ids are left out, they are
    numbers of objects."""
    expected, fix = "a list of JSON objects", "write it with json.dump, or one object a line (.jsonl)"
    text, between = file.text, _START.match(file.text)
    if between is None and re.fullmatch(r"\s*\[\s*\]\s*", text):
        return  # what has no records is told of every format alike
    if between is None:
        raise file.error(1, "start of the file", text, expected, fix)
    line, previous, number = 1, 0, 0
    while between is not None:
        start, number = between.end(), number + 1
        line += text.count("\n", previous, start)
        with _as_data_error(file.where(line), 1, text[start : start + 200], expected, fix):
            fields, end = _decoder(file, line).raw_decode(text, start)
        yield line, number, fields
        previous, between = start, _BETWEEN.match(text, end)
    if not _END.match(text, end):
        line = 1 + text.count("\n", 0, end)
        raise file.error(line, "after an object", text[end:], "a comma and an object, or the list's ]", fix)


def _decoder(file: OpenedFile, line: int) -> JSONDecoder:
    """Refuses an object that names a field twice."""

    def refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
            raise file.error(line, "field", twice[0], "each field once in an object", "drop one of the two")
        return dict(pairs)

    return JSONDecoder(object_pairs_hook=refuse_repeats)


@contextmanager
def _as_data_error(where: Location, begins: int, content: str, expected: str, fix: str) -> Iterator[None]:
    """Turn what a decoder raises into one line for the user; its text begins at line ``begins``."""
    try:
        yield
    except DataError:
        raise
    except JSONDecodeError as error:
        at, field = Location(where.path, begins + error.lineno - 1), f"JSON at column {error.colno} ({error.msg})"
        raise DataError(at, field, error.doc[error.pos :], expected, fix) from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, a thousand brackets
        raise DataError(where, f"JSON ({type(error).__name__})", content, expected, fix) from None


def _records(read: Callable[[OpenedFile], Decoded]) -> Callable[[OpenedFile], Records]:
    """The records of decoded objects. Rows of a span each, as a DataFrame may have them, are one record a text."""

    def records(file: OpenedFile) -> Records:
        others = {"label", "spans", "tokens", *file.columns.get("label", ())}
        ids, texts = ({name, *file.columns.get(name, ())} for name in ("id", "text"))

        def text_of_span(row: tuple[int, int, Any]) -> object:
            fields = row[2]
            if not isinstance(fields, dict) or not {*SPAN[:3]} <= fields.keys() or others & fields.keys():
                return row[:2]
            named = {name: value for name, value in fields.items() if name in ids | texts}
            return named if texts & named.keys() else row[:2]

        for rows in _grouped(read(file), text_of_span, file):
            line, number, decoded = rows[0]
            if isinstance(text_of_span(rows[0]), dict):
                spans = [_span_of_cells(row[2]) for row in rows if row[2]["start"] is not None]
                _count_blank(file, len(rows), len(spans))
                decoded = {name: value for name, value in decoded.items() if name not in SPAN} | {"spans": spans}
            yield line, _json_record(file, decoded, line, number)

    return records


def _grouped(rows: Iterator[Row], key: Callable[[Row], object], file: OpenedFile) -> Iterator[list[Row]]:
    """Rows of one key, wherever they stand: a table of spans may be sorted by their types."""
    groups = defaultdict[str, list[Row]](list)
    for row in rows:
        groups[repr(key(row))].append(row)
    if not file.labelled and (more := sum(len(group) - 1 for group in groups.values())):
        file.warnings["row with start, end and type whose text another row has: read as its span, no text"] += more
    return iter(groups.values())


def _count_blank(file: OpenedFile, rows: int, spans: int) -> None:
    """Of a text's rows one may lack a span, if there is no other."""
    if file.labelled and (more := rows - max(1, spans)):
        file.warnings["row without a span whose text another row has: read as one text"] += more


def _span_of_cells(row: Any) -> dict[str, Any]:
    """A row's span; whole numbers are floats in a column of pandas that has blanks, too."""
    given = {"text" if name == "span" else name: row[name] for name in SPAN if row.get(name) is not None}
    whole = {name: int(value) for name, value in given.items() if isinstance(value, float) and value.is_integer()}
    return given | {name: value for name, value in whole.items() if name in SPAN[:2]}


UNACCEPTED: Final = ("reject", "ignore")  # what an annotator answers Prodigy if the labels are wrong, or not judged


def _json_record(file: OpenedFile, decoded: object, line: int, number: int) -> Record:
    if isinstance(decoded, list) and [type(part) for part in decoded] == [str, dict]:
        decoded = {"text": decoded[0], **decoded[1]}
    if isinstance(decoded, dict):
        if {"data", "annotations"} <= decoded.keys() and "text" not in decoded:
            fix = "export it from Label Studio as JSON-MIN, or spans as CoNLL"
            raise file.error(line, "list of fields", ", ".join(decoded), "a field text", fix)
        unfolded = files.with_inner_fields(decoded)
        fields = rename_columns(unfolded if file.columns else decoded, file.columns, file.where(line))
        if not {"text", "tokens"} & fields.keys():
            raise file.error(line, "list of fields", ", ".join(unfolded), "a field text", files.COLUMN_SETTINGS["text"])
        if "_input_hash" in decoded and (fields.pop("answer", None) or decoded.get("answer")) in UNACCEPTED:
            file.warnings["Prodigy's answer is reject or ignore: read without labels"] += 1
            fields = {name: value for name, value in fields.items() if name not in files.SPANS}
        lists = [name for name in files.SPANS if isinstance(fields.get(name), list)]
        of_spans = [name for name in lists if any(isinstance(item, dict | list) for item in fields[name])]
        if file.labelled and len(of_spans) > 1:  # one would take the other's place
            raise file.error(line, "list of spans", " and ".join(of_spans), "one of them", "join the two, or drop one")
        decoded = canonical(fields, file.generated_id(number))
    return file.record(decoded, line)


_WHOLE: Final = re.compile(r"-?\d+\.0")
_NO_HEADER: Final = "; if this line is no header, add one, such as text,label, or delete what stands above the header"
SPAN: Final = ("start", "end", "type", "span", "confidence")  # columns of a span; ``span`` holds its words


def delimited(file: OpenedFile) -> Records:
    """CSV and TSV with a header: ``text`` and maybe ``label``, ``id``, ``domain``. A blank label is none.

    With ``start``, ``end`` and ``type``, and no ``label``, each row is a span, as `predict` writes it; a text without
    spans has one row, with blanks.
    """
    marked = bool(_SEP.match(file.text))
    header_line = file.text.split("\n", 2)[marked]
    columns = {name: tuple(map(_name, wanted)) for name, wanted in file.columns.items()}
    header = _header(file.text[: max(HEAD, file.text.find("\n", HEAD))])  # of hundreds of columns it is longer
    or_else = "" if {"text", *columns.get("text", ())} & {*header} else _NO_HEADER
    if "text" not in header and "text" not in columns:
        title = len([*filter(None, header)]) == 1 < len(header)
        fix = "delete what stands above the names of the columns" if title else files.COLUMN_SETTINGS["text"] + or_else
        raise file.error(1 + marked, "header", header_line, "a column text", fix)
    if max(Counter(filter(None, header)).values(), default=0) > 1:
        raise file.error(1 + marked, "header", header_line, "each column once", "rename one of the two")
    of_spans = {*SPAN[:3]} <= {*header} and not {"label", *columns.get("label", ())} & {*header}

    def cells() -> Iterator[tuple[int, dict[str, str], dict[str, Any]]]:
        for line, row in _rows(file, header_line, marked):
            if not row:
                file.warnings["blank line, skipped"] += 1
                continue
            if len(row) != len(header):
                expected = f"{len(header)} fields, as in the header ({quoted(', '.join(header))})"
                fix = "quote the fields that hold a delimiter, with quotes inside them doubled"
                raise file.error(line, f"row of {len(row)} fields", row, expected, fix)
            raw = dict(zip(header, row, strict=True))
            yield line, raw, rename_columns(raw, columns, file.where(1 + marked), or_else)

    for rows in _grouped(cells(), lambda row: (row[2].get("id"), row[2].get("text")) if of_spans else row[0], file):
        line, _, fields = rows[0]
        fields["id"] = fields.get("id") or file.generated_id(line)
        label = str(fields.get("label", ""))
        if _WHOLE.fullmatch(label):  # as a spreadsheet or pandas writes whole numbers beside blanks
            file.warnings["label N.0, read as N"] += 1
            label = label.partition(".")[0]
        fields["label"] = label if label.strip() else None
        # A table cannot hold lists: such a column is unknown here, whatever it means in JSON.
        for name in ("tokens", "tags", "spans"):
            if fields.pop(name, None) is not None:
                file.warnings[f"column {quoted(name)}, ignored"] += 1
        if of_spans:
            fields = {name: value for name, value in fields.items() if name not in SPAN}
            if file.labelled:
                fields["spans"] = [span for number, raw, _ in rows for span in _span_of_row(file, number, raw)]
                _count_blank(file, len(rows), len(fields["spans"]))
                if "\r\n" in fields["text"]:
                    file.warnings["CRLF inside a text, which counts as two characters in offsets"] += 1
        yield line, file.record(fields, line)


def _span_of_row(file: OpenedFile, line: int, cells: dict[str, str]) -> list[dict[str, Any]]:
    """A row's span as JSON has it, or none."""
    given: dict[str, Any] = {name: cells[name] for name in SPAN if cells.get(name, "").strip()}
    if not given.keys() & {*SPAN[:3]}:
        return []
    for name in SPAN[:2]:
        digits = given.get(name, "").strip().removesuffix(".0")  # as a spreadsheet or pandas writes them beside blanks
        if not digits.isdecimal() or len(digits) > 9:
            raise file.error(line, name, cells[name], "a character offset", "count characters from 0, end exclusive")
        given[name] = int(digits)
    return [{"text" if name == "span" else name: value for name, value in given.items()}]


def _is_delimited(head: str) -> bool:
    """Whether the first row is a header of several columns, one of them ``text``."""
    header = _header(head)
    return len(header) > 1 and "text" in header


_SEP: Final = re.compile(r'\Asep=([^\w\s"]|\t)\n')  # Excel's own first line, which says what parts cells


def _delimiter(head: str) -> str:
    if declared := _SEP.match(head):
        return declared[1]
    first = re.sub('"[^"]*"', "", head).split("\n", 1)[0]  # what is quoted parts nothing: "Good, or bad?";"Stars"
    return max("\t,;|", key=first.count)


def _header(head: str) -> list[str]:
    delimiter, lines = _delimiter(head), _SEP.sub("", head).split("\n")
    try:  # a name may go over several lines, in quotes
        names = next(csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # told of the row that it is
        names = lines[0].split(delimiter)
    return [_name(name.strip().strip('"')) for name in names]


def _name(column: str) -> str:
    return " ".join(column.lower().split())


def _rows(file: OpenedFile, header_line: str, marked: bool) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # the module's own limit, 128 KiB, is shorter than some documents
    lines = file.as_stored.removesuffix("\n").split("\n")
    delimiter, line = _delimiter(file.text[:HEAD]), 1 + marked
    try:
        names = next(csv.reader([header_line], delimiter=delimiter), [])
        spaced = {name[:1] for name in names[1:]} == {" "}  # "text", "label": spaces are the table's, quotes follow
        with_ends = (f"{content}\n" for content in lines)
        rows = csv.reader(with_ends, delimiter=delimiter, strict=True, skipinitialspace=spaced)
        for _ in range(1 + marked):
            next(rows)
        line = rows.line_num + 1
        for row in rows:
            of_row = lines[line - 1 : rows.line_num] if delimiter == "\t" else []  # tabs are rare in texts
            if len(of_row) > 1 and all(content.count("\t") == len(names) - 1 for content in of_row):
                expected = f"one row, where each of its {len(of_row)} lines looks like a row"
                fix = "a quote opens its cell: put quotes around the cell, and double those inside it"
                raise file.error(line, "row", lines[line - 1], expected, fix)
            yield line, row
            line = rows.line_num + 1
    except csv.Error as error:
        field, content = f"row ({str(error).replace(chr(9), 'TAB')})", dict(file.lines()).get(line, "")
        fix = "put quotes around fields that hold quotes or line ends, and double the quotes inside"
        raise file.error(line, field, content, "well-formed CSV", fix) from None


_DOCUMENT: Final = "-DOCSTART-"  # of CoNLL-2003: a row of its own between documents
_ROW: Final = re.compile(r"\S.*[\t ](O|[BIESLU]-\S+)\s*")


def conll(file: OpenedFile) -> Records:
    """CoNLL columns: a token and its tag (BIO, BIOES or BILOU) a line, a blank line between sentences.

    The token is the first column and the tag the last, tab- or space-separated; columns between are left out. In a file
    that is not to be read with labels, lines may be tokens alone.
    """
    for blank, group in groupby(file.lines(), key=lambda numbered: not numbered[1].strip()):
        lines = [] if blank else list(group)
        rows = [(line, content) for line, content in lines if content.split()[0] != _DOCUMENT]
        if len(rows) < len(lines):
            file.warnings[f"{_DOCUMENT} lines, left out"] += len(lines) - len(rows)
        if not rows:
            continue
        tokens, tags = [], []
        for line, content in rows:
            row = content.strip("\t ")  # no other white space: that of New\xa0York is part of a token
            columns = [column.strip(" ") for column in (row.split("\t") if "\t" in row else re.split(" +", row))]
            tokens.append(columns[0])
            if file.labelled:
                if len(columns) < 2:
                    fix = "end each line with its tag; words that are no aspect or opinion have O"
                    raise file.error(line, "line", content, "a token and a tag", fix)
                split_tag(columns[-1], file.where(line))  # refused here, where the line is known
                tags.append(columns[-1])
        first = rows[0][0]
        text, words, spans = from_tokens(tokens, tags if file.labelled else None, file.where(first), file.warnings)
        yield first, Record(file.generated_id(first), file.domain, text, words, None, spans)


def _is_conll(head: str) -> bool:
    """Whether every line ends with a tag, and some line with O: text may end in 'U-Bahn' on every line."""
    lines = head.split("\n")
    rows = [_ROW.fullmatch(line) for line in lines[:-1] or lines if line.strip()]
    return all(rows) and any(row[1] == "O" for row in rows if row)


class Format(NamedTuple):
    read: Callable[[OpenedFile], Records]  #: yields each record with its first line
    fits: Callable[[str], bool]  #: whether the first characters of a file bear the format's own marks
    extensions: tuple[str, ...] = ()  #: that mean this format when the text itself does not tell


def _starts(*marks: str) -> Callable[[str], bool]:
    return lambda head: head.lstrip().startswith(marks)


FORMATS: Final = {
    "blitzer_review": Format(blitzer_review, _starts("<review>", "<reviews>"), (".review",)),
    "conll": Format(conll, _is_conll, (".conll", ".bio")),
    "delimited": Format(delimited, _is_delimited, (".csv", ".tsv")),
    "hu_liu": Format(hu_liu, is_hu_liu),
    "json_list": Format(_records(json_list), lambda head: bool(_START.match(head)), (".json",)),
    "jsonl": Format(_records(jsonl), _starts("{"), (".jsonl", ".ndjson")),
    "plain_text": Format(plain_text, lambda head: False, (".txt",)),
    "semeval_xml": Format(semeval_xml, _starts("<?xml", "<sentences", "<Reviews"), (".xml",)),
}
