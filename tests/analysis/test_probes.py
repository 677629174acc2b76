"""What a model knows of syntax: attention on maps of known answers, probes on trees that states hold, known shifts."""

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domadapt.analysis.ablation import outputs_by_switch, reuse_outputs, zero_head
from domadapt.analysis.attention import (
    ALL,
    DRAWN_FROM,
    FEWEST_WORDS,
    OFFSETS,
    Tally,
    as_parse,
    heads_of,
    most_syntactic,
    record_weights,
)
from domadapt.analysis.probes import (
    fit,
    linear_baseline,
    score,
    spanning_tree,
    spearman,
    squared_distances,
    structural_probe,
)
from domadapt.analysis.shift import compare, domain_shift, jensen_shannon, proxy_a_distance, text_states
from domadapt.analysis.subject import Side, Subject, every_layer
from domadapt.config.resolvers import SIDES
from domadapt.data.records import Record, Span
from domadapt.models.contracts import AttentionCall
from domadapt.reporting.analysis_page import probes_section, shift_section
from domadapt.reporting.render import page
from domadapt.syntax.controls import random_heads
from domadapt.syntax.parser import Parse, SpacyParser
from domadapt.syntax.trees import Tree, tree_distances, trees
from domadapt.utils.text import plain_json
from tests.support import TEXTS, parsed_batch, parsed_examples, setting_of, tiny_encoder
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
        heads = random_heads(size, random).tolist()
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
    assert linear_baseline([tree, other]).uuas == pytest.approx(6 / 7)
    assert len(spanning_tree(np.zeros((3, 3)), np.ones(3, bool))) == 2  # no distance is no missing edge


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
        length = int(batch.attention_mask[0].sum())
        torch.testing.assert_close(batch.text_states(layers[-1])[0], layers[-1][0, :length].mean(0))
        seen += len(batch.index)
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
    written = page("Probe", [probes_section(found, names)])
    assert f"joining neighbours {100 * found.linear['target'].uuas:.1f} %" in written
    few = structural_probe(subject(TEXTS))
    assert "too few" in page("Probe", [probes_section(few, names)]) and few.found == {}
    assert structural_probe(subject([])).reason


def test_weights_are_those_of_softmax_and_every_layer_is_read_as_one_is() -> None:
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)
    seen: list[Any] = []

    def spy(call: AttentionCall) -> torch.Tensor:
        scores = call.query @ call.key.transpose(-1, -2) * call.scaling
        seen.append(scores.masked_fill(~call.mask, float("-inf")).softmax(-1))
        return call.inner()

    with torch.no_grad():
        plain = encoder(batch).logits
        with record_weights(encoder, [0, 1]) as every:
            logits = encoder(batch).logits
        for layer in range(2):
            with record_weights(encoder, [layer]) as one:
                encoder(batch)
            torch.testing.assert_close(every[layer], one[0])
        encoder.hook_attention(1, spy)
        encoder(batch)
    assert encoder.attention_hooks == {1: [spy]}  # reading has left no hook behind
    torch.testing.assert_close(logits, plain)  # to read changes nothing
    torch.testing.assert_close(every[1], seen[0])


def test_a_hooked_layer_is_read_through_its_hook() -> None:
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)

    def uniform(call: AttentionCall) -> torch.Tensor:
        return call.value.mean(2, keepdim=True).expand_as(call.value).transpose(1, 2)

    encoder.hook_attention(0, uniform)
    with torch.no_grad(), record_weights(encoder, [0]) as found:
        encoder(batch)
    torch.testing.assert_close(found[0], torch.full_like(found[0], 1 / batch.input_ids.shape[1]))


def test_head_and_drawing_by_hand() -> None:
    parse = parse_of([1, 1, 1], ["nsubj", "root", "punct"])
    away = np.eye(3, dtype=np.float32)
    onto = np.array([[0.3, 0.7, 0], [0.01, 0.02, 0], [0.5, 0.5, 0]], dtype=np.float32)
    assert most_syntactic(np.stack([away, onto]), parse) == 1
    drawn, agree, of = as_parse(onto, parse)
    assert (agree, of) == (1, 1) and drawn.heads.tolist() == [1, 0, 0]
    assert drawn.relations == ("70", "punct", "punct")  # the second word's attention is below DRAWN_FROM
    assert onto[1].max() < DRAWN_FROM


def test_accuracy_and_offsets_by_hand() -> None:
    """Determiners find the noun two words on; a head that always looks one word back finds none, nor reversed."""
    parse = parse_of([2, 2, 2, 2], ["det", "amod", "root", "punct"])
    knows, reverse, back = np.zeros((3, 4, 4), np.float32)
    knows[:, 2] = 1  # every word looks at the noun
    reverse[2] = [0.4, 0.5, 0.6, 0.1]  # the noun looks at its words, and most at itself
    back[np.arange(4), [0, 0, 1, 2]] = 1
    tally = Tally()
    tally.add(np.stack([knows, reverse, back]), parse, np.ones(4, dtype=bool))
    assert tally.words == {"det": 1, "amod": 1, ALL: 2}  # neither the root nor punctuation
    assert tally.hits["det"].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert tally.hits[ALL].tolist() == [[2, 0, 0], [0, 2, 1]]  # read backwards, 'one back' is 'one on': amod
    assert OFFSETS[int(tally.offsets["det"].argmax())] == 2
    lost = Tally()
    lost.add(np.stack([knows]), parse, np.array([True, True, False, True]))  # the noun was cut off
    assert lost.words == {ALL: 0}


def test_the_best_head_is_chosen_on_the_source() -> None:
    parse = parse_of([1, 1], ["det", "root"])
    good, bad = np.array([[0.0, 1], [0, 1]], np.float32), np.array([[0.0, 1], [1, 0]], np.float32)
    bad[0] = [1, 0]
    tallies: dict[str, dict[str, Tally]] = {"before": {}, "after": {}}
    wrong = np.zeros((2, 3, 3), np.float32)
    wrong[:, :, 2] = 1
    for sides in tallies.values():
        sides["source"], sides["target"] = Tally(), Tally()
        for _ in range(FEWEST_WORDS):
            sides["source"].add(np.stack([good, bad]), parse, np.ones(2, dtype=bool))
            sides["target"].add(wrong, parse_of([1, 1, 2], ["det", "root", "root"]), np.ones(3, dtype=bool))
    [whole, det] = heads_of(tallies, layers=2)
    assert (whole.name, det.name, det.words, det.offset) == (
        ALL,
        "det",
        {"source": FEWEST_WORDS, "target": FEWEST_WORDS},
        1,
    )
    best = det.best["before"]
    assert (best.layer, best.head, best.accuracy["source"], best.accuracy["target"]) == (0, 0, 1.0, 0.0)
    assert det.offset_accuracy == {"source": 1.0, "target": 1.0}


def test_switched_off_one_at_a_time_and_nothing_is_left_behind() -> None:
    """With what lies below taken from before, the outputs are those of a whole pass."""
    session = setting_of(tiny_encoder())
    encoder, batch = session.encoder, session.collator(session.dev)
    with torch.no_grad():
        plain = session.task.rows(encoder(batch), batch).probabilities
        found = dict(outputs_by_switch(session, batch, 2))
        assert list(found) == [None, *((layer, head) for layer in range(2) for head in range(4))]
        np.testing.assert_array_equal(session.task.rows(found[None], batch).probabilities, plain)
        for (layer, head), output in [(at, output) for at, output in found.items() if at is not None]:
            with encoder.hooked(layer, lambda call, off=head: zero_head(call.inner(), off)):
                whole = session.task.rows(encoder(batch), batch).probabilities
            np.testing.assert_allclose(session.task.rows(output, batch).probabilities, whole, atol=1e-6)
            assert np.abs(whole - plain).max() > 1e-6
        np.testing.assert_array_equal(session.task.rows(encoder(batch), batch).probabilities, plain)
    assert encoder.attention_hooks == {}
    with reuse_outputs(encoder.layers(), [None]):
        assert "forward" in encoder.layers()[0].__dict__
    assert "forward" not in encoder.layers()[0].__dict__


COUNTS = st.lists(st.sampled_from("abcde"), min_size=1).map(Counter)


@given(COUNTS, COUNTS)
def test_divergence_is_scipys(one: Counter[str], other: Counter[str]) -> None:
    from scipy.spatial.distance import jensenshannon

    items = sorted(one | other)
    expected = jensenshannon([one[i] for i in items], [other[i] for i in items], base=2) ** 2
    assert jensen_shannon(one, other) == pytest.approx(expected, abs=1e-6) == jensen_shannon(other, one)
    near = Counter(a=7_891_546, b=9_623_109), Counter(a=7_891_547, b=9_623_110)  # scipy's is NaN
    assert jensen_shannon(*near) == pytest.approx(0, abs=1e-9)


@given(st.lists(COUNTS, min_size=1, max_size=6))
def test_a_domain_shares_all_with_itself(texts: list[Counter[str]]) -> None:
    found = compare(texts, texts[::-1])
    assert (found.types, found.tokens, found.new) == (1, 1, ())
    assert found.divergence == pytest.approx(0, abs=1e-9)
    strange = compare(texts, [Counter("xyz")])
    assert strange is not None and strange.tokens == 0 and strange.divergence == pytest.approx(1)


def test_what_moves_is_named() -> None:
    found = compare([Counter(a=3, b=1), Counter(a=1, b=3)], [Counter(a=1, c=3)])
    assert (found.types, found.tokens, found.different, found.occurrences) == (0.5, 0.25, 2, 4)
    assert found.moved[:2] == (("c", 0.0, 0.75), ("b", 0.5, 0.0)) and found.new == ("c",)
    assert found.divergence_within == pytest.approx(jensen_shannon(Counter(a=3, b=1), Counter(a=1, b=3)))
    by_label = compare([Counter("a"), Counter("b")] * 50, [Counter("c")])  # every other text is of one label
    assert by_label.divergence_within is not None and by_label.divergence_within < 0.1
    assert compare([], [Counter("a")]) is None and compare([Counter("a")], [Counter()]) is None


def test_distances_of_known_domains() -> None:
    random = np.random.default_rng(0)
    one, same, other = (random.normal(loc, 1, (300, 8)) for loc in (0, 0, 100))
    near = proxy_a_distance(one, same)
    assert near is not None and near < 0.3
    assert proxy_a_distance(one, other) == 2
    halfway = proxy_a_distance(one, random.normal(0.5, 1, (300, 8)))
    assert halfway is not None and 0.5 < halfway < 1.5  # Bayes' error at distance √2 is 0.24, so 1.04


def side(domain: str, encoder: Any, count: int = 24) -> Side:
    aspects = {"camera": ("lens", "flash"), "laptop": ("screen", "lens")}[domain]
    nouns = [aspects[i % 2] for i in range(count)]
    texts = [f"The {noun} is sharp." for noun in nouns]
    examples, _ = parsed_examples(encoder, texts, 64)
    records = tuple(
        Record(str(i), domain, t, spans=(Span(4, 4 + len(noun), "aspect"), Span(len(t) - 6, len(t) - 1, "opinion")))
        for i, (t, noun) in enumerate(zip(texts, nouns, strict=True))
    )
    return Side(domain, examples, records)


def test_the_analysis_of_two_domains() -> None:
    encoder = tiny_encoder()
    session = setting_of(encoder)
    subject = Subject(session, session, side("camera", encoder), side("laptop", encoder), SpacyParser())
    found = domain_shift(subject)
    assert set(found.compared) == {"words", "parts of speech", "relations", "labels", "aspect terms", "opinion terms"}
    terms = found.compared["aspect terms"]
    assert (terms.types, terms.tokens, terms.new) == (0.5, 0.5, ("screen",))
    words = found.compared["words"]
    assert words.types == pytest.approx(4 / 5) and words.tokens == pytest.approx(7 / 8)
    assert found.compared["labels"].divergence == 0
    assert found.lengths is not None and (found.lengths.source, found.lengths.target, found.lengths.delta) == (4, 4, 0)
    assert found.layers == ("embeddings", "layer 0", "layer 1")
    assert found.a_distances["before"] == found.a_distances["after"]  # the same model twice
    assert all(0.5 < value < 1.5 for value in found.a_distances["before"])  # half of the texts are the other's
    written = page("Shift", [shift_section(found, {"source": "camera", "target": "laptop"})])
    assert "words 87.5 %" in written and "commonest aspect terms that it lacks: screen" in written
    assert "proxy A-distance in the pretrained model" in written
    assert plain_json(asdict(found))["compared"]["words"]["different"] == 5
    for count, last, told in ((60, 1.3, "no more than chance"), (2000, 1.3, "parted the"), (2000, 0.7, "closer")):
        moved = replace(found, a_distances={"before": (1.0,), "after": (last,)}, texts=dict.fromkeys(SIDES, count))
        assert told in shift_section(moved, {"source": "camera", "target": "laptop"}).blocks[-1].text

    bare = replace(subject, target=Side("laptop", side("laptop", encoder, 5).examples))
    less = domain_shift(bare)
    assert set(less.compared) == {"words", "parts of speech", "relations"} and less.a_distances == {}
    assert "No A-distance: fewer than 20 texts" in page("Shift", [shift_section(less, {"source": "a", "target": "b"})])
    empty = domain_shift(replace(subject, target=Side("laptop", [])))
    assert empty.compared == {} and empty.lengths is None
    assert shift_section(empty, {"source": "a", "target": "b"}).blocks


def test_states_come_back_in_the_order_of_the_texts() -> None:
    session = setting_of(tiny_encoder(), texts=["Nope.", "The lens isn't sharp at all, is it?", "So it is."])
    together = text_states(session, session.source, 3, "look")
    alone = [text_states(session, [replace(e, index=0)], 1, "look") for e in session.source]
    for layer, states in enumerate(together):
        np.testing.assert_allclose(states, [one[layer][0] for one in alone], atol=1e-5)
