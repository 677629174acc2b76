"""Texts of a user's file or pipe as a stream: a million lines of plain text never lie in memory together."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from domadapt.data.domains import UnlabelledText
from domadapt.data.readers import HEAD, choose, count_damage, read
from domadapt.data.readers._decoding import check_name, check_start, not_utf8, unreadable
from domadapt.data.readers._opened_file import GZIP, OLD_MAC, PARQUET
from domadapt.data.records import DataError, Location

STDIN: Final = "-"  # the name of standard input, as in most commands


def open_texts(
    source: str | Path, format: str | None, warnings: Counter[str], column: str | None = None
) -> tuple[int | None, Iterator[UnlabelledText]]:
    """The number of a file's texts (of lines, in plain text) and the texts. Plain text is read as it is used.

    Args:
        source: the file or pipe; ``-`` is standard input.
        format: name of a reader; None looks at the file.
        warnings: counts what was mended or left out; complete when the texts are used up.
        column: of a table or JSON Lines, which one holds the text; None for ``text``.

    Returns:
        The number is None where it can't be known ahead: of lines that come through a pipe.

    Raises:
        DataError: the file can't be read, or holds no text; at once, or in plain text at the line.
    """
    path = Path("stdin") if str(source) == STDIN else Path(source)
    check_name(path)
    with ExitStack() as stack:
        try:
            file = stack.enter_context(_opened(source))
            head = file.read(HEAD)
            packed = head.startswith((GZIP, PARQUET))  # no line of it can be read before the end is
            name = format if packed else _format(path, head, format)
            rest = b"" if name == "plain_text" and not packed else file.read()
        except OSError as error:
            raise unreadable(path, error) from None
        except ValueError as error:  # a NUL in the path
            raise error if isinstance(error, DataError) else unreadable(path, error) from None
        if name == "plain_text" and not packed and file.seekable() and str(source) != STDIN:
            lines = head.count(b"\n") + sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return lines, _lines(path, b"", None, warnings)
        if (
            name == "plain_text" and not packed
        ):  # a pipe gives each byte once: what told the format is a part of what is read
            stack.pop_all()
            return None, _lines(path, head, file, warnings)
    columns = None if column is None else {"text": (column,)}
    corpus = read(path, domain="input", labelled=False, format=name, content=head + rest, columns=columns)
    warnings.update(corpus.warnings)
    return len(corpus.records), (UnlabelledText(r.id, r.domain, r.text, r.words) for r in corpus.records)


def _opened(source: str | Path) -> BinaryIO:
    # Not sys.stdin, which may be closed, or somebody's replacement; standard input stays open for others.
    return open(0, "rb", closefd=False) if str(source) == STDIN else Path(source).open("rb")


def _format(path: Path, head: bytes, format: str | None) -> str:
    """Name of the format by the first bytes of a file."""
    check_start(path, head)
    if not head:
        raise DataError(Location(path), "file", "empty", "records", "check how it was written")
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    return choose(path, text if "\n" in text else text.replace("\r", "\n"), format)


def _lines(path: Path, head: bytes, pipe: BinaryIO | None, warnings: Counter[str]) -> Iterator[UnlabelledText]:
    """Line by line what the plain text reader yields: of what was read before, then of the rest; else of the file."""
    texts = 0
    with pipe or path.open("rb") as file:
        for number, raw in enumerate(_raw_lines(head, file, warnings), 1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(Location(path, number), f"byte {error.start} of the line", error) from None
            if number == 1 and line.startswith("\ufeff"):
                line = line[1:]
                warnings["byte order mark, dropped"] += 1
            line = line.removesuffix("\r\n").removesuffix("\n")
            if not line.strip():
                warnings["blank text, dropped"] += 1
                continue
            texts += 1
            count_damage(line, warnings)
            yield UnlabelledText(f"input/{path.stem}:{number}", "input", line)
    if not texts:
        raise DataError(Location(path), "file", "blank", "records", "check how it was written")


def _raw_lines(head: bytes, file: BinaryIO, warnings: Counter[str]) -> Iterator[bytes]:
    """Lines with their ends."""
    *whole, begun = head.split(b"\n")
    first = (whole.pop(0) + b"\n") if whole else begun + file.readline()
    if b"\r" in first and not first.endswith(b"\n"):  # no line feed in the whole file: ends of lines of an old Mac
        warnings[OLD_MAC] += first.count(b"\r")
        yield from first.removesuffix(b"\r").split(b"\r")
    elif first:
        yield first
    if b"\n" in head:
        yield from (line + b"\n" for line in whole)
        if begun := begun + file.readline():
            yield begun
    yield from file
