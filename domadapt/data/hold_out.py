"""Holding out a share of labelled records, to choose the checkpoint by: without copies of what is trained on."""

from collections import Counter

import numpy as np

from domadapt.data.near_duplicates import groups
from domadapt.data.records import Record

Parts = tuple[tuple[Record, ...], tuple[Record, ...]]
COUNTED = "held-out texts that a split by record would leave copies of in train; kept on one side with them"


def hold_out(
    records: tuple[Record, ...], share: float, seed: int, by: str = "text", warnings: Counter[str] | None = None
) -> Parts:
    """Split off a random share, the same for the same seed; both parts keep their order.

    Copies of a text, near copies included (:mod:`~domadapt.data.near_duplicates`), are on one side, all of them: groups
    of them are drawn at random, each with the same chance, until the share is reached. Groups that are larger than what
    is missing are passed over, so the share is met wherever there are enough small ones. Without any copies, the split
    is that by record.

    Args:
        records: to split.
        share: of records to hold out, between 0 and 1.
        seed: of the choice.
        by: ``text``, or ``record``: each by itself, whoever has its copies.
        warnings: counts, by domain, the records that ``record`` would hold out and leave copies of.

    Returns:
        The rest, and the held-out part.

    Raises:
        ValueError: share or ``by`` are out of range, or all texts are copies of one.

    >>> records = tuple(Record(str(i), "camera", "Good." if i % 2 else f"Text {i}.") for i in range(10))
    >>> [[record.id for record in part] for part in hold_out(records, 0.5, seed=0)]
    [['1', '3', '5', '7', '9'], ['0', '2', '4', '6', '8']]
    """
    if not 0 < share < 1 or len(records) < 2:
        raise ValueError(
            f"dev_share={share} of {len(records)} records: expected a share between 0 and 1, of at least 2 records"
        )
    if by not in ("text", "record"):
        raise ValueError(f"data.dev_by={by!r}: expected text or record")
    wanted = min(max(1, round(share * len(records))), len(records) - 1)
    one_by_one = [[i] for i in range(len(records))]
    chosen = drawn(one_by_one, wanted, seed)
    if by == "text":
        together = groups([record.text for record in records])
        if len(together) == 1:
            raise ValueError(
                f"data.dev_by={by}: all {len(records)} labelled texts are copies or near copies of one; give dev data "
                f"of its own (data.source.dev_path), or data.dev_by=record to hold out copies"
            )
        if warnings is not None and (parted := sum(len(chosen & {*g}) for g in together if not {*g} <= chosen)):
            warnings[f"{records[0].domain}: {COUNTED}"] += parted
        chosen = drawn(together, wanted, seed)
    rest = tuple(r for i, r in enumerate(records) if i not in chosen)
    return rest, tuple(r for i, r in enumerate(records) if i in chosen)


def drawn(together: list[list[int]], wanted: int, seed: int) -> set[int]:
    """Members of whole groups, drawn at random so that there are as nearly as possible as many as wanted.

    Args:
        together: groups, two or more.
        wanted: members in all; at least one group is drawn, at least one is not.
        seed: of the order in which they are drawn.

    >>> drawn([[0, 1, 2], [3], [4], [5, 6]], wanted=2, seed=0) in ({3, 4}, {5, 6})
    True
    """
    chosen: set[int] = set()
    left = []
    for position in np.random.default_rng(seed).permutation(len(together)).tolist():
        group = together[position]
        if len(chosen) + len(group) <= wanted:
            chosen.update(group)
        else:
            left.append(group)
    smallest = min(left, key=len)  # there is one: fewer are wanted than there are
    missing = wanted - len(chosen)
    if not chosen or (len(left) > 1 and len(smallest) - missing < missing):
        chosen.update(smallest)
    return chosen
