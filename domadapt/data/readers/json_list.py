"""JSON: a list of objects, on one line or many, each as a line of JSON Lines has it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from domadapt.data.readers._json import decoder, own, refusing
from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import DataError, Record, parse_record

EXTENSIONS = (".json",)
_START: Final = re.compile(r"\s*\[\s*(?=\{)")
_BETWEEN: Final = re.compile(r"\s*,\s*(?=\{)")
_END: Final = re.compile(r"\s*\]\s*\Z")
_EXPECTED: Final = ("a list of JSON objects", "write it with json.dump, or one object a line (.jsonl)")


def sniff(path: Path, head: str) -> bool:
    """Whether the file starts with a list of objects.

    Example:
        >>> sniff(Path("a.txt"), '[{"id": "a", ...'), sniff(Path("a.txt"), "[t] great camera")
        (True, False)
    """
    return bool(_START.match(head))


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each object's first line and record. Where ids are left out, they are numbers of objects.

    Raises:
        DataError: If it is no list of objects, or one names a field twice or is not a record.
    """
    text, between = file.text, _START.match(file.text)
    if between is None:
        raise DataError(file.where(1), "start of the file", text, *_EXPECTED)
    line, before, number = 1, 0, 0
    while between is not None:
        start, number = between.end(), number + 1
        line += text.count("\n", before, start)
        where = file.where(line)
        with refusing(where, 1, text[start : start + 200], *_EXPECTED):
            fields, end = decoder(where).raw_decode(text, start)
        record = parse_record(
            own(fields, file, line, number), where, domain=file.domain, labelled=file.labelled, warnings=file.warnings
        )
        yield line, record
        before, between = start, _BETWEEN.match(text, end)
    if not _END.match(text, end):
        where = file.where(1 + text.count("\n", 0, end))
        raise DataError(where, "after an object", text[end:], "a comma and an object, or the list's ]", _EXPECTED[1])
