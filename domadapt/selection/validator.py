"""The contract of a validator: a number for each checkpoint, made without a target label."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from domadapt.tasks.scores import Scores

Probabilities = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a validator may see of a checkpoint. There is no target label in it.

    Attributes:
        source_dev: scores on the source's dev part.
        headline: name of the task's headline score.
        source: (rows, classes) probabilities on source dev; a row is a text, or a word in extraction.
        source_classes: (rows,) their true classes.
        target: (rows, classes) probabilities on unlabelled target text.
    """

    source_dev: Scores
    headline: str
    source: Probabilities
    source_classes: NDArray[np.int64]
    target: Probabilities


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
