"""Mean over seeds and its 95 % interval, from scores alone: what a table says where no statistics were asked for."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from domadapt.statistics.results import Interval

LEVEL = 0.95
FEW = "fewer than three seeds, too few for an interval"
BOOTSTRAP_FROM = 20  # BCa covers 83% at 5 seeds and 92% at 10 where it says 95%; Student t covers 95% (simulated)


def estimate(values: Sequence[float]) -> Interval:
    """Mean and interval of one value a seed.

    Args:
        values: at least one.

    Returns:
        With an interval of scipy's: BCa bootstrap from :data:`BOOTSTRAP_FROM` values on, Student's t below.

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
    array = np.asarray(values, dtype=float)
    mean = float(array.mean())
    if len(array) < 3:
        return Interval(mean, None, None, "", FEW)
    if np.ptp(array) == 0:  # neither method is defined where nothing varies
        return Interval(mean, mean, mean, "seeds")
    if len(array) < BOOTSTRAP_FROM:
        low, high = stats.t.interval(LEVEL, len(array) - 1, mean, stats.sem(array))
        return Interval(mean, float(low), float(high), "seeds")
    # A fixed generator: the same runs give the same report.
    found = stats.bootstrap((array,), np.mean, confidence_level=LEVEL, method="BCa", rng=np.random.default_rng(0))
    ends = found.confidence_interval
    return Interval(mean, float(ends.low), float(ends.high), "seeds")


def overlap(one: Interval, other: Interval) -> bool | None:
    """Whether two intervals share a point; None where one of them is missing.

    >>> overlap(estimate([1, 2, 3]), estimate([90, 91, 92])), overlap(estimate([1]), estimate([2]))
    (False, None)
    """
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.low <= other.high and other.low <= one.high
