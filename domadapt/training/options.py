"""What a run is asked for, typed: the configuration's ``trainer``, its ranges checked in one place, and the rest."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from domadapt.config.compose import check_known, make, to_builtin
from domadapt.config.overrides import SEEDS, in_range, one_of
from domadapt.config.resolvers import own_files
from domadapt.data import corpora
from domadapt.runs.key import files_named, is_adapted

CHOICES = {"device": ("auto", "cpu", "cuda"), "precision": ("auto", "32", "bf16-mixed")}
MIN_STEPS = 300  # of training on a user's own files, unless told
SMALL_FILES = 2**20  # bytes of a user's files
MOST_THREADS = 1024  # more crash torch where the system has no room for them
CHUNK = 16  # batches labelled together: wide enough to sort by length, small enough to hold


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerOptions:
    """What ``conf/trainer/default.yaml`` explains, setting by setting; ``epochs`` are all there are, extra ones too."""

    device: str
    devices: int
    strategy: str
    precision: str
    hardware: str | None
    threads: int
    epochs: int
    min_steps: int
    batch_size: int
    target_batch_size: int
    evaluation_batch_size: int
    validation_texts: int
    learning_rate: float
    weight_decay: float
    warmup: float
    gradient_clip: float
    checkpoint_seconds: float
    regret: bool

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "target_batch_size", "evaluation_batch_size", "validation_texts"):
            in_range(f"trainer.{name}", getattr(self, name), 1)
        for name in ("learning_rate", "weight_decay", "warmup"):
            in_range(f"trainer.{name}", getattr(self, name), 0, 1)
        in_range("trainer.gradient_clip", self.gradient_clip, 1e-9, 1e9)
        in_range("trainer.checkpoint_seconds", self.checkpoint_seconds, 0, 1e9)
        one_of("trainer.regret", self.regret, True, False)
        in_range("trainer.threads", self.threads, 0, MOST_THREADS, " (0 for torch's choice)", whole=True)
        in_range("trainer.min_steps", self.min_steps, 0, more=" (epochs as they are)")

    def passes(self, batches: int) -> int:
        """How often an epoch goes over the labelled texts, so that all epochs, no more of them, make ``min_steps``."""
        return max(1, math.ceil(self.min_steps / max(1, self.epochs * batches)))


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run as it is asked for: what a composed ``train.yaml`` comes to before anything is read or made."""

    values: dict[str, Any]  # the resolved configuration, as plain dicts and lists
    options: TrainerOptions
    key: str  # of the cell
    folder: Path
    composed: Any  # what :mod:`domadapt.training.build` makes the parts of

    def with_task(self, task: dict[str, Any]) -> "RunConfig":
        return replace(self, values=self.values | {"task": task})

    @property
    def in_domain(self) -> bool:
        """Whether it is the in-domain ceiling, trained on the target's labels."""
        return bool(self.values["train_on"] == "target")

    @property
    def pairs(self) -> int | None:
        """How many pairs the benchmark has that it belongs to; None where it belongs to none."""
        return len((self.values["benchmark"] or {}).get("pairs") or ()) if "benchmark" in self.values else None


def read_options(cfg: Mapping[str, Any]) -> TrainerOptions:
    """The options of a composed ``train.yaml``; settings beside them that training would fail on later are checked."""
    trainer = cfg["trainer"]
    check_known(cfg, "train")
    given = {field.name: trainer[field.name] for field in fields(TrainerOptions)}
    in_range("trainer.epochs", given["epochs"], 1)
    in_range("trainer.extra_epochs", trainer["extra_epochs"], 0)
    given["epochs"] += trainer["extra_epochs"] if is_adapted(cfg) else 0
    if given["min_steps"] is None:
        given["min_steps"] = MIN_STEPS if own_files(cfg["data"]) else 0
    options = TrainerOptions(**given)
    in_range("max_length", cfg["max_length"], 3, more="; two subwords are special ones")
    in_range("seed", cfg["seed"], 0, SEEDS, whole=True)
    if (train_on := cfg["train_on"]) not in ("source", "target"):
        raise ValueError(f"train_on={train_on!r}: expected source, or target for the in-domain ceiling")
    return options


def check_choices(given: Mapping[str, Any], prefix: str = "") -> None:
    """Refuse a device or precision that is none, before torch is imported to say whether it is here."""
    for name, known in CHOICES.items():
        one_of(prefix + name, str(given[name]), *known)


def check_data(data: Mapping[str, Any], read: Callable[[], object] | None = None) -> None:
    """What is wrong with corpora, as far as it is told by a file that is not there, or one that is read in no time;
    ``read`` tells more than reading the corpora alone."""
    small = own_files(data) and sum(path.stat().st_size for path in files_named(to_builtin(data))) < SMALL_FILES
    if small or _lacks_something(data):
        (read or partial(make, data))()  # says in its own words what


def _lacks_something(data: Mapping[str, Any]) -> bool:
    """Whether reading the corpora is likely to fail: a file is not there or not named, or a setting is unknown."""
    home, _, name = str(data.get("_target_", "")).rpartition(".")
    if home != corpora.__name__:
        return False
    sides = [data, *(side for side in (data.get("source"), data.get("target")) if isinstance(side, Mapping))]
    paths = [side[key] for side in sides for key in side if key == "root" or str(key).endswith("path")]
    gone = any(isinstance(path, str) and not Path(path).exists() for path in paths)
    unnamed = any(side.get("path", "") is None for side in sides) or ("root" in data and data["root"] is None)
    takes = {*inspect.signature(getattr(corpora, name)).parameters}
    takes |= {*inspect.signature(corpora.research).parameters} if "more" in takes else set()
    return gone or (unnamed and name != "shipped") or any(key not in takes for key in data if key != "_target_")
