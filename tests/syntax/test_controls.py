"""Controls keep what they must keep and destroy what they must destroy."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domadapt.config.compose import compose
from domadapt.data.batches import Batch
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.controls import Control, Linear, RandomTree, SelfLoops, Shuffled, controlled, random_heads, shuffle
from domadapt.syntax.parser import Parse, SpacyParser, Text
from tests.support import EVERY_INJECTION, built
from tests.syntax.test_trees import forests

NAMES = ["shuffled", "linear", "random", "self_loops"]


class Known:
    """A parser of parses made beforehand, by text."""

    name = "known"

    def __init__(self, parses: dict[str, Parse]) -> None:
        self.parses, self.seen = parses, 0

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        for text in texts:
            self.seen += 1
            yield self.parses[text.text]

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        return (self.parses[text.text].words for text in texts)


@st.composite
def parses(draw: st.DrawFn) -> Parse:
    """A parse of one or more sentences, or of none."""
    heads = np.array(draw(forests()), np.int64)
    size = len(heads)
    relations = [draw(st.sampled_from(["obj", "nsubj", "amod"])) if heads[w] != w else "ROOT" for w in range(size)]
    return Parse(np.arange(2 * size).reshape(-1, 2), heads, tuple(relations), ("N",) * size)


def roots(parse: Parse) -> list[int]:
    return np.flatnonzero(parse.heads == np.arange(len(parse.heads))).tolist()


def reaches_a_root(parse: Parse, word: int) -> bool:
    for _ in parse.heads:
        word = int(parse.heads[word])
    return int(parse.heads[word]) == word


@given(parses(), st.text(max_size=5), st.integers(0, 3))
def test_what_every_control_keeps(parse: Parse, text: str, seed: int) -> None:
    parser, words = Known({text: parse}), len(parse.heads)
    several = {Shuffled(parser, seed): len(roots(parse)), SelfLoops(parser): words}
    found: dict[Control, int] = {**several, Linear(parser): min(1, words), RandomTree(parser, seed): min(1, words)}
    for control, expected in found.items():
        [other], [again] = (list(control.parse(unlabelled([text]))) for _ in range(2))
        assert other.heads.tolist() == again.heads.tolist()
        assert other.relations == again.relations
        assert len(other.heads) == len(other.relations) == words
        assert all(0 <= head < words for head in other.heads)
        assert other.heads.dtype == np.int64
        assert len(roots(other)) == expected
        assert all(reaches_a_root(other, word) for word in range(words))  # there is no circle
        assert np.array_equal(other.words, parse.words)
        assert other.tags == parse.tags
        assert np.array_equal(next(control.tokenize(unlabelled([text]))), parse.words)
        assert parse.heads.base is None  # what the cache gave is not written into
        if isinstance(control, Shuffled | RandomTree):
            assert Counter(other.relations) == Counter(parse.relations)
        else:
            assert len(set(other.relations)) <= 1
        if isinstance(control, RandomTree) and words:
            assert other.relations[roots(other)[0]] == "ROOT"


@given(st.data(), st.integers(1, 9))
def test_shuffled_arcs_and_relations_are_those_of_the_real_tree_renamed(data: st.DataObject, size: int) -> None:
    heads = np.array([data.draw(st.integers(0, size - 1)) for _ in range(size)])
    order = np.array(data.draw(st.permutations(range(size))))
    words = np.arange(2 * size).reshape(-1, 2)
    moved = shuffle(Parse(words, heads, tuple(f"r{i}" for i in range(size)), ("",) * size), order)
    for word in range(size):
        assert moved.heads[order[word]] == order[heads[word]]
        assert moved.relations[order[word]] == f"r{word}"


def test_every_tree_is_as_likely() -> None:
    """Four words have 4 ** 3 rooted trees; each is drawn 100 times in 6400, give or take four standard deviations."""
    drawn = Counter(tuple(random_heads(4, np.random.default_rng(seed)).tolist()) for seed in range(6400))
    assert len(drawn) == 64
    assert max(abs(count - 100) for count in drawn.values()) < 40


def test_the_same_text_gets_the_same_wrong_tree_wherever_it_stands() -> None:
    texts = [UnlabelledText("", "", t) for t in ("The lens of this camera is really very sharp.", "It works.")]
    real = list(SpacyParser().parse(texts))
    for control in (Shuffled(SpacyParser(), 0), RandomTree(SpacyParser(), 0)):
        once, (alone,) = list(control.parse(texts)), control.parse(texts[:1])
        assert np.array_equal(alone.heads, once[0].heads)
        assert not np.array_equal(real[0].heads, once[0].heads)
        other = type(control)(SpacyParser(), 1)
        assert not np.array_equal(next(other.parse(texts)).heads, alone.heads)
        assert other.name != control.name


@pytest.mark.parametrize("name", NAMES)
def test_a_control_stands_around_the_cache(name: str, tmp_path: Path) -> None:
    texts = list(unlabelled(["It works well.", "So it does."]))
    parser = Known({t.text: next(SpacyParser().parse([t])) for t in texts})
    cache = ParseCache(parser, tmp_path)
    wrapped = controlled(cache, compose("train", [f"control={name}"]).control)
    assert isinstance(wrapped, Control)
    assert wrapped.name.endswith("/known")
    first, second = (list(wrapped.parse(texts)) for _ in range(2))
    assert parser.seen == 2
    assert [p.heads.tolist() for p in first] == [p.heads.tolist() for p in second]
    assert [p.heads.tolist() for p in cache.parse(texts)] == [p.heads.tolist() for p in parser.parses.values()]
    assert len([*tmp_path.glob("*.sqlite")]) == 1
    assert controlled(cache, {}) is cache


def test_a_twin_has_the_same_parameters_and_the_same_work(tmp_path: Path) -> None:
    """Of all injections, under every control: nothing differs but the trees."""

    def made(control: str) -> tuple[dict[str, object], Batch]:
        session = built(tmp_path, *EVERY_INJECTION, f"control={control}")
        modules = {"encoder": session.encoder, **session.methods}
        named = {f"{of}.{name}": value for of, module in modules.items() for name, value in module.named_parameters()}
        shapes = {name: (value.shape, value.requires_grad) for name, value in named.items()}
        return shapes | {"examples": (len(session.source), len(session.target))}, session.collator(session.source[:4])

    plain, batch = made("none")
    for control in NAMES:
        twin, other = made(control)
        assert twin == plain, control
        assert torch.equal(other.input_ids, batch.input_ids)
        assert other.extra.keys() == batch.extra.keys()
        if control != "self_loops":  # the sentences have one root each, as the controls' trees do
            assert other.edge_index.shape == batch.edge_index.shape
            assert not torch.equal(other.edge_index, batch.edge_index)


def test_without_arcs_the_graph_tells_the_encoder_nothing(tmp_path: Path) -> None:
    """As the yaml says: hidden words have one state, so agreement with it moves no encoder state."""
    pulls = {}
    for control in ("none", "self_loops"):
        session = built(tmp_path, "injection=gnn", f"control={control}")
        [method] = session.methods.values()
        batch = session.collator(session.source[:4])
        output = session.encoder(batch)
        method.batch_losses(output, batch)["gnn/agreement"].backward()
        pulls[control] = sum(float(p.grad.abs().sum()) for p in session.encoder.parameters() if p.grad is not None)
        assert torch.isfinite(torch.tensor(pulls[control]))
    assert pulls["self_loops"] < 1e-4 * pulls["none"]
