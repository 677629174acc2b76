"""The same trees, hung on the wrong words: shape and relations are kept, what they say of the words is not."""

import hashlib

import numpy as np

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.controls.control import Control
from domadapt.syntax.parser import Parse, Parser


class Shuffled(Control):
    """Trees that keep their shape and relations but are moved to random words of the text.

    A method that gains as much from them as from real trees gains from capacity or regularisation, not from syntax. But
    wrong trees may harm, so that what beats them need not be any good: see :class:`~.linear.Linear`.

    Args:
        parser: where the trees come from.
        seed: of the permutations.
    """

    def __init__(self, parser: Parser, seed: int) -> None:
        super().__init__(parser, f"shuffled-{seed}")
        self.seed = seed

    def other(self, parse: Parse, text: str) -> Parse:
        """Every word gets the place of another one."""
        return shuffle(parse, drawn_from(self.seed, text).permutation(len(parse.heads)))


def drawn_from(seed: int, text: str) -> np.random.Generator:
    """Random numbers that are the same for the same text."""
    return np.random.default_rng(list(hashlib.sha256(f"{seed} {text}".encode()).digest()))


def shuffle(parse: Parse, order: IntArray) -> Parse:
    """Give word ``order[i]`` the place that word ``i`` has in the tree.

    Args:
        parse: the real parse.
        order: (words,) a permutation.

    >>> real = Parse(np.array([[0, 1], [2, 3], [4, 5]]), np.array([1, 1, 1]), ("det", "root", "obj"), ("", "", ""))
    >>> moved = shuffle(real, np.array([2, 0, 1]))
    >>> moved.heads.tolist(), moved.relations
    ([0, 0, 0], ('root', 'obj', 'det'))
    """
    heads = np.empty_like(parse.heads)
    heads[order] = order[parse.heads]
    relations = [""] * len(order)
    for word, place in enumerate(order.tolist()):
        relations[place] = parse.relations[word]
    return parse._replace(heads=heads, relations=tuple(relations), antecedents=moved(parse, order))


def moved(parse: Parse, order: IntArray) -> tuple[tuple[int, int], ...]:
    """Antecedents, word ``order[i]`` in the place of word ``i``."""
    return tuple((int(order[word]), int(order[earlier])) for word, earlier in parse.antecedents)
