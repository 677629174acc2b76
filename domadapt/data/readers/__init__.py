"""Readers of corpora as their owners publish them: one file per format, found by looking in this folder.

A format is a module with three names:

- ``EXTENSIONS``: the extensions that mean this format when the text itself does not tell;
- ``sniff(path, head)``: whether the first characters of the file bear the format's own marks;
- ``read(file)``: yields ``(line, record)``, counting in ``file.warnings`` what it mends or leaves out.

A file whose name starts with an underscore is no format.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final, Protocol, cast

from domadapt.data.columns import Columns
from domadapt.data.columns import Corpus as Corpus
from domadapt.data.readers._opened_file import OpenedFile, inner
from domadapt.data.readers._opened_file import open_file as open_file
from domadapt.data.records import DataError, Location, Record

_NAME_IT: Final = "name it: format={0}, and to train source.format={0} or target.format={0}"
HEAD: Final = 4096  # characters that tell the format
# Tab, line feed and CRLF are ordinary; a carriage return alone, C0 and C1 are remains of some other format.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


class Reader(Protocol):
    """The contract of a module in this folder."""

    EXTENSIONS: tuple[str, ...]

    def sniff(self, path: Path, head: str) -> bool:
        """Whether the first characters of the file bear the format's marks."""

    def read(self, file: OpenedFile) -> Iterator[tuple[int, Record]]:
        """Each record with its first line."""


@cache
def formats() -> dict[str, Reader]:
    """The readers in this folder, by the name of their file.

    Example:
        >>> sorted(formats())
        ['blitzer_review', 'conll', 'delimited', 'hu_liu', 'json_list', 'jsonl', 'plain_text', 'semeval_xml']
    """
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return {name: cast(Reader, import_module(f"{__name__}.{name}")) for name in names}


def read(
    path: Path | str,
    *,
    domain: str,
    labelled: bool = True,
    format: str | None = None,
    content: bytes | None = None,
    columns: Columns | None = None,
) -> Corpus:
    """Read a corpus, in whichever format it is.

    Args:
        domain: The domain of its records; it overrides one that the file gives.
        labelled: False leaves labels, tags and spans unread, as target text must be.
        format: The name of a reader; None looks at the text, then at the extension.
        content: What the file holds, where that has been read before.
        columns: What a table or JSON Lines call a record's fields: by our names, the candidates, likeliest first.

    Raises:
        DataError: If the file cannot be read, is of no known format, or holds something that its format
            forbids, no record at all, or two of one id.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "camera.csv")
        ...     _ = path.write_text("text,label\\nsharp,positive\\n ,negative\\n")
        ...     corpus = read(path, domain="camera")
        >>> [(record.id, record.text, record.label) for record in corpus.records]
        [('camera/camera:2', 'sharp', 'positive')]
        >>> dict(corpus.warnings)
        {'blank text, dropped': 1}
    """
    path = Path(path)
    file = open_file(path, domain, labelled, content, columns)
    reader = formats()[choose(path, file.text[:HEAD], format)]
    first_line: dict[str, int] = {}
    records: list[Record] = []
    for line, record in reader.read(file):
        if not record.text.strip():
            file.warnings["blank text, dropped"] += 1
            continue
        if record.id in first_line:
            expected = f"an id used once (line {first_line[record.id]} has it too)"
            raise DataError(file.where(line), "id", record.id, expected, "rename or drop one of the two")
        first_line[record.id] = line
        records.append(replace(record, where=file.where(line)))
        count_damage(record.text, file.warnings)
    if not records:
        raise DataError(Location(path), "number of records", 0, "at least one", "check how the file was written")
    if labelled and all(record.label is None and record.spans is None for record in records):
        file.warnings["labels asked for, record has none"] += len(records)
    return Corpus(tuple(records), file.warnings, path, tuple(first_line.values()))


def choose(path: Path, head: str, format: str | None) -> str:
    """The name of the format that a file is in.

    Args:
        head: Its first characters, :data:`HEAD` of them or all.
        format: What the user says it is; None looks at the text, then at the extension.

    Raises:
        DataError: No format or more than one fits, or there is none of that name.
    """
    known = formats()
    if format is not None:
        if format not in known:
            raise DataError(None, "format", format, f"one of {', '.join(known)}", "or None, to look at the file")
        return format
    told = inner(path)
    fitting = [name for name, reader in known.items() if reader.sniff(told, head)]
    # Text first, then extension: published .txt files hold three formats.
    fitting = fitting or [name for name, reader in known.items() if told.suffix.lower() in reader.EXTENSIONS]
    where, names = Location(path), ", ".join(known)
    if not fitting:
        fix = "let it end in .txt for one text a line, or .csv; JSON is one object a line or a list of them"
        raise DataError(where, "start of the file", head, f"a format among {names}", fix)
    if len(fitting) > 1:
        raise DataError(where, "format", " and ".join(fitting), "one that fits", _NAME_IT.format(fitting[0]))
    return fitting[0]


def count_damage(text: str, warnings: Counter[str]) -> None:
    """Count what is odd about a text that is read as it stands."""
    if "\ufffd" in text:
        warnings["text damaged by an earlier decoding (U+FFFD), kept"] += 1
    if _CONTROL.search(text):
        warnings["control characters in the text, kept"] += 1
