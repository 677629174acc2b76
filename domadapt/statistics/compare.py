"""Every comparison a report makes, from its grouped runs."""

from collections.abc import Sequence

from domadapt.reporting.groups import Pair
from domadapt.statistics.results import Statistics


def compare(pairs: Sequence[Pair], baseline: str = "source_only") -> Statistics:
    """Compare methods per pair and over pairs.

    Args:
        pairs: grouped runs (:func:`domadapt.reporting.groups.group`).
        baseline: a role, or the name of a method.

    Returns:
        The numbers, and words where there are none.
    """
    raise NotImplementedError
