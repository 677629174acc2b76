"""What a complaint about data says: where, what was found, what was expected, how to mend it."""

from dataclasses import dataclass
from pathlib import Path
from reprlib import Repr
from typing import Final

_WIDTH: Final = 80
_short = Repr()
_short.maxstring = _short.maxother = _short.maxlong = _WIDTH


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Location:
    """A file and, where one is known, a line of it (counted from 1)."""

    path: Path | str
    line: int | None = None

    def __str__(self) -> str:
        # A file name may hold control characters too; a terminal must not obey them.
        path = repr(str(self.path))[1:-1]
        return path if self.line is None else f"{path}:{self.line}"


def quoted(value: object) -> str:
    r"""The value as it can be shown in a log: on one line, control characters escaped, at most 80 characters.

    Args:
        value: Anything that was found in a file.

    Example:
        >>> print(quoted("bell\x07 and newline\n"))
        'bell\x07 and newline\n'
        >>> len(quoted("long " * 1000))
        80
    """
    if isinstance(value, str):
        # Cut first: the text may be a megabyte. The end goes, because the start is what one searches for.
        shown = repr(value[:_WIDTH])
        return shown if len(value) <= _WIDTH and len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…"
    shown = _short.repr(value)
    return shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…"


class DataError(ValueError):
    """A file that cannot be used as it is.

    Args:
        where: The file and line, or None when the value came from no file.
        field: What is wrong: a field, a column, a byte.
        value: What was found there; ``MISSING`` if nothing was.
        expected: What would have been right.
        fix: What to do about it.

    Example:
        >>> print(DataError(Location("a.jsonl", 3), "label", 7, "a string or null", "write it in quotes"))
        a.jsonl:3: label is 7; expected a string or null; write it in quotes
    """

    def __init__(self, where: Location | None, field: str, value: object, expected: str, fix: str) -> None:
        # All five go to the base class, so that the error survives pickling between processes.
        super().__init__(where, field, value, expected, fix)
        self.where, self.field, self.value, self.expected, self.fix = where, field, value, expected, fix

    def __str__(self) -> str:
        place = "" if self.where is None else f"{self.where}: "
        return f"{place}{self.field} is {quoted(self.value)}; expected {self.expected}; {self.fix}"
