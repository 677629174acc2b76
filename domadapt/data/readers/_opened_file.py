"""A file opened for a reader: its text decoded once, its lines numbered, its oddities counted."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from domadapt.data.batches import unpacked
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
        domain: The domain of its records.
        labelled: Whether labels may be read.
        content: What the file holds, where that has been read before: a pipe can be read only once.
        columns: What a table calls the fields of a record.

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
