"""How far domains are apart in each layer.

Proxy A-distance: how well a linear classifier tells two domains apart by a model's states.

Ben-David et al. 2007 (https://papers.nips.cc/paper/2983); Glorot et al. 2011 found it higher, not lower, where adapted
representations transfer better: it measures what can be seen, not what harms.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from domadapt.analysis.compare import Compared, compare
from domadapt.analysis.subject import Side, Subject, every_layer, layer_names, of_texts
from domadapt.auditing.shift import LONGEST, SHORT, cliffs_delta, path_counts
from domadapt.data.batches import Example
from domadapt.data.records import Record
from domadapt.data.texts import words
from domadapt.methods.session import Session

FOLDS: Final = 5
SHRINK: Final = 0.01  # strong: there may be as many dimensions as texts
FEWEST: Final = 20  # texts of each domain


def proxy_a_distance(source: NDArray[Any], target: NDArray[Any], seed: int = 1) -> float | None:
    """2 (1 - 2e), e the classifier's share of mistakes on held-out texts: 0 for chance, 2 where it makes none.

    As many texts of each domain, so that chance is a half; at less than chance, 0.

    Args:
        source, target: (texts, width).

    Returns:
        None for fewer than 20 texts of one domain.

    >>> left, right = np.zeros((40, 2)), np.ones((60, 2))
    >>> proxy_a_distance(left, right), proxy_a_distance(left, left), proxy_a_distance(left[:9], right)
    (2.0, 0.0, None)
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    size = min(len(source), len(target))
    if size < FEWEST:
        return None
    random = np.random.default_rng(seed)
    points = np.concatenate([side[random.permutation(len(side))[:size]] for side in (source, target)])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=SHRINK, max_iter=500))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    right = cross_val_score(model, points.astype(np.float64), np.repeat([0, 1], size), cv=folds).mean()
    return max(0.0, float(2 * (1 - 2 * (1 - right))))


MOST_LABELLED: Final = 2000  # records of a domain that are parsed for paths
NEITHER: Final = "no span"  # words that are part of none


@dataclass(frozen=True, slots=True)
class Lengths:
    """Words a text.

    Attributes:
        source, target: medians.
        delta: Cliff's, how much oftener a target text is the longer one: -1 to 1.
    """

    source: float
    target: float
    delta: float


@dataclass(frozen=True, slots=True)
class DomainShift:
    """What moves from source to target.

    Attributes:
        compared: kinds of items in both domains, by name: ``words``, ``parts of speech``, ``relations``; where labels
            are known ``labels``, ``TYPE terms``, ``opinion-aspect paths``, and the short ones of these, which published
            numbers are of. Those are left out that one domain lacks.
        lengths: None where a domain has no text.
        layers: their names, the embeddings first.
        a_distances: by model (``before``, ``after``), of each layer; empty where there are too few texts,
            or layers can't be read.
        texts: by side, how many the distances are of.
        reason: why there are no distances; empty where there are.
    """

    compared: dict[str, Compared]
    lengths: Lengths | None
    layers: tuple[str, ...]
    a_distances: dict[str, tuple[float, ...]]
    texts: dict[str, int]
    reason: str = ""


def domain_shift(subject: Subject) -> DomainShift:
    """Compare both sides of an analysis; what needs labels, where both have them.

    Args:
        subject: both models, and texts with their parses and, where known, labels.
    """
    sides = [*subject.sides().values()]
    counted: dict[str, list[list[Counter[str]]]] = {
        name: [[Counter(read(example)) for example in side.examples] for side in sides] for name, read in READ.items()
    }
    counted["labels"] = [[labels_of(record) for record in side.labelled] for side in sides]
    kinds = sorted({span.type for side in sides for record in side.labelled for span in record.spans or ()})
    for kind in kinds:
        counted[f"{kind} terms"] = [[terms_of(record, kind) for record in side.labelled] for side in sides]
    if {"aspect", "opinion"} <= {*kinds}:
        ways = [_paths(subject, side) for side in sides]
        for name, longest in (("opinion-aspect paths", LONGEST), (f"those of up to {SHORT} arcs", SHORT)):
            counted[name] = [[_short(one, longest) for one in side] for side in ways]
    found = {name: compare(*both) for name, both in counted.items()}
    distances, names = _distances(subject) if not subject.unreadable else ({}, ())
    few = f"fewer than {FEWEST} texts of a domain: too few for a classifier of domains"
    return DomainShift(
        {name: one for name, one in found.items() if one is not None},
        lengths([len(words(example.text)) for example in side.examples] for side in sides),
        names,
        distances,
        {name: len(side.examples) for name, side in subject.sides().items()},
        "" if distances else subject.unreadable or few,
    )


READ: dict[str, Callable[[Example], Sequence[str]]] = {
    "words": lambda example: words(example.text),
    "parts of speech": lambda example: [tag for tag in example.parse.tags if tag] if example.parse else (),
    "relations": lambda example: example.parse.relations if example.parse else (),
}


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
    kinds[NEITHER] = max(0, len(words(record.text)) - kinds.total())
    return +kinds


def terms_of(record: Record, kind: str) -> Counter[str]:
    """Terms of one type, in lower case.

    >>> from domadapt.data.records import Span
    >>> dict(terms_of(Record("1", "laptop", "A fast Drive", spans=(Span(7, 12, "aspect"),)), "aspect"))
    {'drive': 1}
    """
    spans = [span for span in record.spans or () if span.type == kind]
    return Counter(" ".join(words(record.text[span.start : span.end])) for span in spans)


def lengths(sides: Iterable[list[int]]) -> Lengths | None:
    """Words a text, of source and target.

    >>> lengths([[3, 4, 5], [6, 7, 8]])
    Lengths(source=4.0, target=7.0, delta=1.0)
    """
    source, target = sides
    if not source or not target:
        return None
    return Lengths(float(median(source)), float(median(target)), cliffs_delta(source, target)[0])


def _paths(subject: Subject, side: Side) -> list[Counter[tuple[str, ...]]]:
    """Of each labelled text, paths from opinions to their nearest aspects."""
    both = [r for r in side.labelled if {"aspect", "opinion"} <= {span.type for span in r.spans or ()}][:MOST_LABELLED]
    return [path_counts([record], [parse]) for record, parse in zip(both, subject.parser.parse(both), strict=True)]


def _short(paths: Counter[tuple[str, ...]], longest: int) -> Counter[str]:
    return Counter({" ".join(way): count for way, count in paths.items() if len(way) <= longest})


def _distances(subject: Subject) -> tuple[dict[str, tuple[float, ...]], tuple[str, ...]]:
    result: dict[str, tuple[float, ...]] = {}
    for model, session in subject.models().items():
        source, target = (
            text_states(session, side.examples, subject.batch_size, f"{model}, {name}")
            for name, side in subject.sides().items()
        )
        found = [proxy_a_distance(a, b, subject.seed) for a, b in zip(source, target)]
        if not found or any(value is None for value in found):
            return {}, ()
        result[model] = tuple(value for value in found if value is not None)
    return result, layer_names(len(found))


def text_states(
    session: Session, examples: Sequence[Example], batch_size: int, title: str
) -> list[NDArray[np.float32]]:
    """By layer (texts, width), the mean of each text's pieces."""
    order, found = list[int](), list[list[torch.Tensor]]()
    for batch, layers in every_layer(session, examples, batch_size, title):
        order += batch.index.tolist()
        found = found or [[] for _ in layers]
        for layer, states in zip(found, layers, strict=True):
            layer.append(of_texts(batch, states).cpu())
    back = np.argsort(order)
    return [torch.cat(layer).numpy()[back] for layer in found]
