"""What the sections of an analysis share: names, colours, numbers in words."""

from collections.abc import Mapping, Sequence

from domadapt.reporting.blocks import Section, Table, Text

NAMED = {"before": "pretrained", "after": "fine-tuned"}
COLORS = {"before": "#0072b2", "after": "#d55e00"}  # of Okabe and Ito's palette, as in a report
Domains = Mapping[str, str]  # names by side


def absent(title: str, why: str) -> Section:
    """The section of what a model does not let be had.

    Args:
        title: as it would be called.
        why: names the model.
    """
    return Section(title, (without("This", why),))


def without(what: str, why: str) -> Text:
    """A sentence in place of numbers.

    >>> without("Maps", "they are not given").text
    "Maps can't be had: they are not given."
    """
    return Text(f"{what} can't be had: {why}.")


def percent(value: float | None) -> str:
    """A share in percent.

    >>> percent(0.5), percent(None)
    ('50.0', '-')
    """
    return "-" if value is None else f"{100 * value:.1f}"


def points(value: float) -> str:
    """A difference of shares, in points, with its sign.

    >>> points(0.012), points(-0.0001)
    ('+1.2', '0.0')
    """
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def shade(value: float, full: float) -> float:
    """Colour of a number: -1 to 1, reached at ``full``."""
    return min(max(value / full, -1.0), 1.0) if full else 0.0


def grid(
    title: str, rows: Sequence[Sequence[str]], shades: Sequence[Sequence[float]], notes: Sequence[str] = ()
) -> Table:
    """Layers × heads.

    Args:
        title: what the numbers are.
        rows: a layer each, cells of its heads.
        shades: the same shape.
        notes: below it.
    """
    heads = max(map(len, rows), default=0)
    return Table(
        title,
        ["layer, head", *map(str, range(heads))],
        [[str(layer), *row, *[""] * (heads - len(row))] for layer, row in enumerate(rows)],
        list(notes),
        {(r, c + 1): value for r, row in enumerate(shades) for c, value in enumerate(row)},
    )
