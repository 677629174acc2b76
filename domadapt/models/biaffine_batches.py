"""Words as the biaffine parser reads them: windows of pieces, batches of one length."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

MOST_WORDS = 150  # of a window; a word sees no other window, so a sentence that is cut is two
MOST_PIECES = 500  # of a window: MiniLM takes 512
PIECES_A_WORD = 16  # the first is read, the others are its context
ENDS = (".", "!", "?", "…", ";", ":", ")", '"')  # after which a text that is too long is best cut


class Window(NamedTuple):
    """Words that are read together.

    Attributes:
        words: index of each in its text.
        ids: pieces, special ones included.
        first: place of each word's first piece in ``ids``.
    """

    words: Sequence[int]
    ids: Sequence[int]
    first: Sequence[int]


def windows(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> Iterator[Window]:
    """The words of a text in windows; words of white space are left out, a word that has no piece gets the unknown one.

    A text of more words than a window takes is cut after punctuation, if there is any.
    """
    solid = [i for i, word in enumerate(words) if word.strip()]
    if not solid:
        return
    found = tokenizer([words[i] for i in solid], add_special_tokens=False, return_attention_mask=False)["input_ids"]
    pieces = [ids[:PIECES_A_WORD] or [tokenizer.unk_token_id] for ids in found]
    start = 0
    while start < len(solid):
        end, size = start, 0
        while end < len(solid) and end - start < MOST_WORDS and size + len(pieces[end]) <= MOST_PIECES:
            size += len(pieces[end])
            end += 1
        if end < len(solid):
            ends = (i for i in range(end, start + 1, -1) if words[solid[i - 1]] in ENDS)
            end = next(ends, end)
        ids, first = [tokenizer.cls_token_id], list[int]()
        for part in pieces[start:end]:
            first.append(len(ids))
            ids += part
        yield Window(solid[start:end], [*ids, tokenizer.sep_token_id], first)
        start = end


def inputs(batch: Sequence[Window], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Pieces, their mask and first pieces of a batch, padded."""
    rows = [window.ids for window in batch]
    ones = [[1] * len(row) for row in rows]
    ids, mask, first = pad(rows), pad(ones), pad([window.first for window in batch])
    return ids.to(device), mask.to(device), first.to(device)


def pad(rows: Sequence[Sequence[int]], value: int = 0) -> Tensor:
    """(rows, longest) of rows of several lengths.

    >>> pad([[1, 2], [3]]).tolist()
    [[1, 2], [3, 0]]
    """
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def by_length(lengths: Sequence[int], most: int) -> Iterable[list[int]]:
    """Indices in batches of like lengths, of at most ``most`` padded pieces each; one that is longer stands alone.

    >>> list(by_length([5, 1, 2, 9], most=6))
    [[1, 2], [0], [3]]
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[index] > most:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
