"""How often the target's labels are of each class, beside the source."""

import torch
from torch import Tensor

from domadapt.methods.setting import Setting

MOST = 4.0  # that a class's labels may count for


def class_shares(labels: Tensor, setting: Setting) -> tuple[Tensor, Tensor]:
    """(classes,) shares of the labels that were found in the target, and of the source's; arguments as below."""
    own = torch.tensor([example.label for example in setting.source if example.label is not None], dtype=torch.int64)
    count = len(setting.task.labels)
    return labels.bincount(minlength=count) / max(1, len(labels)), own.bincount(minlength=count) / max(1, len(own))


def to_source_shares(labels: Tensor, setting: Setting) -> Tensor:
    """(classes,) what a label of each class counts for, so that all together are of the source's classes.

    Unlabelled texts may be of other classes than the source's (most reviews are kind ones), and a network that learns
    its own labels of them learns that, and more with each round. Which texts are of a class is what they can teach; how
    often one is stays as the source has it, unless labels tell.

    Args:
        labels: (texts,) classes that were found in the target.
        setting: of the run, where texts are classified.
    """
    found, wanted = class_shares(labels, setting)
    return (wanted / found.clamp(min=1e-8)).clamp(max=MOST)
