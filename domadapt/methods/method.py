"""The contract that injections and adaptations share."""

from typing import Any

from torch import Tensor, nn

from domadapt.data.batches import Batch, Step
from domadapt.methods.setting import Setting
from domadapt.models.encoder import Output


def in_range(name: str, value: float, low: float, high: float = float("inf")) -> None:
    """Refuse a setting out of its range.

    Args:
        name: of the setting, as the user writes it.
        value: as given.
        low, high: both allowed; a whole ``low`` without ``high`` asks for a whole number.

    Raises:
        ValueError: naming the setting, its value and the range.

    >>> in_range("gnn.depth", 2, 1)
    >>> in_range("gnn.depth", 0, 1)
    Traceback (most recent call last):
    ValueError: gnn.depth=0: expected a whole number from 1
    """
    whole = isinstance(low, int) and high == float("inf")
    if type(value) not in ((int,) if whole else (int, float)) or not low <= value <= high:
        expected = f"a whole number from {low}" if whole else f"a number from {low} to {high}"
        raise ValueError(f"{name}={value!r}: expected {expected}")


class Method(nn.Module):
    """Something that adds to training: an injection of syntax, or an adaptation to target text.

    A new method is a subclass in its own file, and one yaml with its ``_target_``. All hooks are optional.

    Attributes:
        reads_parses: batches must carry parses during training.
        reads_target: every step must carry a batch of unlabelled target text.
        used_at_prediction: its parameters are part of the model that is saved; otherwise a stock one is left behind.
        parses_at_prediction: parses are needed to predict, too; the parser's name travels with the model.
        weights: weight of each named loss; the module multiplies and logs, nobody else.
    """

    reads_parses: bool = False
    reads_target: bool = False
    used_at_prediction: bool = False
    parses_at_prediction: bool = False

    def __init__(self, weights: dict[str, float]) -> None:
        super().__init__()
        for name, weight in weights.items():
            in_range(f"weight of {name}", weight, 0.0, 1e6)
        self.weights = dict(weights)

    def attach(self, encoder: Any, relations: int) -> None:
        """Called once, before training and after loading: hook into the encoder, make parameters.

        Args:
            encoder: the :class:`~domadapt.models.encoder.Encoder`.
            relations: number of known relation names.
        """

    def prepare(self, encoder: Any, setting: Setting) -> dict[str, Any]:
        """A stage before training, such as post-training a language model; returns what to record of it."""
        return {}

    def batch_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """Losses on one encoded batch, called for the source batch and, where there is one, the target batch."""
        return {}

    def step_losses(self, encoder: Any, step: Step) -> dict[str, Tensor]:
        """Losses that need forward passes of their own, called once a step."""
        return {}
