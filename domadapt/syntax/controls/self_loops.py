"""No arcs at all: every word is a root of its own."""

import numpy as np

from domadapt.syntax.controls.control import Control
from domadapt.syntax.parser import Parse, Parser

RELATION = "self"


class SelfLoops(Control):
    """Trees without arcs: the same network and the same losses, with nothing to read.

    Args:
        parser: where words come from.
    """

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser, "self_loops")

    def other(self, parse: Parse, text: str) -> Parse:
        """Every word by itself."""
        return alone(parse)


def alone(parse: Parse) -> Parse:
    """The parse's words without arcs.

    >>> real = Parse(np.array([[0, 1], [2, 3]]), np.array([1, 1]), ("det", "root"), ("", ""))
    >>> alone(real).heads.tolist(), alone(real).relations
    ([0, 1], ('self', 'self'))
    """
    words = len(parse.heads)
    return parse._replace(heads=np.arange(words), relations=(RELATION,) * words, antecedents=())
