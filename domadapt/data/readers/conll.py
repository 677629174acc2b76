"""CoNLL columns: a token and its tag (BIO, BIOES or BILOU) a line, a blank line between sentences.

The token is the first column and the tag the last, tab- or space-separated; columns between are left out.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import DataError, Record, from_tokens, split_tag

EXTENSIONS = (".conll", ".bio")
_DOCUMENT: Final = "-DOCSTART-"  # of CoNLL-2003: a row of its own between documents
_ROW: Final = re.compile(r"\S.*[\t ](O|[BIESLU]-\S+)\s*")


def sniff(path: Path, head: str) -> bool:
    """Whether every line ends with a tag.

    Example:
        >>> sniff(Path("a.txt"), "sharp B-OP\\n\\nlens B-ASP\\n"), sniff(Path("a.txt"), "a sharp lens\\n")
        (True, False)
    """
    lines = head.split("\n")
    complete = [line for line in lines[:-1] or lines if line.strip()]
    return bool(complete) and all(_ROW.fullmatch(line) for line in complete)


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each sentence's first line and record.

    Args:
        file: The opened file. Where it is not to be read with labels, lines may be tokens alone.

    Raises:
        DataError: If a line has no tag, or one of another scheme.
    """
    for blank, group in groupby(file.lines(), key=lambda numbered: not numbered[1].strip()):
        if blank:
            continue
        lines = list(group)
        rows = [(line, content) for line, content in lines if content.split()[0] != _DOCUMENT]
        if len(rows) < len(lines):
            file.warnings[f"{_DOCUMENT} lines, left out"] += len(lines) - len(rows)
        if not rows:
            continue
        tokens, tags = [], []
        for line, content in rows:
            columns = [column.strip(" ") for column in _columns(content)]
            tokens.append(columns[0])
            if file.labelled:
                if len(columns) < 2:
                    fix = "end each line with its tag; words that are no aspect or opinion have O"
                    raise DataError(file.where(line), "line", content, "a token and a tag", fix)
                split_tag(columns[-1], file.where(line))  # refused here, where the line is known
                tags.append(columns[-1])
        first = rows[0][0]
        text, words, spans = from_tokens(tokens, tags if file.labelled else None, file.where(first), file.warnings)
        yield first, Record(file.generated_id(first), file.domain, text, words, None, spans)


def _columns(content: str) -> list[str]:
    """Parted by tabs, where there are any, else by spaces; other white space, as in New\xa0York, is part of a token."""
    row = content.strip("\t ")
    return row.split("\t") if "\t" in row else re.split(" +", row)
