"""Losses of words against their parse: the head of each among the words of its text, and names that it has."""

import torch
import torch.nn.functional as F
from torch import Tensor

from domadapt.syntax.alignment import IGNORED
from domadapt.syntax.trees import UNKNOWN


def word_head_loss(
    dependent: Tensor, governor: Tensor, bilinear: Tensor, word_heads: Tensor, words: Tensor, known: Tensor
) -> Tensor:
    """Cross entropy of each word's head among the words of its own text (a root's head is itself).

    Args:
        dependent, governor: (nodes, width).
        bilinear: (width, width).
        word_heads: (nodes,) head node.
        words: (batch,) number of words of each text.
        known: (nodes,) True where word and head both have pieces.

    Returns:
        Scalar mean over known words; zero if there is none.
    """
    longest = int(words.max()) if len(words) else 0
    starts = words.cumsum(0) - words
    text = torch.repeat_interleave(torch.arange(len(words), device=words.device), words)
    place = torch.arange(len(text), device=words.device) - starts[text]
    keys = governor.new_zeros(len(words), longest, governor.shape[-1]).index_put((text, place), governor)
    queries = governor.new_zeros(len(words), longest, governor.shape[-1]).index_put((text, place), dependent @ bilinear)
    scores = queries @ keys.transpose(1, 2)  # (batch, words, words)
    beyond = torch.arange(longest, device=words.device) >= words.unsqueeze(1)
    scores = scores.masked_fill(beyond.unsqueeze(1), torch.finfo(scores.dtype).min)[text, place]
    heads = torch.where(known, word_heads - starts[text], IGNORED)
    total = F.cross_entropy(scores, heads, ignore_index=IGNORED, reduction="sum")
    return total / known.sum().clamp(min=1)


def name_loss(logits: Tensor, names: Tensor, known: Tensor) -> Tensor:
    """Mean cross entropy of names, such as relations or parts of speech; one that training never met is left out.

    Args:
        logits: (nodes, names).
        names: (nodes,) id of each word's name, 0 where unknown.
        known: (nodes,) True for words that count.

    Returns:
        Scalar; zero if no word counts.

    >>> name_loss(torch.zeros(2, 4), torch.tensor([0, 3]), torch.tensor([True, True])).exp().item()
    4.0
    """
    return masked_mean(F.cross_entropy(logits, names, reduction="none"), known & (names > UNKNOWN))


def masked_mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean of the values where True; zero if nowhere.

    >>> masked_mean(torch.tensor([1.0, 5.0]), torch.tensor([True, False])).item()
    1.0
    """
    return (values * where).sum() / where.sum().clamp(min=1)
