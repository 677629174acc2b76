"""How many terms a model finds in target texts, and how many the source's rates let expect there.

How often a text has a term depends on whether it judges something: whether a span of another type, such as an opinion,
is found in it. These two rates of the source's annotation, applied to what a model finds in target texts, give a number
of terms to expect that needs no label of the target. Where the texts of one domain are more than twice as long as the
other's, whole reviews beside sentences, what is counted are not texts but their sentences (:func:`by_sentence`).
"""

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.data.domains import Domains
from domadapt.data.records import Record
from domadapt.methods.setting import Setting
from domadapt.methods.term_types import term_kinds, term_labels
from domadapt.models.output import Output

ENOUGH_TERMS = "enough terms"  # in ``setting.counted``: whether the model finds as many terms as it should as it is
NEED_OPINION = (
    "terms need an opinion"  # there, too: the user says so; of texts that judge nothing no terms are expected
)
BY_SENTENCE = "terms are counted by sentence"  # and whether they are
LEARNT = 0.5  # share of the terms to expect in source dev, from which on what is found in the target tells something
MUTE = 0.65  # so many texts that judge, as a share of those in source dev, are too few to tell by
PRIOR = 8  # labelled texts that the source's rates count for
LONGEST = 3  # words of a term, seldom more
LOWEST = -8.0  # constant
ALMOST = 1 - 1e-6  # certain
LONGER = 2.0  # so many times as long texts in one domain as in the other are not of a kind
SENTENCE = re.compile(r"[.!?]+\s+")  # ends with it


class PerText(NamedTuple):
    """Mean number of terms in a text without, and with, a span of another type."""

    without: float
    judged: float


def by_sentence(setting: Setting) -> bool:
    """Whether sentences are counted for texts: one domain's texts are on average more than twice as long in words."""
    if BY_SENTENCE not in setting.counted:
        texts = setting.domains.source_train, setting.domains.unlabeled.texts
        source, target = (sum(len(t.text.split()) for t in some) / max(1, len(some)) for some in texts)
        setting.counted[BY_SENTENCE] = bool(source and target) and not 1 / LONGER <= target / source <= LONGER
    return bool(setting.counted[BY_SENTENCE])


def of_the_source(domains: Domains) -> list[Record]:
    """What is trained on, without labelled target texts that have joined it."""
    known = {record.text for record in domains.target_records}
    return [record for record in domains.source_train if record.text not in known]


def sentence_starts(text: str) -> list[int]:
    """Where sentences of a text begin, but for the first, by their points alone.

    >>> sentence_starts("It works. Does it? v1.2 does.")
    [10, 19]
    """
    return [end for found in SENTENCE.finditer(text) if (end := found.end()) < len(text)]


def terms_per_text(records: Sequence[Record], kinds: frozenset[str], sentences: bool = False) -> PerText:
    """The source's rates; the mean of all texts for a kind of text that there is none of.

    Args:
        records: labelled.
        kinds: span types of terms.
        sentences: count their sentences for texts.

    >>> from domadapt.data.records import Span
    >>> judged = Record("1", "x", "good lens", spans=(Span(0, 4, "opinion"), Span(5, 9, "aspect")))
    >>> terms_per_text([judged, Record("2", "x", "a lens", spans=())], frozenset({"aspect"}))
    PerText(without=0.0, judged=1.0)
    """
    counts: dict[bool, list[int]] = {False: [], True: []}
    for judged, terms in counted_texts(records, kinds, sentences):
        counts[judged].append(terms)
    every = [*counts[False], *counts[True]]
    overall = sum(every) / max(1, len(every))
    return PerText(*(sum(some) / len(some) if some else overall for some in (counts[False], counts[True])))


def counted_texts(
    records: Sequence[Record], kinds: frozenset[str], sentences: bool = False
) -> Iterator[tuple[bool, int]]:
    """Of each text whether it judges, and its number of terms; arguments as for :func:`terms_per_text`."""
    for record in records:
        starts = sentence_starts(record.text) if sentences else []
        texts: list[list[str]] = [[] for _ in range(len(starts) + 1)]
        for span in record.spans or ():
            texts[bisect(starts, span.start)].append(span.type)
        for types in texts:
            yield any(kind not in kinds for kind in types), sum(kind in kinds for kind in types)


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


def found_of_expected(setting: Setting, texts: int, batch_size: int) -> float | None:
    """Terms that the model means to find in target texts, as a share of those to expect, beside that in source dev.

    Clearly below 1 it is starved of recall: the target's words are strange to it. Near 1 or above there is nothing to
    be had from making it bolder. That it finds too few or too many everywhere, early in training, cancels out. Where
    much fewer texts judge than in source dev it is starved of judgements, too, and of these texts too few terms are
    expected: then that share is what is told. Labelled target texts, where there are some, tell how many to expect.

    Args:
        setting: of the run.
        texts: size of the sample; of what validators read, where no method reads the target.
        batch_size: of reading it.

    Returns:
        None where it is too early to tell: less than half of what is to be expected is found in source dev.
    """
    terms, kinds, judged_only = term_labels(setting), term_kinds(setting), setting.counted.get(NEED_OPINION, False)
    few, sentences = setting.domains.target_records, by_sentence(setting)
    labelled = [count for judges, count in counted_texts(few, kinds, sentences) if judges or not judged_only]
    rates = terms_per_text(of_the_source(setting.domains), kinds, sentences)

    def words(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        outputs = setting.outputs(examples, batch_size, "count terms", alone=True)
        read = [read_words(*both, by_sentence(setting))[:2] for both in outputs]
        logits, begins = (torch.cat(parts) for parts in zip(*read, strict=True))
        judged = of_judged_texts(logits, begins, terms) if judged_only else torch.ones_like(begins)
        return logits[judged], begins[judged]

    target = setting.target_sample(texts, seed=0) or setting.validation
    if not setting.dev or not target:
        return 1.0
    logits, begins = words(setting.dev)
    if found_terms(logits, begins, terms) < LEARNT * max(1.0, expected_terms(logits, begins, terms, rates)):
        return None
    found = words(target)
    judged, in_source = judging(*found, terms).mean(), judging(logits, begins, terms).mean()
    if judged < MUTE * in_source:
        return float(judged / in_source)
    return share_of_expected(*found, terms, rates, labelled) / share_of_expected(logits, begins, terms, rates)


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
