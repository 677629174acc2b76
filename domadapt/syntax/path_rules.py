r"""A handful of dependency paths that lead from opinion words to terms, learnt where both are annotated.

Klein et al. (2022), Opinion-based Relational Pivoting for Cross-domain Aspect Term Extraction: few terms are shared
between domains, nearly all paths from opinions to terms are, and ten of them make an extractor without a network. A
rule is a path, ``nsubj`` say: whatever noun an opinion word has as its subject is a term, with the nouns beside it.

Rules are taken one by one, each time the one that raises the F1 of exact terms on the source most,

.. math:: \frac{2 \,|\text{linked} \cap \text{terms}|}{|\text{linked}| + |\text{terms}|},

so a rule counts for how often and how precisely it leads to terms that no rule before it has led to.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from domadapt.syntax.nouns import is_noun, noun_phrases
from domadapt.syntax.parser import Parse, Text
from domadapt.syntax.trees import Path, paths_from

Words = tuple[int, int]  # first word and end, exclusive


class Linked(NamedTuple):
    """A run of nouns that a path leads to.

    Attributes:
        words: of the run.
        opinion: the word that the path begins at.
        path: the relations on the way.
    """

    words: Words
    opinion: int
    path: Path


class Rule(NamedTuple):
    """A path that is taken for a sign of a term.

    Attributes:
        path: from opinion word to noun; ``^`` marks the way up to a head.
        found: runs of nouns that it leads to in the source.
        right: those of them that are terms.
        example: opinion word and term of one of them.

    >>> print(Rule(("^amod",), 40, 30, ("sharp", "lens")))
    ^amod: 30 of 40 are terms (75 %), as from 'sharp' to 'lens'
    """

    path: Path
    found: int
    right: int
    example: tuple[str, str]

    @property
    def precision(self) -> float:
        """Share of what it leads to that is a term in the source."""
        return self.right / self.found

    def __str__(self) -> str:
        one, other = self.example
        share = f"{self.right} of {self.found} are terms ({100 * self.precision:.0f} %)"
        return f"{' '.join(self.path)}: {share}, as from {one!r} to {other!r}"


def linked(text: Text, parse: Parse, opinions: Collection[int], longest: int) -> Iterator[Linked]:
    """Runs of nouns around opinion words; an opinion word is no part of one."""
    runs = {word: (p.first, p.end) for p in noun_phrases(parse, text.text) for word in range(p.first, p.end)}
    for start, end, path in paths_from(parse, opinions, longest):
        words = runs.get(end, (end, end + 1))
        if is_noun(parse, end, text.text) and not any(word in opinions for word in range(*words)):
            yield Linked(words, start, path)


def learn_rules(
    texts: Sequence[Text],
    parses: Sequence[Parse],
    opinions: Sequence[Collection[int]],
    terms: Sequence[Collection[Words]],
    most: int,
    longest: int,
) -> list[Rule]:
    """The rules of annotated texts, in the order they were taken; fewer where no other raises F1.

    Args:
        opinions: of each text, words that judge.
        terms: of each text, first word and end of its terms.

    >>> import numpy as np
    >>> from domadapt.data.records import Record
    >>> words, relations = np.array([[0, 3], [4, 8], [9, 12], [13, 18]]), ("det", "nsubj", "cop", "ROOT")
    >>> parse = Parse(words, np.array([1, 3, 3, 3]), relations, ("DT", "NN", "VBZ", "JJ"))
    >>> (rule,) = learn_rules([Record("1", "camera", "The lens was sharp")], [parse], [{3}], [{(1, 2)}], 10, 3)
    >>> rule.path, rule.precision
    (('nsubj',), 1.0)
    """
    found: dict[Path, dict[tuple[int, Words], int]] = {}  # by path: text and run, and the opinion word
    for number, (text, parse, judging) in enumerate(zip(texts, parses, opinions, strict=True)):
        for words, opinion, path in linked(text, parse, judging, longest):
            found.setdefault(path, {}).setdefault((number, words), opinion)
    gold = {(number, words) for number, own in enumerate(terms) for words in own}
    right = {path: places.keys() & gold for path, places in found.items()}
    open_paths = sorted((path for path in found if right[path]), key=lambda path: (-len(right[path]), path))
    rules: list[Rule] = []
    known, hits, best = set[tuple[int, Words]](), set[tuple[int, Words]](), 0.0
    while open_paths and len(rules) < most:
        scores = [2 * len(hits | right[path]) / (len(known | found[path].keys()) + len(gold)) for path in open_paths]
        if max(scores) <= best:
            break
        path = open_paths.pop(scores.index(max(scores)))
        best = max(scores)
        known, hits = known | found[path].keys(), hits | right[path]
        number, words = min(right[path])
        opinion = found[path][number, words]
        example = (
            _spelled(texts[number], parses[number], (opinion, opinion + 1)),
            _spelled(texts[number], parses[number], words),
        )
        rules.append(Rule(path, len(found[path]), len(right[path]), example))
    return rules


def _spelled(text: Text, parse: Parse, words: Words) -> str:
    return text.text[parse.words[words[0]][0] : parse.words[words[1] - 1][1]]
