"""What a run ran on: versions and hardware."""

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Packages whose version can change a number.
NUMERIC = (
    *("torch", "transformers", "tokenizers", "pytorch-lightning", "spacy", "torch-geometric", "numpy"),
    "scikit-learn",  # ranks nouns
)


def versions() -> dict[str, str]:
    """Versions of Python, of this package, of Hydra and of the packages that can change a number."""
    return {
        "python": platform.python_version(),
        **{name: installed(name) for name in ("domadapt", *NUMERIC, "hydra-core")},
    }


@cache  # a process goes on with what it has loaded
def installed(name: str) -> str:
    """The version of an installed package, or that it is not.

    >>> installed("no-such-package")
    'not installed'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def hardware(device: "torch.device", precision: str) -> dict[str, Any]:
    """Device, threads and precision of this process."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {
        "device": device.type,
        "name": name,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "precision": precision,
    }


def described(hardware: dict[str, Any]) -> str:
    """As ``trainer.hardware`` names it; which processor it was changes no number.

    Args:
        hardware: as :func:`hardware` returns it.

    >>> described({"device": "cuda", "name": "NVIDIA H200", "precision": "bf16-mixed"})
    'cuda NVIDIA H200 bf16-mixed'
    >>> described({"device": "cpu", "name": "some processor", "precision": "32-true"})
    'cpu 32-true'
    """
    name = [hardware["name"]] if hardware["device"] == "cuda" else []
    return " ".join([hardware["device"], *name, hardware["precision"]])


def processor() -> str:
    """The processor's model, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
