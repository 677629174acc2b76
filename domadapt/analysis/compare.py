"""How alike two domains are in what their texts hold: words, terms, paths, relations, labels.

Two numbers of different kinds. Overlap asks how much of the target the source has ever shown; divergence, how far
shares differ. Both depend on how much text there is, so each has its control: the same of one half of the source
against the other.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domadapt.auditing.shift import overlap

SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Compared:
    """One kind of items in two domains.

    Attributes:
        types, tokens: share of the target's different items, and of their occurrences, that the source has too.
        divergence: Jensen and Shannon's, of the shares of items, in bits: 0 for the same, 1 for nothing in common.
        types_within, tokens_within, divergence_within: the same of every other source text against the rest: what the
            number of texts alone makes of it. A half has fewer items than the whole, so that overlap is not flattered.
        different, occurrences: the target's.
        new: its commonest that the source lacks.
        moved: (item, share in the source, share in the target) of those whose shares differ most.
    """

    types: float
    tokens: float
    divergence: float
    types_within: float | None
    tokens_within: float | None
    divergence_within: float | None
    different: int
    occurrences: int
    new: tuple[str, ...]
    moved: tuple[tuple[str, float, float], ...]


def compare(source: Sequence[Counter[str]], target: Sequence[Counter[str]]) -> Compared | None:
    """Compare what texts of two domains hold.

    Args:
        source, target: of each text, its items.

    Returns:
        None where one of them holds nothing.

    >>> found = compare([Counter("ab"), Counter("ab")], [Counter("ab")])
    >>> found.types, found.tokens, found.divergence, found.divergence_within
    (1.0, 1.0, 0.0, 0.0)
    >>> found = compare([Counter("a"), Counter("b")], [Counter("c")])
    >>> found.tokens, found.divergence, found.divergence_within, found.new
    (0.0, 1.0, 1.0, ('c',))
    """
    every, other = _summed(source), _summed(target)
    if not every or not other:
        return None
    first, second = _summed(source[::2]), _summed(source[1::2])
    halves = bool(first and second)
    types, tokens, new = overlap(every, other)
    types_within, tokens_within = overlap(first, second)[:2] if halves else (None, None)
    shares = {item: (every[item] / every.total(), other[item] / other.total()) for item in every | other}
    most = sorted(shares, key=lambda item: (-abs(shares[item][0] - shares[item][1]), item))[:SHOWN]
    return Compared(
        types=types,
        tokens=tokens,
        divergence=jensen_shannon(every, other),
        types_within=types_within,
        tokens_within=tokens_within,
        divergence_within=jensen_shannon(first, second) if halves else None,
        different=len(other),
        occurrences=other.total(),
        new=tuple(new[:SHOWN]),
        moved=tuple((item, *shares[item]) for item in most),
    )


def _summed(texts: Sequence[Counter[str]]) -> Counter[str]:
    total = Counter[str]()
    for one in texts:
        total.update(one)
    return total


def jensen_shannon(one: Counter[str], other: Counter[str]) -> float:
    """Divergence of two distributions in bits (Lin 1991): their entropy mixed, less the mean of their own.

    >>> jensen_shannon(Counter("ab"), Counter("ba")), jensen_shannon(Counter("ab"), Counter("cd"))
    (0.0, 1.0)
    >>> round(jensen_shannon(Counter("aaab"), Counter("abbb")), 4)  # H(1/2) - H(1/4) = 1 - 0.8113
    0.1887
    """
    items = sorted(one.keys() | other.keys())
    shares = np.array([[count[item] / count.total() for item in items] for count in (one, other)])
    result = _entropy(shares.mean(0)) - (_entropy(shares[0]) + _entropy(shares[1])) / 2
    return min(1.0, max(0.0, result))


def _entropy(shares: NDArray[np.float64]) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log2(some)).sum())
