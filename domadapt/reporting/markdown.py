"""A report as Markdown, for a pull request: the same words and tables, bars of text for pictures.

What corpora and run folders say is set as code wherever it holds more than plain words: in code there is no markup, no
HTML, no link, and nobody is mentioned.
"""

import re
from collections.abc import Iterable, Sequence

from domadapt.reporting.blocks import (
    Block,
    Cards,
    Facts,
    Figure,
    Folded,
    Listing,
    Marked,
    Samples,
    Section,
    Table,
    Text,
    numbered,
)
from domadapt.utils.text import visible

LONGEST = 65_000  # bytes; GitHub takes no comment above 65,536 characters
WIDTH = 30  # of a bar of text
SAFE = re.compile(r"(?!_|www\.|~)(?:(?!://|//)[\w.,;:%()–→↑↓±×−/'’?!+=-])+(?<!_)|\[\d{1,3}\]|n<\d|&", re.IGNORECASE)


def markdown(title: str, sections: Sequence[Section], longest: int = LONGEST) -> str:
    """A whole report.

    Args:
        sections: in their order.
        longest: bytes; what would go beyond is left out, the last of the smaller sections first, and counted.

    Returns:
        Markdown as GitHub reads it.
    """
    written = [_section(section) for section in sections]
    left_out = 0
    for index in reversed(range(len(sections))):
        if sum(len(part.encode()) for part in written) <= longest - 400:
            break
        if sections[index].level > 2:
            written[index], left_out = "", left_out + 1
    text = f"# {harmless(title)}\n\n" + "".join(written)
    if len(text.encode()) > longest - 300:
        kept = text.encode()[: longest - 300].decode(errors="ignore").rpartition("\n\n")[0]
        text = kept + f"\n\nCut here: {len(text) - len(kept)} more characters are in the HTML report.\n\n"
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
    for word in visible(text).split():
        plain = (SAFE.fullmatch(word) is not None and word.strip("-=+") != "") or word == "-"
        plain = plain or (word == "=" and bool(parts))  # alone in a line it would make a heading of the one above
        if not parts or parts[-1][0] != plain:
            parts.append((plain, []))
        parts[-1][1].append(word)
    return " ".join(" ".join(words) if plain else _coded(" ".join(words)) for plain, words in parts)


def _coded(text: str) -> str:
    core = text.rstrip(".,;") or text  # a sentence's mark is no part of the word before it
    return code(core) + text[len(core) :]


def code(text: str) -> str:
    """A code span that its content can't leave.

    >>> code("a`b"), code("``")
    ('``a`b``', '``` `` ```')
    """
    text = visible(text)
    fence = _fence(text, 1)
    space = " " if text[:1] == "`" or text[-1:] == "`" or not text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"


def table_lines(table: Table) -> list[str]:
    """A table's rows, without title and notes."""
    rule = [":---" if i in table.left else "---:" for i in range(len(table.header))]
    cells = [[_cell(c) for c in table.header], rule, *([_cell(c) for c in row] for row in table.rows)]
    return ["| " + " | ".join(row) + " |" for row in cells]


def _cell(text: str) -> str:
    # Also in code: tables are cut at every pipe that has no backslash.
    return harmless(text).replace("|", "\\|")


def _section(section: Section) -> str:
    head = f"{'#' * section.level} {harmless(section.title)}\n\n"
    return head + "".join(f"{text}\n\n" for block in section.blocks if (text := "\n".join(_block(block))))


def _block(block: Block) -> Iterable[str]:
    match block:
        case Text(text):
            return [harmless(text)]
        case Table():
            title = [f"**{harmless(block.title)}**", ""] if block.title else []
            notes = [f"- {harmless(note)}" for note in numbered(block)]
            return [*title, *table_lines(block), *(["", *notes] if notes else [])]
        case Figure(_, caption, text):
            return [*_bars(text), *([harmless(caption)] if caption else [])] if text else []
        case Facts(sentence, items):
            return [
                f"**{harmless(sentence)}**",
                "",
                *(f"- {harmless(name)}: {harmless(value)}" for name, value in items),
            ]
        case Folded(title, blocks):
            inner = [part for block in blocks for part in (*_block(block), "")]
            return ["<details><summary>" + _escaped(title) + "</summary>", "", *inner, "</details>"]
        case Listing(title, items, is_code):
            shown = (code(item) if is_code else harmless(item) for item in items)
            return ["<details><summary>" + _escaped(title) + "</summary>", "", *(f"- {i}" for i in shown), "</details>"]
        case Samples(title, texts):
            return [harmless(title), "", *(f"- {_marked(text)}" for text in texts)]
        case Cards(cards):
            return [
                line
                for card in cards
                for line in (
                    f"- {code(card.text)}" + (f" (and {card.left_out} more characters)" if card.left_out else ""),
                    *(f"  - {harmless(remark)}" for remark in (*card.remarks, *card.said)),
                )
            ]


def _marked(text: Marked) -> str:
    """What is marked in bold, its kind behind it."""
    parts = [harmless(text.lead) + ":"] if text.lead else []
    for piece, kind in text.pieces:
        shown = harmless(piece)
        parts.append(f"**{shown}** ({harmless(kind)})" if kind else shown)
    return " ".join(parts) + (" …" if text.left_out else "")


def _bars(rows: Sequence[tuple[str, float, str]]) -> list[str]:
    names = [visible(name) for name, _, _ in rows]
    width = max(map(len, names))
    lines = [
        f"{name.ljust(width)}  {'█' * round(WIDTH * min(max(share, 0.0), 1.0)):<{WIDTH}}  {visible(words)}"
        for name, (_, share, words) in zip(names, rows, strict=True)
    ]
    fence = _fence("".join(lines), 3)
    return [f"{fence}text", *lines, fence, ""]


def _fence(text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _escaped(text: str) -> str:
    return re.sub(r"[^\w ,.:()-]", lambda m: f"&#{ord(m[0])};", visible(text))
