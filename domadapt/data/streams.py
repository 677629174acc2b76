"""Texts as a stream: a million lines of plain text never lie in memory together."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from domadapt.data import files
from domadapt.data.domains import UnlabelledText
from domadapt.data.files import Columns, count_damage
from domadapt.data.readers import HEAD, choose_format, read, refuse_columns
from domadapt.data.records import DataError, Location

STDIN: Final = "-"  # the name of standard input, as in most commands


def start_of(content: bytes) -> str:
    """The characters that tell a format."""
    return content[:HEAD].decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")


def refuse_table(path: Path, head: str) -> None:
    """Refuse as plain text what came without a name, and begins as a table does: all its columns would be text.

    >>> refuse_table(Path("stdin"), "Fast, and cheap\\nSlow, and dear\\n")
    >>> refuse_table(Path("stdin"), "review;stars\\nGood room.;5\\n")
    Traceback (most recent call last):
    domadapt.data.records.DataError: stdin: start of the file is 'review;stars'; expected one text a line, no table; ...
    """
    first, second, *_ = (*(line for line in head.split("\n") if line.strip()), "", "")
    for delimiter in ",;\t|":
        fields = first.split(delimiter)
        short = all(
            re.fullmatch(r"[^\s.!?]([^.!?]{0,40}[^\s.!?])?", field) for field in fields
        )  # prose has a space here
        if short and len(fields) <= second.count(delimiter) + 1 > 1:
            fix = f"{files.COLUMN_SETTINGS['text']}; or else format=plain_text (to train, target.format=plain_text)"
            raise DataError(Location(path), "start of the file", first, "one text a line, no table", fix)


def refuse_piped_table(content: bytes) -> None:
    """The same of all that came through a pipe."""
    text, path = start_of(content), Path("stdin.txt")
    if not content.startswith(files.PACKED) and choose_format(path, text, None) == "plain_text":
        refuse_table(path.with_suffix(""), text)


def open_texts(
    source: str | Path, format: str | None, warnings: Counter[str], column: Sequence[str] = (), id: str | None = None
) -> tuple[int | None, Iterator[UnlabelledText]]:
    """The number of a file's texts (of lines, in plain text) and the texts. Plain text is read as it is used.

    The number is None where it can't be known ahead: of lines that come through a pipe; ``-`` is standard input.
    ``warnings`` count what was mended or left out, and are complete when the texts are used up. ``column`` says, of a
    table or JSON Lines, which one holds the text, of pairs which two, and ``id`` which one holds the id.
    """
    named = {**dict(zip(("text", "text_pair"), column, strict=False)), **({} if id is None else {"id": id})}
    stdin = str(source) == STDIN
    path = Path("stdin" if stdin else source)
    files.check_name(path)
    with ExitStack() as stack:
        try:
            # Not sys.stdin, which may be closed, or somebody's replacement; standard input stays open for others.
            file = stack.enter_context(open(0 if stdin else path, "rb", closefd=not stdin))
            head = file.read(HEAD)
            if not (packed := head.startswith(files.PACKED)):
                files.check_start(path, head)
                if not head:
                    raise files.without_records(path, "empty")
            called = Path("stdin.csv" if named else "stdin.txt") if stdin else path  # as training takes a pipe
            name = format if packed else choose_format(called, start_of(head), format)
            if name == "plain_text" and stdin and format is None:
                refuse_table(path, start_of(head))
            if name == "plain_text" and not packed:
                refuse_columns(path, [*named.values()])
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
            raise files.unreadable(path, error) from None
    columns: Columns = {name: (wanted,) for name, wanted in named.items()}
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
                raise files.not_utf8(Location(path, number), f"byte {error.start} of the line", error) from None
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
        raise files.without_records(path, "blank")
