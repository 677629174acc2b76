"""The contract of a validator: a number for each checkpoint, made without a target label."""

from dataclasses import dataclass
from typing import Protocol

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

    Attributes:
        name: in tables and in metrics.json.
        bound: True for the oracle alone, which target labels choose after training is over.
    """

    name: str
    bound: bool

    def __call__(self, evidence: Evidence) -> float:
        """The value to maximise."""
