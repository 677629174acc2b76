"""A file opened for a reader: its text decoded once, its lines numbered, its oddities counted."""

import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from domadapt.data.columns import Columns
from domadapt.data.readers._decoding import check_name, check_start, not_utf8, unreadable
from domadapt.data.records import DataError, Location

OLD_MAC = "carriage return alone, read as the end of a line"


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

    def where(self, line: int) -> Location:
        """The location of a line of this file."""
        return Location(self.path, line)

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


def open_file(
    path: Path, domain: str, labelled: bool, content: bytes | None = None, columns: Columns | None = None
) -> OpenedFile:
    r"""Read and decode a file.

    Args:
        path: A UTF-8 file, maybe packed with gzip, or a parquet table; a byte order mark is dropped and counted, CRLF
            becomes LF, and so does CR where there is no LF at all, which is counted, too.
        content: What the file holds, where that has been read before: a pipe can be read only once.

    Raises:
        DataError: If it cannot be read, is not UTF-8, or is empty.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "camera.txt")
        ...     _ = path.write_bytes(b"\xef\xbb\xbfsharp\r\nlight\r\n")
        ...     file = open_file(path, "camera", labelled=False)
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
        raise DataError(Location(path), "file", "blank" if text else "empty", "records", "check how it was written")
    if "\r" in text and "\n" not in text:
        warnings[OLD_MAC] += text.count("\r")
        text = text.replace("\r", "\n")
    return OpenedFile(path, text.replace("\r\n", "\n"), domain, labelled, warnings, columns or {})


GZIP: Final = b"\x1f\x8b"
PARQUET: Final = b"PAR1"
INSTALL: Final = "pip install 'domadapt[report]'"


def unpacked(path: Path, raw: bytes) -> bytes:
    r"""The text in a file's bytes, which are returned as they are where they are text.

    Raises:
        DataError: It is damaged, or parquet, and pyarrow is not installed.

    Example:
        >>> unpacked(Path("a.txt.gz"), gzip.compress(b"sharp\n"))
        b'sharp\n'
    """
    if raw.startswith(GZIP):
        try:
            return gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            problem = f"damaged gzip ({error})"
            raise DataError(Location(path), "file", problem, "a whole gzip file", "copy it again") from None
    return _table(path, raw) if raw.startswith(PARQUET) else raw


def inner(path: Path) -> Path:
    """The path by which a file's format is told.

    >>> inner(Path("a/reviews.csv.gz")).name
    'reviews.csv'
    """
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _table(path: Path, raw: bytes) -> bytes:
    """A row a line; whole numbers that `datasets` has names for, as labels often are, by their names."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(Location(path), "file", "parquet", "pyarrow to read it with", INSTALL) from None
    try:
        table: Any = parquet.read_table(io.BytesIO(raw))
        rows, metadata = table.to_pylist(), (table.schema.metadata or {}).get(b"huggingface", b"{}")
        features = json.loads(metadata).get("info", {}).get("features", {})
    except Exception as error:  # pyarrow has its own, of several kinds
        problem = f"damaged parquet ({str(error).splitlines()[0][:80]})"
        raise DataError(Location(path), "file", problem, "a whole parquet file", "copy it again") from None
    names = {name: about["names"] for name, about in features.items() if isinstance(about, dict) and "names" in about}
    return as_lines(rows, names, path)


def as_lines(rows: Any, names: dict[str, list[str]], path: Path | None = None) -> bytes:
    r"""Rows as JSON Lines.

    Args:
        names: of the values of columns that hold numbers in their place.
        path: of the table, for errors.

    Raises:
        DataError: A binary value is not UTF-8.

    >>> as_lines([{"text": "sharp", "label": 1}], {"label": ["bad", "good"]})
    b'{"text": "sharp", "label": "good"}\n'
    """
    lines = []
    for number, row in enumerate(rows, start=1):
        told = {name: _text(value, name, path, number) for name, value in dict(row).items()}
        for name, known in names.items():
            if isinstance(value := told.get(name), int) and 0 <= value < len(known):
                told[name] = known[value]
        lines.append(json.dumps(told, ensure_ascii=False, default=_plain) + "\n")
    return "".join(lines).encode("utf-8", "surrogatepass")


def _text(value: Any, name: str, path: Path | None, row: int) -> Any:
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        fix = "write the column as strings"
        raise DataError(Location(path or "table", row), name, bytes(value), "text in UTF-8", fix) from None


def _plain(value: Any) -> Any:
    """Numbers and lists of numpy as Python's; anything else, such as a date, as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
