"""What differs between domains: words, terms, labels, lengths; and whether that leaves a gap to close."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
from scipy.stats import PermutationMethod, chi2_contingency, mannwhitneyu

from domadapt.auditing.finding import TEST, TRAIN, UNLABELLED, Finding, Parts, item_list
from domadapt.config.resolvers import SIDES
from domadapt.data.records import Record
from domadapt.data.texts import copy_key, sampled, words
from domadapt.statistics.items import Answer, ItemCounts, count_items
from domadapt.statistics.resampling import resampled_scores
from domadapt.utils.text import percent, shortened

UNSEEN: Final = 0.2  # of the target's running words: from here on it is worth a warning


def vocabulary(parts: Parts) -> Iterator[Finding]:
    """Words, and terms of each span type, that source and target share.

    Published for comparison: of the occurrences of aspect terms, devices, laptops and restaurants share 7 to 12 % with
    each other, devices and laptops 42 % (Klein et al. 2022).
    """
    texts = [[text for part in parts.texts if part.side == side for text in part.words] for side in SIDES]
    source, target = (Counter(word for text in domain_texts for word in text) for domain_texts in texts)
    here, there = parts.domains.values()
    if not source or not target:
        return
    types, tokens, missed = overlap(source, target)
    text = (
        f"{percent(types)} of the {len(target)} different words of {there} occur in {here}, and {percent(tokens)} of "
        f"its running words. Commonest that don't: {item_list(missed[:8], 20)}."
    )
    numbers = {"types": types, "tokens": tokens, "jaccard": len(source.keys() & target.keys()) / len(source | target)}
    yield Finding("vocabulary", "note" if 1 - tokens < UNSEEN else "warning", 1 - tokens, text, numbers)
    records = [parts.records(side) for side in SIDES]
    kinds = [{span.type for record in side for span in record.spans or ()} for side in records]
    for kind in sorted(kinds[0] & kinds[1]):
        known, new = (Counter(term for record in side for term in terms_of(record, kind)) for side in records)
        types, tokens, missed = overlap(known, new)
        common = len(known.keys() & new.keys()) / len(known.keys() | new.keys())
        seen = sum(count for term, count in new.items() if all(w in source for w in term.split())) / new.total()
        text = (
            f"Of the {len(new)} different {shortened(kind, 30)} terms of {there}, {percent(types)} are terms of {here} "
            f"too, which is {percent(tokens)} of their occurrences ({percent(common)} of the different terms of both); "
            f"{percent(seen)} of the occurrences are made of words that the source's texts hold. Commonest new ones: "
            f"{item_list(missed[:6])}."
        )
        numbers = {"types": types, "tokens": tokens, "jaccard": common, "words_seen": seen, "terms": len(new)}
        yield Finding("terms", "note", 1 - tokens, text, numbers)


def terms_of(record: Record, kind: str) -> list[str]:
    """Spans of a type, in lower-case words."""
    spans = [span for span in record.spans or () if span.type == kind]
    return [" ".join(words(record.text[span.start : span.end])) for span in spans]


def overlap(source: Counter[Any], target: Counter[Any]) -> tuple[float, float, list[Any]]:
    """Share of the target's different items, and of all their occurrences, that the source has too; the commonest new.

    >>> overlap(Counter("aab"), Counter("accc"))
    (0.5, 0.25, ['c'])
    """
    shared = source.keys() & target.keys()
    new = [item for item, _ in target.most_common() if item not in shared]
    return len(shared) / max(1, len(target)), sum(target[i] for i in shared) / max(1, target.total()), new


SURE: Final = 0.01  # p-value above which a difference is not told
# Cramér's V of a table with two domains (Cohen 1988: 0.1 small, 0.3 medium); Cliff's delta (Romano et al. 2006).
SMALL_V: Final = 0.1
SMALL_DELTA: Final = 0.147
MEDIUM_DELTA: Final = 0.33
FEW_TEXTS: Final = 10
PERMUTATIONS: Final = 9999


def cramers_v(table: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Cramér's V of a contingency table whose rows weigh the same, and the p-value of Pearson's chi-squared test.

    >>> v, p = cramers_v([[30, 10], [10, 30]])
    >>> round(v, 2), p < 0.001, round(cramers_v([[3000, 1000], [10, 30]])[0], 2)
    (0.5, True, 0.5)
    """
    counts = np.asarray(table)
    shares: Any = chi2_contingency(counts / counts.sum(1, keepdims=True), correction=False)
    test: Any = chi2_contingency(counts, correction=False)
    return float(np.sqrt(shares.statistic / (len(counts) * (min(counts.shape) - 1)))), float(test.pvalue)


def cliffs_delta(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """How much oftener the second's values are greater (-1 to 1), and the p-value of Mann and Whitney's test.

    Of two values each at least. Where one side has few, values change sides at random: no normal distribution fits.

    >>> delta, p = cliffs_delta([1] * 50, [2, 2])
    >>> delta, round(p, 4)
    (1.0, 0.0015)
    """
    few = min(len(first), len(second)) < FEW_TEXTS
    method = PermutationMethod(n_resamples=PERMUTATIONS, rng=1) if few else "auto"
    result: Any = mannwhitneyu(second, first, method=method)
    return float(2 * result.statistic / (len(first) * len(second)) - 1), float(result.pvalue)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def shift(parts: Parts) -> Iterator[Finding]:
    """Shift of labels, of spans a text, of words a text; and words a text between parts of one domain."""
    here, there = parts.domains.values()
    source, target = (_labels(parts.records(side)) for side in SIDES)
    if source and target:
        unknown = sorted(target.keys() - source.keys())
        missed = sum(target[label] for label in unknown)
        if unknown:
            lost = f"carry labels that no text of {here} has ({item_list(unknown[:5])}): the source can't teach them."
            text, numbers = f"{missed} labelled texts of {there} {lost}", {"texts": missed, "of": target.total()}
            yield Finding("label shift", "severe", missed / target.total(), text, numbers)
        yield from _label_shift(here, source, there, target, always=True)
    for side in SIDES:
        counts = {f"the {part.name}": _labels(part.records) for part in parts.labelled[side]}
        for a, b in combinations([name for name in counts if counts[name]], 2):
            yield from _label_shift(a, counts[a], b, counts[b], always=False)
    yield from _spans(parts)
    yield from _lengths(parts)


def _labels(records: Iterable[Record]) -> Counter[str]:
    return Counter(str(record.label) for record in records if record.label is not None)


def _label_shift(name: str, first: Counter[str], other: str, second: Counter[str], always: bool) -> Iterator[Finding]:
    labels = sorted(first.keys() | second.keys())
    if len(labels) < 2:
        return
    effect, p = cramers_v([[count[label] for label in labels] for count in (first, second)])
    moved = p < SURE and effect >= SMALL_V
    if not moved and not always:
        return
    shares = {label: (first[label] / first.total(), second[label] / second.total()) for label in labels}
    most = sorted(labels, key=lambda label: -abs(shares[label][0] - shares[label][1]))[:4]
    changes = ", ".join(f"{shortened(n, 30)} {percent(shares[n][0])} against {percent(shares[n][1])}" for n in most)
    verb, grade = ("shift", "warning") if moved else ("hardly shift", "note")
    text = f"Labels {verb} from {name} to {other}: {changes} (Cramér's V {effect:.2f}, p {_p(p)})."
    text += " Part of any loss is this: report macro F1, and accuracy only beside it." if moved else ""
    sides = SIDES if always else [part.removeprefix("the ") for part in (name, other)]  # of one domain
    numbers = {f"{shortened(n, 30)} {side}": share for n in most for side, share in zip(sides, shares[n], strict=True)}
    yield Finding("label shift", grade, effect, text, {"cramers_v": effect, "p": p} | numbers)


def _spans(parts: Parts) -> Iterator[Finding]:
    here, there = parts.domains.values()
    annotated = [[r.spans for r in parts.records(side) if r.spans is not None] for side in SIDES]
    if not all(annotated):
        return
    kinds = [sorted({s.type for spans in side for s in spans}) for side in annotated]
    unknown = [kind for kind in kinds[1] if kind not in kinds[0]]
    if unknown:
        text = f"{there} has span types that {here} lacks ({item_list(unknown[:5])}): the source can't teach them."
        yield Finding("label shift", "severe", 1.0, text, {"types": len(unknown)})
    if min(map(len, annotated)) < 2:
        return
    for kind in (kind for kind in kinds[0] if kind in kinds[1]):
        counts = [[sum(s.type == kind for s in spans) for spans in side] for side in annotated]
        effect, p = cliffs_delta(*counts)
        means = [float(np.mean(count)) for count in counts]
        without = [float(np.mean(np.array(count) == 0)) for count in counts]
        text = (
            f"{shortened(kind, 30)} spans per text: {means[0]:.2f} in {here}, {means[1]:.2f} in {there}; texts without "
            f"one {percent(without[0])} against {percent(without[1])} (Cliff's delta {effect:+.2f}, p {_p(p)})."
        )
        numbers = dict(zip((*SIDES, "without_source", "without_target"), (*means, *without), strict=True))
        grade = "warning" if p < SURE and abs(effect) >= SMALL_DELTA else "note"
        yield Finding("label shift", grade, abs(effect), text, numbers | {"cliffs_delta": effect, "p": p})


def _lengths(parts: Parts) -> Iterator[Finding]:
    for a, b in parts.couples((TRAIN, UNLABELLED), (UNLABELLED, TEST), (TRAIN, TEST)):
        lengths = [[float(len(text)) for text in part.words] for part in (a, b)]
        if min(map(len, lengths)) < 2:
            continue
        effect, p = cliffs_delta(*lengths)
        middle = [int(np.median(length)) for length in lengths]
        least = SMALL_DELTA if a.side == b.side else MEDIUM_DELTA
        grade = "warning" if p < SURE and abs(effect) >= least else "note"
        medians = f"{middle[0]} in the {a.name}, {middle[1]} in the {b.name}"
        text = f"Words per text, median: {medians} (Cliff's delta {effect:+.2f}, p {_p(p)})."
        numbers = {"first": middle[0], "second": middle[1], "cliffs_delta": effect, "p": p}
        yield Finding("length shift", grade, abs(effect), text, numbers)


FEWEST_TEXTS: Final = 40  # labelled texts a domain
MOST_TEXTS: Final = 4000  # labelled texts read of a domain
READ_CHARACTERS: Final = 20_000  # characters of a text
FOLDS: Final = 5


def gap(parts: Parts, seed: int = 1) -> Iterator[Finding]:
    """Macro F1 of a bag of words across domains and in-domain, on the same target texts, with the gap's interval.

    Where a bag trained on the source is as good as one trained on target labels, these add nothing that a simple model
    can see, and a benchmark of adaptation measures noise. From less than half as many texts, the latter does not tell.
    """
    (texts, labels), (target_texts, target_labels) = data = [_labelled(parts, side, seed) for side in SIDES]
    classes = sorted({*labels} & {*target_labels})
    if len(classes) < 2 or any(min(Counter(labelled)[c] for c in classes) < FOLDS for _, labelled in data):
        return
    if min(len(texts), len(target_texts)) < FEWEST_TEXTS:
        return
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.multiclass import OneVsRestClassifier

    # Balanced, so that a source of mostly one label is not seen as a gap: that is the label shift, told elsewhere.
    logistic: Any = LogisticRegression(C=10.0, solver="liblinear", class_weight="balanced", random_state=seed)
    model = OneVsRestClassifier(logistic)
    # It sees no label, so that folds may share it.
    reads: Any = {"tokenizer": words, "token_pattern": None, "lowercase": False}
    bag = TfidfVectorizer(**reads, sublinear_tf=True, ngram_range=(1, 2), max_features=100_000)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    x = bag.fit_transform(texts)
    at_home = _predicted(texts, labels, cross_val_predict(model, x, labels, cv=folds)).score
    across = model.fit(x, labels).predict(bag.transform(target_texts))
    in_domain = cross_val_predict(model, bag.fit_transform(target_texts), target_labels, cv=folds)
    counts = [_predicted(target_texts, target_labels, predicted) for predicted in (across, in_domain)]
    reached, ceiling = (items.score for items in counts)
    from_source, from_target = resampled_scores(counts).T
    low, high = map(float, np.percentile(from_target - from_source, [2.5, 97.5]))
    few = low <= 0 and len(target_texts) * (FOLDS - 1) / FOLDS < len(texts) / 2
    none = low <= 0 and not few
    opening = "No gap to close is shown" if none else "There is a gap to close"
    text = (
        f"{'Too few target labels to tell a gap' if few else opening} from {parts.domains['source']} to "
        f"{parts.domains['target']}: on the same {len(target_texts)} target texts a bag of words reaches macro F1 "
        f"{reached:.3f} trained on {len(texts)} source texts, and {ceiling:.3f} cross-validated on target "
        f"labels (gap {ceiling - reached:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}); {at_home:.3f} at home on the "
        f"source." + (" Gains on this pair say nothing about adaptation." if none else "")
    )
    numbers = {"across": reached, "in_domain": ceiling, "gap": ceiling - reached, "low": low, "high": high}
    grade = "severe" if none and reached >= ceiling else "warning" if none else "note"
    weight = min(1.0, max(0.0, 1 - max(ceiling - reached, 0.0) * 5)) if none else 0.0
    yield Finding("gap", grade, weight, text, numbers | {"source": at_home})


def _predicted(texts: Sequence[str], gold: Sequence[str], predicted: Sequence[str]) -> ItemCounts:
    labels = (({wanted}, {found}) for wanted, found in zip(gold, predicted, strict=True))
    answers = [Answer(str(i), text, *both) for i, (text, both) in enumerate(zip(texts, labels, strict=True))]
    return count_items(answers, sorted({*gold}), "present")


def _labelled(parts: Parts, side: str, seed: int) -> tuple[list[str], list[str]]:
    """Labelled texts of a domain, none twice: a copy in another fold would be no test."""
    distinct = {copy_key(r.text): r for r in parts.records(side) if r.label is not None}
    records = sampled([*distinct.values()], MOST_TEXTS, seed)
    return [r.text[:READ_CHARACTERS] for r in records], [str(r.label) for r in records]
