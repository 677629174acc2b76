r"""Opinion words of the source, and the dependency paths that lead from them: what several methods ask of it.

Where spans are annotated, opinion words are those that :func:`domadapt.methods.weak_evidence.judging_words` finds, and
paths are the rules of :mod:`domadapt.syntax.path_rules`. Where texts are classified, the adjectives, verbs and adverbs
that lean to a class, :math:`\log P(c \mid w) / P(c) \ge .3` with rare words shrunk to zero, take their place, and
paths are those that lead most often from one of them to a noun.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from domadapt.data.records import Record
from domadapt.methods.weak_evidence import leaning
from domadapt.syntax.double_propagation import words_of
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.path_rules import Rule, Words, learn_rules, linked
from domadapt.syntax.paths import Path

LEANING = 0.3  # of a word that stands for a class
TELLS = ("JJ", "VB", "RB")  # tags of words that may


def places(text: Text, parse: Parse, words: Collection[str]) -> list[int]:
    """Where a text has one of these words."""
    return [place for place, word in enumerate(words_of(text, parse)) if word in words]


def path_rules(
    records: Sequence[Record],
    parses: Sequence[Parse],
    kinds: Collection[str],
    seeds: Collection[str],
    most: int,
    longest: int,
) -> list[Rule]:
    """Rules of annotated records, from the opinions that are annotated; where none are, from words that judge.

    Args:
        records: of the source.
        parses: of them.
        kinds: span types of terms.
        seeds: words that judge.
        most: rules.
        longest: arcs of a path.
    """
    paired = any(span.type not in kinds for record in records for span in record.spans or ())
    opinions, terms = list[set[int]](), list[set[Words]]()
    for record, parse in zip(records, parses, strict=True):
        found = [(s.type in kinds, words) for s in record.spans or () if (words := parse.within(s.start, s.end))]
        terms.append({words for is_term, words in found if is_term})
        told = {word for is_term, words in found if not is_term for word in range(*words)}
        opinions.append(told if paired else set(places(record, parse, seeds)))
    return learn_rules(records, parses, opinions, terms, most, longest)


def leaning_words(records: Sequence[Record], parses: Sequence[Parse], labels: Sequence[str]) -> frozenset[str]:
    """Words that stand for a class, in lower case.

    Args:
        records: classified.
        parses: of them.
        labels: names of the classes.
    """
    counts: dict[str, NDArray[np.float64]] = {}
    shares = np.ones(len(labels))
    for record, parse in zip(records, parses, strict=True):
        label = labels.index(str(record.label))
        shares[label] += 1
        spelled = zip(words_of(record, parse), parse.tags, strict=True)
        for word in {word for word, tag in spelled if tag.startswith(TELLS) and word.isalpha()}:
            counts.setdefault(word, np.zeros(len(labels)))[label] += 1
    shares /= shares.sum()
    return frozenset(word for word, count in counts.items() if leaning(count, shares).max() >= LEANING)


def frequent_paths(
    texts: Sequence[Text], parses: Sequence[Parse], words: Collection[str], most: int, longest: int
) -> list[Path]:
    """The paths that lead most often from one of these words to a noun, most frequent first."""
    counts = Counter[Path]()
    for text, parse in zip(texts, parses, strict=True):
        counts.update(link.path for link in linked(text, parse, places(text, parse, words), longest))
    return [path for path, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]]
