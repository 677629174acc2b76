"""How many terms a model finds in texts, and how many the source's rates let expect there.

The two rates of the source's annotation, terms in a text that judges something and in one that does not, applied to
what a model finds in target texts, give a number of terms to expect that needs no label of the target.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from domadapt.data.batches import Batch
from domadapt.methods.term_rates import PerText, sentence_starts
from domadapt.models.output import Output

PRIOR = 8  # labelled texts that the source's rates count for
LONGEST = 3  # words of a term, seldom more
LOWEST = -8.0  # constant
ALMOST = 1 - 1e-6  # certain


def expected_terms(logits: Tensor, begins: Tensor, terms: Sequence[int], rates: PerText) -> float:
    """How many terms the source's rates let expect in texts that a model has read.

    Args:
        logits: (words, labels).
        begins: (words,) True where a text begins.
        terms: labels of terms; the others, but for the first, are of spans that judge.
        rates: of the source.

    >>> logits = torch.tensor([[0.0, 0.0, 9.0], [9.0, 0.0, 0.0], [9.0, 0.0, 0.0]])  # the first of two texts judges
    >>> expected_terms(logits, torch.tensor([True, False, True]), [1], PerText(0.5, 2.0))
    2.5
    """
    judged = judged_texts(logits, begins, terms)
    return float((judged * rates.judged + ~judged * rates.without).sum())


def judged_texts(logits: Tensor, begins: Tensor, terms: Sequence[int]) -> Tensor:
    """(texts,) whether something other than a term is found in a text; arguments as for :func:`expected_terms`."""
    others = [i for i in range(1, logits.shape[-1]) if i not in terms]
    text = begins.long().cumsum(0) - 1
    judged = torch.zeros(int(text[-1]) + 1 if len(text) else 0, dtype=torch.bool, device=logits.device)
    judged[text[torch.isin(logits.argmax(-1), torch.tensor(others, dtype=torch.int64, device=logits.device))]] = True
    return judged


def of_judged_texts(logits: Tensor, begins: Tensor, terms: Sequence[int]) -> Tensor:
    """(words,) whether they stand in such a text; arguments as for :func:`expected_terms`."""
    return judged_texts(logits, begins, terms)[begins.long().cumsum(0) - 1]


def held_to(most: float, found: Callable[[float], float]) -> float:
    """The constant, zero or below, that makes what is found be no more than so many.

    Args:
        most: of them.
        found: how many, with a constant added to their logits.

    >>> held_to(9, lambda constant: 5), round(held_to(9, lambda constant: 10 + constant), 2)
    (0.0, -1.0)
    """
    if found(0.0) <= most:
        return 0.0
    low, high = LOWEST, 0.0
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) > most else (middle, high)
    return low


def found_terms(logits: Tensor, begins: Tensor, terms: Sequence[int]) -> int:
    """How many terms the likeliest labels make; arguments as for :func:`expected_terms`."""
    inside = torch.isin(logits.argmax(-1), torch.tensor(list(terms)))
    before = torch.cat([torch.zeros(1, dtype=torch.bool), inside[:-1]])
    spans = int((inside & (begins | ~before)).sum())
    return max(spans, int(inside.sum()) // LONGEST)  # where all words are inside, few spans are much


def share_of_expected(
    logits: Tensor, begins: Tensor, terms: Sequence[int], rates: PerText, labelled: Sequence[int] = ()
) -> float:
    r"""Terms that a model means to find, as a share of those that the source's rates let expect.

    Both are expectations under its probabilities, because a model that is unsure, as it is of strange words early in
    training, labels fewer words than it means to:

    .. math:: \frac{\sum_w P(w \text{ begins a term})}{\sum_t J_t r_{\text{judged}} + (1 - J_t) r_{\text{without}}},
        \qquad J_t = 1 - \prod_{w \in t} P(w \text{ judges nothing})

    over words and texts, with the source's mean number of terms in a text that judges something, and without. Labelled
    texts of the same domain tell more of it: what is expected of a text is then their mean, the source's rates counting
    for as much as eight of them.

    Args:
        logits: (words, labels).
        begins: (words,) True where a text begins.
        terms: labels of terms, odd ones beginning them; the others, but for the first, are of spans that judge.
        rates: of the source.
        labelled: terms in each labelled text.

    >>> logits = torch.tensor([[0.0, 0.0, 0.0, 99.0], [99.0, 0.0, 0.0, 0.0], [0.0, 0.0, -99.0, -99.0]])
    >>> round(share_of_expected(logits, torch.tensor([True, False, True]), [1, 2], PerText(0.5, 2.0)), 3)
    0.2
    """
    judged = judging(logits, begins, terms)
    expected = float((judged * rates.judged + (1 - judged) * rates.without).sum())
    if len(judged):
        expected = len(judged) * (sum(labelled) + PRIOR * expected / len(judged)) / (len(labelled) + PRIOR)
    return float(logits.float().softmax(-1)[:, [i for i in terms if i % 2]].sum()) / max(1.0, expected)


def judging(logits: Tensor, begins: Tensor, terms: Sequence[int]) -> Tensor:
    """(texts,) the probability that a text judges something; arguments as for :func:`share_of_expected`."""
    others = [i for i in range(1, logits.shape[-1]) if i not in terms]
    probabilities = logits.float().softmax(-1)[:, others].sum(-1)
    text = begins.long().cumsum(0) - 1
    silent = torch.zeros(int(begins.sum())).index_add(0, text, torch.log1p(-probabilities.clamp(max=ALMOST)))
    return 1 - silent.exp()


def read_words(batch: Batch, output: Output, sentences: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Of a batch's words that have a piece: (words, labels) logits, which begin a text, and which nodes they are.

    Args:
        batch: what was read.
        output: of the encoder.
        sentences: count their sentences for texts.
    """
    read = batch.node_first_piece >= 0
    rows = output.logits.flatten(0, 1)[batch.node_first_piece[read]].float().cpu()
    return rows, text_begins(batch, sentences).cpu(), read.cpu()


def text_begins(batch: Batch, sentences: bool = False) -> Tensor:
    """(words,) of a batch's words that have a piece, which begin a text, or a sentence of it."""
    read = batch.node_first_piece >= 0
    texts = batch.node_places()[0][read]
    begins = torch.ones(len(texts), dtype=torch.bool, device=texts.device)
    begins[1:] = texts[1:] != texts[:-1]
    if sentences:
        number = np.concatenate(
            [np.searchsorted(sentence_starts(e.text), e.words[:, 0], side="right") for e in batch.examples]
        )
        of_word = torch.from_numpy(number).to(texts.device)[read]
        begins[1:] |= of_word[1:] != of_word[:-1]
    return begins
