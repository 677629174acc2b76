"""Graph edges against a slow reference."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from domadapt.syntax.trees import edge_types, relation_links, relation_vocabulary, tree_edges, word_links


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


@given(
    heads=st.integers(1, 7).flatmap(lambda n: st.lists(st.integers(0, n - 1), min_size=n, max_size=n)), data=st.data()
)
def test_whom_a_word_is_to_look_at(heads: list[int], data: st.DataObject) -> None:
    words = range(len(heads))
    among = sorted(data.draw(st.sets(st.sampled_from(words))))
    inner = [word for word in words if heads[word] != word]
    expected = {
        "parent": {(word, heads[word]) for word in among},
        "child": {(heads[word], word) for word in among if word in inner},
        "sibling": {(a, b) for a in inner for b in inner if a != b and heads[a] == heads[b] and {a, b} <= {*among}},
    }
    for target, links in expected.items():
        found = word_links(np.array(heads), target, np.array(among, dtype=np.int64))
        assert sorted(map(tuple, found.tolist())) == sorted(links)
    names = [data.draw(st.sampled_from(["obj", "nsubj", "nsubj:pass", "nsubjpass"])) for _ in words]
    arcs = relation_links(np.array(heads), names, "nsubj")
    assert arcs.tolist() == [[w, heads[w]] for w in words if names[w] in ("nsubj", "nsubj:pass")]


def test_vocabulary_does_not_depend_on_order() -> None:
    assert relation_vocabulary(["b", "a", "b"]) == relation_vocabulary(["a", "b"]) == {"a": 1, "b": 2}
