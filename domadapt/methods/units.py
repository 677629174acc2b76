r"""What methods share: losses of words, and states and probabilities as rows, of texts or of words that matter.

Most words of a text are plainly nothing, and a loss over all of them is met by calling everything nothing. So only
words count that could be something, as the model has it at that moment, P(not O) > .05.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from domadapt.data.batches import Batch
from domadapt.methods.method import View
from domadapt.models.contracts import Output
from domadapt.syntax.alignment import IGNORED
from domadapt.syntax.trees import UNKNOWN
from domadapt.tasks.rows import MATTERS


def word_head_loss(dependent: Tensor, governor: Tensor, bilinear: Tensor, batch: Batch, known: Tensor) -> Tensor:
    """Mean cross entropy of each word's head among the words of its own text (a root's head is itself); zero without.

    Of (nodes, width) views of words that look for a head, and as heads, which the (width, width) ``bilinear`` form
    scores; only (nodes,) ``known`` ones count, which, like their heads, have pieces.
    """
    words, (text, place) = batch.words, batch.node_places()
    longest = int(words.max()) if len(words) else 0
    keys = governor.new_zeros(len(words), longest, governor.shape[-1]).index_put((text, place), governor)
    queries = governor.new_zeros(len(words), longest, governor.shape[-1]).index_put((text, place), dependent @ bilinear)
    scores = queries @ keys.transpose(1, 2)  # (batch, words, words)
    beyond = torch.arange(longest, device=words.device) >= words.unsqueeze(1)
    scores = scores.masked_fill(beyond.unsqueeze(1), torch.finfo(scores.dtype).min)[text, place]
    heads = torch.where(known, batch.tree()[text, place], IGNORED)
    return F.cross_entropy(scores, heads, ignore_index=IGNORED, reduction="sum") / known.sum().clamp(min=1)


def name_loss(logits: Tensor, names: Tensor, known: Tensor) -> Tensor:
    """Mean cross entropy of names, such as relations or parts of speech, of words that are ``known``; zero without.

    (nodes, names) logits; (nodes,) ids, 0 for a name that training never met, which is left out; (nodes,) ``known``.

    >>> name_loss(torch.zeros(2, 4), torch.tensor([0, 3]), torch.tensor([True, True])).exp().item()
    4.0
    """
    return masked_mean(F.cross_entropy(logits, names, reduction="none"), known & (names > UNKNOWN))


def masked_mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean of the values where True; zero if nowhere."""
    return (values * where).sum() / where.sum().clamp(min=1)


def hidden_below(scores: Tensor) -> float:
    """Scores above it are hidden by no mask: windows of attention and masks by distance hide what the tree may link."""
    return torch.finfo(scores.dtype).min / 2


def check_place(name: str, layer: int, encoder: Any, head: int | None = None) -> None:
    """Refuse a layer that an encoder has not, ``name``; or a layer and a head, ``name.layer`` and ``name.head``."""
    numbers = [(name, layer)] if head is None else [(f"{name}.layer", layer), (f"{name}.head", head)]
    for (setting, number), what, count in zip(numbers, ("layers", "heads"), encoder.attention_shape, strict=False):
        if not 0 <= number < count:
            raise ValueError(f"{setting}={number}: {encoder.name} has {what} 0 to {count - 1}")


def logits_of(view: View) -> Tensor:
    """(rows, classes) of what is classified: words with a piece, or texts; in float32."""
    if view.session.task.kind != "token":
        return view.output.logits.float()
    first = view.batch.node_first_piece
    return view.output.logits.flatten(0, 1)[first[first >= 0]].float()


def rows_by_key(known: Mapping[Any, Tensor], keys: Iterable[Any], counts: Iterable[int], classes: int) -> Tensor:
    """(rows, classes) what is known of texts by their keys, one after the other; zeros where nothing is.

    ``counts`` are rows of each text; of one that was cut otherwise, nothing is known.

    >>> rows_by_key({"one": torch.ones(1, 2)}, ["one", "two"], [1, 1], 2).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    parts = [(known.get(key, torch.zeros(0)), count) for key, count in zip(keys, counts, strict=True)]
    return torch.cat([rows if len(rows) == count else torch.zeros(count, classes) for rows, count in parts])


def with_word_logits(output: Output, batch: Batch, change: Callable[[Tensor], Tensor]) -> Output:
    """The output with other logits of its words: ``changed`` is of (words with a piece, classes) logits in float32, as
    bfloat16 would round away what is added, and may write to them."""
    pieces = batch.node_first_piece[batch.node_first_piece >= 0]
    logits = output.logits.float().clone()
    flat = logits.view(-1, logits.shape[-1])
    flat[pieces] = change(flat[pieces])
    return replace(output, logits=logits)


def candidates(logits: Tensor, token: bool) -> Tensor:
    """(rows,) True for words that could be something, and for every text.

    >>> candidates(torch.tensor([[9.0, 0.0], [0.0, 0.0]]), token=True).tolist()
    [False, True]
    """
    something = 1 - logits.detach().softmax(-1)[:, 0]
    return something > MATTERS if token else something > -1


def states_of(view: View, level: str) -> Tensor:
    """(rows, width) states of one side of a step, in float32; no rows where no word could be something.

    Of ``level="word"``, each word's first piece, of words that could be something. Of ``sentence``, the first piece,
    which is what nearly all heads read where texts are classified (ModernBERT's and EuroBERT's may read the mean of all
    pieces); the mean over pieces where words are.
    """
    states, batch, token = view.output.states.float(), view.batch, view.session.task.kind == "token"
    if level == "word":
        first = batch.node_first_piece
        return states.flatten(0, 1)[first[first >= 0][candidates(logits_of(view), token)]]
    return batch.text_states(states) if token else states[:, 0]
