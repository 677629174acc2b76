"""Texts with what tokenisers and typists do to them undone, so that the same text is seen to be the same."""

import re
import unicodedata
from typing import Final

# What the Penn Treebank writes for brackets and quotation marks, and typographers for quotation marks. A double mark
# becomes two single ones, so that `` '' " and “ are one thing.
BRACKETS: Final = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_BRACKET: Final = re.compile("|".join(BRACKETS), re.IGNORECASE)
_QUOTES: Final = str.maketrans({**dict.fromkeys("‘’‚‛`´", "'"), **dict.fromkeys('“”„‟"', "''")})
_NO_LETTER: Final = re.compile(r"[\W_]+")
_BEFORE_CONTRACTION: Final = re.compile(r" (?=n't\b)", re.IGNORECASE)
_AROUND_PUNCTUATION: Final = re.compile(r" ?([^\w ]) ?")
_WORD: Final = re.compile(r"\w+(?:'\w+)*")


def letters(text: str) -> str:
    """The letters and digits of a text, without case.

    >>> letters("The ``lens'' -LRB- a 50 mm -RRB- is n't .")
    'thelensa50mmisnt'
    """
    return _NO_LETTER.sub("", unicodedata.normalize("NFKC", _BRACKET.sub(" ", text)).casefold())


def identity(text: str) -> str:
    """What two copies of a text share: its letters and digits without case; of a text without any, its marks.

    >>> identity("The `` lens '' is n't\\tsharp -LRB- much -RRB- .") == identity('the “lens” isn’t sharp (much)')
    True
    >>> identity(": - )")
    ':-)'
    """
    return letters(text) or "".join(text.split())


def without_tokenisation(text: str) -> str:
    """The text with no space beside any punctuation: raw and tokenised versions of it become the same string.

    >>> without_tokenisation("It is n't fast , but cheap .") == without_tokenisation("It isn't fast, but cheap.")
    True
    """
    plain = _BRACKET.sub(lambda m: BRACKETS[m[0].lower()], " ".join(text.split())).translate(_QUOTES)
    return _AROUND_PUNCTUATION.sub(r"\1", _BEFORE_CONTRACTION.sub("", plain))


def words(text: str) -> list[str]:
    """Lower-case words, the same whether the text came raw or tokenised.

    >>> words("It is n't FAST , but cheap ."), words("It isn't FAST, but cheap.")
    (['it', "isn't", 'fast', 'but', 'cheap'], ['it', "isn't", 'fast', 'but', 'cheap'])
    """
    return _WORD.findall(without_tokenisation(text).casefold())
