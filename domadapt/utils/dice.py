"""The state of every random generator: kept, put back, left undisturbed."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor


def random_state() -> dict[str, Any]:
    """Of Python, NumPy and torch, as numbers and tensors."""
    name, keys, *rest = np.random.get_state()
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Go on as :func:`random_state` found it."""
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), *rest))
    generator: Tensor = state["torch"]
    torch.set_rng_state(generator.cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([s.cpu() for s in state["cuda"]])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever is drawn within is as if it had not been.

    >>> random.seed(1)
    >>> with undisturbed():
    ...     inside = random.random()
    >>> random.random() == inside
    True
    """
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)
