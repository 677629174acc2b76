"""Nouns of a parsed text: what it speaks of."""

from collections.abc import Iterator
from typing import NamedTuple

from domadapt.syntax.parser import Parse

NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
PLURALS = frozenset({"NNS", "NNPS"})
LONGEST = 3  # words of a phrase


class NounPhrase(NamedTuple):
    """A run of nouns.

    Attributes:
        first, end: its words, end exclusive.
        plural: whether its last word is one.
    """

    first: int
    end: int
    plural: bool


def is_noun(parse: Parse, word: int, text: str) -> bool:
    """Whether a word is tagged as a noun and begins with a letter or digit."""
    return parse.tags[word] in NOUNS and text[parse.words[word][0]].isalnum()


def noun_phrases(parse: Parse, text: str) -> Iterator[NounPhrase]:
    """Maximal runs of nouns, of three words at most.

    >>> import numpy as np
    >>> words, tags = np.array([[0, 3], [4, 11], [12, 16], [17, 22]]), ("DT", "NN", "NN", "VBZ")
    >>> parse = Parse(words, np.array([2, 2, 3, 3]), ("det", "compound", "nsubj", "ROOT"), tags)
    >>> list(noun_phrases(parse, "The battery life lasts"))
    [NounPhrase(first=1, end=3, plural=False)]
    """
    word, count = 0, len(parse.tags)
    while word < count:
        first = word
        while word < count and is_noun(parse, word, text):
            word += 1
        if 0 < word - first <= LONGEST:
            yield NounPhrase(first, word, parse.tags[word - 1] in PLURALS)
        word += word == first
