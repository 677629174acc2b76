"""Sections as a page, as Markdown for a pull request, and tables as lines of a terminal.

In Markdown, what corpora and run folders say is set as code wherever it holds more than plain words: in code there is
no markup, no HTML, no link, and nobody is mentioned.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined

from domadapt.reporting import blocks
from domadapt.reporting.blocks import Block, Marked, Section, Table, as_cell, rows_and_notes, select_columns
from domadapt.utils.text import counted, escape_controls

LARGEST_PAGE = 65_000  # bytes; GitHub takes no comment above 65,536 characters
SAFE = re.compile(
    r"(?!_|~|.*www\.|.*\bGH-\d|.*:[\w+-]+:)(?:(?!://|//)[\w.,;:%()–→↑↓±×−/'’?!+=-])+(?<!_)|\[\d{1,3}\]|n<\d|&",
    re.IGNORECASE,
)


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
    return number(None if share is None else 100 * share, ".1f")


def points(difference: float | None) -> str:
    """A difference of shares, in points, with its sign.

    >>> points(0.012), points(-0.0001), points(None)
    ('+1.2', '0.0', '-')
    """
    text = number(None if difference is None else 100 * difference, "+.1f")
    return "0.0" if text in ("+0.0", "-0.0") else text


def score_name(name: str) -> str:
    """A score as columns are headed."""
    return name.removesuffix("_f1") + " F1" if name.endswith("_f1") else name


def drop_empty_columns(table: Block) -> Block:
    """A table, or tables folded away, without the columns that hold nothing but dashes: a note says why they would.

    >>> from domadapt.reporting.blocks import TableCell
    >>> rows = [["a", TableCell("1", "a copy"), TableCell("-", "few seeds"), TableCell("-", "few seeds")]]
    >>> one = drop_empty_columns(Table("", ["method", "score", "p", "q"], rows))
    >>> one.header, one.rows, one.notes
    (['method', 'score'], [['a', TableCell(text='1', note='a copy', shade=None)]], ['p, q: few seeds'])
    """
    if isinstance(table, blocks.Folded):
        return replace(table, blocks=tuple(map(drop_empty_columns, table.blocks)))
    if not isinstance(table, Table):
        return table
    columns = range(len(table.header))
    empty = [c for c in columns[1:] if table.rows and all(as_cell(row[c]).text == "-" for row in table.rows)]
    if not empty or len(empty) == len(columns) - 1:
        return table
    reasons: dict[str, list[str]] = {}
    for column in empty:
        reasons.setdefault(_why(table, column), []).append(table.header[column])
    notes = [*table.notes, *(f"{', '.join(names)}: {why}" for why, names in reasons.items())]
    return replace(select_columns(table, [c for c in columns if c not in empty]), notes=notes)


def _why(table: Table, column: int) -> str:
    """The reasons in a column's footnotes; with the rows that they are of, if there are several."""
    rows: dict[str, list[str]] = {}
    for row in table.rows:
        rows.setdefault(as_cell(row[column]).note or "not known", []).append(as_cell(row[0]).text)
    if len(rows) == 1:
        return next(iter(rows))
    which = {why: listed(names) if len(names) <= 3 else counted(len(names), "row") for why, names in rows.items()}
    return "; ".join(f"{why} ({names})" for why, names in which.items())


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page as HTML, with every string but the figures' escaped; sections of level 2 are listed at the top."""
    environment = Environment(
        loader=PackageLoader("domadapt.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    places: dict[str, int] = defaultdict(count().__next__)  # of types of spans, as they come: each has its colour
    environment.filters |= {
        "place": places.__getitem__,
        "escape_controls": lambda value: escape_controls(str(value)),
        "rows_and_notes": rows_and_notes,
        "shade": lambda cell: getattr(cell, "shade", None),
        "kind": lambda block: type(block).__name__,
    }
    return environment.get_template("report.html.jinja").render(title=title, sections=sections)


def as_text(table: Table) -> str:
    """A table with its footnotes, aligned and harmless, for a terminal."""
    rows, notes = rows_and_notes(table)
    shown = [[escape_controls(cell) for cell in cells] for cells in (table.header, *rows)]
    widths = [max(map(columns_of, column)) for column in zip(*shown, strict=True)]
    lines = [table.title]
    for cells in shown:
        padded = []
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            space = " " * (width - columns_of(cell))
            padded.append(cell + space if column in {0, *table.left} else space + cell)
        lines.append("  ".join(padded).rstrip())
    return "\n".join(map(escape_controls, [*lines, *(f"  {note}" for note in notes)]))


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: two for a Chinese character, none for a combining mark.

    >>> columns_of("fan"), columns_of("屏幕"), columns_of("cafe\u0301")
    (3, 4, 4)
    """
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.category(character) == "Mn" for character in text)


def as_line(text: Marked) -> str:
    marked = "".join(f"[{piece}: {kind}]" if kind else piece for piece, kind in text.pieces)
    return f"{text.lead}  {marked}".strip() + ("…" if text.left_out else "")


def markdown(title: str, sections: Sequence[Section]) -> str:
    """A report as GitHub reads it, of :data:`LARGEST_PAGE` bytes at most: small sections are left out, and counted."""
    parts = []
    for section in sections:
        inside = (text for block in section.blocks if (text := "\n".join(_block(block))))
        head = f"{'#' * section.level} {harmless(section.title)}"
        parts.append("".join(f"{text}\n\n" for text in (head, *inside)))
    left_out = 0
    for index in reversed(range(len(sections))):
        if sum(len(part.encode()) for part in parts) <= LARGEST_PAGE - 400:
            break
        if sections[index].level > 2:
            parts[index], left_out = "", left_out + 1
    text = f"# {harmless(title)}\n\n" + "".join(parts)
    if len(text.encode()) > LARGEST_PAGE - 300:
        start = text.encode()[: LARGEST_PAGE - 300].decode(errors="ignore").rpartition("\n")[0]
        lines = start.split("\n")
        unfolded = sum(line.startswith("<details>") for line in lines) - lines.count("</details>")
        cut = f"Cut here: {len(text) - len(start)} more characters are in the HTML report."
        text = start + "\n</details>" * unfolded + f"\n\n{cut}\n\n"
    if left_out:
        text += f"Left out to fit into a pull request: {left_out} sections; the HTML report has them.\n"
    return text


def harmless(text: str) -> str:
    """A line of text whose unusual words are set as code.

    >>> harmless("camera → laptop by lisa_x: <b>hi</b> @all")
    'camera → laptop by lisa_x: `<b>hi</b> @all`'
    >>> harmless("gnn is above gnn@linear.")
    'gnn is above `gnn@linear`.'
    """
    parts: list[tuple[bool, list[str]]] = []
    for word in escape_controls(text).split():
        plain = (SAFE.fullmatch(word) is not None and word.strip("-=+") != "") or word == "-"
        plain = plain or (word == "=" and bool(parts))  # alone in a line it would make a heading of the one above
        if not parts or parts[-1][0] != plain:
            parts.append((plain, []))
        parts[-1][1].append(word)
    shown = []
    for plain, words in parts:
        line = " ".join(words)
        core = line.rstrip(".,;") or line  # a sentence's mark is no part of the word before it
        shown.append(line if plain else code(core) + line[len(core) :])
    return " ".join(shown)


def _with_command(text: str, command: str) -> str:
    return " ".join([*([harmless(text)] if text else []), *([code(command)] if command else [])])


def code(text: str) -> str:
    """A code span that its content can't leave.

    >>> code("a`b"), code("``")
    ('``a`b``', '``` `` ```')
    """
    text = escape_controls(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if text[:1] == "`" or text[-1:] == "`" or not text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"


def table_lines(table: Table) -> list[str]:
    """A table's rows, without title and notes; pipes get a backslash in code, too, where tables are cut as well."""
    rule = [":---" if i in table.left else "---:" for i in range(len(table.header))]
    lines = [table.header, *rows_and_notes(table)[0]]
    head, *rows = [[harmless(cell).replace("|", "\\|") for cell in row] for row in lines]
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]


def _block(block: Block) -> Iterable[str]:
    match block:
        case blocks.Prose(text, _, command):
            return [_with_command(text, command)]
        case Table():
            title = [f"**{harmless(block.title)}**", ""] if block.title else []
            notes = [f"- {harmless(note)}" for note in rows_and_notes(block)[1]]
            return [*title, *table_lines(block), *(["", *notes] if notes else [])]
        case blocks.Figure():
            return ["*A figure of the HTML report.*"]
        case blocks.Facts(_, items):
            return [f"- {harmless(one.name)}: {_with_command(one.text, one.command)}" for one in items]
        case blocks.Folded(title, inner):
            return _folded(title, [part for one in inner for part in (*_block(one), "")])
        case blocks.Listing(title, items, is_code):
            return _folded(title, [f"- {code(item) if is_code else harmless(item)}" for item in items])
        case blocks.Samples(title, texts):
            return [harmless(title), "", *(f"- {_marked(text)}" for text in texts)]


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    escaped = re.sub(r"[^\w ,.:()-]", lambda match: f"&#{ord(match[0])};", escape_controls(title))
    return [f"<details><summary>{escaped}</summary>", "", *lines, "</details>"]


def _marked(text: Marked) -> str:
    """What is marked in bold, its kind behind it."""
    parts = [harmless(text.lead) + ":"] if text.lead else []
    parts += [f"**{harmless(piece)}** ({harmless(kind)})" if kind else harmless(piece) for piece, kind in text.pieces]
    return " ".join(parts) + (" …" if text.left_out else "")
