"""A parser that is known by its name and made only for a text that the cache does not hold."""

from collections.abc import Iterable, Iterator
from typing import Any

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text


class DeferredParser:
    """Stands for a parser on a machine that may not have it: in a bundle, before a cache of all that a run parses.

    Args:
        name: of the parser; its parses in the cache go by it.
        parser: configuration of the parser, with its ``_target_``.
    """

    takes_new_text = False

    def __init__(self, name: str, parser: dict[str, Any]) -> None:
        self.name = name
        self._config = parser

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parse a stream of texts in order.

        Raises:
            ValueError: the parser can't be made here, or is another one; names the first text and the way out.
        """
        parser, texts = self._made(texts)
        if parser.name != self.name:
            raise ValueError(
                f"parses of {self.name} were asked for, and here is {parser.name}: install that version, or make the "
                f"bundle again with this one"
            )
        return parser.parse(texts, processes)

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Word ranges; another version of the same parser serves, too.

        Raises:
            ValueError: the parser can't be made here; names the first text and the way out.
        """
        parser, texts = self._made(texts)
        return parser.tokenize(texts)

    def _made(self, texts: Iterable[Text]) -> tuple[Parser, Iterable[Text]]:
        from domadapt.config.instantiate import make

        texts = list(texts)
        try:
            parser: Parser = make(self._config)
            next(iter(parser.tokenize(texts[:1])), None)  # a parser may load its model only now
        except (ImportError, ValueError) as error:
            first = next((repr(text.text[:80]) for text in texts), "no text")
            raise ValueError(
                f"{len(texts)} texts have no cached parse, and {self.name} can't be loaded here ({error}); the first "
                f"is {first}. Make the bundle again from the corpora as they are now, or install the parser here"
            ) from error
        return parser, texts
