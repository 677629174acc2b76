"""Predictions of an encoder on examples, in their order."""

from collections.abc import Sequence
from typing import Any

import torch

from domadapt.data.batches import Example, in_order
from domadapt.progress import progress
from domadapt.setup import Setting
from domadapt.tasks.task import Prediction


@torch.no_grad()
def predict_examples(
    encoder: Any, examples: Sequence[Example], setting: Setting, batch_size: int, title: str
) -> list[Prediction]:
    """Predict texts in length order, and return predictions in the order of ``examples``.

    Args:
        encoder: put into evaluation mode and back.
        examples: tokenised texts, indexed from 0.
        setting: task, collator, device and precision.
        batch_size: texts a batch.
        title: of the progress bar.

    Returns:
        One prediction a text.
    """
    if not examples:
        return []
    results: list[Prediction | None] = [None] * len(examples)
    loader = in_order(examples, setting.collator, batch_size)
    was_training = encoder.training
    encoder.eval()
    for batch in progress(loader, title, len(loader), "batch"):
        batch = batch.to(setting.device)
        with setting.autocast():
            output = encoder(batch)
        places = batch.index.tolist()
        decoded = setting.task.decode(output, batch, [examples[i].words for i in places])
        for place, prediction in zip(places, decoded, strict=True):
            results[place] = prediction
    encoder.train(was_training)
    return [r for r in results if r is not None]
