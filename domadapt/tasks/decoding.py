r"""How tags are decoded: a text's together, by network and by how tags follow each other in the source. They score

.. math:: \sum_i \log p(y_i \mid x) + w \, \big(\log P(y_i \mid y_{i-1}) - \log P(y_i)\big),

with :math:`p` the network's probabilities and :math:`P` counted on the source's annotation, every count a tenth larger,
so that no sequence is impossible. The prior of tags is taken away because the network knows it already. Nothing is
trained. Viterbi's algorithm finds the best sequence, forward-backward each tag's probability over all sequences.
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMOOTHING = 0.1  # to each count


def transition_scores(tags: Iterable[NDArray[np.int64]], count: int) -> NDArray[np.float32]:
    """(count + 1, count) log P(tag | previous tag) - log P(tag); the last row is of tags that open a text.

    >>> np.exp(transition_scores([np.array([0, 1, 2]), np.array([0, 0, 1])], 3))[1].astype(float).round(2).tolist()
    [0.16, 0.23, 4.85]
    """
    follows, single = np.full((count + 1, count), SMOOTHING), np.full(count, SMOOTHING)
    for sequence in tags:
        np.add.at(follows, (np.concatenate([[count], sequence[:-1]])[: len(sequence)], sequence), 1.0)
        np.add.at(single, sequence, 1.0)
    scores: NDArray[np.float64] = np.log(follows / follows.sum(1, keepdims=True)) - np.log(single / single.sum())
    return scores.astype(np.float32)


def viterbi(scores: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
    """(texts, words) tags of the best sequence, by (texts, words, tags) log-probabilities; none past the text.

    ``transitions``: (tags + 1, tags) as :func:`transition_scores` gives them, weighted.

    >>> scores = torch.tensor([[[0.6, 0.4], [0.4, 0.6]]]).log()
    >>> viterbi(scores, torch.tensor([2]), torch.zeros(3, 2)).tolist()
    [[0, 1]]
    >>> viterbi(scores, torch.tensor([2]), torch.tensor([[0.0, -9.0], [0.0, 0.0], [0.0, 1.0]])).tolist()
    [[1, 1]]
    """
    texts, words, count = scores.shape
    if not words:
        return torch.zeros(texts, 0, dtype=torch.long, device=scores.device)
    best = transitions[count] + scores[:, 0]
    stay = torch.arange(count, device=scores.device).expand(texts, count)
    back = []
    for word in range(1, words):
        values, places = (best.unsqueeze(2) + transitions[:count]).max(1)
        inside = (lengths > word).unsqueeze(1)
        best = torch.where(inside, values + scores[:, word], best)
        back.append(torch.where(inside, places, stay))
    tags = [best.argmax(1)]
    for places in reversed(back):
        tags.append(places.gather(1, tags[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(tags[::-1], 1)


def marginals(scores: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
    """(texts, words, tags) log-probability of each tag over all sequences; arguments as of :func:`viterbi`.

    >>> scores = torch.tensor([[[0.6, 0.4], [0.4, 0.6]]]).log()
    >>> marginals(scores, torch.tensor([2]), torch.zeros(3, 2)).exp()[0, 0].double().numpy().round(2).tolist()
    [0.6, 0.4]
    """
    texts, words, count = scores.shape
    if not words:
        return scores
    within = transitions[:count]
    forward = [transitions[count] + scores[:, 0]]
    for word in range(1, words):
        forward.append((forward[-1].unsqueeze(2) + within).logsumexp(1) + scores[:, word])
    backward = [torch.zeros(texts, count, device=scores.device)]
    for word in range(words - 1, 0, -1):
        after = (within + (scores[:, word] + backward[-1]).unsqueeze(1)).logsumexp(2)
        backward.append(torch.where((lengths > word).unsqueeze(1), after, backward[-1]))
    return (torch.stack(forward, 1) + torch.stack(backward[::-1], 1)).log_softmax(-1)
