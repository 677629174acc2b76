"""How far two domains are apart: in what their texts hold, and in each layer's states."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domadapt.analysis.subject import Subject, every_layer, layer_names
from domadapt.auditing.shift import cliffs_delta, overlap, terms_of
from domadapt.data.batches import Example
from domadapt.data.records import Record
from domadapt.data.texts import words
from domadapt.methods.session import Session

SHOWN_WORDS: Final = 5
FOLDS: Final = 5
SHRINK: Final = 0.01  # strong: there may be as many dimensions as texts
FEWEST_TEXTS: Final = 20  # texts of each domain


@dataclass(frozen=True, slots=True)
class Compared:
    """One kind of items, such as words or terms, in two domains.

    Two numbers of different kinds. Overlap asks how much of the target the source has ever shown; divergence, how far
    shares differ. Both depend on how much text there is, so each has its control: the same of half of the source's
    texts, drawn at random, against the rest. A half has fewer items than the whole, so that overlap is not flattered.
    """

    types: float  #: share of the target's different items that the source has, too
    tokens: float  #: the same of all their occurrences
    divergence: float  #: Jensen and Shannon's, of the shares of items, in bits: 0 for the same, 1 for nothing in common
    types_within: float | None  #: the control, as the next two
    tokens_within: float | None
    divergence_within: float | None
    different: int  #: the target's items
    occurrences: int
    new: tuple[str, ...]  #: the target's commonest that the source lacks
    moved: tuple[tuple[str, float, float], ...]  #: (item, share in the source, in the target), of the largest changes


def compare(source: Sequence[Counter[str]], target: Sequence[Counter[str]]) -> Compared | None:
    """Compare what texts of two domains hold, given each text's items; None where one of them holds nothing."""
    drawn = np.random.default_rng(1).permutation(len(source))  # in a file, every other text may be of one label
    halves_of = ([source[place] for place in places] for places in (drawn[::2], drawn[1::2]))
    first, second, other = (
        Counter(chain.from_iterable(text.elements() for text in texts)) for texts in (*halves_of, target)
    )
    every = first + second
    if not every or not other:
        return None
    types, tokens, new = overlap(every, other)
    halves: tuple[float | None, float | None, float | None] = (None, None, None)
    if first and second:
        halves = (*overlap(first, second)[:2], jensen_shannon(first, second))
    shares = {item: (every[item] / every.total(), other[item] / other.total()) for item in every | other}
    most = sorted(shares, key=lambda item: (-abs(shares[item][0] - shares[item][1]), item))[:SHOWN_WORDS]
    moved, divergence = tuple((item, *shares[item]) for item in most), jensen_shannon(every, other)
    return Compared(types, tokens, divergence, *halves, len(other), other.total(), tuple(new[:SHOWN_WORDS]), moved)


def jensen_shannon(one: Counter[str], other: Counter[str]) -> float:
    """Divergence of two distributions in bits (Lin 1991): their entropy mixed, less the mean of their own."""
    items = sorted(one.keys() | other.keys())
    shares = np.array([[count[item] / count.total() for item in items] for count in (one, other)])
    mixed, *entropies = entropy([shares.mean(0), *shares], base=2, axis=1)
    return min(1.0, max(0.0, float(mixed - sum(entropies) / 2)))  # rounded, the least may fall below 0


def proxy_a_distance(source: NDArray[Any], target: NDArray[Any], seed: int = 1) -> float | None:
    """How well a linear classifier tells two domains apart by a model's (texts, width) states.

    2 (1 - 2e), e the classifier's share of mistakes on held-out texts: 0 for chance or less, 2 where it makes none. As
    many texts of each domain, so that chance is a half. Ben-David et al. 2007 (https://papers.nips.cc/paper/2983);
    Glorot et al. 2011 found it higher, not lower, where adapted representations transfer better: it measures what can
    be seen, not what harms. None for fewer than 20 texts of one domain.

    >>> left, right = np.zeros((40, 2)), np.ones((60, 2))
    >>> proxy_a_distance(left, right), proxy_a_distance(left, left), proxy_a_distance(left[:9], right)
    (2.0, 0.0, None)
    """
    size = min(len(source), len(target))
    if size < FEWEST_TEXTS:
        return None
    random = np.random.default_rng(seed)
    points = np.concatenate([side[random.permutation(len(side))[:size]] for side in (source, target)])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=SHRINK, max_iter=500))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    right = cross_val_score(model, points.astype(np.float64), np.repeat([0, 1], size), cv=folds).mean()
    return max(0.0, float(2 * (1 - 2 * (1 - right))))


@dataclass(frozen=True, slots=True)
class Lengths:
    """Words a text: medians, and Cliff's delta, how much oftener a target text is the longer one (-1 to 1)."""

    source: float
    target: float
    delta: float


@dataclass(frozen=True, slots=True)
class DomainShift:
    """What moves from source to target."""

    compared: dict[str, Compared]  #: the names of WORDS_OF; where labels are known, ``labels`` and ``TYPE terms``
    lengths: Lengths | None
    layers: tuple[str, ...]  #: their names, the embeddings first
    a_distances: dict[str, tuple[float, ...]]  #: by model, of each layer; empty with too few texts or unreadable layers
    texts: dict[str, int]  #: by side, how many the distances are of
    reason: str = ""  #: why there are no distances


WORDS_OF: dict[str, Callable[[Example], Sequence[str]]] = {
    "words": lambda example: words(example.text),
    "parts of speech": lambda example: [tag for tag in example.parse.tags if tag] if example.parse else (),
    "relations": lambda example: example.parse.relations if example.parse else (),
}


def domain_shift(subject: Subject) -> DomainShift:
    """Compare both sides of an analysis; what needs labels, where both have them."""
    sides = subject.sides().values()
    items: dict[str, list[list[Counter[str]]]] = {
        name: [[Counter(read(example)) for example in side.examples] for side in sides]
        for name, read in WORDS_OF.items()
    }
    items["labels"] = [[labels_of(record) for record in side.labelled] for side in sides]
    kinds = sorted({span.type for side in sides for record in side.labelled for span in record.spans or ()})
    for kind in kinds:
        items[f"{kind} terms"] = [[Counter(terms_of(record, kind)) for record in side.labelled] for side in sides]
    compared = {name: comparison for name, counts in items.items() if (comparison := compare(*counts)) is not None}
    source, target = ([len(words(example.text)) for example in side.examples] for side in sides)
    lengths = None
    if source and target:
        lengths = Lengths(float(median(source)), float(median(target)), cliffs_delta(source, target)[0])
    distances = _distances(subject) if not subject.unreadable else {}
    few = f"fewer than {FEWEST_TEXTS} texts of a domain: too few for a classifier of domains"
    layers = layer_names(len(distances["after"])) if distances else ()
    texts = {name: len(side.examples) for name, side in subject.sides().items()}
    return DomainShift(compared, lengths, layers, distances, texts, "" if distances else subject.unreadable or few)


def labels_of(record: Record) -> Counter[str]:
    """A text's class; of a text with spans, how many words are part of each type, and how many of none.

    >>> from domadapt.data.records import Span
    >>> dict(labels_of(Record("1", "laptop", "A fast drive", spans=(Span(7, 12, "aspect"),))))
    {'aspect': 1, 'no span': 2}
    """
    if record.spans is None:
        return Counter([record.label] if record.label is not None else [])
    kinds = Counter[str]()
    for span in record.spans:
        kinds[span.type] += len(words(record.text[span.start : span.end]))
    kinds["no span"] = max(0, len(words(record.text)) - kinds.total())
    return +kinds


def _distances(subject: Subject) -> dict[str, tuple[float, ...]]:
    result: dict[str, tuple[float, ...]] = {}
    for model, session in subject.models().items():
        sides, size = subject.sides().items(), subject.batch_size
        source, target = (text_states(session, side.examples, size, f"{model}, {name}") for name, side in sides)
        distances = [proxy_a_distance(a, b, subject.seed) for a, b in zip(source, target)]
        result[model] = tuple(value for value in distances if value is not None)
    return result if all(result.values()) else {}


def text_states(session: Session, examples: Sequence[Example], size: int, title: str) -> list[NDArray[np.float32]]:
    """By layer (texts, width), the mean of each text's pieces."""
    order, by_layer = list[int](), list[list[torch.Tensor]]()
    for batch, layers in every_layer(session, examples, size, title):
        order += batch.index.tolist()
        by_layer = by_layer or [[] for _ in layers]
        for layer, states in zip(by_layer, layers, strict=True):
            layer.append(batch.text_states(states).cpu())
    back = np.argsort(order)
    return [torch.cat(layer).numpy()[back] for layer in by_layer]
