"""Numbers and lists of names in words."""

from collections.abc import Sequence


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun.

    >>> counted(1, "pair"), counted(2, "pair"), counted(2, "this", "these")
    ('1 pair', '2 pairs', '2 these')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def number(value: float | None, form: str) -> str:
    """A number in a format; a dash where there is none."""
    return "-" if value is None else format(value, form)


def percent(share: float | None) -> str:
    """A share in percent.

    >>> percent(0.5), percent(None)
    ('50.0', '-')
    """
    return number(None if share is None else 100 * share, ".1f")


def points(difference: float | None) -> str:
    """A difference of shares, in points, with its sign.

    >>> points(0.012), points(-0.0001), points(None)
    ('+1.2', '0.0', '-')
    """
    text = number(None if difference is None else 100 * difference, "+.1f")
    return "0.0" if text in ("+0.0", "-0.0") else text
