"""What a page is made of: sections and six kinds of blocks.

What a report says, before it is a page or Markdown: sections of paragraphs, tables, figures, lists and cards.

Strings are plain text, whoever wrote them: each rendering makes them harmless in its own way.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jinja2 import Environment, PackageLoader, StrictUndefined

from domadapt.utils.text import visible


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph.

    Attributes:
        text: of it.
        kind: empty, ``soft`` (an aside), ``lead`` (names what follows) or ``warning``.
    """

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of strings; the first column names the row.

    Attributes:
        title: what it shows.
        header: names of the columns.
        rows: cells.
        notes: footnotes, without their marks; note 1 is marked [1].
        shades: a number from -1 (worst) to 1 (best) for each cell that has a colour, by (row, column).
        left: columns that hold words, not numbers.
        narrow: names of columns may take several lines.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    shades: dict[tuple[int, int], float] = field(default_factory=dict)
    left: frozenset[int] = frozenset((0,))
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing.

    Attributes:
        svg: an ``svg`` element with its alternative text; made by :mod:`domadapt.reporting.svg`, so already harmless.
        caption: what is to be seen.
        text: (name, number from 0 to 1, the number in words) for bars of text, where pictures can't be shown.
    """

    svg: str
    caption: str
    text: tuple[tuple[str, float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What matters most, on a card.

    Attributes:
        sentence: what came out.
        items: (name, value).
    """

    sentence: str
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are folded away on a screen.

    Attributes:
        title: what they show.
        blocks: in their order.
    """

    title: str
    blocks: tuple["Block", ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list that is folded away on a screen.

    Attributes:
        title: what it lists.
        items: one line each.
        code: they are commands or settings.
    """

    title: str
    items: tuple[str, ...]
    code: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """One text with drawings of it.

    Attributes:
        text: what is shown of it.
        left_out: characters that are not shown.
        remarks: lines below it.
        drawings: ``svg`` elements, each with the line above it.
        said: what the drawings show, in words, for where they can't be.
    """

    text: str
    left_out: int
    remarks: tuple[str, ...]
    drawings: tuple[tuple[str, str], ...] = ()
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cards:
    """Texts side by side."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Marked:
    """A text with parts of it marked.

    Attributes:
        lead: what is said of all of it.
        pieces: (text, kind), in their order; the kind is empty where nothing is marked.
        left_out: characters that are not shown.
    """

    lead: str
    pieces: tuple[tuple[str, str], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Samples:
    """Marked texts below each other."""

    title: str
    texts: tuple[Marked, ...]


Block = Text | Facts | Table | Figure | Folded | Listing | Cards | Samples


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it.

    Attributes:
        title: of it.
        blocks: in their order.
        level: 2 for a part of the report, 3 for a part of a part.
        folded: away on a screen, all but the heading.
    """

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    folded: bool = False


def numbered(table: Table) -> list[str]:
    """Footnotes as they are written: those that a cell refers to carry its mark."""
    text = " ".join(cell for cells in table.rows for cell in cells)
    return [f"[{i}] {note}" if f"[{i}]" in text else note for i, note in enumerate(table.notes, start=1)]


def in_line(text: Marked) -> str:
    """A marked text as plain text.

    >>> in_line(Marked("", (("The ", ""), ("fan", "aspect"), (" whines.", ""))))
    'The [fan: aspect] whines.'
    """
    marked = "".join(f"[{piece}: {kind}]" if kind else piece for piece, kind in text.pieces)
    return f"{text.lead}  {marked}".strip() + ("…" if text.left_out else "")


def in_columns(table: Table, most: int) -> list[Table]:
    """A wide table as several, each with the first column and at most ``most`` others, so that it fits a page.

    >>> [part.header for part in in_columns(Table("", ["pair", "a", "b", "c"], []), 2)]
    [['pair', 'a', 'b'], ['pair', 'c']]
    """
    parts = []
    for first in range(1, max(len(table.header), 2), most):
        columns = [0, *range(first, min(first + most, len(table.header)))]
        parts.append(_columns(table, columns, table.notes if first + most >= len(table.header) else []))
    return parts


def collapsed(table: Table) -> Table:
    """A table without the columns that hold nothing but dashes: a footnote says why they would.

    >>> one = Table("", ["method", "score", "p", "q"], [["a", "1 [2]", "- [1]", "- [1]"]], ["few seeds", "a copy"])
    >>> two = collapsed(one)
    >>> two.header, two.rows, two.notes
    (['method', 'score'], [['a', '1 [1]']], ['a copy', 'p, q: few seeds'])
    """
    empty = [c for c in range(1, len(table.header)) if table.rows and all(DASH.fullmatch(row[c]) for row in table.rows)]
    kept = [c for c in range(len(table.header)) if c not in empty]
    if not empty or len(kept) == 1:
        return table
    reasons: dict[tuple[str, ...], list[str]] = {}
    for column in empty:
        reasons.setdefault(tuple(row[column] for row in table.rows), []).append(table.header[column])
    told = [f"{', '.join(names)}: {_why(table, cells)}" for cells, names in reasons.items()]
    used = {int(found[1]) for row in table.rows for c in kept if (found := MARK.search(row[c]))}
    dropped = {int(found[1]) for row in table.rows for c in empty if (found := MARK.search(row[c]))} - used
    notes = [note for number, note in enumerate(table.notes, start=1) if number not in dropped]
    moved = {n: n - sum(d < n for d in dropped) for n in range(1, len(table.notes) + 1)}
    cells = [
        [
            cell if c in table.left else MARK.sub(lambda found: f" [{moved.get(int(found[1]), int(found[1]))}]", cell)
            for c, cell in enumerate(row)
        ]
        for row in table.rows
    ]
    return _columns(replace(table, rows=cells), kept, [*notes, *told])


DASH = re.compile(r"-( \[\d+\])?")
MARK = re.compile(r" \[(\d+)\]$")


def _why(table: Table, cells: Sequence[str]) -> str:
    """The reasons in a column's footnotes; with the rows that they are of, if there are several."""
    rows: dict[str, list[str]] = {}
    for cell, row in zip(cells, table.rows, strict=True):
        found = MARK.search(cell)
        reason = table.notes[int(found[1]) - 1] if found and int(found[1]) <= len(table.notes) else "not known"
        rows.setdefault(reason, []).append(row[0])
    if len(rows) == 1:
        return next(iter(rows))
    return "; ".join(
        f"{why} ({listed(some) if len(some) <= 3 else counted(len(some), 'row')})" for why, some in rows.items()
    )


def _columns(table: Table, columns: Sequence[int], notes: list[str]) -> Table:
    place = {column: new for new, column in enumerate(columns)}
    return Table(
        table.title,
        [table.header[c] for c in columns],
        [[row[c] for c in columns] for row in table.rows],
        notes,
        {(r, place[c]): shade for (r, c), shade in table.shades.items() if c in place},
        frozenset(place[c] for c in table.left if c in place),
        table.narrow,
    )


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


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page.

    Args:
        sections: in their order; those of level 2 are listed at the top.

    Returns:
        HTML. Every string but the figures' is escaped, and its control characters are written out.
    """
    environment = Environment(
        loader=PackageLoader("domadapt.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = lambda value: visible(str(value))
    environment.filters["numbered"] = numbered
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template("report.html.jinja").render(title=title, sections=sections)
