"""How runs are trained: the configuration's ``trainer``, typed, its ranges checked in one place."""

from dataclasses import dataclass, fields
from typing import Any

from omegaconf import DictConfig

WHOLE = ("epochs", "batch_size", "target_batch_size", "evaluation_batch_size", "validation_texts")
MOST_THREADS = 1024  # more crash torch where the system has no room for them
RANGES = {
    "learning_rate": (0, 1),
    "weight_decay": (0, 1),
    "warmup": (0, 1),
    "gradient_clip": (1e-9, 1e9),
    "checkpoint_seconds": (0, 1e9),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerOptions:
    """What ``conf/trainer/default.yaml`` explains, setting by setting.

    Raises:
        ValueError: naming the setting, its value and its range.
    """

    device: str
    devices: int
    strategy: str
    precision: str
    hardware: str | None
    threads: int
    epochs: int
    batch_size: int
    target_batch_size: int
    evaluation_batch_size: int
    validation_texts: int
    learning_rate: float
    weight_decay: float
    warmup: float
    gradient_clip: float
    checkpoint_seconds: float
    keep_evidence: bool

    def __post_init__(self) -> None:
        for name in WHOLE:
            _whole(f"trainer.{name}", getattr(self, name), 1)
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if type(value) not in (int, float) or not low <= value <= high:
                raise ValueError(f"trainer.{name}={value!r}: expected a number from {low} to {high}")
        if not isinstance(self.keep_evidence, bool):
            raise ValueError(f"trainer.keep_evidence={self.keep_evidence!r}: expected true or false")
        if type(self.threads) is not int or not 0 <= self.threads <= MOST_THREADS:
            expected = f"a whole number from 1 to {MOST_THREADS}, or 0 for torch's choice"
            raise ValueError(f"trainer.threads={self.threads!r}: expected {expected}")


def read_options(cfg: DictConfig) -> TrainerOptions:
    """The options of a run; settings beside them that training could only fail on later are checked, too.

    Args:
        cfg: a composed ``train.yaml``.

    Raises:
        ValueError: naming the setting, its value and its range.
    """
    options = TrainerOptions(**{field.name: cfg.trainer[field.name] for field in fields(TrainerOptions)})
    _whole("max_pieces", cfg.max_pieces, 3, "; two pieces are special ones")
    if type(cfg.seed) is not int or not 0 <= cfg.seed < 2**32:
        raise ValueError(f"seed={cfg.seed!r}: expected a whole number from 0 to {2**32 - 1}")
    return options


def _whole(name: str, value: Any, low: int, what: str = "") -> None:
    if type(value) is not int or value < low:
        raise ValueError(f"{name}={value!r}: expected a whole number from {low}{what}")
