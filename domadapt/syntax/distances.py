"""How far apart words are in their trees, for whole batches on any device."""

import torch
from torch import Tensor


def ancestors(heads: Tensor, first: int) -> Tensor:
    """Which words each of the first words hangs on, directly or not; itself included.

    Args:
        heads: (batch, words) number of each word's head in its text, a root's being itself.
        first: how many words, from the first, are asked for.

    Returns:
        (batch, first, words), True where the second is on the way from the first to its root.

    >>> ancestors(torch.tensor([[0, 0, 1]]), 2)[0].int().tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    batch, words = heads.shape
    found = torch.zeros(batch, first, words, dtype=torch.bool, device=heads.device)
    reached = torch.arange(first, device=heads.device).repeat(batch, 1)
    for _ in range(words):  # an arc up each time, until all are at their roots
        found.scatter_(2, reached.unsqueeze(2), True)
        above = heads.gather(1, reached)
        if torch.equal(above, reached):
            break
        reached = above
    return found


def tree_distances(heads: Tensor, first: int | None = None) -> Tensor:
    """Arcs on the way between any two words: their depths, less twice the depth of where they meet.

    Args:
        heads: (batch, words) number of each word's head in its text, a root's being itself.
        first: how many words, from the first, are asked for: of long texts only the beginning is read, and a matrix of
            all of their words would not fit into memory. Default None: all.

    Returns:
        (batch, first, first); -1 between words of different trees.

    >>> tree_distances(torch.tensor([[1, 1, 1, 3]]))[0].tolist()
    [[0, 1, 2, -1], [1, 0, 1, -1], [2, 1, 0, -1], [-1, -1, -1, 0]]
    """
    with torch.autocast(heads.device.type, enabled=False):  # bf16 counts to 256 alone
        ways = ancestors(heads, heads.shape[1] if first is None else first).float()
        shared = ways @ ways.transpose(1, 2)
        depths = ways.sum(-1)
    apart = depths.unsqueeze(2) + depths.unsqueeze(1) - 2 * shared
    return apart.masked_fill(shared == 0, -1).long()
