"""Readers of reviews as researchers publish them: Hu and Liu's, Blitzer's, SemEval's."""

import html
import re
from collections import Counter
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from domadapt.data.files import OpenedFile, Records
from domadapt.data.records import MISSING, Record, Span

_FEATURE: Final = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\]\s*)+)")
_STRENGTH: Final = re.compile(r"\[\s*([+-])\s*\d\s*\]")
_IMPLICIT: Final = re.compile(r"\[\s*[up]\s*\]")
_SENTENCE: Final = re.compile(r"(?:[^\n#<{]*\[[+-]\d\][^\n#]*)?##[^\s#]")
_ANNOTATED: Final = re.compile(r"^\[t\]|^[^\n#<{]*\[[+-]\d\][^\n#]*##[^\s#]", re.MULTILINE)


def hu_liu(file: OpenedFile) -> Records:
    """Customer reviews of Hu and Liu (KDD 2004): ``picture quality[+2],size[-1][u]##the sentence``.

    A sentence's label is the sign of its strengths, where all of them have one sign. Every occurrence of a feature in
    its sentence, as whole words, is an aspect; a longer feature goes first. What has no ``##`` is counted and left out.
    """
    for line, content in file.lines():
        annotation, mark, text = content.partition("##")
        if not mark:
            if content.startswith("[t]"):
                file.warnings["title, left out"] += 1
            elif content.strip() and not content.startswith("*"):
                file.warnings["line without ##, left out"] += 1
            continue
        text = text.strip()
        label, spans = _annotated(annotation, text, file.warnings) if file.labelled else (None, None)
        yield line, Record(file.generated_id(line), file.domain, text, None, label, spans)


def is_hu_liu(head: str) -> bool:
    """Whether there are titles or annotated sentences, and most lines are of the format."""
    lines = [line for line in head.split("\n") if line.strip() and not line.startswith("*")]
    of_it = sum(line.startswith("[t]") or _SENTENCE.match(line) is not None for line in lines)
    return _ANNOTATED.search(head) is not None and 2 * of_it > len(lines)


def _annotated(annotation: str, text: str, warnings: Counter[str]) -> tuple[str | None, tuple[Span, ...]]:
    signs, features = set[str](), set[str]()
    for part in filter(str.strip, annotation.split(",")):
        match = _FEATURE.fullmatch(part.strip())
        strengths = _STRENGTH.findall(part) if match else []
        if match is None or not strengths:
            warnings["annotation not understood, left out"] += 1
            continue
        signs.update(strengths)
        if _IMPLICIT.search(match[2]):
            warnings["implicit feature ([u] or [p]), no span"] += 1
        else:
            features.add(match[1].strip())
    if len(signs) > 1:
        warnings["positive and negative opinions in one sentence, no label"] += 1
    label = {"+": "positive", "-": "negative"}[signs.pop()] if len(signs) == 1 else None
    spans: list[Span] = []
    for feature in sorted(features, key=lambda feature: (-len(feature), feature)):
        places = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(feature)}(?!\w)", text)]
        if not places:
            warnings["feature not in its sentence, no span"] += 1
        free = [(a, b) for a, b in places if not any(a < span.end and span.start < b for span in spans)]
        spans += [Span(start, end, "aspect") for start, end in free]
    return label, tuple(sorted(spans, key=lambda span: span.start))


_OPENING: Final = re.compile(r"<(\w{1,40})>")


def blitzer_review(file: OpenedFile) -> Records:
    """Product reviews of Blitzer et al. (ACL 2007): ``<review>`` blocks that look like XML and are not.

    Nothing in them is escaped reliably, so the tags are read only where they stand alone on a line. A rating above 3 is
    positive, below 3 negative, as in the paper. The owner's ``unique_id`` is not used, since nothing makes it unique.
    """
    start: int | None = None
    field: tuple[str, int] | None = None  # its name and line, while it is open
    fields: dict[str, list[str]] = {}
    for line, content in file.lines():
        mark = content.strip()
        if field is not None and mark == f"</{field[0]}>":
            field = None
        elif field is not None and mark in ("<review>", "</review>"):
            fix = f"close it with </{field[0]}> on a line of its own"
            raise file.error(field[1], "field", f"<{field[0]}>", f"its end before line {line}", fix)
        elif field is not None:
            fields[field[0]].append(content)
        elif start is None and mark == "<review>":
            start, fields = line, {}
        elif start is not None and mark == "</review>":
            yield start, _review(file, start, fields)
            start = None
        elif start is not None and (opening := _OPENING.fullmatch(mark)) and mark != "<review>":
            field = opening[1], line
            # Published reviews have two unique_id; of what is read here there can be only one.
            if field[0] in fields and field[0] in ("review_text", "rating"):
                raise file.error(line, "field", mark, "each field once", "drop one of the two")
            fields[field[0]] = []
        elif mark and mark not in ("<reviews>", "</reviews>"):
            fix = "put each tag on a line of its own and the text between them"
            raise file.error(line, "line", content, "a field of a <review>", fix)
    if start is not None:
        fix = "the file may have been cut off: fetch it again"
        raise file.error(start, "<review>", "open at the end of the file", "</review>", fix)


def _review(file: OpenedFile, line: int, fields: dict[str, list[str]]) -> Record:
    if "review_text" not in fields:
        value, fix = ", ".join(fields) or MISSING, "add it, or drop the review"
        raise file.error(line, "review", value, "a field review_text", fix)
    text = html.unescape("\n".join(fields["review_text"])).strip()
    label = None
    if file.labelled and "rating" in fields:
        rating = "".join(fields["rating"]).strip()
        try:
            stars = float(rating)
        except ValueError:
            stars = float("nan")
        if not 0 <= stars <= 5:
            raise file.error(line, "rating", rating, "a number from 0 to 5", "correct it, or drop the review")
        label = "positive" if stars > 3 else "negative" if stars < 3 else None
        if label is None:
            file.warnings["rating of 3, no label"] += 1
    elif file.labelled:
        file.warnings["review without rating, no label"] += 1
    return Record(file.generated_id(line), file.domain, text, None, label)


_TARGET: Final = {"aspectTerm": "term", "Opinion": "target"}
_ANNOTATION: Final = ("aspectTerms", "aspectCategories", "Opinions")


def semeval_xml(file: OpenedFile) -> Records:
    """SemEval aspect-based sentiment: ``aspectTerm`` (2014) and ``Opinion`` (2015, 2016) elements with offsets.

    Each target becomes an aspect span; polarities and categories are left out. Targets called NULL stand for what a
    sentence does not say, and have no span. Spans are None in a sentence out of scope, and throughout a file that
    annotates no sentence.
    """
    root, lines = _elements(file)
    sentences = [*root.iter("sentence")]
    annotated = file.labelled and any(part.tag in _ANNOTATION for sentence in sentences for part in sentence.iter())
    words = _runs(root)
    for sentence in sentences:
        line, texts = lines[sentence], [*sentence.iter("text")]
        if inner := [element for element in sentence.iter("sentence") if element is not sentence]:
            fix = "close it before the next"
            raise file.error(lines[inner[0]], "sentence", "inside another", "one after the other", fix)
        if len(texts) > 1:
            fix = "make it a sentence of its own, or join the two"
            raise file.error(lines[texts[1]], "<text>", "a second one", "one in each sentence", fix)
        if not texts:
            raise file.error(line, "text", MISSING, "a <text> in each sentence", "add it, or drop the sentence")
        words -= _runs(texts[0])
        text = "".join(texts[0].itertext())
        in_scope = sentence.get("OutOfScope", "").upper() != "TRUE"
        spans = _targets(file, sentence, lines, text) if annotated and in_scope else None
        yield line, Record(sentence.get("id") or file.generated_id(line), file.domain, text, None, None, spans)
    if words:
        file.warnings["words outside of a sentence's <text>, left out"] += words


def _elements(file: OpenedFile) -> tuple[Element, dict[Element, int]]:
    """The file as a tree, and the line of each element: expat is used directly because it knows the lines."""
    text = file.text.replace("\r", "\n")  # as XML has it, and expat counts lines
    builder, lines, parser = TreeBuilder(), dict[Element, int](), expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        lines[builder.start(name, attributes)] = parser.CurrentLineNumber

    def refuse(name: str, *identifiers: object) -> None:
        # Entities are declared there; a few nested ones expand to gigabytes, others read local files.
        line, fix = parser.CurrentLineNumber, "delete the DOCTYPE"
        raise file.error(line, "document type", name, "none, as in the owners' files", fix)

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, builder.end, builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        field = f"XML at column {error.offset + 1} ({expat.ErrorString(error.code)}): line"
        fix = "escape & and < in texts as &amp; and &lt;, close every element"
        raise file.error(error.lineno, field, text.split("\n")[error.lineno - 1], "well-formed XML", fix) from None
    return builder.close(), lines


def _runs(element: Element) -> int:
    """How many stretches of text there are in an element."""
    return sum(bool(text.strip()) for text in element.itertext())


def _targets(file: OpenedFile, sentence: Element, lines: dict[Element, int], text: str) -> tuple[Span, ...]:
    spans: dict[tuple[int, int], Span] = {}
    for target in (element for element in sentence.iter() if element.tag in _TARGET):
        key, line = _TARGET[target.tag], lines[target]
        term = target.get(key)
        if term == "NULL" and key == "target":
            file.warnings["implicit target (NULL), no span"] += 1
            continue
        for side in ("from", "to"):
            if not (value := target.get(side, "")).isdecimal() or len(value) > 9:
                raise file.error(line, side, target.get(side, MISSING), "a character offset", "write it in digits")
        start, end = int(target.attrib["from"]), int(target.attrib["to"])
        if term is None or not start < end <= len(text) or text[start:end] != term:
            field = f"{key} at characters {start} to {end} ({text[start:end][:30]!r})"
            fix = "count characters of the text from 0, end exclusive"
            raise file.error(line, field, MISSING if term is None else term, "the text at these offsets", fix)
        if (start, end) in spans:
            file.warnings["several opinions on one target, one span"] += 1
        spans[start, end] = Span(start, end, "aspect")
    return tuple(spans.values())
