"""Tags by number: 0 is O, then B and I of each type."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray


def tag_names(types: Sequence[str]) -> list[str]:
    """BIO tags of span types.

    >>> tag_names(["aspect"])
    ['O', 'B-aspect', 'I-aspect']
    """
    return ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]


def tagged(
    tags: NDArray[np.int64], begins: NDArray[np.bool_], joined: Collection[int] = ()
) -> list[tuple[int, int, int]]:
    """Spans as (first word, last word, type); an I without its B begins one.

    Args:
        tags: (words,) of all texts, one after the other.
        begins: (words,) whether a word can't go on from the one before it: a text begins there.
        joined: types of which a B goes on with the span that ends at the word before it.

    >>> tagged(np.array([0, 1, 2, 4, 4]), np.array([True, False, False, False, True]))
    [(1, 2, 0), (3, 3, 1), (4, 4, 1)]
    >>> tagged(np.array([1, 1, 1]), np.array([True, False, True]), joined=[0])
    [(0, 1, 0), (2, 2, 0)]
    """
    found: list[tuple[int, int, int]] = []
    for place in np.flatnonzero(tags).tolist():
        kind, inside = divmod(int(tags[place]) - 1, 2)
        before = 0 if begins[place] else int(tags[place - 1])
        if before and (before - 1) // 2 == kind and (inside or kind in joined):
            found[-1] = (found[-1][0], place, kind)
        else:
            found.append((place, place, kind))
    return found
