"""The nouns of a parsed text, what it speaks of; and the dependency paths by which words of opinion lead to them.

English pipelines give Penn's tags, all others universal ones with :data:`~domadapt.syntax.parser.PLURAL` behind those
of plural nouns. What is asked of a tag is asked here, so that any parser that tags works.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from domadapt.syntax.parser import NOUNS, PLURAL, Parse, Text
from domadapt.syntax.trees import Path, paths_from

Words = tuple[int, int]  # first word and end, exclusive

# Universal tags (https://universaldependencies.org/u/pos/) of Penn's, as UD English EWT uses them.
PENN: Final = {
    tag: universal
    for universal, tags in {
        "ADJ": "JJ JJR JJS AFX",
        "ADP": "IN RP",
        "ADV": "RB RBR RBS WRB",
        "AUX": "MD",
        "CCONJ": "CC",
        "DET": "DT PDT WDT",
        "INTJ": "UH",
        "NOUN": "NN NNS",
        "NUM": "CD",
        "PART": "POS TO",
        "PRON": "EX PRP PRP$ WP WP$",
        "PROPN": "NNP NNPS",
        "PUNCT": "'' , -LRB- -RRB- . : HYPH NFP ``",
        "SYM": "$ SYM",
        "VERB": "VB VBD VBG VBN VBP VBZ",
        "X": "ADD FW GW LS XX",
    }.items()
    for tag in tags.split()
}
PLURALS: Final = frozenset({"NNS", "NNPS", f"NOUN{PLURAL}", f"PROPN{PLURAL}"})
LONGEST_PHRASE: Final = 3  # words of a phrase


class NounPhrase(NamedTuple):
    """A run of nouns."""

    first: int  #: word
    end: int  #: of its words, exclusive
    plural: bool  #: whether its last word is one


def universal_tag(tag: str) -> str:
    """A tag as a universal one.

    >>> universal_tag("NNS"), universal_tag("NOUN|Plur"), universal_tag("ADJ")
    ('NOUN', 'NOUN', 'ADJ')
    """
    return PENN.get(tag) or tag.removesuffix(PLURAL)


def is_noun(parse: Parse, word: int, text: str) -> bool:
    """Whether a word is tagged as a noun and begins with a letter or digit; a text without any tag is refused."""
    tag = parse.tags[word]
    if not tag and not any(parse.tags):
        why = f"the parser gives no part-of-speech tags of {text[:60]!r}, and nouns are known by these"
        fix = "take parser=shipped, a pipeline with a tagger, or a CoNLL-U file with universal tags (UPOS)"
        raise ValueError(f"{why}: {fix}")
    return universal_tag(tag) in NOUNS and text[parse.words[word][0]].isalnum()


def noun_phrases(parse: Parse, text: str) -> Iterator[NounPhrase]:
    """Maximal runs of nouns, of three words at most."""
    for nouns, run in groupby(range(len(parse.tags)), lambda word: is_noun(parse, word, text)):
        words = [*run]
        if nouns and len(words) <= LONGEST_PHRASE:
            yield NounPhrase(words[0], words[-1] + 1, parse.tags[words[-1]] in PLURALS)


class Rule(NamedTuple):
    """A path that is taken for a sign of a term.

    >>> print(Rule(("^amod",), 40, 30, ("sharp", "lens")))
    ^amod: 30 of 40 are terms (75 %), as from 'sharp' to 'lens'
    """

    path: Path  #: from opinion word to noun; ``^`` marks the way up to a head
    matches: int  #: runs of nouns that it leads to in the source
    right: int  #: those of them that are terms
    example: tuple[str, str]  #: opinion word and term of one of them

    @property
    def precision(self) -> float:
        """Share of what it leads to that is a term in the source."""
        return self.right / self.matches

    def __str__(self) -> str:
        opinion, term = self.example
        share = f"{self.right} of {self.matches} are terms ({100 * self.precision:.0f} %)"
        return f"{' '.join(self.path)}: {share}, as from {opinion!r} to {term!r}"


def linked_nouns(
    text: Text, parse: Parse, opinions: Collection[int], longest: int
) -> Iterator[tuple[Words, int, Path]]:
    """Runs of nouns that an opinion word leads to, with that word, which is in no run, and the path."""
    runs = {word: (p.first, p.end) for p in noun_phrases(parse, text.text) for word in range(p.first, p.end)}
    for start, end, path in paths_from(parse, opinions, longest):
        words = runs.get(end, (end, end + 1))
        if is_noun(parse, end, text.text) and not any(word in opinions for word in range(*words)):
            yield words, start, path


def learn_rules(
    texts: Sequence[Text],
    parses: Sequence[Parse],
    opinions: Sequence[Collection[int]],
    terms: Sequence[Collection[Words]],
    most: int,
    longest: int,
) -> list[Rule]:
    r"""A handful of paths that lead from opinion words to terms, in the order they were taken, from annotated texts.

    Klein et al. (2022), Opinion-based Relational Pivoting for Cross-domain Aspect Term Extraction: few terms are shared
    between domains, nearly all paths from opinions to terms are, and ten of them make an extractor without a network. A
    rule is a path, ``nsubj`` say: whatever noun an opinion word has as its subject is a term, with the nouns beside it.

    Rules are taken one by one, each time the one that raises the F1 of exact terms on the source most,

    .. math:: \frac{2 \,|\text{linked} \cap \text{terms}|}{|\text{linked}| + |\text{terms}|},

    so a rule counts for the terms that no rule before it has led to; where none raises it, no more are taken.
    """
    reached: dict[Path, dict[tuple[int, Words], int]] = {}  # by path: text and run, and the opinion word
    for number, (text, parse, judging) in enumerate(zip(texts, parses, opinions, strict=True)):
        for words, opinion, path in linked_nouns(text, parse, judging, longest):
            reached.setdefault(path, {}).setdefault((number, words), opinion)
    gold = {(number, words) for number, text_terms in enumerate(terms) for words in text_terms}
    right = {path: places.keys() & gold for path, places in reached.items()}
    open_paths = sorted((path for path in reached if right[path]), key=lambda path: (-len(right[path]), path))
    rules: list[Rule] = []
    known, hits, best = set[tuple[int, Words]](), set[tuple[int, Words]](), 0.0
    while open_paths and len(rules) < most:
        scores = [2 * len(hits | right[path]) / (len(known | reached[path].keys()) + len(gold)) for path in open_paths]
        if max(scores) <= best:
            break
        path = open_paths.pop(scores.index(max(scores)))
        best = max(scores)
        known, hits = known | reached[path].keys(), hits | right[path]
        number, (first, end) = min(right[path])
        spelled, places, word = texts[number].text, parses[number].words, reached[path][number, (first, end)]
        example = spelled[slice(*places[word])], spelled[places[first][0] : places[end - 1][1]]
        rules.append(Rule(path, len(reached[path]), len(right[path]), example))
    return rules
