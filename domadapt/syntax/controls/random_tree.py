"""Trees without any structure: of all trees over a text's words, one at random."""

import numpy as np

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.controls.control import Control
from domadapt.syntax.controls.shuffled import drawn_from, moved
from domadapt.syntax.parser import Parse, Parser


class RandomTree(Control):
    """A tree with one root, drawn uniformly from all over the text's words, with the text's own relations.

    Farther from syntax than :class:`~.shuffled.Shuffled`, which keeps the shape that sentences' trees have.

    Args:
        parser: where words and relations come from.
        seed: of the trees.
    """

    def __init__(self, parser: Parser, seed: int) -> None:
        super().__init__(parser, f"random-{seed}")
        self.seed = seed

    def other(self, parse: Parse, text: str) -> Parse:
        """Random heads; the root gets a real root's relation, the others are dealt out."""
        words = len(parse.heads)
        if not words:
            return parse
        random = drawn_from(self.seed, text)
        heads = random_heads(words, random)
        roots = parse.heads == np.arange(words)
        first = int(roots.argmax())
        rest = random.permutation(np.delete(np.arange(words), first))
        dealt = np.insert(rest, int((heads == np.arange(words)).argmax()), first)
        relations = tuple(parse.relations[i] for i in dealt.tolist())
        return parse._replace(heads=heads, relations=relations, antecedents=moved(parse, random.permutation(words)))


def random_heads(words: int, random: np.random.Generator) -> IntArray:
    """Heads of a tree drawn uniformly from the ``words ** (words - 1)`` rooted trees over that many words.

    A walk over random words starts at the root; the head of a word is the one from which the walk first came to it
    (Aldous 1990, Broder 1989, on the complete graph).

    Args:
        words: one or more.
        random: of the walk.

    Returns:
        (words,) head of each; the root is its own.

    >>> random_heads(1, np.random.default_rng(0)).tolist()
    [0]
    """
    here = int(random.integers(words))
    heads = {here: here}
    while len(heads) < words:
        for word in random.integers(words, size=4 * words).tolist():
            heads.setdefault(word, here)
            here = word
    return np.array([heads[word] for word in range(words)], dtype=np.int64)
