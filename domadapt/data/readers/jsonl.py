"""JSON Lines: one object a line, as :func:`domadapt.data.records.parse_record` has it, or as doccano and spaCy do."""

import json
from collections.abc import Iterator
from pathlib import Path

from domadapt.data.columns import canonical, renamed
from domadapt.data.errors import DataError, Location
from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import Record, parse_record

EXTENSIONS = (".jsonl", ".ndjson")


def sniff(path: Path, head: str) -> bool:
    """Whether the file starts with an object.

    Example:
        >>> sniff(Path("a.txt"), '{"id": "a", ...'), sniff(Path("a.txt"), "[t] great camera")
        (True, False)
    """
    return head.lstrip().startswith("{")


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each line's number and record.

    Args:
        file: The opened file.

    Raises:
        DataError: If a line is not JSON, names a field twice, or is not a record.
    """
    for line, content in file.lines():
        if not content.strip():
            file.warnings["blank line, skipped"] += 1
            continue
        where = file.where(line)
        yield (
            line,
            parse_record(
                own(_decoded(content, where), file, line),
                where,
                domain=file.domain,
                labelled=file.labelled,
                warnings=file.warnings,
            ),
        )


def own(decoded: object, file: OpenedFile, line: int) -> object:
    """The object with our names for its fields, and an id; anything else as it is, to be refused."""
    if not isinstance(decoded, dict):
        return decoded
    fields = renamed(decoded, file.columns, file.where(line))
    return canonical(fields, file.generated_id(line))


def _decoded(content: str, where: Location) -> object:
    def refuse_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(where, "field", twice, "each field once in an object", "drop one of the two")
        return fields

    expected, fix = "one JSON object a line", "write each record with json.dumps on a line of its own"
    try:
        decoded: object = json.loads(content, object_pairs_hook=refuse_repeated)
    except DataError:
        raise
    except json.JSONDecodeError as error:
        column = error.pos + 1
        raise DataError(where, f"JSON at column {column} ({error.msg})", content[error.pos :], expected, fix) from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, a thousand brackets
        raise DataError(where, f"JSON ({type(error).__name__})", content, expected, fix) from None
    return decoded
