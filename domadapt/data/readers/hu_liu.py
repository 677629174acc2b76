"""Customer reviews of Hu and Liu (KDD 2004): ``picture quality[+2],size[-1][u]##the sentence``.

A sentence's label is the sign of its strengths, where all of them have one sign. Every occurrence of a
feature in its sentence, as whole words, is an aspect; a longer feature goes before one that it contains.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from domadapt.data.readers._opened_file import OpenedFile
from domadapt.data.records import Record, Span

EXTENSIONS: tuple[str, ...] = ()
_FEATURE: Final = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\]\s*)+)")
_STRENGTH: Final = re.compile(r"\[\s*([+-])\s*\d\s*\]")
_IMPLICIT: Final = re.compile(r"\[\s*[up]\s*\]")
_SENTENCE: Final = re.compile(r"(?:[^\n#<{]*\[[+-]\d\][^\n#]*)?##[^\s#]")
_ANNOTATED: Final = re.compile(r"^\[t\]|^[^\n#<{]*\[[+-]\d\][^\n#]*##[^\s#]", re.MULTILINE)


def sniff(path: Path, head: str) -> bool:
    """Whether there are titles or annotated sentences, and most lines are of the format.

    Example:
        >>> sniff(Path("g3.txt"), "[t]great\\nuse[+2]##easy .\\n"), sniff(Path("a.txt"), "# 1\\n## 2\\n")
        (True, False)
        >>> sniff(Path("tweets.txt"), "what a lens\\n##wow\\nso sharp\\n")
        False
    """
    lines = [line for line in head.split("\n") if line.strip() and not line.startswith("*")]
    of_it = sum(line.startswith("[t]") or _SENTENCE.match(line) is not None for line in lines)
    return _ANNOTATED.search(head) is not None and 2 * of_it > len(lines)


def read(file: OpenedFile) -> Iterator[tuple[int, Record]]:
    """Yield each sentence's line and record; titles, headers and what has no ``##`` are counted and left out."""
    for line, content in file.lines():
        annotation, mark, text = content.partition("##")
        if not mark:
            if content.startswith("[t]"):
                file.warnings["title, left out"] += 1
            elif content.strip() and not content.startswith("*"):
                file.warnings["line without ##, left out"] += 1
            continue
        text = text.strip()
        label, spans = None, None
        if file.labelled:
            label, spans = _annotated(annotation, text, file.warnings)
        yield line, Record(file.generated_id(line), file.domain, text, None, label, spans)


def _annotated(annotation: str, text: str, warnings: Counter[str]) -> tuple[str | None, tuple[Span, ...]]:
    signs: set[str] = set()
    features: set[str] = set()
    for part in annotation.split(","):
        if not part.strip():
            continue
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
    return label, _occurrences(features, text, warnings)


def _occurrences(features: set[str], text: str, warnings: Counter[str]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for feature in sorted(features, key=lambda feature: (-len(feature), feature)):
        found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(feature)}(?!\w)", text)]
        if not found:
            warnings["feature not in its sentence, no span"] += 1
        spans += [
            Span(start, end, "aspect")
            for start, end in found
            if not any(start < span.end and span.start < end for span in spans)
        ]
    return tuple(sorted(spans, key=lambda span: span.start))
