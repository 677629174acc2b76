"""Which runs are one and the same network: they are drawn and swapped together, for copies are no evidence.

A network that reads no target is the same for all targets of its source and seed, and a ceiling for all sources of its
target. Scores that share a network, on either side of a difference, go up and down together.
"""

from collections.abc import Collection, Sequence


def connected(keys: Sequence[Collection[object]]) -> list[int]:
    """A number for each entry, the same for all that have a key in common, directly or through others.

    Args:
        keys: of each entry.

    Returns:
        Numbers from 0, in the order of first appearance.

    >>> connected([{"a"}, {"b"}, {"c", "a"}, {"c"}])
    [0, 1, 0, 0]
    """
    joined: list[tuple[set[object], list[int]]] = []
    for place, own in enumerate(keys):
        met = [part for part in joined if part[0] & set(own)]
        joined = [part for part in joined if not part[0] & set(own)]
        joined.append((set(own).union(*(k for k, _ in met)), [place, *(i for _, some in met for i in some)]))
    label = {place: min(places) for _, places in joined for place in places}
    order = sorted(set(label.values()))
    return [order.index(label[place]) for place in range(len(keys))]
