"""Product reviews of Blitzer et al. (ACL 2007): ``<review>`` blocks that look like XML and are not.

Nothing in them is escaped reliably, so the tags are read only where they stand alone on a line. A rating
above 3 is positive, below 3 negative, as in the paper. The owner's ``unique_id`` is not used, since nothing
makes it unique.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import MISSING, DataError, Location, Record

EXTENSIONS = (".review",)
_OPENING: Final = re.compile(r"<(\w{1,40})>")


def sniff(path: Path, head: str) -> bool:
    """Whether the file starts with a review.

    Example:
        >>> sniff(Path("a.review"), "<review>\\n<rating>\\n5.0\\n"), sniff(Path("a.xml"), "<?xml ...")
        (True, False)
    """
    return head.lstrip().startswith(("<review>", "<reviews>"))


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each review's first line and record.

    Raises:
        DataError: If a block or a field is never closed, a review has no text, or a rating is no number.
    """
    start: int | None = None
    field: tuple[str, int] | None = None  # its name and line, while it is open
    fields: dict[str, list[str]] = {}
    for line, content in file.lines():
        mark = content.strip()
        if field is not None and mark not in (f"</{field[0]}>", "<review>", "</review>"):
            fields[field[0]].append(content)
        elif field is not None and mark == f"</{field[0]}>":
            field = None
        elif field is not None:
            fix = f"close it with </{field[0]}> on a line of its own"
            raise DataError(file.where(field[1]), "field", f"<{field[0]}>", f"its end before line {line}", fix)
        elif start is None and mark == "<review>":
            start, fields = line, {}
        elif start is not None and mark == "</review>":
            yield start, _record(file, start, fields)
            start = None
        elif start is not None and (opening := _OPENING.fullmatch(mark)) and mark != "<review>":
            field = opening[1], line
            # Published reviews have two unique_id; of what is read here there can be only one.
            if field[0] in fields and field[0] in ("review_text", "rating"):
                raise DataError(file.where(line), "field", mark, "each field once", "drop one of the two")
            fields[field[0]] = []
        elif mark and mark not in ("<reviews>", "</reviews>"):
            fix = "put each tag on a line of its own and the text between them"
            raise DataError(file.where(line), "line", content, "a field of a <review>", fix)
    if start is not None:
        fix = "the file may have been cut off: fetch it again"
        raise DataError(file.where(start), "<review>", "open at the end of the file", "</review>", fix)


def _record(file: OpenedFile, line: int, fields: dict[str, list[str]]) -> Record:
    if "review_text" not in fields:
        found = ", ".join(fields) or MISSING
        raise DataError(file.where(line), "review", found, "a field review_text", "add it, or drop the review")
    text = html.unescape("\n".join(fields["review_text"])).strip()
    label = None
    if file.labelled and "rating" in fields:
        label = _label("".join(fields["rating"]).strip(), file.where(line))
        if label is None:
            file.warnings["rating of 3, no label"] += 1
    elif file.labelled:
        file.warnings["review without rating, no label"] += 1
    return Record(file.generated_id(line), file.domain, text, None, label)


def _label(rating: str, where: Location) -> str | None:
    try:
        stars = float(rating)
    except ValueError:
        stars = float("nan")
    if not 0 <= stars <= 5:
        raise DataError(where, "rating", rating, "a number from 0 to 5", "correct it, or drop the review")
    return "positive" if stars > 3 else "negative" if stars < 3 else None
