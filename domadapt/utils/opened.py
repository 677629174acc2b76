"""Which files have been opened, told by the interpreter, whoever opens them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

_watchers: list[set[Path]] = []


@contextmanager
def files_read() -> Iterator[set[Path]]:
    """Collect the path of every file that is opened meanwhile.

    >>> with files_read() as read:
    ...     _ = Path(__file__).read_text()
    >>> Path(__file__) in read
    True
    """
    _install()
    read: set[Path] = set()
    _watchers.append(read)
    try:
        yield read
    finally:
        _watchers[:] = [other for other in _watchers if other is not read]  # one inside may hold the same files


@cache
def _install() -> None:
    sys.addaudithook(_note)  # stays for good: Python has no way to take one out again


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watchers and isinstance(arguments[0], str | bytes):
        for read in _watchers:
            read.add(Path(os.fsdecode(arguments[0])))
