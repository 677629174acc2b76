"""Dependency trees with their spans, drawn as SVG."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

from domadapt.syntax.parser import SILENT, Parse
from domadapt.utils.text import shortened, visible

WIDTH, MARGIN, GAP = 440, 44, 9  # of a line, of the lanes' names, between words
HANGING = 16  # room kept at the right for commas and stops, which never begin a line
LETTER, SMALL = 7.8, 6.8  # width of a letter of the words (monospaced, 13 pixels) and of the labels (11 pixels)
LONGEST_WORD = 26

Span = tuple[int, int, str]


@dataclass(slots=True)
class Word:
    """A word's place: its characters in the text, its label, and the room it takes, at least that of its labels."""

    start: int
    end: int
    label: str
    width: float
    line: int
    x: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    def within(self, position: int) -> float:
        """Where a character of the text lies."""
        whole = letters(self.label) * LETTER
        share = (min(max(position, self.start), self.end) - self.start) / (self.end - self.start)
        return self.middle + (share - 0.5) * whole


@dataclass
class Arc:
    """A line over one line's words, to ``word``; without a ``head`` in that line only an arrow with a label."""

    word: Word
    head: Word | None
    label: str
    level: int = 1

    def __post_init__(self) -> None:
        x, half = self.word.middle, letters(self.label) * SMALL / 2
        # Beside the arrow tip that the head receives; a label is moved inwards where it would leave the picture.
        self.start = x if self.head is None else self.head.middle + (-4 if self.head.middle > x else 4)
        self.label_middle = min(max((x + self.start) / 2, half), WIDTH - half)
        ends = (x, self.start, self.label_middle - half - 2, self.label_middle + half + 2)
        self.low, self.high = min(ends), max(ends)


def letters(text: str) -> int:
    """Width in letters: those of East Asian scripts are two wide, combining marks none.

    >>> letters("ab"), letters("相機")
    (2, 4)
    """
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def place(text: str, parse: Parse, spans: Sequence[Span]) -> list[Word | None]:
    """Words from left to right, line by line, with room for spans' types; None for white space taken for a word."""
    words: list[Word | None] = []
    x, line = float(MARGIN), 0
    for (start, end), relation in zip(parse.words.tolist(), parse.relations, strict=True):
        label = visible(text[start:end])
        if not label.strip():
            words.append(None)
            continue
        label = shortened(label, LONGEST_WORD)
        types = [shortened(kind, LONGEST_WORD) for first, last, kind in spans if first < end and start < last]
        small = max(letters(name) for name in ("" if relation == SILENT else relation, *types))
        width = max(letters(label) * LETTER, small * SMALL + 4)
        hangs = relation == SILENT and x + width <= WIDTH
        if x + width > WIDTH - HANGING and x > MARGIN and not hangs:
            x, line = float(MARGIN), line + 1
        words.append(Word(start, end, label, width, line, x))
        x += width + GAP
    return words


def arcs(words: Sequence[Word | None], parse: Parse, line: int) -> list[Arc]:
    """The arcs of one line, on levels on which no two labels meet and long arcs pass over short ones."""
    found = []
    for word, head, name in zip(words, parse.heads.tolist(), parse.relations, strict=True):
        relation, other = visible(name), words[head]
        if word is None or word.line != line or name == SILENT:
            continue
        if other is None or other is word:
            found.append(Arc(word, None, relation.lower()))
        elif other.line == line:
            found.append(Arc(word, other, relation))
        else:
            where = "↑" if other.line < line else "↓"
            found.append(Arc(word, None, f"{relation} {where} {shortened(other.label, 12)}"))
    found.sort(key=lambda arc: arc.high - arc.low)
    for index, arc in enumerate(found):
        below = [other.level for other in found[:index] if other.low < arc.high and arc.low < other.high]
        arc.level = 1 + max(below, default=0)
    return found


STEP, WORD, LANE = 15, 22, 22  # heights in pixels: one level of arcs, the words, one lane of spans
COLORED = ("aspect", "opinion")  # types with a colour of their own in report.css


@dataclass(frozen=True, slots=True)
class Lane:
    """Spans drawn side by side under the words: the gold ones, or one model's.

    Attributes:
        name: gold, before or after: written at the left, and the name of the line's dashes in report.css.
        spans: (start, end, type) in characters of the text.
    """

    name: str
    spans: tuple[Span, ...]


def tree_svg(text: str, parse: Parse, lanes: Sequence[Lane], alt: str) -> str:
    """Draw one parsed text; long ones take several lines, and arcs between lines are short arrows with the head's name.

    Whatever the text contains is shown, never interpreted; the element is styled by the report's style sheet.
    """
    words = place(text, parse, [span for lane in lanes for span in lane.spans])
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "tree", "role": "img"})
    root.set("aria-label", visible(alt))
    top = 0.0
    for line in range(1 + max((word.line for word in words if word), default=0)):
        own = [word for word in words if word and word.line == line]
        above = arcs(words, parse, line)
        top += STEP * max((arc.level for arc in above), default=0) + 8
        _draw_arcs(root, above, top)
        for word in own:
            element = _text(root, word.middle, top + 14, word.label, "word")
            if not word.label.isascii():  # other scripts come in other widths: make the word fill its place
                width = word.within(word.end) - word.within(word.start)
                element.attrib |= {"textLength": f"{width:.0f}", "lengthAdjust": "spacingAndGlyphs"}
        top += WORD
        for lane in lanes:
            top += LANE * _draw_lane(root, lane, own, top)
    root.set("viewBox", f"0 0 {WIDTH} {top + 2:.0f}")
    return tostring(root, encoding="unicode")


def _draw_arcs(root: Element, above: Sequence[Arc], floor: float) -> None:
    lines, tips = "", ""
    for arc in above:
        x, top, bend = arc.word.middle, floor - STEP * arc.level + 3, 5 if arc.start > arc.word.middle else -5
        over = f"q0 -5 {bend} -5H{arc.start - bend:.0f}q{bend} 0 {bend} 5V{floor:.0f}" if arc.head else ""
        lines += f"M{x:.0f} {floor:.0f}V{top + (5 if arc.head else 4):.0f}{over}"
        tips += f"M{x:.0f} {floor + 2:.0f}l-3 -6h6z"
    if above:  # two elements for all arcs keep a page with hundreds of trees small
        SubElement(root, "path", {"class": "arc", "d": lines})
        SubElement(root, "path", {"class": "tip", "d": tips})
    for arc in above:  # after all lines, which else would cross them out
        _text(root, arc.label_middle, floor - STEP * arc.level + 6, arc.label, "relation")


def _draw_lane(root: Element, lane: Lane, words: Sequence[Word], top: float) -> int:
    """Draw a lane's spans in one line; returns how many rows they took, more than one where spans overlap."""
    ends: list[float] = []  # where the last span of each row ends
    for first, last, kind in sorted(lane.spans):
        covered = [word for word in words if first < word.end and word.start < last]
        if not covered:
            continue
        left, right = covered[0].within(first), covered[-1].within(last)
        row = next((i for i, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [right]
        y = top + row * LANE
        style = f"span t-{kind if kind in COLORED else 'other'} lane-{lane.name}"
        SubElement(root, "path", {"class": style, "d": f"M{left:.0f} {y:.0f}H{right:.0f}"})
        _text(root, (left + right) / 2, y + 12, shortened(kind, LONGEST_WORD), "kind")
    for row in range(len(ends)):
        _text(root, 0, top + row * LANE + 4, visible(lane.name), "lane")
    return len(ends)


def _text(root: Element, x: float, y: float, text: str, kind: str) -> Element:
    # report.css isolates it: right-to-left letters order themselves and not their neighbours.
    element = SubElement(root, "text", {"x": f"{x:.0f}", "y": f"{y:.0f}", "class": kind})
    element.text = text
    return element
