"""Universal part-of-speech tags, and the nouns of a parsed text: what it speaks of.

English pipelines give Penn's tags, all others universal ones with :data:`~domadapt.syntax.parser.PLURAL` behind those
of plural nouns. What is asked of a tag is asked here, so that any parser that tags works.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from domadapt.syntax.parser import NOUNS, PLURAL, Parse

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
LONGEST: Final = 3  # words of a phrase


class NounPhrase(NamedTuple):
    """A run of nouns.

    Attributes:
        first, end: its words, end exclusive.
        plural: whether its last word is one.
    """

    first: int
    end: int
    plural: bool


def universal(tag: str) -> str:
    """A tag as a universal one.

    >>> universal("NNS"), universal("NOUN|Plur"), universal("ADJ")
    ('NOUN', 'NOUN', 'ADJ')
    """
    return PENN.get(tag) or tag.removesuffix(PLURAL)


def word_class(tag: str) -> str:
    """The first two letters of Penn's tags, which say the class of a word without its form; else the universal tag."""
    return tag[:2] if tag in PENN else tag.removesuffix(PLURAL)


def is_noun(parse: Parse, word: int, text: str) -> bool:
    """Whether a word is tagged as a noun and begins with a letter or digit.

    Raises:
        ValueError: no word of the text has a tag, so that nobody knows.
    """
    tag = parse.tags[word]
    if not tag and not any(parse.tags):
        raise ValueError(
            f"the parser gives no part-of-speech tags of {text[:60]!r}, and nouns are known by these: take "
            f"parser=shipped, a pipeline with a tagger, or a CoNLL-U file with universal tags (UPOS)"
        )
    return universal(tag) in NOUNS and text[parse.words[word][0]].isalnum()


def noun_phrases(parse: Parse, text: str) -> Iterator[NounPhrase]:
    """Maximal runs of nouns, of three words at most.

    >>> import numpy as np
    >>> words, tags = np.array([[0, 3], [4, 11], [12, 16], [17, 22]]), ("DT", "NN", "NN", "VBZ")
    >>> parse = Parse(words, np.array([2, 2, 3, 3]), ("det", "compound", "nsubj", "ROOT"), tags)
    >>> list(noun_phrases(parse, "The battery life lasts"))
    [NounPhrase(first=1, end=3, plural=False)]
    """
    word, count = 0, len(parse.tags)
    while word < count:
        first = word
        while word < count and is_noun(parse, word, text):
            word += 1
        if 0 < word - first <= LONGEST:
            yield NounPhrase(first, word, parse.tags[word - 1] in PLURALS)
        word += word == first
