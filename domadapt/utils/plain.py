"""Values as JSON has them: numbers and not their description in words, and no NaN, which is none."""

import math
from typing import Any


def plain_json(value: Any) -> Any:
    """A value in dicts, lists, strings, numbers, booleans and None; what is not finite becomes None.

    Args:
        value: of these, or of tensors, arrays and numpy's numbers.

    Raises:
        TypeError: there is something else in it; names its type and its place.

    >>> import numpy as np
    >>> plain_json({"loss": np.float32(0.5), "curve": (1, float("nan")), 3: np.arange(2)})
    {'loss': 0.5, 'curve': [1, None], '3': [0, 1]}
    >>> plain_json({"stage": {"words": {1, 2}}})
    Traceback (most recent call last):
    TypeError: stage.words: a set; expected numbers, strings, tensors, or dicts and lists of them
    """
    return _plain(value, "")


def _plain(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inside, f"{place}.{key}" if place else str(key)) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inside, f"{place}[{i}]") for i, inside in enumerate(value)]
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), place)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    name = type(value).__name__
    raise TypeError(f"{place or 'value'}: a {name}; expected numbers, strings, tensors, or dicts and lists of them")
