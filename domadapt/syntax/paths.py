"""Dependency paths from one word to another: up to heads, then down to dependents."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from domadapt.syntax.parser import Parse

Path = tuple[str, ...]


class Reached(NamedTuple):
    """A word, the one that it was reached from, and the path to it."""

    start: int
    end: int
    path: Path


def path(parse: Parse, start: int, end: int) -> Path | None:
    """Relations on the way from one word to another: ``^nsubj`` up to a head, ``nsubj`` down; None between sentences.

    Args:
        parse: of the text.
        start, end: words.

    >>> import numpy as np
    >>> parse = Parse(np.array([[0, 3], [4, 9]]), np.array([1, 1]), ("amod", "ROOT"), ("", ""))
    >>> path(parse, 0, 1), path(parse, 1, 0)
    (('^amod',), ('amod',))
    """
    up, down = _to_root(parse, start), _to_root(parse, end)
    meet = next((word for word in up if word in set(down)), None)
    if meet is None:
        return None
    climbed, descended = up[: up.index(meet)], down[: down.index(meet)]
    return (*(f"^{parse.relations[w]}" for w in climbed), *(parse.relations[w] for w in reversed(descended)))


def paths_from(parse: Parse, starts: Iterable[int], longest: int) -> Iterator[Reached]:
    """Every other word that at most ``longest`` arcs part from a start, nearest first.

    Args:
        parse: of the text.
        starts: words.
        longest: arcs.

    >>> import numpy as np
    >>> words, relations = np.array([[0, 3], [4, 8], [9, 12], [13, 18]]), ("det", "nsubj", "cop", "ROOT")
    >>> parse = Parse(words, np.array([1, 3, 3, 3]), relations, ("DT", "NN", "VBZ", "JJ"))
    >>> [(end, way) for _, end, way in paths_from(parse, [3], 2)]
    [(1, ('nsubj',)), (2, ('cop',)), (0, ('nsubj', 'det'))]
    """
    arcs: list[list[tuple[int, str]]] = [[] for _ in parse.relations]
    for word, head in enumerate(parse.heads.tolist()):
        if head != word:
            arcs[word].append((head, f"^{parse.relations[word]}"))
            arcs[head].append((word, parse.relations[word]))
    for start in starts:
        known, edge = {start}, [Reached(start, start, ())]
        for _ in range(longest):
            reached = [
                Reached(start, word, (*before.path, relation))
                for before in edge
                for word, relation in arcs[before.end]
                if word not in known
            ]
            edge = list({one.end: one for one in reversed(reached)}.values())[::-1]
            known |= {one.end for one in edge}
            yield from edge


def arcs_from(parse: Parse, starts: Iterable[int]) -> dict[int, int]:
    """Words in the trees of some, with the number of arcs to the nearest of these.

    Args:
        parse: of the text.
        starts: words.

    >>> import numpy as np
    >>> parse = Parse(np.array([[0, 3], [4, 8], [9, 14], [15, 16]]), np.array([1, 2, 2, 3]), ("",) * 4, ("",) * 4)
    >>> arcs_from(parse, [2])
    {2: 0, 1: 1, 0: 2}
    """
    beside: list[list[int]] = [[] for _ in parse.relations]
    for word, head in enumerate(parse.heads.tolist()):
        if head != word:
            beside[word].append(head)
            beside[head].append(word)
    apart = dict.fromkeys(starts, 0)
    waiting = deque(apart)
    while waiting:
        word = waiting.popleft()
        for other in beside[word]:
            if other not in apart:
                apart[other] = apart[word] + 1
                waiting.append(other)
    return apart


def _to_root(parse: Parse, word: int) -> list[int]:
    way = [word]
    while (head := int(parse.heads[way[-1]])) != way[-1] and head not in way:
        way.append(head)
    return way
