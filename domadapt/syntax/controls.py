"""What a gain from syntax must beat: other trees, over the same words, around any parser."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import tee
from typing import Any

import numpy as np

from domadapt.config.compose import make
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text

PREVIOUS = "previous"  # the one relation of a linear tree's arcs
SELF = "self"  # and of a tree without arcs


class Control(ABC):
    """A parser that gives every text another tree over the same words.

    It stands around the cache, so that real parses are kept once; its ``name`` has the title first: the parses differ.
    """

    title: str

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.name = f"{self.title}/{parser.name}"

    @abstractmethod
    def other(self, parse: Parse, text: str) -> Parse:
        """The text's other tree, the same in every run: what is random in it is drawn from the text."""

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        texts, again = tee(texts)  # parsers keep the order
        for text, parse in zip(again, self.parser.parse(texts, processes)):
            yield self.other(parse, text.text)

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        return self.parser.tokenize(texts)


def controlled(parser: Parser, control: Mapping[str, Any] | None) -> Parser:
    """A parser with the control that ``control=`` names, its configuration by name, around it; else itself."""
    for config in (control or {}).values():
        parser = make(config, parser=parser)
    return parser


class Linear(Control):
    """Trees in which each word's head is the word before it; the first is the root, and all relations are one.

    The neutral control of methods that use trees: the same network learns as many arcs, which are true of the text and
    say nothing of its syntax. A method that does not beat it needs no parser.

    >>> from types import SimpleNamespace
    >>> real = Parse(np.array([[0, 1], [2, 3], [4, 5]]), np.array([1, 1, 1]), ("det", "root", "obj"), ("", "", ""))
    >>> other = Linear(SimpleNamespace(name="parser")).other(real, "a b c")
    >>> other.heads.tolist(), other.relations
    ([0, 0, 1], ('previous', 'previous', 'previous'))
    """

    title = "linear"

    def other(self, parse: Parse, text: str) -> Parse:
        words = len(parse.heads)
        return parse._replace(heads=np.maximum(np.arange(words) - 1, 0), relations=(PREVIOUS,) * words)


class SelfLoops(Control):
    """Trees without arcs: the same network and the same losses, with nothing to read. Every word is a root.

    >>> from types import SimpleNamespace
    >>> real = Parse(np.array([[0, 1], [2, 3]]), np.array([1, 1]), ("det", "root"), ("", ""))
    >>> other = SelfLoops(SimpleNamespace(name="parser")).other(real, "a b")
    >>> other.heads.tolist(), other.relations
    ([0, 1], ('self', 'self'))
    """

    title = "self_loops"

    def other(self, parse: Parse, text: str) -> Parse:
        words = len(parse.heads)
        return parse._replace(heads=np.arange(words), relations=(SELF,) * words)


class Shuffled(Control):
    """Trees that keep their shape and relations but are moved to random words of the text.

    A method that gains as much from them as from real trees gains from capacity or regularisation, not from syntax. But
    wrong trees may harm, so that what beats them need not be any good: see :class:`Linear`.
    """

    title = "shuffled"

    def __init__(self, parser: Parser, seed: int) -> None:
        super().__init__(parser)
        self.name, self.seed = f"{self.title}-{seed}/{parser.name}", seed

    def other(self, parse: Parse, text: str) -> Parse:
        return shuffle(parse, self.random(text).permutation(len(parse.heads)))

    def random(self, text: str) -> np.random.Generator:
        """Random numbers that are the same for the same text."""
        return np.random.default_rng(list(hashlib.sha256(f"{self.seed} {text}".encode()).digest()))


class RandomTree(Shuffled):
    """A tree with one root, drawn uniformly from all over the text's words, with its own relations: farther from syntax
    than :class:`Shuffled`, which keeps the shape that sentences' trees have."""

    title = "random"

    def other(self, parse: Parse, text: str) -> Parse:
        """Random heads; the root gets a real root's relation, the others are dealt out."""
        words = len(parse.heads)
        if not words:
            return parse
        random = self.random(text)
        heads = random_heads(words, random)
        first = int((parse.heads == np.arange(words)).argmax())
        rest = random.permutation(np.delete(np.arange(words), first))
        dealt = np.insert(rest, int((heads == np.arange(words)).argmax()), first)
        return parse._replace(heads=heads, relations=tuple(parse.relations[i] for i in dealt.tolist()))


def shuffle(parse: Parse, order: IntArray) -> Parse:
    """Give word ``order[i]`` the place that word ``i`` has in the tree; ``order`` is a permutation of the words."""
    heads = np.empty_like(parse.heads)
    heads[order] = order[parse.heads]
    relations = tuple(parse.relations[word] for word in np.argsort(order).tolist())
    return parse._replace(heads=heads, relations=relations)


def random_heads(words: int, random: np.random.Generator) -> IntArray:
    """Heads of a tree drawn uniformly from the ``words ** (words - 1)`` rooted trees over that many words, 1 or more.

    A walk over random words starts at the root; the head of a word is the one from which the walk first came to it
    (Aldous 1990, Broder 1989, on the complete graph). The root is its own head.
    """
    here = int(random.integers(words))
    heads = {here: here}
    while len(heads) < words:
        for word in random.integers(words, size=4 * words).tolist():
            heads.setdefault(word, here)
            here = word
    return np.array([heads[word] for word in range(words)], dtype=np.int64)
