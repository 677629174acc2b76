"""What transformers made of a checkpoint: which weights are not of it, which of it found no place.

transformers makes up at random what it does not find, and says so in a log that nobody reads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

AGAIN = "copy the folder again, download the backbone again, or train the model again"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How a checkpoint and a model's weights fit together.

    Attributes:
        fresh: weights of the model that were drawn at random: not in the checkpoint, or of another shape there.
        unplaced: weights of the checkpoint that the model has no place for.
    """

    fresh: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()


def load_report(info: dict[str, Any]) -> LoadReport:
    """Of what ``from_pretrained`` gives for ``output_loading_info=True``."""
    mismatched = (key if isinstance(key, str) else key[0] for key in info["mismatched_keys"])
    return LoadReport(tuple(sorted({*info["missing_keys"], *mismatched})), tuple(sorted(info["unexpected_keys"])))


def refuse_partial_base(model: Any, report: LoadReport, name: str) -> None:
    """A backbone may want for its head, and for the pooler that is part of it; it may bring heads of other tasks.

    Args:
        model: stock transformers model with a head.
        report: of its checkpoint.
        name: of the backbone.

    Raises:
        ValueError: below the head, weights are missing, of another shape, or too many.
    """
    prefix = f"{model.base_model_prefix}."
    parts = {part for part, _ in model.base_model.named_children()} - {"pooler"}

    def below_the_head(key: str) -> bool:
        return key.removeprefix(prefix).partition(".")[0] in parts

    fresh = [key for key in report.fresh if key.startswith(prefix) and below_the_head(key)]
    _refuse(name, fresh, [key for key in report.unplaced if fresh or below_the_head(key)])


def refuse_partial(report: LoadReport, name: str) -> None:
    """A model that was saved whole has every weight, and no other.

    Raises:
        ValueError: naming the first that is missing, of another shape, or too many.
    """
    _refuse(name, report.fresh, report.unplaced)


def _refuse(name: str, fresh: Iterable[str], unplaced: Iterable[str]) -> None:
    fresh, unplaced = list(fresh), list(unplaced)
    told = [f"{len(fresh)} weights are missing or of another shape, such as {fresh[0]}"] if fresh else []
    told += [f"{len(unplaced)} have no place in the model, such as {unplaced[0]}"] if unplaced else []
    if told:
        raise ValueError(
            f"{name}: config.json and model.safetensors are not of one whole model: {', and '.join(told)}; {AGAIN}"
        )


def refuse_non_finite(weights: dict[str, Tensor], name: str) -> None:
    """Refuse weights that are NaN or infinite.

    Args:
        weights: by name.
        name: of the file or backbone.

    Raises:
        ValueError: naming the first.

    >>> refuse_non_finite({"bias": torch.tensor([0.0, float("nan")])}, "model.safetensors")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: model.safetensors: bias holds NaN or infinite numbers; copy the folder again, ...
    """
    for key, tensor in weights.items():
        # A sum of numbers with NaN or infinity in it is one of them, and takes a tenth of the time of asking each.
        if tensor.is_floating_point() and not torch.isfinite(tensor.sum()):
            raise ValueError(f"{name}: {key} holds NaN or infinite numbers; {AGAIN}")
