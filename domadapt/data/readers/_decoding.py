"""What is told of a file before a character of it is read: that it can't be opened, is packed, or is no UTF-8."""

import shlex
from pathlib import Path
from typing import Final

from domadapt.data.records import DataError, Location

# First bytes, what they mean, what to do about it. UTF-32 first: its mark begins with that of UTF-16.
_STARTS: Final = (
    (b"\xff\xfe\0\0", "UTF-32", "iconv -f utf-32 -t utf-8 {} > NEW_FILE"),
    (b"\0\0\xfe\xff", "UTF-32", "iconv -f utf-32 -t utf-8 {} > NEW_FILE"),
    (b"\xff\xfe", "UTF-16", "iconv -f utf-16 -t utf-8 {} > NEW_FILE"),
    (b"\xfe\xff", "UTF-16", "iconv -f utf-16 -t utf-8 {} > NEW_FILE"),
    (b"\x1f\x8b", "packed with gzip", "gunzip < {} > NEW_FILE"),
    (b"BZh", "packed with bzip2", "bunzip2 < {} > NEW_FILE"),
    (b"\xfd7zXZ\0", "packed with xz", "unxz < {} > NEW_FILE"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "unzstd < {} > NEW_FILE"),
    (b"PK\x03\x04", "a zip archive, or a workbook", "unzip {}, or save the workbook as CSV (UTF-8)"),
)
_HEAD: Final = 4096


def check_name(path: Path) -> None:
    """Refuse a path that can't be written into ids, results and logs.

    Raises:
        DataError: Its name holds bytes that are not UTF-8.
    """
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        bad = str(path)[error.start]
        raise DataError(Location(path), "path", bad, "UTF-8 in its name", "rename the file or folder") from None


def check_start(path: Path, raw: bytes) -> None:
    r"""Refuse a file whose first bytes say that it must be unpacked or re-encoded.

    Args:
        raw: Its content, or the first kilobytes of it.

    Raises:
        DataError: With the command that makes it readable.

    Example:
        >>> check_start(Path("a.jsonl.gz"), b"\x1f\x8b\x08")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        domadapt.data.records.DataError: a.jsonl.gz: file is 'packed with gzip'; expected UTF-8 text; gunzip...
    """
    head = raw[:_HEAD]
    # Nearly every other byte of Western text in UTF-16 is NUL; as UTF-8 it decodes, to a text nobody wrote.
    if not any(head.startswith(start) for start, _, _ in _STARTS) and 4 * head.count(0) > len(head):
        side = "le" if head[1::2].count(0) > head[::2].count(0) else "be"
        fix = f"re-encode it: iconv -f utf-16{side} -t utf-8 {_shell(path)} > NEW_FILE"
        raise DataError(Location(path), "file", "UTF-16 without its mark", "UTF-8 text", fix)
    for start, found, fix in _STARTS:
        if head.startswith(start) and (start != b"BZh" or head[4:10] == b"1AY&SY"):
            raise DataError(Location(path), "file", found, "UTF-8 text", fix.format(_shell(path)))


def not_utf8(where: Location, field: str, error: UnicodeDecodeError) -> DataError:
    """What to say of a byte that is not UTF-8.

    Args:
        field: Which byte it is, counted in the file or in its line.
    """
    fix = f"re-encode it, for instance: iconv -f latin1 -t utf-8 {_shell(Path(where.path))} > NEW_FILE"
    return DataError(where, field, error.object[error.start : error.end], "UTF-8", fix)


def unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """What to say of a file that can't be opened or read; a ValueError is a NUL in its path."""
    fix = "name one of the files in it" if path.is_dir() else "check the path and its permissions"
    problem = error.strerror if isinstance(error, OSError) else str(error)
    return DataError(Location(path), "file", problem, "a file that can be read", fix)


def _shell(path: Path) -> str:
    """A file's name as a shell takes it; control characters in it written out."""
    return shlex.quote(repr(path.name)[1:-1])
