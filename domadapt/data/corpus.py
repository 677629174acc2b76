"""A corpus: the records of one file, the lines they came from, and what was odd about them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from domadapt.data.records import Record


@dataclass(frozen=True, slots=True)
class Corpus:
    """The records of one file.

    ``warnings`` says how often each oddity was met and what was done about it; ``lines`` holds each record's
    first line in the file, so that whatever is found wrong later can still be located.
    """

    records: tuple[Record, ...]
    warnings: Counter[str]
    path: Path
    lines: tuple[int, ...]
