"""A file as a reader gets it: unpacked, decoded, its lines numbered, its columns under our names."""

import gzip
import hashlib
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from domadapt.data.records import MISSING, DataError, Location, Record, Unquoted, parse_record
from domadapt.utils.files import replace_atomic
from domadapt.utils.pairs import is_text

PACKED: Final = (b"\x1f\x8b", b"PAR1")  # gzip and parquet: no line of them can be read before the end is
SIGNATURES: Final = {
    b"PK\x03\x04": ("an Excel or zip file", "save the sheet as CSV, or unpack it"),
    b"%PDF": ("a PDF file", "save its text as a .txt file"),
}
Columns = Mapping[str, tuple[str, ...]]
OURS: Final = ("id", "text", "text_pair", "label")
COLUMN_SETTINGS: Final = {  # how a user names a column
    "text": "say which one holds the text: source.text=COLUMN, target.text=COLUMN (and source.label=COLUMN); to "
    "predict, score, compare, sample, parse or export, column=COLUMN (of input=; in examples=, rename it to text)",
    "text_pair": "name another with source.text_pair= or target.text_pair=, to predict, score with column=[ONE,OTHER]",
    "label": "name another with source.label= or target.label=, and to score with label=",
    "id": "name another with source.id= or target.id=, to predict with id=",
}
# Where spaCy, doccano, Prodigy and Label Studio (JSON-MIN) write spans: lists of [start, end, type], or objects.
SPANS: Final = ("spans", "entities", "ents", "label", "labels")
ENDS: Final = (("start", "start_offset"), ("end", "end_offset"), ("type", "label", "labels"))
# Tab, line feed and CRLF are ordinary; a carriage return alone, C0 and C1 are remains of some other format.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


@dataclass(frozen=True, slots=True)
class Corpus:
    """The records of one file, and how often each oddity was met and what was done about it."""

    records: tuple[Record, ...]
    warnings: Counter[str]


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """What a reader reads: the text of a file, with ``\\n`` at the ends of its lines, and how to read it.

    ``labelled`` False means that labels, tags and spans are to be left unread. ``warnings`` is where a reader
    counts what it met and mended. ``columns`` says what a table calls the fields of a record.
    """

    path: Path
    text: str
    domain: str
    labelled: bool
    warnings: Counter[str]
    columns: Columns = field(default_factory=dict)
    as_stored: str = ""  # the same with CRLF where the file has it, which is part of a text in a table's cell

    def where(self, line: int) -> Location:
        return Location(self.path, line)

    def error(self, line: int, field: str, value: object, expected: str, fix: str) -> DataError:
        return DataError(self.where(line), field, value, expected, fix)

    def generated_id(self, line: int) -> str:
        """An id for a record whose corpus gives none: the same at every reading, unlike any other line's."""
        return f"{self.domain}/{self.path.stem}:{line}"

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each line with its number, from 1, without its line end."""
        # Not splitlines: that would also cut at U+2028 and the like, which belong to the text.
        lines = self.text.split("\n")
        if not lines[-1]:
            lines.pop()
        return enumerate(lines, 1)

    def record(self, fields: object, line: int) -> Record:
        return parse_record(fields, self.where(line), self.domain, self.labelled, self.warnings)


Records = Iterator[tuple[int, Record]]  # as a reader yields them, each with its first line


def open_file(
    path: Path, domain: str, labelled: bool, content: bytes | None = None, columns: Columns | None = None
) -> OpenedFile:
    r"""Read and decode a file: UTF-8, maybe packed with gzip, or a parquet table.

    A byte order mark is dropped and counted, CRLF at the ends of lines becomes LF. ``content`` is what a pipe held,
    which is read only once.

    >>> file = open_file(Path("camera.txt"), "camera", False, b"\xef\xbb\xbfsharp\r\nlight\r\n")
    >>> list(file.lines()), file.generated_id(2), dict(file.warnings)
    ([(1, 'sharp'), (2, 'light')], 'camera/camera:2', {'byte order mark, dropped': 1})
    """
    check_name(path)
    try:
        raw = path.read_bytes() if content is None else content
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    raw = unpacked(path, raw)
    check_start(path, raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = Location(path, raw.count(b"\n", 0, error.start) + 1)
        raise not_utf8(where, f"byte {error.start} of the file", error) from None
    warnings = Counter[str]()
    if text.startswith("\ufeff"):
        text = text[1:]
        warnings["byte order mark, dropped"] += 1
    if not text.strip():
        raise without_records(path, "blank" if text else "empty")
    return OpenedFile(path, text.replace("\r\n", "\n"), domain, labelled, warnings, columns or {}, text)


def check_name(path: Path) -> None:
    """Refuse a path that can't be written into ids, results and logs: its name holds bytes that are not UTF-8."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        bad = str(path)[error.start]
        raise DataError(Location(path), "path", bad, "UTF-8 in its name", "rename the file or folder") from None


def check_start(path: Path, raw: bytes) -> None:
    """Refuse what is no text but is met most, and UTF-16: as UTF-8 much of it decodes, to a text nobody wrote."""
    head = raw[:4096]
    for start, (kind, fix) in SIGNATURES.items():
        if head.startswith(start):
            raise DataError(Location(path), "file", Unquoted(kind), "UTF-8 text", fix)
    marked = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if marked or 4 * head.count(0) > len(head):  # of Western text in UTF-16 every other byte is NUL
        fix = f"re-encode it: iconv -f utf-16 -t utf-8 {_shell(path)} > NEW_FILE (utf-16le or -16be if it has no mark)"
        raise DataError(Location(path), "file", "UTF-16, or no text", "UTF-8 text", fix)
    if raw.count(b"\r") > 1 and b"\n" not in raw:  # Excel's CSV (Macintosh)
        fix = rf"convert it: tr '\r' '\n' < {_shell(path)} > NEW_FILE"
        raise DataError(Location(path), "file", Unquoted("one line"), "lines that end in LF or CRLF, not CR alone", fix)


def not_utf8(where: Location, field: str, error: UnicodeDecodeError) -> DataError:
    """What to say of a byte that is not UTF-8."""
    command = f"iconv -f windows-1252 -t utf-8 {_shell(Path(where.path))} > NEW_FILE"
    fix = f"unpack it, or re-encode it: {command} (of Western languages; Russian may be windows-1251, Chinese gb18030)"
    return DataError(where, field, error.object[error.start : error.end], "UTF-8", fix)


def unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """What to say of a file that can't be opened or read; a ValueError is a NUL in its path."""
    fix = "name one of the files in it" if path.is_dir() else "check the path and its permissions"
    problem = f"not readable ({error.strerror if isinstance(error, OSError) else error})"
    value = MISSING if isinstance(error, FileNotFoundError) else Unquoted("a folder" if path.is_dir() else problem)
    return DataError(Location(path), "file", value, "a file that can be read", fix)


def without_records(path: Path, problem: str) -> DataError:
    """What to say of an empty or blank file."""
    return DataError(Location(path), "file", problem, "records", "check how it was written")


def _shell(path: Path) -> str:
    """A file's name as a shell takes it; control characters in it written out."""
    return shlex.quote(repr(path.name)[1:-1])


def count_damage(text: str, warnings: Counter[str]) -> None:
    """Count what is odd about a text that is read as it stands."""
    if "\ufffd" in text:
        warnings["text damaged by an earlier decoding (U+FFFD), kept"] += 1
    if _CONTROL.search(text):
        warnings["control characters in the text, kept"] += 1


def unpacked(path: Path, raw: bytes) -> bytes:
    """The text in a file's bytes, which are returned as they are where they are text."""
    gzipped, parquet = (raw.startswith(start) for start in PACKED)
    try:
        return gzip.decompress(raw) if gzipped else _table(path, raw) if parquet else raw
    except ImportError:
        fix = "pip install 'domadapt[report]'"
        raise DataError(Location(path), "file", "parquet", "pyarrow to read it with", fix) from None
    except Exception as error:  # gzip and pyarrow have several kinds
        if isinstance(error, DataError):
            raise
        kind = "gzip" if gzipped else "parquet"
        problem, expected = f"damaged {kind} ({error})", f"a whole {kind} file"
        raise DataError(Location(path), "file", problem, expected, "copy it again") from None


def _table(path: Path, raw: bytes) -> bytes:
    """A row a line; whole numbers that `datasets` has names for, as labels often are, by their names."""
    import pyarrow.parquet as parquet

    table: Any = parquet.read_table(io.BytesIO(raw))
    metadata = (table.schema.metadata or {}).get(b"huggingface", b"{}")
    features = json.loads(metadata).get("info", {}).get("features", {})
    names = {name: about["names"] for name, about in features.items() if isinstance(about, dict) and "names" in about}
    return as_lines(table.to_pylist(), names, path)


def as_lines(rows: Any, names: dict[str, list[str]], path: Path | None = None) -> bytes:
    r"""Rows as JSON Lines; ``names`` are of the values of columns that hold numbers in their place.

    >>> as_lines([{"text": "sharp", "label": 1}, {"text": "odd", "label": -1}], {"label": ["bad", "good"]}).splitlines()
    [b'{"text": "sharp", "label": "good"}', b'{"text": "odd", "label": null}']
    """
    lines = []
    for number, row in enumerate(rows, start=1):
        fields = dict(row)
        for name, value in fields.items():
            if isinstance(value, bytes | bytearray | memoryview):
                try:
                    fields[name] = bytes(value).decode("utf-8")
                except UnicodeDecodeError:
                    where, fix = Location(path or "table", number), "write the column as strings"
                    raise DataError(where, name, bytes(value), "text in UTF-8", fix) from None
            elif isinstance(value, int) and (known := names.get(name)) and -1 <= value < len(known):
                fields[name] = None if value == -1 else known[value]  # -1: nobody has labelled it
        # Numbers and lists of numpy as Python's; anything else, such as a date, as text.
        line = json.dumps(fields, ensure_ascii=False, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x))
        lines.append(line + "\n")
    return "".join(lines).encode("utf-8", "backslashreplace")  # half a surrogate pair as JSON has it


def save_data(data: Any, folder: Path, pairs: bool = False) -> Path:
    """A file with the data (see :func:`rows`), named by its content, so that a run on it is found again and resumed."""
    features = getattr(data, "features", None)  # of a dataset of `datasets`, which may know names of classes
    items = features.items() if isinstance(features, Mapping) else ()
    lines = as_lines(
        rows(data, pairs), {name: list(kind.names) for name, kind in items if getattr(kind, "names", None)}
    )
    if not lines:
        raise ValueError("the data is empty; expected at least one text")
    path = folder / f"{hashlib.sha256(lines).hexdigest()[:16]}.jsonl"
    if not path.is_file():
        replace_atomic(path, lambda part: part.write_bytes(lines))  # what is no UTF-8 is told when it is read
    return path


def has_pairs(path: Path) -> bool:
    """Whether the first record of a file of :func:`save_data`'s is a pair of texts."""
    with path.open(encoding="utf-8") as file:
        return json.loads(next(file)).get("text_pair") is not None


@contextmanager
def errors_naming(paths: Mapping[str | Path, str]) -> Iterator[None]:
    """Within it, errors in files that :func:`save_data` wrote name the data, which is all that their owner knows."""
    try:
        yield
    except DataError as error:
        if error.where is None or error.where.path not in paths:
            raise
        where = Location(paths[error.where.path], error.where.line)
        raise DataError(where, error.field, error.value, error.expected, error.fix) from None


def rows(data: Any, pairs: bool = False) -> Iterator[Mapping[str, Any]]:
    """Records as mappings: of texts; (text, label) or (text, spans), spans being (start, end, type); of pairs ((text,
    text), label); mappings; a pandas or polars DataFrame; a dataset of `datasets`; a mapping of columns.

    With ``pairs``, two strings are an unlabelled pair, not a text and its label.

    >>> list(rows([("It rains.", "It is dry.")], pairs=True))
    [{'text': 'It rains.', 'text_pair': 'It is dry.', 'label': None}]
    >>> list(rows(["Sharp."])), list(rows([("Sharp.", "positive")]))
    ([{'text': 'Sharp.'}], [{'text': 'Sharp.', 'label': 'positive'}])
    >>> list(rows({"review": ["Sharp.", "Dull."], "stars": [5, 1]}))[1]
    {'review': 'Dull.', 'stars': 1}
    """
    if hasattr(data, "to_dicts"):  # polars
        data = data.to_dicts()
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        if twice := [name for name, count in Counter(map(str, data.columns)).items() if count > 1]:
            raise ValueError(f"two columns are called {twice[0]!r}: rename one of the two")  # only the last is kept
        data = data.to_dict("records")
    elif isinstance(data, Mapping):
        if splits := [str(name) for name, part in data.items() if hasattr(part, "column_names")]:  # of load_dataset
            raise ValueError(f"data of the splits {', '.join(splits)}: give one of them, such as data[{splits[0]!r}]")
        if single := next((str(name) for name, values in data.items() if isinstance(values, str)), None):
            raise ValueError(f"column {single!r} is a text: expected a list of values in each; of one record [{{...}}]")
        columns = {str(name): list(values) for name, values in data.items()}
        sizes = {name: len(values) for name, values in columns.items()}
        if len({*sizes.values()}) > 1:
            raise ValueError(f"columns of {sizes} values: expected as many in each")
        data = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    if isinstance(data, str | set | frozenset) or not isinstance(data, Iterable):  # a set has another order each time
        raise ValueError(f"data of type {type(data).__name__}: expected a list of texts, pairs or dicts or a DataFrame")
    for number, item in enumerate(data, 1):
        if pairs and not isinstance(item, str) and is_text(item):
            item = (item, None)
        if isinstance(item, Mapping):
            yield {str(name): None if is_missing(value) else value for name, value in item.items()}
        elif isinstance(item, str):
            yield {"text": item}
        elif isinstance(item, tuple | list) and len(item) == 2 and is_text(item[0]):
            text, label = item
            texts = {"text": text} if isinstance(text, str) else dict(zip(("text", "text_pair"), text, strict=True))
            yield {**texts, "label": None if is_missing(label) else label}
        else:
            expected = "expected a text, (text, label) or a dict with a text"
            raise ValueError(f"item {number} is {repr(item)[:60]}; {expected}")


def is_missing(value: Any) -> bool:
    """None, NaN, and pandas' own marks, which are equal to nothing."""
    return value is None or (not hasattr(value, "__len__") and (repr(value) in ("<NA>", "NaT") or value != value))


def rename_columns(fields: Mapping[str, Any], columns: Columns, where: Location, or_else: str = "") -> dict[str, Any]:
    """Fields under our names; of columns that the user names, nothing but these and our own is kept.

    ``columns`` has for each name of ours the columns that may hold it, the likeliest first; empty keeps the fields.
    ``or_else`` is another way out than naming the columns.

    >>> rename_columns({"review": "Sharp.", "stars": 5, "id": 7}, {"text": ("review",)}, Location("a.csv", 2))
    {'id': 7, 'text': 'Sharp.'}
    """
    if not columns:
        return dict(fields)
    taken = {}
    for name, wanted in columns.items():
        column = next((column for column in wanted if column in fields), None)
        if column is not None:
            taken[name] = column
        elif name == "text" or len(wanted) == 1:  # else it is called so elsewhere, and not asked for here
            close = get_close_matches(wanted[0], [key for key in fields if not isinstance(fields[key], dict)], n=1)
            fix = f"did you mean {close[0]!r}?" if close else COLUMN_SETTINGS[name] + or_else
            raise DataError(where, "list of columns", ", ".join(map(str, fields)), f"a column {wanted[0]!r}", fix)
    read = {taken.get("text_pair"): "text_pair", taken.get("text", "text"): "text"}  # columns that a model sees
    if twice := [name for name, column in taken.items() if read.get(column, name) != name]:
        column, fix = taken[twice[0]], "name the one that holds it"
        raise DataError(where, f"column of {twice[0]}", column, "another than the text's", fix)
    ours = dict.fromkeys((*OURS, "tokens", "tags", *SPANS, "domain"))
    others = [name for name in ours if name in fields and name not in taken and name not in taken.values()]
    return {name: fields[name] for name in others} | {name: fields[column] for name, column in taken.items()}


def with_inner_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields, and those of objects in them: ``source.text=review.body`` names one.

    >>> with_inner_fields({"review": {"body": "Sharp."}, "stars": 5})
    {'review': {'body': 'Sharp.'}, 'stars': 5, 'review.body': 'Sharp.'}
    """
    flat, names = dict(fields), [*fields]
    for name in names:  # which grows
        if isinstance(flat[name], dict):
            inner = {path: value for key, value in flat[name].items() if (path := f"{name}.{key}") not in flat}
            flat |= inner
            names += inner
    return flat


def canonical(fields: Mapping[str, Any], generated_id: str) -> dict[str, Any]:
    """A record's fields as :func:`~domadapt.data.records.parse_record` wants them, whichever tool wrote them.

    >>> canonical({"id": 3, "text": "The fan whines.", "label": [[4, 7, "aspect"]]}, "")
    {'id': '3', 'text': 'The fan whines.', 'spans': [{'start': 4, 'end': 7, 'type': 'aspect'}]}
    >>> canonical({"text": "Sharp.", "label": ["positive"]}, "a:1")
    {'text': 'Sharp.', 'label': 'positive', 'id': 'a:1'}
    """
    result = dict(fields)
    result["id"] = generated_id if (name := _name(result.get("id"))) in (None, "") else name
    tokens = result.get("tokens")
    if "text" in result and isinstance(tokens, list) and tokens and all(isinstance(item, dict) for item in tokens):
        del result["tokens"]  # spaCy's and Prodigy's places of tokens
    label = result.get("label")
    if isinstance(label, list) and label and all(isinstance(x, dict) and "value" in x for x in label):  # of Argilla
        given = [x["value"] for x in label if x.get("status", "submitted") == "submitted"]
        alike = all(value == given[0] for value in given)
        result["label"] = None if not given else given[0] if alike else given
    for name in SPANS:
        value = result.get(name)
        if not isinstance(value, list):
            continue
        objects = all(isinstance(x, dict) or (isinstance(x, list) and len(x) == 3) for x in value)
        if objects or name in ("spans", "entities", "ents"):
            del result[name]
            if value or "spans" not in result:
                result["spans"] = [_span(item) for item in value]
    label = result.get("label")
    if isinstance(label, list) and len(label) == 1 and isinstance(label[0], str | int):
        label = label[0]
    if label is not None:
        result["label"] = _name(label)
    return result


def _name(value: Any) -> Any:
    """Whole numbers as text: labels and ids often are."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) else None if value != value else value


def _span(item: Any) -> Any:
    """``{"start", "end", "type"}`` of a list of these, or of an object that calls them otherwise; else as it is."""
    if isinstance(item, list) and len(item) == 3:
        return dict(zip(("start", "end", "type"), item, strict=True))
    if isinstance(item, dict):
        given = [next((item[name] for name in names if name in item), None) for names in ENDS]
        given[2] = given[2][0] if isinstance(given[2], list) and len(given[2]) == 1 else given[2]  # of Label Studio
        extra = {name: item[name] for name in ("text", "confidence") if name in item}
        if None not in given:  # as predict writes them: the text is compared with the offsets
            return {**dict(zip(("start", "end", "type"), given, strict=True)), **extra}
        if "text" in item and given[:2] == [None, None] and given[2] is not None:  # a quotation, as models write it
            return {"type": given[2], **extra}
    return item
