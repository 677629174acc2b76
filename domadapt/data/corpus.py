"""A corpus: the records of one file, the lines they came from, and what was odd about them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from domadapt.data.records import DataError, Location, Record


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


def check_labels(corpus: Corpus, allowed: set[str]) -> None:
    """Refuse a corpus with a label that the task does not know.

    Args:
        corpus: What was read.
        allowed: The task's labels.

    Raises:
        DataError: At the first such label.

    Example:
        >>> record = Record("a", "camera", "sharp", label="postive")
        >>> corpus = Corpus((record,), Counter(), Path("a.jsonl"), (1,))
        >>> check_labels(corpus, {"positive", "negative"})
        Traceback (most recent call last):
        domadapt.data.errors.DataError: a.jsonl:1: label is 'postive'; expected 'negative' or 'positive'; \
did you mean 'positive'?
    """
    for record, line in zip(corpus.records, corpus.lines, strict=True):
        if record.label is not None:
            _check("label", [record.label], allowed, Location(corpus.path, line))


def check_span_types(corpus: Corpus, allowed: set[str]) -> None:
    """Refuse a corpus with a span type that the task does not know.

    Args:
        corpus: What was read.
        allowed: The task's span types, by their canonical names.

    Raises:
        DataError: At the first such type.
    """
    for record, line in zip(corpus.records, corpus.lines, strict=True):
        _check("span type", (span.type for span in record.spans or ()), allowed, Location(corpus.path, line))


def _check(field: str, values: Iterable[str], allowed: set[str], where: Location) -> None:
    for value in values:
        if value not in allowed:
            close = get_close_matches(value, allowed, n=1)
            fix = f"did you mean {close[0]!r}?" if close else f"rename it, or add it to the task's {field}s"
            raise DataError(where, field, value, " or ".join(map(repr, sorted(allowed))), fix)
