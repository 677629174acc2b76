"""Which epoch is kept, from a validator's values."""

from collections.abc import Sequence
from math import isfinite


def best_epoch(values: Sequence[float]) -> int:
    """The epoch, from 1, with the largest value; the earlier one wins a tie, and what is not finite loses to all.

    Args:
        values: of one validator, one an epoch.

    Raises:
        ValueError: no value is a number.

    >>> best_epoch([0.25, float("nan"), 0.5, 0.5, float("inf")])
    3
    >>> best_epoch([float("nan")])
    Traceback (most recent call last):
    ValueError: values=[nan]: expected a number for at least one epoch; lower trainer.learning_rate, or choose another \
selection
    """
    numbers = [(value, -epoch) for epoch, value in enumerate(values, start=1) if isfinite(value)]
    if not numbers:
        raise ValueError(
            f"values={list(values)}: expected a number for at least one epoch; lower trainer.learning_rate, or choose "
            f"another selection"
        )
    return -max(numbers)[1]
