"""JSON Lines: one object a line, as :func:`domadapt.data.records.parse_record` has it, or as doccano and spaCy do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from domadapt.data.readers._json import decoder, own, refusing
from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import Record, parse_record

EXTENSIONS = (".jsonl", ".ndjson")
_EXPECTED: Final = ("one JSON object a line", "write each record with json.dumps on a line of its own")


def sniff(path: Path, head: str) -> bool:
    """Whether the file starts with an object.

    Example:
        >>> sniff(Path("a.txt"), '{"id": "a", ...'), sniff(Path("a.txt"), "[t] great camera")
        (True, False)
    """
    return head.lstrip().startswith("{")


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each line's number and record.

    Raises:
        DataError: If a line is not JSON, names a field twice, or is not a record.
    """
    for line, content in file.lines():
        if not content.strip():
            file.warnings["blank line, skipped"] += 1
            continue
        where = file.where(line)
        with refusing(where, line, content, *_EXPECTED):
            fields = decoder(where).decode(content)
        record = parse_record(
            own(fields, file, line, line), where, domain=file.domain, labelled=file.labelled, warnings=file.warnings
        )
        yield line, record
