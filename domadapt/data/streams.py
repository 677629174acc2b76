"""Texts of a user's file or pipe as a stream: a million lines of plain text never lie in memory together."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from domadapt.data.domains import UnlabelledText
from domadapt.data.files import (
    PACKED,
    Columns,
    check_name,
    check_start,
    count_damage,
    not_utf8,
    unreadable,
    without_records,
)
from domadapt.data.readers import HEAD, choose, read
from domadapt.data.records import DataError, Location

STDIN: Final = "-"  # the name of standard input, as in most commands


def open_texts(
    source: str | Path, format: str | None, warnings: Counter[str], column: Sequence[str] = ()
) -> tuple[int | None, Iterator[UnlabelledText]]:
    """The number of a file's texts (of lines, in plain text) and the texts. Plain text is read as it is used.

    The number is None where it can't be known ahead: of lines that come through a pipe.

    Args:
        source: the file or pipe; ``-`` is standard input.
        warnings: counts what was mended or left out; complete when the texts are used up.
        column: of a table or JSON Lines, which one holds the text, of pairs which two.
    """
    stdin = str(source) == STDIN
    path = Path("stdin" if stdin else source)
    check_name(path)
    with ExitStack() as stack:
        try:
            # Not sys.stdin, which may be closed, or somebody's replacement; standard input stays open for others.
            file = stack.enter_context(open(0 if stdin else path, "rb", closefd=not stdin))
            head = file.read(HEAD)
            if not (packed := head.startswith(PACKED)):
                check_start(path, head)
                if not head:
                    raise without_records(path, "empty")
            named = Path("stdin.csv" if column else "stdin.txt") if stdin else path  # as training takes a pipe
            text = head.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
            name = format if packed else choose(named, text, format)
            if name == "plain_text" and not packed:
                if file.seekable() and not stdin:
                    blocks = iter(lambda: file.read(1 << 20), b"")
                    lines = sum(block.count(b"\n") for block in chain([head], blocks))
                    return lines, _lines(path, b"", None, warnings)
                stack.pop_all()  # a pipe gives each byte once: what told the format is a part of what is read
                return None, _lines(path, head, file, warnings)
            content = head + file.read()
        except DataError:
            raise
        except (OSError, ValueError) as error:  # the latter of a NUL in the path
            raise unreadable(path, error) from None
    columns: Columns = {name: (own,) for name, own in zip(("text", "text_pair"), column, strict=False)}
    corpus = read(path, domain="input", labelled=False, format=name, content=content, columns=columns)
    warnings.update(corpus.warnings)
    return len(corpus.records), (UnlabelledText(r.id, r.domain, r.text, r.words) for r in corpus.records)


def _lines(path: Path, head: bytes, pipe: BinaryIO | None, warnings: Counter[str]) -> Iterator[UnlabelledText]:
    """Line by line what the plain text reader yields: of what was read before, then of the rest; else of the file."""
    texts = 0
    with pipe or path.open("rb") as file:
        *whole, begun = head.split(b"\n")
        first = (line + b"\n" for line in whole)
        for number, raw in enumerate(chain(first, filter(None, [begun + file.readline()]), file), 1):
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
        raise without_records(path, "blank")
