"""Parsers whose parses are made up. A process of its own imports this, so it loads neither torch nor a pipeline."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from domadapt.data.domains import UnlabelledText
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import Parse, Text


def text(content: str, words: tuple[tuple[int, int], ...] | None = None) -> UnlabelledText:
    return UnlabelledText("", "", content, words)


def word_ranges(text: str) -> np.ndarray:
    """Where the words of a text stand that single spaces part."""
    sizes = np.array([len(word) for word in text.split(" ")])
    ends = np.cumsum(sizes + 1) - 1
    return np.stack([ends - sizes, ends], axis=1)


def chain(text: Text) -> Parse:
    """Each word between single spaces depends on the one before it."""
    words = word_ranges(text.text)
    return Parse(words, np.maximum(np.arange(len(words)) - 1, 0), ("dep",) * len(words), ("X",) * len(words))


class MadeParser:
    """Its parses are what a function makes of a text; counts what it parsed."""

    def __init__(self, parse_of: Callable[[Text], Parse] = chain, name: str = "made") -> None:
        self.parse_of, self.name, self.seen = parse_of, name, 0

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        for text in texts:
            self.seen += 1
            yield self.parse_of(text)

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        return (parse.words for parse in self.parse(texts))


class SlowParser(MadeParser):
    """Slow enough for another process to come to the same text meanwhile."""

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        time.sleep(0.1)
        return super().parse(texts)


def fill(folder: Path, number: int, first: int, together: Any) -> None:
    parser = SlowParser()
    cache = ParseCache(parser, folder)
    for start in range(first, first + 100, 20):
        together.wait()
        list(cache.parse([text(f"word number {i}") for i in range(start, start + 20)]))
    (folder / f"seen{number}").write_text(str(parser.seen))
