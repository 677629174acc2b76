"""The device and the random numbers."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def pick_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one."""
    gpu = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and not gpu):
        raise ValueError(f"device={name!r}: expected auto or cpu{', or cuda' if gpu else '; torch sees no GPU here'}")
    return torch.device(name if name != "auto" else "cuda" if gpu else "cpu")


def pick_precision(name: str, device: torch.device) -> str:
    """``auto`` takes bfloat16 where the device computes in it, else float32."""
    name = str(name)  # 32 arrives as a number
    if name not in ("auto", "32", "bf16-mixed"):
        raise ValueError(f"precision={name!r}: expected auto, 32 or bf16-mixed")
    if name != "auto":
        return "32-true" if name == "32" else name
    supported = torch.cuda.is_bf16_supported if device.type == "cuda" else torch.cpu._is_avx512_bf16_supported
    return "bf16-mixed" if supported() else "32-true"


def kind_of_hardware(device: str, precision: str) -> str:
    """What of this machine changes a run's numbers: ``cpu 32-true``, or ``cuda NVIDIA H200 bf16-mixed``."""
    picked = pick_device(device)
    name = [torch.cuda.get_device_name(picked)] if picked.type == "cuda" else []  # which processor changes nothing
    return " ".join([picked.type, *name, pick_precision(precision, picked)])


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
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([s.cpu() for s in state["cuda"]])


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Whatever is drawn within is as if it had not been."""
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)
