"""Which of an encoder's weights are trained: all, its upper layers, or the task head alone."""

from typing import Any


def freeze(encoder: Any, trainable: str) -> None:
    """Fix what should not be trained; the task head always is.

    Args:
        encoder: an :class:`~domadapt.models.encoder.Encoder`.
        trainable: ``all``, ``top:N`` (the N layers nearest the output) or ``none``.

    Raises:
        ValueError: not one of these, with N within the model's layers.
    """
    if trainable == "all":
        return
    kind, _, count = trainable.partition(":")
    if trainable != "none" and not (kind == "top" and count.isdigit() and int(count) <= encoder.depth):
        raise ValueError(
            f"backbone.trainable={trainable!r}: expected all, none, or top:N with N from 0 to {encoder.depth}"
        )
    encoder.base.requires_grad_(False)
    if count:
        layers = encoder.layers()
        for layer in layers[len(layers) - int(count) :]:
            layer.requires_grad_(True)
