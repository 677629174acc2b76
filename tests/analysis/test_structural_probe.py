"""Probes find the trees that states hold, and no others."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domadapt.analysis.probes import fit, linear, score, spanning_tree, spearman, squared_distances, structural_probe
from domadapt.analysis.subject import Side, Subject, every_layer, of_texts, of_words
from domadapt.reporting.analysis_page import probes_section as section
from domadapt.reporting.render import page
from domadapt.syntax.parser import Parse, SpacyParser
from domadapt.syntax.trees import Tree, tree_distances, trees
from tests.support import TEXTS, parsed_examples, setting_of, tiny_encoder
from tests.syntax.test_trees import forests


def parse_of(heads: list[int], relations: list[str] | None = None) -> Parse:
    places = np.arange(len(heads))
    names = relations or ["dep"] * len(heads)
    return Parse(np.stack([2 * places, 2 * places + 1], 1), np.array(heads), tuple(names), ("",) * len(heads))


@given(forests())
def test_trees_of_a_text_have_its_distances(heads: list[int]) -> None:
    found, apart = list(trees(parse_of(heads))), tree_distances(torch.tensor([heads], dtype=torch.long))[0].numpy()
    assert sorted(word for tree in found for word in tree.words.tolist()) == list(range(len(heads)))
    for tree in found:
        root = next(int(word) for word in tree.words if heads[word] == word)
        np.testing.assert_array_equal(tree.distances, apart[np.ix_(tree.words, tree.words)])
        np.testing.assert_array_equal(tree.depths, apart[root, tree.words])


def test_a_circle_is_no_tree() -> None:
    assert [tree.words.tolist() for tree in trees(parse_of([1, 0, 2, 2]))] == [[2, 3]]
    assert not list(trees(parse_of([])))
    assert [len(tree.words) for tree in trees(parse_of([0, 0, 2, 2, 2]), 3)] == [3]


def exact_states(tree: Tree, heads: list[int], directions: Tensor) -> Tensor:
    """Each word is its head and one step at a right angle to all others: squared distances are arcs."""
    states = torch.zeros(len(heads), directions.shape[1])
    for word in np.argsort(tree.depths):
        if heads[word] != word:
            states[word] = states[heads[word]] + directions[word]
    return states


def made(count: int, seed: int, width: int = 16) -> tuple[list[Tensor], list[Tree]]:
    random, turn = np.random.default_rng(seed), torch.linalg.qr(torch.randn(width, width))[0]
    states, found = [], []
    for _ in range(count):
        size = int(random.integers(5, 13))
        order = random.permutation(size)
        heads = [0] * size
        for place, word in enumerate(order):
            heads[word] = int(order[random.integers(0, place)]) if place else int(word)
        (tree,) = trees(parse_of(heads))
        found.append(tree)
        states.append(exact_states(tree, heads, turn[torch.from_numpy(random.permutation(width)[:size])]))
    return states, found


def test_states_that_hold_the_tree_are_read_without_fault() -> None:
    torch.manual_seed(0)
    (states, learnt), (others, new) = made(150, 0), made(40, 1)
    torch.testing.assert_close(squared_distances(states[0]), torch.from_numpy(learnt[0].distances).float())
    found = fit(states, learnt, epochs=20).score(others, new)
    assert found.uuas > 0.99 and found.root > 0.99
    assert found.distance > 0.9 and found.depth > 0.9  # what is tied in the tree is not tied to the last digit
    noise = [torch.randn_like(one) for one in others]
    assert fit([torch.randn_like(one) for one in states], learnt, epochs=5).score(noise, new).uuas < 0.4


def test_the_truth_scores_one_and_silence_is_left_out() -> None:
    tree, other = (next(trees(parse_of(h, r))) for h, r in (
        ([1, 1, 1, 2, 1], ["det", "ROOT", "obj", "amod", "punct"]), ([2, 2, 2, 2, 3], None),
    ))  # fmt: skip
    exact = [(t.distances.astype(float), t.depths.astype(float)) for t in (tree, other)]
    best = score(exact, [tree, other])
    assert (best.uuas, best.root, best.trees) == (1, 1, 2)
    assert best.distance == pytest.approx(1) and best.depth == pytest.approx(1)
    # Of 3 + 4 arcs that are no punctuation's, all but the second sentence's first join neighbours.
    assert linear([tree, other]).uuas == pytest.approx(6 / 7)
    assert len(spanning_tree(np.zeros((3, 3)), np.ones(3, bool))) == 2  # no distance is no missing edge


def test_no_sentence_no_number() -> None:
    empty = score([], [])
    assert empty.trees == 0 and np.isnan([empty.uuas, empty.distance, empty.root, empty.depth]).all()
    with pytest.raises(ValueError, match="no sentence to learn from"):
        fit([], [])


@given(st.lists(st.integers(0, 5), min_size=2, max_size=9), st.data())
def test_spearman_is_scipys(one: list[int], data: st.DataObject) -> None:
    from scipy.stats import spearmanr

    other = data.draw(st.lists(st.integers(0, 5), min_size=len(one), max_size=len(one)))
    if len(set(one)) > 1 and len(set(other)) > 1:
        assert spearman(np.array([one]), np.array([other]))[0] == pytest.approx(spearmanr(one, other).statistic)


def test_states_of_every_layer_are_transformers_own() -> None:
    encoder = tiny_encoder()
    session = setting_of(encoder)
    seen = 0
    for batch, layers in every_layer(session, session.source, 2, "look"):
        with torch.no_grad():
            own = encoder.base(batch.input_ids, attention_mask=batch.attention_mask, output_hidden_states=True)
        for mine, theirs in zip(layers, own.hidden_states, strict=True):
            torch.testing.assert_close(mine, theirs)
        words = of_words(batch, layers[-1])
        assert [len(states) for states in words] == batch.words.tolist()
        length = int(batch.attention_mask[0].sum())
        torch.testing.assert_close(of_texts(batch, layers[-1])[0], layers[-1][0, :length].mean(0))
        seen += len(words)
    assert seen == len(TEXTS)
    assert not encoder.layers()[0]._forward_pre_hooks


def subject(texts: list[str]) -> Subject:
    encoder = tiny_encoder()
    session = setting_of(encoder)
    examples, _ = parsed_examples(encoder, texts, 64)
    return Subject(session, session, Side("camera", examples), Side("laptop", examples), SpacyParser())


def test_the_analysis_of_a_model() -> None:
    words = [("lens", "sharp"), ("menu", "slow"), ("case", "heavy"), ("flash", "bright"), ("strap", "thin")]
    texts = [f"The {noun} of this {other} is very {what}." for noun, what in words for other, _ in words * 2]
    found = structural_probe(subject(texts))
    assert found.reason == "" and found.layers == ("embeddings", "layer 0", "layer 1")
    assert found.found["before"] == found.found["after"]  # the same model twice
    assert asdict(found)["found"]["before"]["source"][2]["trees"] == 10 and found.learnt == 40
    assert found.found["before"]["target"][2].uuas > found.linear["target"].uuas
    names = {"source": "camera", "target": "laptop"}
    written = page("Probe", [section(found, names)])
    assert f"joining neighbours {100 * found.linear['target'].uuas:.1f} %" in written
    few = structural_probe(subject(TEXTS))
    assert "too few" in page("Probe", [section(few, names)]) and few.found == {}
    assert structural_probe(subject([])).reason
