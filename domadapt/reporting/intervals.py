"""Mean over seeds and its 95 % interval, from scores alone: what a table says where no statistics were asked for."""

from collections.abc import Sequence
from dataclasses import replace

from domadapt.statistics.bootstrap import interval, sample
from domadapt.statistics.results import Interval

FEW = "fewer than three seeds, too few for an interval"


def estimate(values: Sequence[float]) -> Interval:
    """Mean and interval of one value a seed.

    Args:
        values: at least one.

    Returns:
        As the report's statistics have it where there are no predictions: by Student's t.

    Raises:
        ValueError: no values.

    >>> estimate([0.40, 0.44]).reason
    'fewer than three seeds, too few for an interval'
    >>> e = estimate([0.40, 0.42, 0.44])
    >>> round(e.mean, 2), round(e.low, 4), round(e.high, 4), e.over
    (0.42, 0.3703, 0.4697, 'seeds')
    """
    if not values:
        raise ValueError("values=[]: expected at least one; leave methods without scores out")
    found = interval(sample(values))
    return replace(found, reason="" if found.over else FEW)
