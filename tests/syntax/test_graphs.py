"""Graph edges against a slow reference."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from domadapt.syntax.graphs import edge_types, relation_vocabulary, tree_edges


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Several texts' heads (any graph of one head a word, roots on themselves) and relation ids."""
    result = []
    for size in draw(st.lists(st.integers(0, 6), max_size=4)):
        heads = [draw(st.integers(0, size - 1)) for _ in range(size)]
        result.append((heads, [draw(st.integers(0, 3)) for _ in range(size)]))
    return result


@given(trees())
def test_edges_are_arcs_both_ways_and_self_loops(texts: list[tuple[list[int], list[int]]]) -> None:
    expected, offset = set(), 0
    for heads, relations in texts:
        for word, (head, relation) in enumerate(zip(heads, relations, strict=True)):
            expected.add((offset + word, offset + word, 8))
            if head != word:
                expected.add((offset + head, offset + word, relation))
                expected.add((offset + word, offset + head, relation + 4))
        offset += len(heads)
    index, kinds = tree_edges([np.array(h, int) for h, _ in texts], [np.array(r, int) for _, r in texts], vocabulary=3)
    found = list(zip(index[0].tolist(), index[1].tolist(), kinds.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert edge_types(3) == 9


def test_vocabulary_does_not_depend_on_order() -> None:
    assert relation_vocabulary(["b", "a", "b"]) == relation_vocabulary(["a", "b"]) == {"a": 1, "b": 2}
