"""How often texts have terms, as their annotation has it.

How often a text has a term depends on whether it judges something: whether a span of another type, such as an opinion,
is found in it. Where the texts of one domain are more than twice as long as the other's, whole reviews beside
sentences, what is counted are not texts but their sentences (:func:`by_sentence`).
"""

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from domadapt.data.domains import Domains
from domadapt.data.records import Record
from domadapt.methods.setting import Setting

ENOUGH_TERMS = "enough terms"  # in ``setting.counted``: whether the model finds as many terms as it should as it is
FOUND_TERMS = "found terms"  # there, too: how many times those that the source lets expect it finds as it is
NEED_OPINION = (
    "terms need an opinion"  # there, too: the user says so; of texts that judge nothing no terms are expected
)
BY_SENTENCE = "terms are counted by sentence"  # and whether they are
LONGER = 2.0  # so many times as long texts in one domain as in the other are not of a kind
SENTENCE = re.compile(r"[.!?]+\s+")  # ends with it


class PerText(NamedTuple):
    """Mean number of terms in a text without, and with, a span of another type."""

    without: float
    judged: float


def by_sentence(setting: Setting) -> bool:
    """Whether sentences are counted for texts: one domain's texts are on average more than twice as long in words."""
    if BY_SENTENCE not in setting.counted:
        texts = setting.domains.source_train, setting.domains.unlabeled.texts
        source, target = (sum(len(t.text.split()) for t in some) / max(1, len(some)) for some in texts)
        setting.counted[BY_SENTENCE] = bool(source and target) and not 1 / LONGER <= target / source <= LONGER
    return bool(setting.counted[BY_SENTENCE])


def of_the_source(domains: Domains) -> list[Record]:
    """What is trained on, without labelled target texts that have joined it."""
    known = {record.text for record in domains.target_records}
    return [record for record in domains.source_train if record.text not in known]


def sentence_starts(text: str) -> list[int]:
    """Where sentences of a text begin, but for the first, by their points alone.

    >>> sentence_starts("It works. Does it? v1.2 does.")
    [10, 19]
    """
    return [end for found in SENTENCE.finditer(text) if (end := found.end()) < len(text)]


def terms_per_text(records: Sequence[Record], kinds: frozenset[str], sentences: bool = False) -> PerText:
    """The source's rates; the mean of all texts for a kind of text that there is none of.

    Args:
        records: labelled.
        kinds: span types of terms.
        sentences: count their sentences for texts.

    >>> from domadapt.data.records import Span
    >>> judged = Record("1", "x", "good lens", spans=(Span(0, 4, "opinion"), Span(5, 9, "aspect")))
    >>> terms_per_text([judged, Record("2", "x", "a lens", spans=())], frozenset({"aspect"}))
    PerText(without=0.0, judged=1.0)
    """
    counts: dict[bool, list[int]] = {False: [], True: []}
    for judged, terms in counted_texts(records, kinds, sentences):
        counts[judged].append(terms)
    every = [*counts[False], *counts[True]]
    overall = sum(every) / max(1, len(every))
    return PerText(*(sum(some) / len(some) if some else overall for some in (counts[False], counts[True])))


def counted_texts(
    records: Sequence[Record], kinds: frozenset[str], sentences: bool = False
) -> Iterator[tuple[bool, int]]:
    """Of each text whether it judges, and its number of terms; arguments as for :func:`terms_per_text`."""
    for record in records:
        starts = sentence_starts(record.text) if sentences else []
        texts: list[list[str]] = [[] for _ in range(len(starts) + 1)]
        for span in record.spans or ():
            texts[bisect(starts, span.start)].append(span.type)
        for types in texts:
            yield any(kind not in kinds for kind in types), sum(kind in kinds for kind in types)
