"""Is there a gap to close? A bag of words trained on the source, against one trained on target labels.

Where the first is as good as the second, the target's labels add nothing that a simple model can see, and a
benchmark of adaptation measures noise.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domadapt.auditing.finding import SIDES, Finding, Parts, shown
from domadapt.data.texts import identity, words

Labels = Sequence[str] | NDArray[Any]

FEWEST: Final = 40  # labelled texts a domain
MOST: Final = 4000  # labelled texts read of a domain
FOLDS: Final = 5
RESAMPLES: Final = 500
LONGEST: Final = 20_000  # characters read of a text


def gap(parts: Parts, seed: int = 1) -> Iterator[Finding]:
    """Macro F1 of a bag of words across domains and in-domain, on the same target texts, with the gap's interval."""
    data = [_labelled(parts, side, seed) for side in SIDES]
    (source_texts, source_labels), (target_texts, target_labels) = data
    classes = sorted(set(source_labels) & set(target_labels))
    if len(classes) < 2 or any(min(Counter(labels)[c] for c in classes) < FOLDS for _, labels in data):
        return
    if min(len(source_texts), len(target_texts)) < FEWEST:
        return
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    bag = _bag_of_words()
    x = bag.fit_transform(source_texts)
    at_home = cross_val_predict(_classifier(seed), x, source_labels, cv=folds)
    across = _classifier(seed).fit(x, source_labels).predict(bag.transform(target_texts))
    # The bag sees no label, so that folds may share it.
    in_domain = cross_val_predict(
        _classifier(seed), _bag_of_words().fit_transform(target_texts), target_labels, cv=folds
    )
    home = macro_f1(source_labels, at_home, sorted(set(source_labels)))
    names = sorted(set(target_labels))
    reached, ceiling = (macro_f1(target_labels, found, names) for found in (across, in_domain))
    low, high = _interval(target_labels, across, in_domain, names, seed)
    none = low <= 0
    yield Finding(
        "gap",
        "severe" if none and reached >= ceiling else "warning" if none else "note",
        min(1.0, max(0.0, 1 - max(ceiling - reached, 0.0) * 5)) if none else 0.0,
        f"{'No gap to close is shown' if none else 'There is a gap to close'} from {shown(parts.source)} to "
        f"{shown(parts.target)}: on the same {len(target_texts)} target texts a bag of words reaches macro F1 "
        f"{reached:.3f} trained on {len(source_texts)} source texts, and {ceiling:.3f} cross-validated on target "
        f"labels (gap {ceiling - reached:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}); {home:.3f} at home on the "
        f"source." + (" Gains on this pair say nothing about adaptation." if none else ""),
        {"across": reached, "in_domain": ceiling, "gap": ceiling - reached, "low": low, "high": high, "source": home},
    )


def macro_f1(gold: Labels, found: Labels, names: Sequence[str]) -> float:
    """Mean F1 of the classes that the gold labels hold.

    >>> round(macro_f1(["a", "a", "b", "b"], ["a", "a", "b", "a"], ["a", "b"]), 3)
    0.733
    """
    a, b = np.asarray(gold), np.asarray(found)
    hits = [2 * ((a == n) & (b == n)).sum() / max(1, (a == n).sum() + (b == n).sum()) for n in names]
    return float(np.mean(hits))


def _labelled(parts: Parts, side: str, seed: int) -> tuple[list[str], list[str]]:
    """Labelled texts of a domain, none twice: a copy in another fold would be no test."""
    distinct = {identity(r.text): r for r in parts.records(side) if r.label is not None}
    records = list(distinct.values())
    if len(records) > MOST:
        chosen = np.random.default_rng(seed).permutation(len(records))[:MOST]
        records = [records[i] for i in sorted(chosen.tolist())]
    return [r.text[:LONGEST] for r in records], [str(r.label) for r in records]


def _bag_of_words() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        tokenizer=words,
        token_pattern=None,
        lowercase=False,
        sublinear_tf=True,
        ngram_range=(1, 2),
        max_features=100_000,
    )


def _classifier(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    # Balanced, so that a source of mostly one label is not seen as a gap: that is the label shift, told elsewhere.
    return OneVsRestClassifier(
        LogisticRegression(C=10.0, solver="liblinear", class_weight="balanced", random_state=seed)
    )


def _interval(gold: Labels, across: Labels, in_domain: Labels, names: Sequence[str], seed: int) -> tuple[float, float]:
    """95 % interval of the gap over target texts, by a paired bootstrap."""
    rng = np.random.default_rng(seed)
    a, b, c = np.asarray(gold), np.asarray(across), np.asarray(in_domain)
    gaps = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(0, len(a), len(a))
        gaps.append(macro_f1(a[drawn], c[drawn], names) - macro_f1(a[drawn], b[drawn], names))
    low, high = np.percentile(gaps, [2.5, 97.5])
    return float(low), float(high)
