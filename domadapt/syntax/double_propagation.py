"""Double propagation: from words that judge to what is judged, along dependency relations, and back.

Qiu, Liu, Bu & Chen 2011 (https://aclanthology.org/J11-1002). With a list of opinion words O, a growing list of terms T,
and relations between words that are direct (one depends on the other) or indirect (both depend on a third):

- R1: a noun in a subject, object or modifier relation with a word of O is a term;
- R2: an adjective in such a relation with a word of T is an opinion word;
- R3: a noun that is joined with one of T ('lens and strap'), or depends on the same word in the same way, is a term;
- R4: an adjective that is joined with one of O, or depends on the same word in the same way, is an opinion word.

Names of relations are those of Universal Dependencies and of spaCy's English pipelines. As a labeller it is poor: by R2
and R3 words such as 'other', 'new' and 'time' come into the lists, and bring more. It is a source of candidates that
something else must judge.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domadapt.syntax.nouns import is_noun, noun_phrases
from domadapt.syntax.parser import Parse, Text

Kind = Literal["judged", "nouns", "adjectives"]
FAMILIES = {
    **dict.fromkeys(("nsubj", "nsubjpass", "csubj"), "subject"),
    **dict.fromkeys(("obj", "dobj", "iobj", "dative"), "object"),
    **dict.fromkeys(("amod", "acl", "relcl", "acomp", "attr", "oprd", "xcomp"), "modifier"),
}
NOTHING, LISTED, JOINED, JUDGED = range(4)  # how a noun was found


class Link(NamedTuple):
    """Two related words of a text.

    Attributes:
        kind: ``judged``: a noun and whatever it is related with, in this order; ``nouns``, ``adjectives``: two of them.
        first, second: the words.
    """

    kind: Kind
    first: int
    second: int


class Propagated(NamedTuple):
    """What was found.

    Attributes:
        opinions, terms: words in lower case, and how often each was met in a relation that tells it.
        found: of each text (words,) whether a word is ``NOTHING``, a noun that is ``LISTED`` for what it is elsewhere,
            ``JOINED`` with a term here (R3), or ``JUDGED`` here (R1). Of a run of nouns, the
            last of these that holds of one of them holds of all.
    """

    opinions: Counter[str]
    terms: Counter[str]
    found: list[NDArray[np.int64]]


def double_propagation(
    texts: Sequence[Text], parses: Sequence[Parse], opinions: Collection[str], rounds: int = 2, least: int = 1
) -> Propagated:
    """Terms and opinion words of unlabelled texts.

    Args:
        texts: of one domain.
        parses: of these texts.
        opinions: words that are known to judge, in lower case.
        rounds: how often terms and opinions are found by each other; the lists drift with every one.
        least: relations that must tell a word before it is listed; 1 in the paper.

    >>> words = np.array([[0, 3], [4, 8], [9, 12], [13, 18], [19, 22], [23, 27]])
    >>> heads, relations = [3, 3, 3, 3, 5, 3], ("det", "nsubj", "cop", "ROOT", "cc", "conj")
    >>> from domadapt.data.records import Record
    >>> parse = Parse(words, np.array(heads), relations, ("DT", "NN", "VBZ", "JJ", "CC", "JJ"))
    >>> found = double_propagation([Record("1", "camera", "The lens are sharp and fine")], [parse], {"sharp"})
    >>> dict(found.terms), sorted(found.opinions)
    ({'lens': 1}, ['fine', 'sharp'])
    """
    spelled = [words_of(text, parse) for text, parse in zip(texts, parses, strict=True)]
    linked = [list(links(text, parse)) for text, parse in zip(texts, parses, strict=True)]
    adjectives = [[tag.startswith("JJ") for tag in parse.tags] for parse in parses]
    terms, judging = set[str](), set(opinions)
    told = Counter[str](), Counter[str]()
    for _ in range(rounds):
        told = _told(spelled, linked, adjectives, terms, judging)
        grown = terms | _often(told[0], least), judging | _often(told[1], least)
        if grown == (terms, judging):
            break
        terms, judging = grown
    return Propagated(
        Counter({word: told[1][word] for word in judging}),
        Counter({word: told[0][word] for word in terms}),
        [_found(*one, terms, judging) for one in zip(texts, parses, spelled, linked, strict=True)],
    )


def _told(
    spelled: Sequence[list[str]],
    linked: Sequence[list[Link]],
    adjectives: Sequence[list[bool]],
    terms: set[str],
    judging: set[str],
) -> tuple[Counter[str], Counter[str]]:
    """One round of the rules: how many relations tell each term, and each opinion word."""
    nouns, opinions = Counter[str](), Counter[str]()
    for words, pairs, adjective in zip(spelled, linked, adjectives, strict=True):
        for kind, first, second in pairs:
            one, other = words[first], words[second]
            if kind == "judged":
                nouns[one] += other in judging  # R1
                if adjective[second]:
                    opinions[other] += one in terms  # R2
            else:  # R3, R4
                known, told = (terms, nouns) if kind == "nouns" else (judging, opinions)
                told[one] += other in known
                told[other] += one in known
    return nouns, opinions


def _often(told: Counter[str], least: int) -> set[str]:
    return {word for word, count in told.items() if count >= max(1, least)}


def _found(
    text: Text, parse: Parse, words: list[str], pairs: list[Link], terms: Collection[str], judging: Collection[str]
) -> NDArray[np.int64]:
    """(words,) how each noun of a text was found."""
    found = np.array([LISTED * (w in terms and is_noun(parse, i, text.text)) for i, w in enumerate(words)], np.int64)
    for kind, first, second in pairs:
        if kind == "judged" and words[second] in judging:
            found[first] = JUDGED
        elif kind == "nouns":
            for one, other in ((first, second), (second, first)):
                if words[other] in terms:
                    found[one] = max(found[one], JOINED)
    for phrase in noun_phrases(parse, text.text):
        found[phrase.first : phrase.end] = found[phrase.first : phrase.end].max()
    return found


def found_in(text: Text, parse: Parse, told: Propagated) -> NDArray[np.int64]:
    """(words,) how each noun of another text of the domain is found, by the lists alone.

    Args:
        text: that propagation need not have seen.
        parse: of it.
        told: by propagation through the domain.
    """
    return _found(text, parse, words_of(text, parse), [*links(text, parse)], told.terms, told.opinions)


def words_of(text: Text, parse: Parse) -> list[str]:
    """Words of a parsed text, in lower case."""
    return [text.text[start:end].lower() for start, end in parse.words.tolist()]


def links(text: Text, parse: Parse) -> Iterator[Link]:
    """Pairs of words that the rules speak of, each kind of relation once a pair."""
    heads, tags = parse.heads.tolist(), parse.tags
    bare = [relation.partition(":")[0] for relation in parse.relations]
    families = [FAMILIES.get(relation, "") for relation in bare]
    noun = [is_noun(parse, word, text.text) for word in range(len(heads))]
    below: dict[int, list[int]] = {}
    for word, head in enumerate(heads):
        if head == word:
            continue
        if families[word]:
            below.setdefault(head, []).append(word)
            yield from _judged(word, head, noun)
        if bare[word] == "conj":
            yield from _alike(word, head, noun, tags)
    for children in below.values():
        for place, one in enumerate(children):
            for other in children[place + 1 :]:
                yield from _judged(one, other, noun)
                same = families[one] == families[other]
                if same or {families[one], families[other]} == {"subject", "object"}:
                    yield from (link for link in _alike(one, other, noun, tags) if same or link.kind == "nouns")


def _judged(one: int, other: int, noun: list[bool]) -> Iterator[Link]:
    for first, second in ((one, other), (other, one)):
        if noun[first]:
            yield Link("judged", first, second)


def _alike(one: int, other: int, noun: list[bool], tags: Sequence[str]) -> Iterator[Link]:
    if noun[one] and noun[other]:
        yield Link("nouns", one, other)
    elif tags[one].startswith("JJ") and tags[other].startswith("JJ"):
        yield Link("adjectives", one, other)
