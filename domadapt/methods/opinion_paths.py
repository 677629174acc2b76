r"""Opinion words of the source, and the dependency paths that lead from them: what several methods ask of it.

Where spans are annotated, opinion words are those that :func:`domadapt.methods.weak_evidence.judging_words` finds, and
paths are the rules of :mod:`domadapt.syntax.path_rules`. Where texts are classified, the adjectives, verbs and adverbs
that lean to a class, :math:`\log P(c \mid w) / P(c) \ge .3` with rare words shrunk to zero, take their place, and
paths are those that lead most often from one of them to a noun.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domadapt.data.batches import Example
from domadapt.data.records import Record
from domadapt.methods.method import Method, in_range
from domadapt.methods.term_types import noun_kinds
from domadapt.methods.weak_evidence import judging_words, leaning
from domadapt.syntax.double_propagation import words_of
from domadapt.syntax.nouns import is_noun
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.path_rules import Rule, Words, learn_rules, linked
from domadapt.syntax.trees import Path, paths_from

LEANING = 0.3  # of a word that stands for a class
TELLS = ("JJ", "VB", "RB")  # tags of words that may
LEAST, SHARE = 1, 0.3  # uses of an opinion word in the source, and share of them that judge: those of floor=path_rules


class PathMethod(Method):
    """What methods share that learn opinion words and paths from the source, and look for both in every text.

    Args:
        name: the method's, as the configuration calls it.
        paths: K, how many are told apart.
        longest: arcs of a path.
        weights: of the method's losses.

    Attributes:
        opinions: words, in lower case, that a path may begin at.
        numbers: of the paths, from 1; the most telling one first.
    """

    def __init__(self, name: str, paths: int, longest: int, weights: dict[str, float] | None = None) -> None:
        super().__init__(weights)
        in_range(f"{name}.paths", paths, 1)
        in_range(f"{name}.longest", longest, 1)
        self.most, self.longest = paths, longest
        self.opinions: frozenset[str] = frozenset()
        self.numbers: dict[Path, int] = {}

    def prepare(self) -> dict[str, Any]:
        """Learn opinion words and paths from the source, under the trees of training: a control's twin has its own.

        Raises:
            ValueError: the source has no terms, or no parts of speech are known.
        """
        task, records = self.setting.task, self.setting.domains.source_train
        parses = [example.parse for example in self.setting.source if example.parse is not None]
        if task.kind == "token":
            kinds = noun_kinds(records, parses)
            if not kinds:
                raise ValueError(
                    f"{self.name}: expected spans that are mostly nouns, as terms are, and a parser that tags parts of "
                    "speech; the source has none; leave the method out"
                )
            self.opinions = judging_words(records, parses, kinds, LEAST, SHARE)
            rules = path_rules(records, parses, kinds, self.opinions, self.most, self.longest)
            paths, told = [rule.path for rule in rules], [str(rule) for rule in rules]
        else:
            self.opinions = leaning_words(records, parses, task.labels)
            if not self.opinions:
                raise ValueError(
                    f"{self.name}: no adjective, verb or adverb of the source leans to a class; expected a parser that "
                    "tags parts of speech as JJ, VB, RB; leave the method out"
                )
            paths = frequent_paths(records, parses, self.opinions, self.most, self.longest)
            told = [" ".join(path) for path in paths]
        self.numbers = {path: number for number, path in enumerate(paths, start=1)}
        return {f"{self.name}/opinions": len(self.opinions), f"{self.name}/paths": told}

    def found(self, example: Example) -> Iterator[tuple[int, int, int]]:
        """Opinion word, another word near it in the tree, number of the path; 0 of one that leads to no noun."""
        if (parse := example.parse) is None:
            return
        opinions = {i for i in range(len(example.words)) if example.word(i).lower() in self.opinions}
        for start, end, path in paths_from(parse, sorted(opinions), self.longest):
            is_term = end not in opinions and is_noun(parse, end, example.text)
            yield start, end, self.numbers.get(path, 0) if is_term else 0

    def memory(self) -> dict[str, Any]:
        """The words, and the paths by their numbers."""
        return {"opinions": sorted(self.opinions), "paths": [list(path) for path in self.numbers]}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take them back."""
        self.opinions = frozenset(map(str, memory["opinions"]))
        self.numbers = {tuple(map(str, path)): number for number, path in enumerate(memory["paths"], start=1)}


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
