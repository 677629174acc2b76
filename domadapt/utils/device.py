"""Where a run computes, and in which precision."""

from collections.abc import Callable

import torch


def pick_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one."""
    found = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and found == "cpu"):
        raise ValueError(
            f"device={name!r}: expected auto or cpu{', or cuda' if found == 'cuda' else '; torch sees no GPU here'}"
        )
    return torch.device(found if name == "auto" else name)


def pick_precision(name: str, device: torch.device) -> str:
    """``auto`` takes bfloat16 where the device computes in it, else float32.

    Raises:
        ValueError: an unknown precision.
    """
    name = str(name)  # 32 arrives as a number
    if name not in ("auto", "32", "bf16-mixed"):
        raise ValueError(f"trainer.precision={name!r}: expected auto, 32 or bf16-mixed")
    if name != "auto":
        return "32-true" if name == "32" else name
    if device.type == "cuda":
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"
    supported: Callable[[], bool] = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return "bf16-mixed" if device.type == "cpu" and supported() else "32-true"


def kind_of_hardware(device: str, precision: str) -> str:
    """What of this machine changes a run's numbers: ``cpu 32-true``, or ``cuda NVIDIA H200 bf16-mixed``.

    Args:
        device: as configured.
        precision: as configured.

    Raises:
        ValueError: as of :func:`pick_device` and :func:`pick_precision`.
    """
    found = pick_device(device)
    name = [torch.cuda.get_device_name(found)] if found.type == "cuda" else []  # which processor changes nothing
    return " ".join([found.type, *name, pick_precision(precision, found)])
