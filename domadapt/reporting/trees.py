"""A sentence's dependency parse as SVG: arcs above the words, spans as labelled lines below."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

from domadapt.reporting.layout import LONGEST_WORD, WIDTH, Arc, Span, Word, arcs, place
from domadapt.syntax.parser import Parse
from domadapt.utils.text import shortened, visible

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

    Args:
        text: what was parsed. Whatever it contains is shown, never interpreted.
        parse: of that text.
        lanes: spans to underline, from top to bottom.
        alt: what is drawn, in words.

    Returns:
        An ``svg`` element, styled by the report's style sheet.
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
        x, top = arc.word.middle, floor - STEP * arc.level + 3
        bend = 5 if arc.start > x else -5
        if arc.head is None:
            lines += f"M{x:.0f} {floor:.0f}V{top + 4:.0f}"
        else:
            lines += f"M{x:.0f} {floor:.0f}V{top + 5:.0f}q0 -5 {bend} -5"
            lines += f"H{arc.start - bend:.0f}q{bend} 0 {bend} 5V{floor:.0f}"
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
