"""What the formats of JSON share: an object decoded or refused in one line, and our names for its fields."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from json import JSONDecodeError, JSONDecoder

from domadapt.data.columns import canonical, renamed
from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import DataError, Location


def decoder(where: Location) -> JSONDecoder:
    """A decoder that refuses an object which names a field twice."""
    return JSONDecoder(object_pairs_hook=partial(_once, where))


def _once(where: Location, pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(where, "field", twice, "each field once in an object", "drop one of the two")
    return fields


@contextmanager
def refusing(where: Location, begins: int, content: str, expected: str, fix: str) -> Iterator[None]:
    """Turn what a decoder raises into one line for the user.

    Args:
        begins: number of the line at which the text that the decoder was given begins.

    Raises:
        DataError: what is inside raised an error of JSON.
    """
    try:
        yield
    except DataError:
        raise
    except JSONDecodeError as error:
        at, found = Location(where.path, begins + error.lineno - 1), f"JSON at column {error.colno} ({error.msg})"
        raise DataError(at, found, error.doc[error.pos :], expected, fix) from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, a thousand brackets
        raise DataError(where, f"JSON ({type(error).__name__})", content, expected, fix) from None


def own(decoded: object, file: OpenedFile, line: int, number: int) -> object:
    """The object with our names for its fields, and an id by its number; anything else as it is, to be refused."""
    if not isinstance(decoded, dict):
        return decoded
    fields = renamed(decoded, file.columns, file.where(line))
    return canonical(fields, file.generated_id(number))
