"""The best tree against all trees there are."""

from itertools import product

import numpy as np
import pytest

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.spanning_tree import FloatArray, best_tree


def is_tree(heads: IntArray) -> bool:
    """One root, to which all words lead."""
    place = np.asarray(heads)
    own = np.arange(len(place))
    for _ in own:
        place = np.asarray(heads)[place]
    return int((np.asarray(heads) == own).sum()) == 1 and len(set(place.tolist())) == 1


def total(scores: FloatArray, heads: IntArray) -> float:
    return float(scores[np.arange(len(heads)), heads].sum())


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_no_other_tree_has_more(words: int) -> None:
    every = [heads for heads in map(np.array, product(range(words), repeat=words)) if is_tree(heads)]
    assert len(every) == words ** (words - 1)  # Cayley's
    for seed in range(60):
        random = np.random.default_rng(seed)
        scores = random.normal(size=(words, words)) if seed % 3 else random.integers(0, 3, (words, words)).astype(float)
        found = best_tree(scores)
        assert is_tree(found)
        assert total(scores, found) == pytest.approx(max(total(scores, heads) for heads in every))


def test_many_words_have_a_tree_and_none_have_none() -> None:
    scores = np.random.default_rng(0).normal(size=(60, 60)) * 1e3
    scores[:, 7] += 1e6  # many would be children of one
    assert is_tree(best_tree(scores))
    assert is_tree(best_tree(np.zeros((40, 40))))
    assert best_tree(np.zeros((0, 0))).shape == (0,)
