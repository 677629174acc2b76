"""SemEval aspect-based sentiment: ``aspectTerm`` (2014) and ``Opinion`` (2015, 2016) elements with offsets.

Each target becomes an aspect span; polarities and categories are left out. Targets called NULL stand for what
a sentence does not say, and have no span.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.parsers import expat

from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import MISSING, DataError, Record, Span

EXTENSIONS = (".xml",)
_TARGET: Final = {"aspectTerm": "term", "Opinion": "target"}
_ANNOTATED: Final = frozenset({"aspectTerms", "aspectCategories", "Opinions"})


def sniff(path: Path, head: str) -> bool:
    """Whether the file starts as XML, or as one of the two root elements.

    Example:
        >>> sniff(Path("a.xml"), "<sentences>"), sniff(Path("a.review"), "<review>")
        (True, False)
    """
    return head.lstrip().startswith(("<?xml", "<sentences", "<Reviews"))


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each sentence's line and record. Spans are None throughout a file that annotates no sentence.

    Raises:
        DataError: If it is not well-formed, declares a document type, or an offset does not fit its term.
    """
    sentences = _Sentences(file)
    parser = expat.ParserCreate()
    sentences.parser = parser
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = sentences.refuse_document_type
    parser.StartElementHandler = sentences.start
    parser.EndElementHandler = sentences.end
    parser.CharacterDataHandler = sentences.characters
    text = file.text.replace("\r", "\n")  # as XML has it, and expat counts lines
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        content = text.split("\n")[error.lineno - 1]
        field = f"XML at column {error.offset + 1} ({expat.ErrorString(error.code)}): line"
        fix = "escape & and < in texts as &amp; and &lt;, close every element"
        raise DataError(file.where(error.lineno), field, content, "well-formed XML", fix) from None
    for line, record in sentences.records:
        spans = record.spans if sentences.annotated and file.labelled else None
        yield line, Record(record.id, record.domain, record.text, None, None, spans)


class _Sentences:
    """Collects sentences from the parser's events; expat is used directly because it knows the lines."""

    parser: expat.XMLParserType

    def __init__(self, file: OpenedFile) -> None:
        self.file = file
        self.records: list[tuple[int, Record]] = []
        self.annotated = False
        self.line = 0
        self.id = ""
        self.open = False
        self.text: list[str] | None = None
        self.in_text = False
        self.targets: list[tuple[int, str, dict[str, str]]] = []

    def refuse_document_type(self, name: str, *identifiers: object) -> None:
        # Entities are declared there; a few nested ones expand to gigabytes, others read local files.
        where = self.file.where(self.parser.CurrentLineNumber)
        raise DataError(where, "document type", name, "none, as in the owners' files", "delete the DOCTYPE")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if name == "sentence":
            if self.open:
                fix = "close it before the next"
                raise DataError(self.file.where(line), "sentence", "inside another", "one after the other", fix)
            self.open = True
            self.line, self.id, self.text, self.targets = line, attributes.get("id", ""), None, []
        elif name == "text" and self.open:
            if self.text is not None:
                fix = "make it a sentence of its own, or join the two"
                raise DataError(self.file.where(line), "<text>", "a second one", "one in each sentence", fix)
            self.in_text, self.text = True, []
        elif name in _TARGET:
            self.targets.append((line, _TARGET[name], attributes))
        self.annotated = self.annotated or name in _ANNOTATED

    def characters(self, content: str) -> None:
        if self.in_text and self.text is not None:
            self.text.append(content)
        elif content.strip():
            self.file.warnings["words outside of a sentence's <text>, left out"] += 1

    def end(self, name: str) -> None:
        if name == "text":
            self.in_text = False
        elif name == "sentence":
            self.open = False
            if self.text is None:
                fix = "add it, or drop the sentence"
                raise DataError(self.file.where(self.line), "text", MISSING, "a <text> in each sentence", fix)
            text = "".join(self.text)
            spans = self.spans(text) if self.file.labelled else ()
            identifier = self.id or self.file.generated_id(self.line)
            self.records.append((self.line, Record(identifier, self.file.domain, text, None, None, spans)))
            self.text = None

    def spans(self, text: str) -> tuple[Span, ...]:
        spans: dict[tuple[int, int], Span] = {}
        for line, key, attributes in self.targets:
            term = attributes.get(key)
            if term == "NULL" and key == "target":
                self.file.warnings["implicit target (NULL), no span"] += 1
                continue
            start, end = (self.offset(attributes, side, line) for side in ("from", "to"))
            if term is None or start >= end or text[start:end] != term:
                field = f"{key} at characters {start} to {end} ({text[start:end][:30]!r})"
                fix = "count characters of the text from 0, end exclusive"
                value = MISSING if term is None else term
                raise DataError(self.file.where(line), field, value, "the text at these offsets", fix)
            if (start, end) in spans:
                self.file.warnings["several opinions on one target, one span"] += 1
            spans[start, end] = Span(start, end, "aspect")
        return tuple(spans.values())

    def offset(self, attributes: dict[str, str], side: str, line: int) -> int:
        value = attributes.get(side)
        if value is None or not value.isdecimal() or len(value) > 9:
            found = MISSING if value is None else value
            raise DataError(self.file.where(line), side, found, "a character offset", "write it in digits")
        return int(value)
