"""Labels and span types that a task does not know, told with the place they were read."""

from collections.abc import Sequence
from difflib import get_close_matches

from domadapt.data.records import MISSING, DataError, Location, Record


def check_known(record: Record, field: str, value: str, known: Sequence[str]) -> None:
    """Refuse what is not among the task's own.

    Args:
        record: that has it.
        field: ``label`` or ``span type``.
        value: the record's.
        known: the task's.

    Raises:
        DataError: naming file and line, or the record where it came from no file.

    >>> check_known(Record("3", "camera", "Sharp.", label="postive"), "label", "postive", ["negative", "positive"])
    Traceback (most recent call last):
    domadapt.data.errors.DataError: record 3 of camera: label is 'postive'; expected 'negative' or 'positive'; \
did you mean 'positive'?
    """
    if value not in known:
        close = get_close_matches(value, known, n=1)
        fix = f"did you mean {close[0]!r}?" if close else f"rename it, or train with it in task.{field.split()[-1]}s"
        raise DataError(place(record), field, value, " or ".join(map(repr, sorted(known))), fix)


def check_annotated(record: Record, field: str, value: object, task: str) -> None:
    """Refuse a record that nobody annotated.

    Raises:
        DataError: as :func:`check_known`.
    """
    if value is None:
        expected = f"something on each record, for task={task}"
        raise DataError(place(record), field, MISSING, expected, "annotate it, or drop the record")


def place(record: Record) -> Location:
    """Where a record was read, else which it is."""
    return record.where or Location(f"record {record.id} of {record.domain}")
