"""Where the words and arcs of a drawn parse go; pixels everywhere."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(slots=True)
class Arc:
    """A line over one line's words, to ``word``; without a ``head`` in that line only an arrow with a label."""

    word: Word
    head: Word | None
    label: str
    level: int = 1

    @property
    def start(self) -> float:
        """Where the arc leaves its head: beside the arrow tip that the head receives."""
        if self.head is None:
            return self.word.middle
        return self.head.middle + (-4 if self.head.middle > self.word.middle else 4)

    @property
    def label_middle(self) -> float:
        """Middle of the label, moved inwards where it would leave the picture."""
        half = letters(self.label) * SMALL / 2
        return min(max((self.word.middle + self.start) / 2, half), WIDTH - half)

    @property
    def extent(self) -> tuple[float, float]:
        half = letters(self.label) * SMALL / 2 + 2
        points = (self.word.middle, self.start, self.label_middle - half, self.label_middle + half)
        return min(points), max(points)


def letters(text: str) -> int:
    """Width in letters: those of East Asian scripts are two wide, combining marks none.

    >>> letters("ab"), letters("相機")
    (2, 4)
    """
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def place(text: str, parse: Parse, spans: Sequence[Span]) -> list[Word | None]:
    """Words from left to right, line by line; None for white space that the parser took for a word.

    Args:
        text: what was parsed.
        parse: of that text.
        spans: all that will be drawn below the words, whose types need room.
    """
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
            found.append(
                Arc(word, None, f"{relation} {'↑' if other.line < line else '↓'} {shortened(other.label, 12)}")
            )
    found.sort(key=lambda arc: arc.extent[1] - arc.extent[0])
    for index, arc in enumerate(found):
        low, high = arc.extent
        below = [other.level for other in found[:index] if other.extent[0] < high and low < other.extent[1]]
        arc.level = 1 + max(below, default=0)
    return found
