"""No syntax but the order of words and their classes: every word hangs on the one after it."""

import numpy as np

from domadapt.syntax.controls.control import Control
from domadapt.syntax.parser import Parse, Parser


class WordClasses(Control):
    """Trees in which each word's head is the word after it, by a relation that is the word's class; the last is a root.

    The neutral control of a method that asks which words belong to those after them: a tagger tells that a noun stands
    before another, and a method that does not beat this control needs no parser for it. Of no use to methods that are
    told relations by name.

    Args:
        parser: where words and tags come from; one that gives no tags leaves one relation.
    """

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser, "word_classes")

    def other(self, parse: Parse, text: str) -> Parse:
        """A chain from right to left."""
        return chain(parse)


def chain(parse: Parse) -> Parse:
    """The parse's words, each hanging on the next; the classes are the first two letters of the tags.

    >>> words, heads, relations = np.array([[0, 1], [2, 3], [4, 5]]), np.array([2, 2, 2]), ("det", "obj", "ROOT")
    >>> real = Parse(words, heads, relations, ("DT", "NNS", "VB"))
    >>> chain(real).heads.tolist(), chain(real).relations
    ([1, 2, 2], ('DT', 'NN', 'VB'))
    """
    words = len(parse.heads)
    heads = np.minimum(np.arange(words) + 1, words - 1)
    return parse._replace(heads=heads, relations=tuple(tag[:2] for tag in parse.tags), antecedents=())
