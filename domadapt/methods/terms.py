r"""Terms, opinion words and the dependency paths between them: what several methods read off the labelled source.

A *term* is a span whose last word is mostly a noun, such as an aspect. Where spans are annotated, opinion words are
those that often stand in spans of another type. Where texts are classified, the adjectives, verbs and adverbs that
lean to a class, :math:`\log P(c \mid w) / P(c) \ge .3` with rare words shrunk to zero, take their place.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from domadapt.data.records import Record
from domadapt.methods.session import Session
from domadapt.syntax.nouns import Rule, Words, is_noun, learn_rules, linked_nouns, universal_tag
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.trees import Path

LEANING = 0.3  # of a word that stands for a class
LEANING_TAGS = ("ADJ", "VERB", "ADV")  # of words that may
SHRINKAGE = 4.0  # uses of an average word that each word is given beside its own


def noun_kinds(records: Sequence[Record], parses: Sequence[Parse]) -> frozenset[str]:
    """Span types whose last words are mostly nouns: aspects are, opinions are not."""
    nouns, met = Counter[str](), Counter[str]()
    for record, parse in zip(records, parses, strict=True):
        ends = {int(end): word for word, (_, end) in enumerate(parse.words)}
        for span in record.spans or ():
            met[span.type] += 1
            nouns[span.type] += span.end in ends and is_noun(parse, ends[span.end], record.text)
    return frozenset(kind for kind, count in met.items() if nouns[kind] > count / 2)


def needed_kinds(name: str, records: Sequence[Record], parses: Sequence[Parse]) -> frozenset[str]:
    """The same for what can do nothing without."""
    if kinds := noun_kinds(records, parses):
        return kinds
    expected = "expected spans that are mostly nouns, as terms are, and a parser that tags parts of speech"
    raise ValueError(f"{name}: {expected}; the source has none; leave it out")


def term_kinds(session: Session) -> frozenset[str]:
    """Span types of the source that are terms; none where texts are classified."""
    if session.task.kind != "token":  # spans, where the source has them, are nothing to the task
        return frozenset()
    records = session.domains.source_records  # labelled target records that have joined stand behind
    return noun_kinds(records, session.corpora.parses("source")[: len(records)])


def words_of(text: Text, parse: Parse) -> list[str]:
    """Words of a parsed text, in lower case."""
    return [text.text[start:end].lower() for start, end in parse.words.tolist()]


def places(text: Text, parse: Parse, words: Collection[str]) -> list[int]:
    """Where a text has one of these words."""
    return [place for place, word in enumerate(words_of(text, parse)) if word in words]


def opinion_words(
    records: Sequence[Record], parses: Sequence[Parse], kinds: Collection[str], least: int, share: float
) -> frozenset[str]:
    """Words of the source that stand in spans of other types than terms in more than a share of their uses.

    Where the source has no other type: adjectives that so often describe terms, as modifiers or as predicates.
    """
    paired = any(span.type not in kinds for record in records for span in record.spans or ())
    uses, counted = Counter[str](), Counter[str]()
    for record, parse in zip(records, parses, strict=True):
        words = words_of(record, parse)
        if paired:
            pairs = [(word, word) for word in range(len(words))]
        else:
            arcs = [(word, int(head), parse.relations[word]) for word, head in enumerate(parse.heads)]
            pairs = [(word, head) for word, head, name in arcs if name == "amod"]
            pairs += [(head, word) for word, head, name in arcs if name.startswith("nsubj")]
            pairs = [(word, noun) for word, noun in pairs if universal_tag(parse.tags[word]) == "ADJ"]
        for word, place in pairs:
            start, end = parse.words[place]
            inside = {span.type in kinds for span in record.spans or () if span.start < end and start < span.end}
            uses[words[word]] += 1
            counted[words[word]] += (not paired) in inside
    return frozenset(w for w, count in uses.items() if count >= least and w.isalpha() and counted[w] > share * count)


def leaning_words(records: Sequence[Record], parses: Sequence[Parse], labels: Sequence[str]) -> frozenset[str]:
    """Words that stand for a class, in lower case."""
    counts: dict[str, NDArray[np.float64]] = {}
    shares = np.ones(len(labels))
    for record, parse in zip(records, parses, strict=True):
        label = labels.index(str(record.label))
        shares[label] += 1
        spelled = zip(words_of(record, parse), parse.tags, strict=True)
        for word in {word for word, tag in spelled if universal_tag(tag) in LEANING_TAGS and word.isalpha()}:
            counts.setdefault(word, np.zeros(len(labels)))[label] += 1
    shares /= shares.sum()
    shrunk = {word: (count + SHRINKAGE * shares) / (count.sum() + SHRINKAGE) for word, count in counts.items()}
    return frozenset(word for word, share in shrunk.items() if np.log(share / shares).max() >= LEANING)


def path_rules(
    records: Sequence[Record],
    parses: Sequence[Parse],
    kinds: Collection[str],
    words: Collection[str],
    most: int,
    longest: int,
) -> list[Rule]:
    """Rules of annotated records, from the opinions that are annotated; where none are, from opinion words."""
    paired = any(span.type not in kinds for record in records for span in record.spans or ())
    opinions, terms = list[set[int]](), list[set[Words]]()
    for record, parse in zip(records, parses, strict=True):
        spans = [(s.type in kinds, run) for s in record.spans or () if (run := parse.within(s.start, s.end))]
        terms.append({run for is_term, run in spans if is_term})
        annotated = {word for is_term, run in spans if not is_term for word in range(*run)}
        opinions.append(annotated if paired else set(places(record, parse, words)))
    return learn_rules(records, parses, opinions, terms, most, longest)


def frequent_paths(
    texts: Sequence[Text], parses: Sequence[Parse], words: Collection[str], most: int, longest: int
) -> list[Path]:
    """The paths that lead most often from one of these words to a noun, most frequent first."""
    counts = Counter[Path]()
    for text, parse in zip(texts, parses, strict=True):
        counts.update(path for *_, path in linked_nouns(text, parse, places(text, parse, words), longest))
    return [path for path, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]]
