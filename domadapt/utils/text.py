"""Text that is safe to print, and values as JSON."""

import csv
import io
import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

JOINERS = "\u200c\u200d"  # shape letters in Persian and join emoji; they reorder nothing


def percent(share: float) -> str:
    """In words short enough to read; what is not all is not called so.

    >>> percent(0.123), percent(0.012), percent(0.9975), percent(1.0)
    ('12 %', '1.2 %', '99.8 %', '100 %')
    """
    value = 100 * share
    edge = min(value, 100 - value)
    digits = 0 if 10 <= value < 99.5 or edge <= 0 else 1 if edge >= 0.1 else 2
    return f"{value:.{digits}f} %"


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun.

    >>> counted(1, "pair"), counted(2, "pair"), counted(2, "this", "these")
    ('1 pair', '2 pairs', '2 these')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names with commas between them; the end of a long list is a number.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d"], 2)
    ('a, b', 'a, b and 2 others')
    """
    rest = f" and {len(names) - most} others" if len(names) > most + 1 else ""
    return ", ".join(names[:most] if rest else names) + rest


def escape_controls(text: str) -> str:
    """Control, direction-changing and unpaired characters written out as their code points; whitespace as one space.

    >>> escape_controls("a\\u202eb\\x07\\tc")
    'a⟨U+202E⟩b⟨U+0007⟩ c'
    """
    return "".join(_escaped(character) for character in text)


def cut(text: str, limit: int) -> tuple[str, int]:
    """The beginning of a text, up to a space where one is near, and how many characters are left out.

    >>> cut("a long sentence", 8)
    ('a long', 9)
    """
    if len(text) <= limit:
        return text, 0
    space = text.rfind(" ", limit // 2, limit + 1)
    end = space if space > 0 else limit
    return text[:end], len(text) - end


def shortened(text: str, limit: int = 100) -> str:
    """A harmless label of at most ``limit`` characters and an ellipsis.

    >>> shortened("extraordinary", 5)
    'extra…'
    """
    label = escape_controls(text[: limit + 1])
    return label if len(label) <= limit else label[:limit] + "…"


def _escaped(character: str) -> str:
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and character not in JOINERS:
        return f"⟨U+{ord(character):04X}⟩"
    return character


def warning_lines(warnings: Mapping[str, int]) -> list[str]:
    """Warnings with how often each was met, in the order of the alphabet.

    >>> warning_lines({"blank text, dropped": 2, "BOM, dropped": 1})
    ['BOM, dropped (1 time)', 'blank text, dropped (2 times)']
    """
    return [f"{message} ({counted(count, 'time')})" for message, count in sorted(warnings.items())]


def duration(seconds: float) -> str:
    """For people.

    >>> duration(40), duration(600), duration(8000)
    ('40 s', '10 min', '2 h 13 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def json_lines(rows: Iterable[object]) -> Iterator[str]:
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_json_lines(path: Path) -> list[Any]:
    """What :func:`json_lines` wrote; of what a text may hold, U+2028 and the like end no line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def csv_lines(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> Iterator[str]:
    """Lines of a table.

    >>> list(csv_lines([("id", "text"), (1, "So, so."), (2, "So\\rso")]))
    ['id,text\\n', '1,"So, so."\\n', '2,"So\\rso"\\n']
    """
    for row in rows:
        line = io.StringIO()
        csv.writer(line, delimiter=delimiter).writerow(row)  # which quotes what is in its line end, CR and LF
        yield line.getvalue().removesuffix("\r\n") + "\n"


def nested_values(value: Any) -> Iterator[Any]:
    """A value and all that is in it, names included.

    >>> list(nested_values({"a": [1, {"b": 2}]}))
    [{'a': [1, {'b': 2}]}, 'a', [1, {'b': 2}], 1, {'b': 2}, 'b', 2]
    """
    yield value
    for part in [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nested_values(part)


def plain_json(value: Any, place: str = "") -> Any:
    """A value in dicts, lists, strings, numbers, booleans and None; what is not finite becomes None.

    >>> import numpy as np
    >>> plain_json({"loss": np.float32(0.5), "curve": (1, float("nan")), 3: np.arange(2)})
    {'loss': 0.5, 'curve': [1, None], '3': [0, 1]}
    >>> plain_json({"stage": {"words": {1, 2}}})
    Traceback (most recent call last):
    TypeError: stage.words: a set; expected numbers, strings, tensors, or dicts and lists of them
    """
    if isinstance(value, dict):
        return {str(key): plain_json(inside, f"{place}.{key}" if place else str(key)) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(inside, f"{place}[{i}]") for i, inside in enumerate(value)]
    if hasattr(value, "tolist"):
        return plain_json(value.tolist(), place)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    name = type(value).__name__
    raise TypeError(f"{place or 'value'}: a {name}; expected numbers, strings, tensors, or dicts and lists of them")
