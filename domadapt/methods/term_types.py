r"""Which nouns of a domain are likely terms: ranked without a label of that domain.

A logistic regression on how the source uses its nouns (:mod:`domadapt.syntax.noun_features`) learns from the source's
annotation which are terms; what it says of a target noun is smoothed over the noun's neighbours in the pretrained
encoder's space, and moved towards the rate of its nearest source nouns. Probabilities do not carry over between
corpora, ranks do: so a noun is given its quantile among the domain's uses of nouns, from 0 to 1, and a source noun is
ranked by regressions that have not seen it. The rate of terms at each rank,

.. math:: P(\text{term} \mid \text{rank}),

is the source's, smoothed by a Gaussian kernel.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from domadapt.data.batches import Collator, encode
from domadapt.data.records import Record
from domadapt.methods.setting import Setting
from domadapt.syntax.noun_features import NounTypes
from domadapt.syntax.nouns import is_noun
from domadapt.syntax.parser import Parse

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

FOLDS = 5
PENALTY = 20.0  # on the regression's squared weights
NEIGHBOURS, TEMPERATURE = 10, 0.1  # of a noun, by cosine
OWN_DOMAIN, OTHER_DOMAIN = 0.6, 0.2  # what the neighbours in the noun's domain, and those in the source, count for
KNOWN = 3  # uses from which on a noun tells something of its neighbours
ROWS = 1024  # of a matrix of cosines that are computed together
ITSELF = 1 - 1e-6  # cosine from which on two vectors are of one noun
BANDWIDTH = 0.05  # of the kernel over ranks
GRID = np.linspace(0.0, 1.0, 41)
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TermTypes:
    """Nouns by how likely they are terms.

    Attributes:
        source, target: quantile rank of each noun, in lower case, from 0 (unlikely) to 1.
        counts: uses of each target noun.
        rates: (41,) share of terms at ranks from 0 to 1, in the source.
    """

    source: dict[str, float]
    target: dict[str, float]
    counts: dict[str, float]
    rates: FloatArray

    def log_odds(self, rank: float | FloatArray) -> FloatArray:
        """Of being a term, at a rank."""
        rate = np.interp(rank, GRID, self.rates)
        return np.asarray(np.log(rate / (1 - rate)))


def term_types(setting: Setting) -> TermTypes:
    """The nouns of a run's source and target, ranked once for all methods that ask.

    Args:
        setting: of the run, not trained yet.
    """
    if "term_types" not in setting.counted:
        setting.counted["term_types"] = _ranked(setting)
    found: TermTypes = setting.counted["term_types"]
    return found


def _ranked(setting: Setting) -> TermTypes:
    domains = setting.domains
    records, texts = domains.source_train, domains.unlabeled.texts
    parses = setting.corpus_parses("source")
    source = NounTypes(records, parses)
    target = NounTypes(texts, setting.corpus_parses("target"))
    terms = term_uses(records, parses, term_kinds(setting))
    made = np.array([terms[word] for word in source.words], dtype=np.float64)
    if not made.sum() or not len(target.words) or len(source.words) < FOLDS:  # nothing to learn from
        return TermTypes({}, {}, {}, np.full(len(GRID), 0.5))
    vectors = type_vectors(setting, [*source.words, *target.words])
    own, other = scores(source, made, target, vectors[: len(source.words)], vectors[len(source.words) :])
    ranks = quantiles(own, source.counts), quantiles(other, target.counts)
    kernel = np.exp(-0.5 * ((GRID[:, None] - ranks[0]) / BANDWIDTH) ** 2) * source.counts
    rates = (kernel * (made / source.counts)).sum(1) / kernel.sum(1)
    return TermTypes(
        dict(zip(source.words, ranks[0].tolist(), strict=True)),
        dict(zip(target.words, ranks[1].tolist(), strict=True)),
        dict(zip(target.words, target.counts.tolist(), strict=True)),
        np.clip(rates, 0.005, 0.995),
    )


def scores(
    source: NounTypes, terms: FloatArray, target: NounTypes, own: FloatArray, other: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How likely source nouns, each by what was learnt from others, and target nouns are terms; on no scale.

    Args:
        source: nouns.
        terms: (source nouns,) uses as a term.
        target: nouns.
        own, other: (source nouns, width) and (target nouns, width) vectors of length 1.
    """
    from sklearn.model_selection import KFold  # over a second, which prediction does not need
    from sklearn.preprocessing import StandardScaler

    often = source.counts >= 2
    rate = (terms + terms.sum() / source.counts.sum()) / (source.counts + 1)
    mine, theirs, near = np.zeros(len(own)), np.zeros(len(other)), np.zeros(len(own))
    for rest, held_out in KFold(FOLDS, shuffle=True, random_state=0).split(own):
        learnt = rest[often[rest]] if often[rest].any() else rest
        scaler = StandardScaler().fit(source.features[learnt])
        model = regression(scaler.transform(source.features[learnt]), source.counts[learnt], terms[learnt])
        mine[held_out] = model.decision_function(scaler.transform(source.features[held_out]))
        theirs += model.decision_function(scaler.transform(target.features)) / FOLDS
        known = rest[source.counts[rest] >= KNOWN]
        near[held_out] = of_neighbours(own[held_out], own[known], rate[known], source.counts[known])
    known = np.flatnonzero(source.counts >= KNOWN)
    far = of_neighbours(other, own[known], rate[known], source.counts[known])
    mine = mine + OWN_DOMAIN * smoothed(own, mine, source.counts) + OTHER_DOMAIN * logit(near)
    theirs = theirs + OWN_DOMAIN * smoothed(other, theirs, target.counts) + OTHER_DOMAIN * logit(far)
    return mine, theirs


def regression(features: FloatArray, counts: FloatArray, terms: FloatArray) -> "LogisticRegression":
    """Fitted to shares of uses as a term; a noun weighs as the root of its count."""
    from sklearn.linear_model import LogisticRegression

    weight, share = np.sqrt(counts), terms / counts
    both = np.concatenate([features, features])
    labels = np.repeat([1, 0], len(features))
    model = LogisticRegression(C=1 / PENALTY, max_iter=1000)
    return model.fit(both, labels, sample_weight=np.concatenate([weight * share, weight * (1 - share)]))


def of_neighbours(
    nouns: FloatArray, others: FloatArray, values: FloatArray, counts: FloatArray, itself: bool = True
) -> FloatArray:
    """Mean of the nearest other nouns' values.

    Args:
        nouns: (nouns, width) vectors of length 1.
        others: (others, width) the same.
        values, counts: (others,).
        itself: whether a noun is a neighbour of itself: of the same word in another domain, it is.
    """
    if not len(values):
        return np.full(len(nouns), 0.5)
    size, found = min(NEIGHBOURS, len(others)), []
    for start in range(0, len(nouns), ROWS):  # the whole matrix of a large vocabulary would not fit into memory
        similarity = nouns[start : start + ROWS] @ others.T
        if not itself:
            similarity[similarity > ITSELF] = -1.0
        nearest = np.argpartition(-similarity, size - 1, axis=1)[:, :size]
        close = np.exp(np.take_along_axis(similarity, nearest, 1) / TEMPERATURE)
        weight = close * np.sqrt(np.minimum(counts[nearest], 50))
        found.append((weight * values[nearest]).sum(1) / weight.sum(1))
    return np.concatenate(found)


def smoothed(vectors: FloatArray, values: FloatArray, counts: FloatArray) -> FloatArray:
    """Mean over neighbours in the noun's own domain, of those that are known well enough."""
    known = np.flatnonzero(counts >= KNOWN)
    return of_neighbours(vectors, vectors[known], values[known], counts[known], False) if len(known) else values


def logit(rate: FloatArray) -> FloatArray:
    """Log-odds.

    >>> logit(np.array([0.5])).tolist()
    [0.0]
    """
    rate = np.clip(rate, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(rate / (1 - rate)))


def quantiles(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Share of all uses that belong to lower values, half of one's own included.

    >>> quantiles(np.array([3.0, 1.0]), np.array([1.0, 3.0])).tolist()
    [0.875, 0.375]
    """
    order = np.argsort(values, kind="stable")
    middle = np.cumsum(counts[order]) - counts[order] / 2
    ranks = np.empty(len(values))
    ranks[order] = middle / counts.sum()
    return ranks


@torch.no_grad()
def type_vectors(setting: Setting, words: Sequence[str]) -> FloatArray:
    """(words, width) vectors of length 1: mean of the pretrained encoder's states over a word that stands alone."""
    known = sorted(set(words))
    tokenizer = setting.encoder.tokenizer
    examples, _ = encode(known, [np.empty((0, 2), np.int64)] * len(known), tokenizer, 16)
    collator = Collator(int(tokenizer.pad_token_id or 0))
    vectors: dict[str, FloatArray] = {}
    was, _ = setting.encoder.training, setting.encoder.eval()
    for start in range(0, len(known), 256):
        batch = collator(examples[start : start + 256]).to(setting.device)
        with setting.autocast():
            states = setting.encoder.states(batch, hooked=False).float()
        mask = batch.attention_mask.unsqueeze(-1)
        means = F.normalize((states * mask).sum(1) / mask.sum(1), dim=-1).cpu().double().numpy()
        vectors |= dict(zip(known[start : start + 256], means, strict=True))
    setting.encoder.train(was)
    return np.stack([vectors[word] for word in words])


def term_kinds(setting: Setting) -> frozenset[str]:
    """Span types of the source that are terms; none where texts are classified."""
    if setting.task.kind != "token":  # spans, where the source has them, are nothing to the task
        return frozenset()
    return noun_kinds(setting.domains.source_train, setting.corpus_parses("source"))


def term_labels(setting: Setting) -> list[int]:
    """The task's labels that belong to terms."""
    kinds = term_kinds(setting)
    return [i for i, label in enumerate(setting.task.labels) if label[2:] in kinds]


def noun_kinds(records: Sequence[Record], parses: Sequence[Parse]) -> frozenset[str]:
    """Span types whose last words are mostly nouns: aspects are, opinions are not."""
    nouns, met = Counter[str](), Counter[str]()
    for record, parse in zip(records, parses, strict=True):
        ends = {int(end): word for word, (_, end) in enumerate(parse.words)}
        for span in record.spans or ():
            met[span.type] += 1
            nouns[span.type] += span.end in ends and is_noun(parse, ends[span.end], record.text)
    return frozenset(kind for kind, count in met.items() if nouns[kind] > count / 2)


def term_uses(records: Sequence[Record], parses: Sequence[Parse], kinds: frozenset[str]) -> Counter[str]:
    """How often each noun, in lower case, stands in a span of these types."""
    uses = Counter[str]()
    for record, parse in zip(records, parses, strict=True):
        spans = [span for span in record.spans or () if span.type in kinds]
        for word, (start, end) in enumerate(parse.words.tolist()):
            if is_noun(parse, word, record.text) and any(s.start < end and start < s.end for s in spans):
                uses[record.text[start:end].lower()] += 1
    return uses
