"""No syntax but the order of words: every word hangs on the one before it."""

import numpy as np

from domadapt.syntax.controls.control import Control
from domadapt.syntax.parser import Parse, Parser

RELATION = "previous"


class Linear(Control):
    """Trees in which each word's head is the word before it; the first is the root, and all relations are one.

    The neutral control of methods that use trees: the same network learns as many arcs, which are true of the text and
    say nothing of its syntax. A method that does not beat it needs no parser.

    Args:
        parser: where words come from.
    """

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser, "linear")

    def other(self, parse: Parse, text: str) -> Parse:
        """A chain from left to right."""
        return chain(parse)


def chain(parse: Parse) -> Parse:
    """The parse's words, one after the other.

    >>> real = Parse(np.array([[0, 1], [2, 3], [4, 5]]), np.array([1, 1, 1]), ("det", "root", "obj"), ("", "", ""))
    >>> chain(real).heads.tolist(), chain(real).relations
    ([0, 0, 1], ('previous', 'previous', 'previous'))
    """
    words = len(parse.heads)
    return parse._replace(heads=np.maximum(np.arange(words) - 1, 0), relations=(RELATION,) * words, antecedents=())
