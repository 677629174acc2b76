"""What every control is: a parser around a parser that gives each text another tree."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from domadapt.config.instantiate import make
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text


class Control(ABC):
    """A parser that gives every text another tree over the same words.

    It stands around the cache, so that real parses are made and kept once, whatever is made of them.

    Args:
        parser: where words, and the trees that are replaced, come from.
        title: goes before the parser's name: the parses are others.
    """

    def __init__(self, parser: Parser, title: str) -> None:
        self.parser = parser
        self.name = f"{title}/{parser.name}"

    @abstractmethod
    def other(self, parse: Parse, text: str) -> Parse:
        """The text's other tree, the same in every run: what is random in it is drawn from the text."""

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parse a stream of texts in order, and replace each tree."""
        # Parsers keep the order, so each text can wait here until its parse comes.
        waiting: deque[str] = deque()

        def noted() -> Iterator[Text]:
            for text in texts:
                waiting.append(text.text)
                yield text

        for parse in self.parser.parse(noted(), processes):
            yield self.other(parse, waiting.popleft())

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Words stay as they are."""
        return self.parser.tokenize(texts)


def controlled(parser: Parser, control: Mapping[str, Any] | None) -> Parser:
    """A parser with the control that ``control=`` names around it; without one, the parser itself.

    Args:
        parser: of real trees.
        control: configuration of the control by its name; empty for none.
    """
    for config in (control or {}).values():
        parser = make(config, parser=parser)
    return parser
