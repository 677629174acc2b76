"""Progress bars: a rate and an end for people, silence for logs."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def quiet() -> bool:
    """True where nobody watches: standard error is not a terminal."""
    return not sys.stderr.isatty()


def progress(items: Iterable[T], title: str, total: int | None, unit: str) -> Iterator[T]:
    """Show a bar over an iterable, if it lasts longer than a second and somebody watches.

    >>> list(progress([1, 2], "count", 2, "number"))
    [1, 2]
    """
    bar: Iterable[T] = tqdm(items, desc=title, total=total, unit=unit, delay=1.0, leave=False, disable=quiet())
    yield from bar
