"""The control for every gain from syntax: the same trees, hung on the wrong words."""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text


class ShuffledParser:
    """A parser whose trees keep their shape and relations but are moved to random words of the text.

    A method that gains as much from it as from the real parser gains from capacity or regularisation, not from syntax.

    Args:
        parser: where the trees come from.
        seed: of the permutations; a text's own characters go into it, so that its tree is the same in every run.
    """

    def __init__(self, parser: Parser, seed: int) -> None:
        self.parser, self.seed = parser, seed
        self.name = f"shuffled-{seed}/{parser.name}"

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parse a stream of texts in order, and shuffle each tree."""
        # Parsers keep the order, so each text can wait here until its parse comes.
        waiting: list[str] = []

        def noted() -> Iterator[Text]:
            for text in texts:
                waiting.append(text.text)
                yield text

        for parse in self.parser.parse(noted(), processes):
            digest = hashlib.sha256(f"{self.seed} {waiting.pop(0)}".encode()).digest()
            yield shuffle(parse, np.random.default_rng(list(digest)).permutation(len(parse.heads)))

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Word ranges are not shuffled."""
        return self.parser.tokenize(texts)


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
    return parse._replace(heads=heads, relations=tuple(relations))
