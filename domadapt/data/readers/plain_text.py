"""Unlabelled text: one document or sentence a line."""

from collections.abc import Iterator
from pathlib import Path

from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import Record

EXTENSIONS = (".txt",)


def sniff(path: Path, head: str) -> bool:
    """Never: plain text has no marks of its own, so its extension decides when no other format is recognised.

    Example:
        >>> sniff(Path("a.txt"), "a sharp camera")
        False
    """
    return False


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each line's number and record."""
    for line, text in file.lines():
        yield line, Record(file.generated_id(line), file.domain, text)
