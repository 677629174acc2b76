"""How far apart words are in their trees, for whole batches on any device."""

import torch
from torch import Tensor


def ancestors(heads: Tensor) -> Tensor:
    """Which words each word hangs on, directly or not; itself included.

    Args:
        heads: (batch, words) number of each word's head in its text, a root's being itself.

    Returns:
        (batch, words, words), True where the second is on the way from the first to its root.

    >>> ancestors(torch.tensor([[0, 0, 1]]))[0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    batch, words = heads.shape
    found = torch.eye(words, dtype=torch.bool, device=heads.device).repeat(batch, 1, 1)
    for _ in range(words.bit_length()):  # heads: that many arcs up, twice as many each time
        found = found | found.gather(1, heads.unsqueeze(2).expand_as(found))
        heads = heads.gather(1, heads)
    return found


def tree_distances(heads: Tensor) -> Tensor:
    """Arcs on the way between any two words: their depths, less twice the depth of where they meet.

    Args:
        heads: (batch, words) number of each word's head in its text, a root's being itself.

    Returns:
        (batch, words, words); -1 between words of different trees.

    >>> tree_distances(torch.tensor([[1, 1, 1, 3]]))[0].tolist()
    [[0, 1, 2, -1], [1, 0, 1, -1], [2, 1, 0, -1], [-1, -1, -1, 0]]
    """
    with torch.autocast(heads.device.type, enabled=False):  # bf16 counts to 256 alone
        ways = ancestors(heads).float()
        shared = ways @ ways.transpose(1, 2)
        depths = ways.sum(-1)
    apart = depths.unsqueeze(2) + depths.unsqueeze(1) - 2 * shared
    return apart.masked_fill(shared == 0, -1).long()
