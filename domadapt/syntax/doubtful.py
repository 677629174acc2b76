"""Texts that an English parser makes no sense of: it gives a tree to anything, so they are counted."""

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from domadapt.syntax.parser import Parse

ENGLISH = "/en_"  # in the name of a pipeline of spaCy's, between its version and its own name
LATIN = re.compile("[A-Za-z]")
LETTERS = re.compile("[a-z]+")
# Of a dozen words of English one is hardly ever none of these, and few of them are words of another language.
COMMON = re.compile(
    r"\b(the|and|it|its|this|that|these|with|not|have|has|had|you|your|my|are|but|they|at|from|when|who|what|which|would"
    r"|there|about|very|on)\b"
)
ENOUGH = 12  # words in which one of them is expected
LONGEST = 200  # words of a sentence; EWT's longest has 159


def doubt(text: str, parse: Parse, parser: str) -> str | None:
    """Why a parse means little, if it does.

    Args:
        text: what was parsed.
        parse: of it.
        parser: the parser's name; of one that is not for English the language is not doubted.

    >>> one = Parse(np.array([[0, 1]]), np.array([0]), ("ROOT",), ("NFP",))
    >>> doubt("😀", one, "spacy-3.8.18/en_domadapt_ewt-1.0.0"), doubt("Wow", one, "spacy-3.8.18/en_domadapt_ewt-1.0.0")
    ('no Latin letter in the text', None)
    """
    roots = int((parse.heads == np.arange(len(parse.heads))).sum())
    if len(parse.heads) > LONGEST * max(1, roots):
        return f"more than {LONGEST} words a sentence"
    if ENGLISH not in parser:
        return None
    if not LATIN.search(text):
        return "no Latin letter in the text"
    lower = text.lower()
    if len(LETTERS.findall(lower)) >= ENOUGH and not COMMON.search(lower):
        return "none of the common English words in the text"
    return None


def count_doubts(texts: Iterable[str], parses: Iterable[Parse], parser: str, warnings: Counter[str]) -> None:
    """Count doubtful parses, by reason, among a run's warnings."""
    for text, parse in zip(texts, parses, strict=True):
        if reason := doubt(text, parse, parser):
            warnings[f"parse kept that may mean little: {reason}"] += 1
