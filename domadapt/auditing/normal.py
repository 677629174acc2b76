"""Texts with what tokenisers and typists do to them undone, so that the same text is seen to be the same."""

import re
import unicodedata
from typing import Final

# What the Penn Treebank writes for brackets and quotation marks, and typographers for quotation marks. A double mark
# becomes two single ones, so that `` '' " and “ are one thing.
_BRACKETS: Final = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_BRACKET: Final = re.compile("|".join(_BRACKETS), re.IGNORECASE)
_QUOTES: Final = str.maketrans({**dict.fromkeys("‘’‚‛`´", "'"), **dict.fromkeys('“”„‟"', "''")})
_BEFORE_CONTRACTION: Final = re.compile(r" (?=n't\b)", re.IGNORECASE)
_AROUND_PUNCTUATION: Final = re.compile(r" ?([^\w ]) ?")
_WORD: Final = re.compile(r"\w+(?:'\w+)*")


def identity(text: str) -> str:
    """What two copies of a text share: letters without case, marks without their spelling, and no whitespace at all.

    >>> identity("The `` lens '' is n't\\tsharp -LRB- much -RRB- .") == identity('the “lens” isn’t sharp (much).')
    True
    """
    plain = _BRACKET.sub(lambda m: _BRACKETS[m[0].lower()], text).translate(_QUOTES)
    return "".join(unicodedata.normalize("NFKC", plain).translate(_QUOTES).casefold().split())


def without_tokenisation(text: str) -> str:
    """The text with no space beside any punctuation: raw and tokenised versions of it become the same string.

    >>> without_tokenisation("It is n't fast , but cheap .") == without_tokenisation("It isn't fast, but cheap.")
    True
    """
    plain = _BRACKET.sub(lambda m: _BRACKETS[m[0].lower()], " ".join(text.split())).translate(_QUOTES)
    return _AROUND_PUNCTUATION.sub(r"\1", _BEFORE_CONTRACTION.sub("", plain))


def words(text: str) -> list[str]:
    """Lower-case words, the same whether the text came raw or tokenised.

    >>> words("It is n't FAST , but cheap ."), words("It isn't fast, but cheap.") == words("It is n't fast , but cheap .")
    (['it', "isn't", 'fast', 'but', 'cheap'], True)
    """
    return _WORD.findall(without_tokenisation(text).casefold())
