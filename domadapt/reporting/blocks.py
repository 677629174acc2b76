"""What a page is made of, before it is HTML, Markdown or lines of a terminal: sections of blocks.

Strings are plain text, whoever wrote them: each rendering makes them harmless in its own way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    kind: str = ""  #: empty, ``soft`` (an aside), ``lead`` (names what follows) or ``warning``
    command: str = ""  #: what to type about it


class TableCell(NamedTuple):
    """Of a table: what it says, a footnote to it, and a colour from -1 (worst) to 1 (best)."""

    text: str
    note: str = ""
    shade: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first column names the row."""

    title: str
    header: list[str]
    rows: list[list[str | TableCell]]
    notes: list[str] = field(default_factory=list)  #: on the whole of it; those of cells come before them, numbered
    left: frozenset[int] = frozenset((0,))  #: columns that hold words, not numbers
    narrow: bool = False  #: names of columns may take several lines


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, made by :mod:`domadapt.reporting.plots` with its alternative text, so already harmless."""

    svg: str
    caption: str


class Fact(NamedTuple):
    name: str
    text: str
    command: str = ""  #: what to type about it


@dataclass(frozen=True, slots=True)
class Facts:
    """What matters most, on a card."""

    sentence: str  #: what came out: the page's title, and not on the card
    items: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are folded away on a screen."""

    title: str
    blocks: tuple["Block", ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list that is folded away on a screen; of commands or settings where it is code."""

    title: str
    items: tuple[str, ...]
    code: bool = False


@dataclass(frozen=True, slots=True)
class Marked:
    """A text in pieces with their kinds, empty where nothing is marked; what is said of all of it leads."""

    lead: str
    pieces: tuple[tuple[str, str], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Samples:
    """Marked texts below each other."""

    title: str
    texts: tuple[Marked, ...]


Block = Prose | Facts | Table | Figure | Folded | Listing | Samples


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it; of level 2 a part of the report, of level 3 a part of a part."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    folded: bool = False


Column = tuple[str, Callable[..., str | TableCell]]  # its heading, and what it says of an item


def make_table(
    title: str,
    items: Iterable[Any],
    columns: Iterable[Column],
    notes: Iterable[str] = (),
    left: Iterable[int] = (0,),
    narrow: bool = False,
) -> Table:
    """A table with a row for each item, and for each column its heading and what it says of an item.

    >>> make_table("Lengths", ["ab", "c"], [("word", str), ("letters", lambda word: str(len(word)))]).rows
    [['ab', '2'], ['c', '1']]
    """
    columns = list(columns)
    rows = [[cell(item) for _, cell in columns] for item in items]
    return Table(title, [name for name, _ in columns], rows, list(notes), frozenset(left), narrow)


def columns_for(names: Mapping[Any, str] | Iterable[str], cell: Callable[[Any, Any], str | TableCell]) -> list[Column]:
    """A column for each name: what ``cell`` says of an item and the name, or the key that goes by it.

    >>> [(name, say("ab")) for name, say in columns_for({0: "first", 1: "second"}, lambda word, place: word[place])]
    [('first', 'a'), ('second', 'b')]
    """
    headings = names.items() if isinstance(names, Mapping) else ((name, name) for name in names)
    return [(heading, lambda item, key=key: cell(item, key)) for key, heading in headings]


def rows_and_notes(table: Table) -> tuple[list[list[str]], list[str]]:
    """Rows and notes of a table as they are printed: notes of cells numbered, and referred to."""
    cells = [[as_cell(cell) for cell in row] for row in table.rows]
    notes = list(dict.fromkeys(cell.note for row in cells for cell in row if cell.note))
    rows = [[f"{c.text} [{notes.index(c.note) + 1}]" if c.note else c.text for c in row] for row in cells]
    return rows, [*(f"[{number}] {note}" for number, note in enumerate(notes, start=1)), *table.notes]


def as_cell(cell: str | TableCell) -> TableCell:
    return cell if isinstance(cell, TableCell) else TableCell(cell)


def split_columns(table: Table, most: int) -> list[Table]:
    """A wide table as several, each with the first column and at most ``most`` others, so that it fits a page.

    >>> [part.header for part in split_columns(Table("", ["pair", "a", "b", "c"], []), 2)]
    [['pair', 'a', 'b'], ['pair', 'c']]
    """
    width = len(table.header)
    parts = [select_columns(table, [0, *range(at, min(at + most, width))]) for at in range(1, max(width, 2), most)]
    return [*(replace(part, notes=[]) for part in parts[:-1]), parts[-1]]


def select_columns(table: Table, columns: Sequence[int]) -> Table:
    left = frozenset(new for new, column in enumerate(columns) if column in table.left)
    rows = [[row[c] for c in columns] for row in table.rows]
    return replace(table, header=[table.header[c] for c in columns], rows=rows, left=left)
