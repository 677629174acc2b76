"""Labels that a cue gives away, and annotation that contradicts itself."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from domadapt.auditing.finding import SIDES, TARGET_TRAIN, TEST, TRAIN, UNLABELLED, Finding, Part, Parts, percent, shown
from domadapt.data.records import Record
from domadapt.data.texts import without_tokenisation

MOST: Final = 1500  # texts a side
FEWEST: Final = 40
LONGEST: Final = 1000  # characters read of a text
FOLDS: Final = 5
TOP: Final = 8
ALIKE: Final = 0.7  # area under the curve from which parts of one domain were not prepared alike
REVEALED: Final = 0.85  # the same, beyond doubt
SEPARATE: Final = 0.85  # the same between domains, where habits may differ


def shape(text: str) -> str:
    """A text without its letters.

    >>> shape("The F-150 isn't fast .")
    "Aa A-0 a'a a ."
    """
    kinds = ("0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)
    return re.sub(r"(.)\1+", r"\1", re.sub(r"a+", "a", "".join(kinds)))


VARIANTS: Final[dict[str, Callable[[str], str]]] = {
    "as given": lambda text: text,
    "lower-cased": str.lower,
    "without tokenisation": without_tokenisation,
    "both": lambda text: without_tokenisation(text.lower()),
}


@dataclass(frozen=True, slots=True)
class Separation:
    """What a domain classifier learns when it can see no topic: a small one is trained, and asked what it went by.

    Texts are reduced to their shape: a run of small letters is ``a``, one of capitals ``A``, digits are ``0``, spaces
    and marks stay. If that is enough to tell two parts apart, then an adversarial method can learn the tokeniser or
    the shift key, and make features alike in nothing else. The same is done with words, for comparison, and again with
    case, with tokenisation, and with both taken from the two sides. (2 - 4 × error is the proxy A-distance of
    Ben-David et al. 2007.)

    Attributes:
        auc: area under the ROC curve, cross-validated; 0.5 is chance.
        accuracy: of the same predictions, on as many texts of either part.
        first, second: features that speak most for either part.
    """

    auc: float
    accuracy: float
    first: tuple[str, ...]
    second: tuple[str, ...]


def separation(first: Sequence[str], second: Sequence[str], of_words: bool, seed: int = 1) -> Separation:
    """Train and cross-validate a logistic regression that tells two sets of texts apart.

    Args:
        of_words: read words; else character n-grams of the texts' shape.

    >>> separation(["so it is ."] * 50, ["so it is."] * 50, of_words=False).auc
    1.0
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    vectorizer: Any = (
        TfidfVectorizer(lowercase=False, token_pattern=r"\S+", sublinear_tf=True, max_features=20_000)
        if of_words
        else TfidfVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False, max_features=2_000)
    )
    texts = [*first, *second] if of_words else [shape(text) for text in (*first, *second)]
    y = np.array([0] * len(first) + [1] * len(second))
    x = vectorizer.fit_transform(texts)  # once, and not in every fold: it sees no label
    model: Any = LogisticRegression(C=10.0, solver="liblinear", random_state=seed)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    score = cross_val_predict(model, x, y, cv=folds, method="predict_proba")[:, 1]
    names = vectorizer.get_feature_names_out()
    weights = model.fit(x, y).coef_[0]
    order = np.argsort(weights, kind="stable")
    return Separation(
        float(roc_auc_score(y, score)),
        float(accuracy_score(y, score >= 0.5)),
        tuple(str(names[i]) for i in order[:TOP] if weights[i] < 0),
        tuple(str(names[i]) for i in order[::-1][:TOP] if weights[i] > 0),
    )


def sample(first: Part, second: Part, seed: int) -> tuple[list[str], list[str]] | None:
    """As many texts of either part, no text twice; None if they are too few to judge by."""
    rng = np.random.default_rng(seed)
    distinct = [dict(zip(part.keys, part.records, strict=True)) for part in (first, second)]
    shared = distinct[0].keys() & distinct[1].keys()
    texts = [[r.text[:LONGEST] for key, r in side.items() if key not in shared] for side in distinct]
    count = min(MOST, *map(len, texts))
    if count < FEWEST:
        return None
    chosen = [[side[i] for i in sorted(rng.permutation(len(side))[:count].tolist())] for side in texts]
    return chosen[0], chosen[1]


def artefacts(parts: Parts, seed: int = 1) -> Iterator[Finding]:
    """Domain classifiers between source and target, and between parts of the target that should be alike."""
    for a, b in ((TRAIN, UNLABELLED), (UNLABELLED, TEST), (UNLABELLED, TARGET_TRAIN), (TRAIN, TEST)):
        first, second = parts.get(a), parts.get(b)
        if first is None or second is None or ((a, b) == (TRAIN, TEST) and parts.get(UNLABELLED) is not None):
            continue
        chosen = sample(first, second, seed)
        if chosen is None:
            yield Finding(
                "artefacts", "note", 0.0, f"{a} and {b} have fewer than {FEWEST} texts a side: no domain classifier."
            )
            continue
        yield _finding(first, second, chosen, seed)


def _finding(first: Part, second: Part, chosen: tuple[list[str], list[str]], seed: int) -> Finding:
    marks, topics = (
        {
            name: separation([change(t) for t in chosen[0]], [change(t) for t in chosen[1]], of_words, seed)
            for name, change in VARIANTS.items()
        }
        for of_words in (False, True)
    )
    as_given, left = marks["as given"], marks["both"]
    beyond = max(as_given.auc - 0.5, 1e-9)
    explained = {name: min(max((as_given.auc - found.auc) / beyond, 0.0), 1.0) for name, found in marks.items()}
    one_domain = first.side == second.side
    severity = "note"
    if one_domain and as_given.auc >= ALIKE:
        severity = "severe" if as_given.auc >= REVEALED else "warning"
    elif not one_domain and as_given.auc >= SEPARATE:
        severity = "warning"
    text = (
        f"Without seeing a word, by case, marks and spacing alone, a classifier tells {first.name} from {second.name} "
        f"with AUC {as_given.auc:.3f} (accuracy {percent(as_given.accuracy)}; chance is 0.5). With both lower-cased "
        f"it is {marks['lower-cased'].auc:.3f}, with the tokenisation undone {marks['without tokenisation'].auc:.3f}, "
        f"with both {left.auc:.3f}"
    )
    if as_given.auc >= 0.6:
        text += f": {percent(explained['both'])} of what the surface reveals is case or tokenisation"
    text += (
        f". By words: {topics['as given'].auc:.3f}, and {topics['both'].auc:.3f} with both undone "
        f"(accuracy {percent(topics['both'].accuracy)})."
    )
    if severity != "note":
        text += " A domain classifier, and a distance between domains, would learn this before any topic."
    numbers = {f"{kind} {name} {what}": getattr(found, what)
               for kind, all_of in (("surface", marks), ("words", topics))
               for name, found in all_of.items() for what in ("auc", "accuracy")}  # fmt: skip
    return Finding(
        "artefacts",
        severity,
        2 * (as_given.auc - 0.5) if as_given.auc > 0.5 else 0.0,
        text,
        {**numbers, **{f"explained by {name}": share for name, share in explained.items() if name != "as given"}},
        (
            f"{first.name}, surface: {_features(as_given.first)}",
            f"{second.name}, surface: {_features(as_given.second)}",
            f"{first.name}, words: {_features(topics['both'].first)}",
            f"{second.name}, words: {_features(topics['both'].second)}",
        ),
    )


def _features(names: tuple[str, ...]) -> str:
    return " ".join(f"‹{shown(name, 20)}›" for name in names) or "none"


# Where tags tell B from I, one pair of neighbours of a type touches for every 6 to 20 pairs with one word between them
# (aspects and opinions of devices, laptops, restaurants). At 1 in 20, 90 such pairs leave none touching once in 100
# times. Aspects alone touch less: never in 176 such pairs of laptops, 3 times in 386 of restaurants. So this is a
# question to the owner and no proof, unless spans of different types do touch.
ENOUGH: Final = 90
MANY: Final = 0.2  # share of sentences without a span from which leaving them out changes the task


def annotation(parts: Parts) -> Iterator[Finding]:
    """Merged neighbours, and texts without spans, in each domain."""
    for side in SIDES:
        records = [record for record in parts.records(side) if record.spans is not None]
        if records and any(record.spans for record in records):
            name = parts.source if side == "source" else parts.target
            yield from _merged(records, name)
    yield from _empty(parts)


def gaps(records: Sequence[Record], one_type: bool = True) -> Counter[int]:
    """How many words stand between two spans, of one type or of two, that follow each other.

    >>> from domadapt.data.records import Span
    >>> record = Record("1", "d", "food and drinks", spans=(Span(0, 4, "aspect"), Span(9, 15, "aspect")))
    >>> gaps([record])
    Counter({1: 1})
    """
    found = Counter[int]()
    for record in records:
        spans = sorted(record.spans or (), key=lambda span: (span.start, span.end))
        for first, second in pairwise(spans):
            if (first.type == second.type) == one_type:
                found[len(record.text[first.end : second.start].split())] += 1
    return found


def _merged(records: Sequence[Record], name: str) -> Iterator[Finding]:
    between = gaps(records)
    if between[0] or between[1] < ENOUGH:
        return
    others = gaps(records, one_type=False)[0]
    evidence = (
        f"spans of different types do ({others} times), so neighbours of one type were most likely merged"
        if others
        else "either the texts have no such neighbours, or they were merged"
    )
    yield Finding(
        "annotation",
        "warning",
        min(1.0, between[1] / len(records)),
        f"In {shown(name)}, {between[1]} pairs of spans of one type have a single word between them and not one pair "
        f"touches; {evidence}, as happens where the original tags had no B and I. Exact-span scores then count two "
        f"terms as one: ask the owner, and say so beside a score.",
        {"touching": between[0], "one_word_between": between[1], "different_touching": others},
    )


def _empty(parts: Parts) -> Iterator[Finding]:
    told = {}
    for side in SIDES:
        annotated = [record for record in parts.records(side) if record.spans is not None]
        if annotated and any(record.spans for record in annotated):
            name = parts.source if side == "source" else parts.target
            told[name] = (sum(not record.spans for record in annotated), len(annotated))
    shares = {name: empty / total for name, (empty, total) in told.items()}
    if not told or not any(shares.values()):
        return
    listed = ", ".join(f"{e} of {t} in {shown(name)} ({percent(e / t)})" for name, (e, t) in told.items())
    uneven = max(shares.values()) - min(shares.values())
    yield Finding(
        "annotation",
        "warning" if max(shares.values()) >= MANY else "note",
        max(uneven, max(shares.values())),
        f"Texts without any span: {listed}. Some published works leave them out, which changes precision and the task; "
        f"they are kept here: say so beside a score."
        + (" One domain has hardly any: somebody may have left them out." if min(shares.values()) < 0.02 else ""),
        {f"{shown(name)} {what}": value for name, pair in told.items() for what, value in zip(("empty", "of"), pair)},
    )
