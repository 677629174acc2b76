r"""Weak labels of the target, and how far each is to be trusted: learnt where the true ones are known, on the source.

Terms: opinion words of the source are propagated through the target's dependency trees
(:mod:`domadapt.syntax.double_propagation`). How a noun is found there, how large a share of its type's uses is found by
a rule, and how often it is met, are the features of a logistic regression that is fitted on the source, where the same
propagation is run and the terms are known: what a rule is worth is read off the source, not assumed.

Classes: adjectives that go with a class in the source give their leaning, :math:`\log P(c \mid w) / P(c)`, to those
that they are joined with in the target (rule R4; not by 'but'). A text's sums of leanings are the features of a
logistic regression, fitted on the source's texts, each with leanings that were counted without it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from domadapt.data.records import Record
from domadapt.syntax.double_propagation import JOINED, JUDGED, LISTED, Propagated, links, words_of
from domadapt.syntax.nouns import is_noun
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.path_rules import Rule, linked

SHRINKAGE = 4.0  # uses of an average word that each word is given beside its own
MOSTLY, MET = 0.5, 2  # share of uses from which on a word of the source judges, and uses that it takes
CONTRAST = frozenset({"but", "though", "although", "yet"})
FloatArray = NDArray[np.float64]


def judging_words(
    records: Sequence[Record], parses: Sequence[Parse], kinds: Collection[str], least: int = MET, share: float = MOSTLY
) -> frozenset[str]:
    """Words of the source that judge: in most of their uses they stand in a span of another type than terms have.

    Where the source has no other type, adjectives most of whose related nouns are terms.

    Args:
        records: labelled.
        parses: of them.
        kinds: span types of terms.
        least: uses that it takes.
        share: of a word's uses from which on it judges.
    """
    paired = any(span.type not in kinds for record in records for span in record.spans or ())
    uses, judging = Counter[str](), Counter[str]()
    for record, parse in zip(records, parses, strict=True):
        words = words_of(record, parse)
        if paired:
            told = [(word, within(record, parse, word, kinds, False)) for word in range(len(words))]
        else:
            pairs = [link for link in links(record, parse) if link.kind == "judged"]
            adjectives = [link for link in pairs if parse.tags[link.second].startswith("JJ")]
            told = [(link.second, within(record, parse, link.first, kinds, True)) for link in adjectives]
        for word, judges in told:
            uses[words[word]] += 1
            judging[words[word]] += judges
    return frozenset(w for w, n in uses.items() if n >= least and w.isalpha() and judging[w] > share * n)


def within(record: Record, parse: Parse, word: int, kinds: Collection[str], terms: bool) -> bool:
    """Whether a word overlaps a span of a term, or of anything else."""
    start, end = parse.words[word]
    return any(s.start < end and start < s.end and (s.type in kinds) == terms for s in record.spans or ())


def noun_evidence(texts: Sequence[Text], parses: Sequence[Parse], told: Propagated) -> list[FloatArray]:
    """Of each text (nouns, 5) features of its nouns, in order.

    They are: judged here, joined with a term here, listed; log share of the type's uses that a rule finds, shrunk to
    the domain's; log of its uses.
    """
    uses, ruled = Counter[str](), Counter[str]()
    for text, parse, found in zip(texts, parses, told.found, strict=True):
        words = words_of(text, parse)
        for i in nouns_of(text, parse):
            uses[words[i]] += 1
            ruled[words[i]] += int(found[i] >= JOINED)
    mean = ruled.total() / max(1, uses.total())
    rows = []
    for text, parse, found in zip(texts, parses, told.found, strict=True):
        words = words_of(text, parse)
        rows.append(
            np.array(
                [
                    (
                        found[i] == JUDGED,
                        found[i] == JOINED,
                        found[i] >= LISTED,
                        np.log((ruled[words[i]] + SHRINKAGE * mean + 0.01) / (uses[words[i]] + SHRINKAGE)),
                        np.log(uses[words[i]]),
                    )
                    for i in nouns_of(text, parse)
                ],
                dtype=np.float64,
            ).reshape(-1, 5)
        )
    return rows


def rule_evidence(
    texts: Sequence[Text], parses: Sequence[Parse], opinions: Collection[str], rules: Sequence[Rule]
) -> list[FloatArray]:
    """Of each text (nouns, 1) the precision of the best rule that leads to a noun from one of these words, or 0."""
    precision = {rule.path: rule.precision for rule in rules}
    longest = max(map(len, precision), default=0)
    rows = []
    for text, parse in zip(texts, parses, strict=True):
        best = np.zeros(len(parse.words))
        judging = [i for i, word in enumerate(words_of(text, parse)) if word in opinions]
        for (first, end), _, path in linked(text, parse, judging, longest):
            best[first:end] = np.maximum(best[first:end], precision.get(path, 0.0))
        rows.append(best[nouns_of(text, parse), None])
    return rows


def nouns_of(text: Text, parse: Parse) -> list[int]:
    """The places of a text's nouns."""
    return [word for word in range(len(parse.words)) if is_noun(parse, word, text.text)]


def learnt(features: FloatArray, classes: NDArray[np.int64], others: FloatArray, count: int) -> FloatArray:
    """(others, count) probabilities of classes, by a logistic regression on rows whose classes are known.

    Args:
        features: (rows, features).
        classes: (rows,) from 0.
        others: (others, features).
        count: of classes, met or not.
    """
    result = np.zeros((len(others), count))
    met = np.unique(classes)
    if len(met) < 2 or not len(others):
        result[:, met] = 1.0  # nothing to tell apart
        return result
    scaler = StandardScaler().fit(features)
    model = LogisticRegression(max_iter=1000).fit(scaler.transform(features), classes)
    result[:, met] = model.predict_proba(scaler.transform(others))
    return result


def leanings(counts: Mapping[str, FloatArray], shares: FloatArray) -> dict[str, FloatArray]:
    """Of each word (classes,) log P(class | word) / P(class), shrunk to zero where it is seldom met.

    Args:
        counts: (classes,) of each word.
        shares: (classes,) of the texts.

    >>> leanings({"dull": np.array([4.0, 0.0])}, np.array([0.5, 0.5]))["dull"].round(2).tolist()
    [0.41, -0.69]
    """
    return {word: leaning(count, shares) for word, count in counts.items()}


def leaning(count: FloatArray, shares: FloatArray) -> FloatArray:
    """Of one word."""
    return np.asarray(np.log((count + SHRINKAGE * shares) / (count.sum() + SHRINKAGE) / shares))


def passed_on(
    known: Mapping[str, FloatArray], texts: Sequence[Text], parses: Sequence[Parse], rounds: int
) -> dict[str, FloatArray]:
    """Leanings, and those of adjectives that are new here: the mean of what each is joined with, shrunk to zero.

    Args:
        known: leanings by word.
        texts: of another domain.
        parses: of them.
        rounds: how far leanings are passed on.
    """
    beside: dict[str, Counter[str]] = {}
    for text, parse in zip(texts, parses, strict=True):
        words = words_of(text, parse)
        for kind, first, second in links(text, parse):
            between = words[min(first, second) : max(first, second)]
            if kind == "adjectives" and not CONTRAST & set(between):
                beside.setdefault(words[first], Counter())[words[second]] += 1
                beside.setdefault(words[second], Counter())[words[first]] += 1
    result = dict(known)
    for _ in range(rounds):
        new = {}
        for word in beside.keys() - result.keys():
            told = [(result[other], n) for other, n in beside[word].items() if other in result]
            if told:
                total = sum(n for _, n in told)
                new[word] = np.asarray(sum(n * vector for vector, n in told) / (total + 1))
        result |= new
    return result


def sums(vectors: Mapping[str, FloatArray], words: Iterable[str], classes: int) -> FloatArray:
    """(classes,) sum of the words' leanings."""
    return np.asarray(sum((vectors[word] for word in words if word in vectors), np.zeros(classes)))


def class_evidence(
    records: Sequence[Record],
    parses: Sequence[Parse],
    texts: Sequence[Text],
    target_parses: Sequence[Parse],
    labels: Sequence[str],
    rounds: int,
) -> FloatArray:
    """(texts, classes) probabilities of each target text's class.

    Args:
        records: labelled.
        parses: of them.
        texts: of the target.
        target_parses: of these.
        labels: names of the classes.
        rounds: how far leanings are passed on.
    """
    classes = np.array([labels.index(str(record.label)) for record in records])
    shares = (np.bincount(classes, minlength=len(labels)) + 1.0) / (len(classes) + len(labels))
    own = [adjectives_of(record, parse) for record, parse in zip(records, parses, strict=True)]
    counts: dict[str, FloatArray] = {}
    for words, label in zip(own, classes, strict=True):
        for word in words:
            counts.setdefault(word, np.zeros(len(labels)))[label] += 1
    features = []
    for words, label in zip(own, classes, strict=True):
        without = {w: counts[w] - words.count(w) * np.eye(len(labels))[label] for w in set(words)}
        features.append(sums(leanings(without, shares), words, len(labels)))
    vectors = passed_on(leanings(counts, shares), texts, target_parses, rounds)
    spelled = (adjectives_of(text, parse) for text, parse in zip(texts, target_parses, strict=True))
    others = [sums(vectors, words, len(labels)) for words in spelled]
    return learnt(np.array(features), classes, np.array(others).reshape(-1, len(labels)), len(labels))


def adjectives_of(text: Text, parse: Parse) -> list[str]:
    """A text's adjectives, in lower case."""
    words = words_of(text, parse)
    return [word for word, tag in zip(words, parse.tags, strict=True) if tag.startswith("JJ")]
