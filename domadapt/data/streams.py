"""Texts of a user's file as a stream: a million lines of plain text never lie in memory together."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from domadapt.data.domains import UnlabelledText
from domadapt.data.readers import formats, read
from domadapt.data.records import DataError, Location


def open_texts(path: Path, format: str | None, warnings: Counter[str]) -> tuple[int, Iterator[UnlabelledText]]:
    """The number of a file's texts (of lines, in plain text) and the texts. Plain text is read as it is used.

    Args:
        path: the file.
        format: name of a reader; None looks at the file.
        warnings: counts what was mended or left out; complete when the texts are used up.

    Raises:
        DataError: the file can't be read; at once, or in plain text at the line.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096).decode("utf-8", "replace").removeprefix("\ufeff")
            plain = format == "plain_text" or (
                # Published .txt files hold three formats, as the readers know.
                format is None
                and path.suffix.lower() == ".txt"
                and not any(reader.sniff(path, head) for reader in formats().values())
            )
            if plain and head:
                file.seek(0)
                return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")), _lines(
                    path, warnings
                )
    except OSError:
        pass  # the reader's message is better
    corpus = read(path, domain="input", labelled=False, format=format)
    warnings.update(corpus.warnings)
    return len(corpus.records), (UnlabelledText(r.id, r.domain, r.text, r.words) for r in corpus.records)


def _lines(path: Path, warnings: Counter[str]) -> Iterator[UnlabelledText]:
    """Line by line what the plain text reader yields."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                text = raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
            except UnicodeDecodeError as error:
                bad, fix = raw[error.start : error.end], "re-encode it: iconv -f latin1 -t utf-8 FILE > NEW_FILE"
                raise DataError(Location(path, number), f"byte {error.start} of the line", bad, "UTF-8", fix) from None
            if number == 1 and text.startswith("\ufeff"):
                text = text[1:]
                warnings["byte order mark, dropped"] += 1
            if text.strip():
                yield UnlabelledText(f"input/{path.stem}:{number}", "input", text)
            else:
                warnings["blank text, dropped"] += 1
