"""The control keeps what it must keep and destroys what it must destroy."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from domadapt.data.domains import UnlabelledText
from domadapt.syntax.controls.shuffled import ShuffledParser, shuffle
from domadapt.syntax.parser import Parse, SpacyParser


@given(st.data(), st.integers(1, 9))
def test_arcs_and_relations_are_those_of_the_real_tree_renamed(data: st.DataObject, size: int) -> None:
    heads = np.array([data.draw(st.integers(0, size - 1)) for _ in range(size)])
    order = np.array(data.draw(st.permutations(range(size))))
    words = np.arange(2 * size).reshape(-1, 2)
    moved = shuffle(Parse(words, heads, tuple(f"r{i}" for i in range(size)), ("",) * size), order)
    for word in range(size):
        assert moved.heads[order[word]] == order[heads[word]]
        assert moved.relations[order[word]] == f"r{word}"
    assert np.array_equal(moved.words, words)


def test_the_same_text_gets_the_same_wrong_tree() -> None:
    texts = [UnlabelledText("", "", t) for t in ("The lens of this camera is really very sharp.", "It works.")]
    real, once = list(SpacyParser().parse(texts)), list(ShuffledParser(SpacyParser(), 0).parse(texts))
    (alone,) = ShuffledParser(SpacyParser(), 0).parse(texts[:1])
    assert np.array_equal(alone.heads, once[0].heads)
    assert not np.array_equal(real[0].heads, once[0].heads)
    assert Counter(real[0].relations) == Counter(once[0].relations)
    assert np.array_equal(real[0].words, once[0].words)
