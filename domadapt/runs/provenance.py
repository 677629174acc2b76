"""What a run ran on: versions and hardware."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("domadapt", "torch", "transformers", "pytorch-lightning", "spacy", "torch-geometric", "hydra-core")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that can change a number."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def hardware(device: torch.device, precision: str) -> dict[str, Any]:
    """Device, threads and precision of this process."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {
        "device": device.type,
        "name": name,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "precision": precision,
    }


def processor() -> str:
    """The processor's model, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
