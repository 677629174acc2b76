"""What the texts are about as a whole: what one owns, and what that is called by."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from domadapt.syntax.noun_features import OWNED, owned_nouns
from domadapt.syntax.parser import Parse, Plain

Phrase = tuple[str, ...]
NOUNS = st.lists(st.sampled_from(["laptop", "dell", "dells", "lens", "o", "os"]), min_size=1, max_size=3)
PHRASES = st.tuples(st.sampled_from([(), ("my",)]), NOUNS.map(tuple)).map(lambda both: both[0] + both[1])


def parsed(phrase: Phrase, plurals: frozenset[str] = frozenset({"dells"})) -> tuple[Plain, Parse]:
    """A noun, its last word, and what stands before it."""
    ends = np.cumsum([len(word) + 1 for word in phrase]) - 1
    words = np.stack([ends - [len(word) for word in phrase], ends], axis=1)
    last = len(phrase) - 1
    relations = tuple(
        "ROOT" if place == last else "poss" if word in OWNED else "compound" for place, word in enumerate(phrase)
    )
    tags = tuple("PRP$" if word in OWNED else "NNS" if word in plurals else "NN" for word in phrase)
    return Plain(" ".join(phrase), None), Parse(words, np.full(len(phrase), last), relations, tags)


def found(phrases: list[Phrase], share: float = 0.25) -> frozenset[str]:
    texts, parses = zip(*map(parsed, phrases), strict=True) if phrases else ((), ())
    return owned_nouns(texts, parses, share)


def test_what_names_a_product_is_one_wherever_it_stands() -> None:
    """And what names that: a Latitude of Dell's, of which nobody says 'my'."""
    few = [("my", "laptop")] * 20 + [("lens",)] * 40 + [("case",)] * 40
    dell = [("dell", "laptop")] * 6 + [("dell",)] * 6
    assert found(few) == {"laptop"}
    assert found(few + dell) == {"laptop", "dell"}
    assert found([*few, *dell, *[("latitude", "dell")] * 6]) == {"laptop", "dell", "latitude"}
    assert found(few + [("dell", "laptop")] + [("dell",)] * 30) == {"laptop"}


def test_a_plural_is_what_is_tagged_as_one() -> None:
    """'os' is no plural of the 'o' in "my o 's"."""
    texts = [("my", "dell"), ("my", "o")] * 9 + [("dells",), ("os",)] * 9 + [("lens",)] * 60
    assert found(texts) == {"dell", "dells", "o"}


@given(st.lists(PHRASES, max_size=12), st.floats(0.05, 1))
def test_the_same_as_by_the_definition(phrases: list[Phrase], share: float) -> None:
    """Grown one word at a time, each share counted anew."""
    nouns = [
        (word, phrase[-1] if place < len(phrase) - 1 else "", any(other in OWNED for other in phrase[:-1]))
        for phrase in phrases
        for place, word in enumerate(phrase)
        if word not in OWNED
    ]
    mean = sum(own for _, _, own in nouns) / max(1, len(nouns))
    grown: set[str] = set()
    while True:
        new = {
            word
            for word in {noun for noun, _, _ in nouns} - grown
            for uses in [[own or named in grown for noun, named, own in nouns if noun == word]]
            if (sum(uses) + 3 * mean) / (len(uses) + 3) > share or (word == "dells" and "dell" in grown)
        }
        if not new:
            break
        grown.add(min(new))
    assert found(phrases, share) == grown
