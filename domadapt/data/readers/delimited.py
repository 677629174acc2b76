"""CSV and TSV with a header: a column ``text``, and where there are any, ``label``, ``id``, ``domain``."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from domadapt.data.columns import renamed
from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import DataError, Record, parse_record, quoted

EXTENSIONS = (".csv", ".tsv")
_DELIMITERS: Final = "\t,;"
_WHOLE: Final = re.compile(r"-?\d+\.0")
_COLUMNS: Final = frozenset({"id", "domain", "text", "label"})


def sniff(path: Path, head: str) -> bool:
    """Whether the first line is a header of several columns, one of them ``text``.

    Example:
        >>> sniff(Path("a.txt"), "id,text\\n1,sharp\\n"), sniff(Path("a.txt"), "text is hard\\n")
        (True, False)
    """
    header = _names(head.split("\n", 1)[0])
    return len(header) > 1 and "text" in header


def _delimiter(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def _names(header: str) -> list[str]:
    try:
        names = next(csv.reader([header], delimiter=_delimiter(header), skipinitialspace=True), [])
    except csv.Error:  # told of the row that it is
        names = header.split(_delimiter(header))
    return [name.strip().strip('"').strip().lower() for name in names]


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each row's first line and record; a blank label means that there is none.

    Raises:
        DataError: If the header has no ``text`` or a name twice, a row has more or fewer fields than the
            header, or a quote is never closed.
    """
    header_line = file.text.split("\n", 1)[0]
    columns = {name: tuple(column.strip().lower() for column in found) for name, found in file.columns.items()}
    header = _names(header_line)
    if "text" not in header and not columns:
        fix = (
            "say which one holds the text: source.text=COLUMN, target.text=COLUMN (and source.label=COLUMN); to "
            "predict or parse, column=COLUMN"
        )
        raise DataError(file.where(1), "header", header_line, "a column text", fix)
    if len(set(header)) < len(header):
        raise DataError(file.where(1), "header", header_line, "each column once", "rename one of the two")
    for line, row in _rows(file, _delimiter(header_line)):
        if not row:
            file.warnings["blank line, skipped"] += 1
            continue
        if len(row) != len(header):
            expected = f"{len(header)} fields, as in the header ({quoted(', '.join(header))})"
            fix = "quote the fields that hold a delimiter, with quotes inside them doubled"
            raise DataError(file.where(line), f"row of {len(row)} fields", row, expected, fix)
        fields: dict[str, object] = renamed(dict(zip(header, row, strict=True)), columns, file.where(1))
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
        yield (
            line,
            parse_record(
                fields,
                file.where(line),
                domain=file.domain,
                labelled=file.labelled,
                warnings=file.warnings,
            ),
        )


def _rows(file: OpenedFile, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # the module's own limit, 128 KiB, is shorter than some documents
    rows = csv.reader((f"{content}\n" for _, content in file.lines()), delimiter=delimiter, strict=True)
    line = 1
    try:
        next(rows)
        line = rows.line_num + 1
        for row in rows:
            yield line, row
            line = rows.line_num + 1
    except csv.Error as error:
        problem = str(error).replace("\t", "TAB")
        fix = "put quotes around fields that hold quotes, and double those inside"
        raise DataError(file.where(line), f"row ({problem})", _line(file, line), "well-formed CSV", fix) from None


def _line(file: OpenedFile, number: int) -> str:
    return next((content for line, content in file.lines() if line == number), "")
