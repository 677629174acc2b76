"""The contract of a validator: a number for each checkpoint, made without a target label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from domadapt.tasks.rows import Rows
from domadapt.tasks.scores import Scores


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a validator may see of a checkpoint. There is no target label in it.

    Attributes:
        source_dev: scores on the source's dev part.
        headline: name of the task's headline score.
        source: rows of source dev, with their classes.
        target: rows of unlabelled target text, a fixed sample.
        train: rows of source training text, a fixed sample, with their classes.
        epoch: how many are over.
    """

    source_dev: Scores
    headline: str
    source: Rows
    target: Rows
    train: Rows
    epoch: int


class Validator(Protocol):
    """Chooses the checkpoint with the largest value. A new one is a class in its own file, and one yaml.

    One that compares checkpoints has ``together`` as well, see :class:`Comparing`.

    Attributes:
        name: in tables and in metrics.json.
        bound: True for the oracle alone, which target labels choose after training is over.
    """

    name: str
    bound: bool

    def __call__(self, evidence: Evidence) -> float:
        """The value to maximise."""


@runtime_checkable
class Comparing(Protocol):
    """A validator whose values are known when training is over, and all checkpoints are there to be compared."""

    def together(self, candidates: Sequence[Rows]) -> list[float]:
        """The values to maximise, one a checkpoint, from its rows of the same unlabelled target text."""
