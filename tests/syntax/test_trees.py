"""Trees, their controls, nouns and rules of paths, against searches that are obviously right."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.vocab import Vocab

from domadapt.config.compose import compose
from domadapt.data.batches import Batch, Collator, encode
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.methods.injection.tree_bias import distance_kinds
from domadapt.syntax import trees
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.conllu import ConlluParser, conllu
from domadapt.syntax.controls import Control, Linear, RandomTree, SelfLoops, Shuffled, controlled, random_heads, shuffle
from domadapt.syntax.nouns import PENN, NounPhrase, learn_rules, linked_nouns, noun_phrases, universal_tag
from domadapt.syntax.parser import SHIPPED, Parse, SpacyParser, from_doc, load_pipeline
from tests.parsers import MadeParser, word_ranges
from tests.support import EVERY_INJECTION, built, tiny_encoder, view_of

ENCODER = tiny_encoder()
WORDS = ["the", "incomprehensible", "menus", "of", "this", "camera", "isn't", "fiddling", "about"]


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """Heads of one or more trees: each word hangs on an earlier one in some order, or is a root, its own head."""
    size = draw(st.integers(0, len(WORDS)))
    order = draw(st.permutations(range(size)))
    heads = [*range(size)]
    for place, word in enumerate(order):
        heads[word] = order[draw(st.integers(0, place))]
    return heads


def searched(heads: list[int], start: int) -> dict[int, int]:
    """Arcs from a word to each that can be reached, breadth first."""
    found, front = {start: 0}, [start]
    while front:
        near = [w for w, head in enumerate(heads) for f in front if w != f and (head == f or heads[f] == w)]
        front = [*{*near} - found.keys()]
        found |= dict.fromkeys(front, max(found.values()) + 1)
    return found


@given(st.lists(forests(), min_size=1, max_size=3), st.integers(1, 5))
def test_distances_and_ancestors_are_those_of_a_search(texts: list[list[int]], first: int) -> None:
    most = max(1, *map(len, texts))
    heads = torch.tensor([[*own, *range(len(own), most)] for own in texts])
    apart, above = trees.tree_distances(heads), trees.ancestors(heads, most)
    for row, own in enumerate(heads.tolist()):
        for word in range(most):
            found = searched(own, word)
            assert apart[row, word].tolist() == [found.get(other, -1) for other in range(most)]
            way = [word]
            while own[way[-1]] != way[-1]:
                way.append(own[way[-1]])
            assert above[row, word].nonzero().flatten().tolist() == sorted(way)
    first = min(first, most)
    assert torch.equal(trees.tree_distances(heads, first), apart[:, :first, :first])


def test_a_chain_of_a_thousand_words_is_counted_to_its_end() -> None:
    """Where half precision would have lost count."""
    heads = torch.arange(-1, 999).clamp(min=0).unsqueeze(0)
    with torch.autocast("cpu", torch.bfloat16):
        apart = trees.tree_distances(heads)[0]
    places = torch.arange(1000)
    assert torch.equal(apart, (places.unsqueeze(1) - places).abs())


@given(st.lists(forests(), min_size=1, max_size=3), st.integers(1, 4), st.integers(4, 24))
def test_pieces_are_as_far_apart_as_their_words(texts: list[list[int]], most: int, longest: int) -> None:
    tokenizer = ENCODER.tokenizer
    words = [WORDS[: len(own)] for own in texts]
    ranges = [word_ranges(" ".join(own))[: len(own)] for own in words]
    parses = [Parse(r, np.array(own, np.int64), ("obj",) * len(own), ("",) * len(own)) for r, own in zip(ranges, texts)]
    examples, _ = encode([" ".join(own) for own in words], ranges, tokenizer, longest, parses)
    kinds = distance_kinds(Collator(tokenizer.pad_token_id, {"obj": 1})(examples), most)
    for row, (example, own) in enumerate(zip(examples, texts, strict=True)):
        of_piece = [*example.alignment.piece_words().tolist(), *[-1] * (kinds.shape[1] - len(example.input_ids))]
        for here, one in enumerate(of_piece):
            found = searched(own, one) if one >= 0 else {}
            expected = [most + 2 if -1 in (one, w) else min(found.get(w, most + 1), most + 1) for w in of_piece]
            assert kinds[row, here].tolist() == expected


@given(forests(), st.data(), st.integers(0, 4))
def test_paths_are_shortest_and_the_way_back_is_the_mirror(heads: list[int], data: st.DataObject, longest: int) -> None:
    size = len(heads)
    relations = tuple(data.draw(st.sampled_from(["a", "b", "c"])) for _ in heads)
    words = np.stack([np.arange(size), np.arange(size) + 1], axis=1)
    parse = Parse(words, np.array(heads, np.int64), relations, ("NN",) * size)
    every = [{end: path for _, end, path in trees.paths_from(parse, [start], size)} for start in range(size)]
    for start, ways in enumerate(every):
        assert {end: len(way) for end, way in ways.items()} == {e: n for e, n in searched(heads, start).items() if n}
        for end, there in ways.items():
            back = every[end][start]
            assert [step.removeprefix("^") for step in there] == [s.removeprefix("^") for s in reversed(back)]
            assert all(a.startswith("^") != b.startswith("^") for a, b in zip(there, reversed(back), strict=True))
            if len(there) == 1:
                assert there[0] == (f"^{relations[start]}" if heads[start] == end else relations[end])
            else:
                assert any(way == there[:-1] and every[m].get(end) == there[-1:] for m, way in ways.items())
        near = {end: path for _, end, path in trees.paths_from(parse, [start], longest)}
        assert near == {end: way for end, way in ways.items() if len(way) <= longest}


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Several texts' heads (any graph of one head a word, roots on themselves) and relation ids."""
    result = []
    for size in draw(st.lists(st.integers(0, 6), max_size=4)):
        heads = [draw(st.integers(0, size - 1)) for _ in range(size)]
        result.append((heads, [draw(st.integers(0, 3)) for _ in range(size)]))
    return result


@given(graphs())
def test_edges_are_arcs_both_ways_and_self_loops(texts: list[tuple[list[int], list[int]]]) -> None:
    expected, offset = set(), 0
    for heads, relations in texts:
        for word, (head, relation) in enumerate(zip(heads, relations, strict=True)):
            expected.add((offset + word, offset + word, 8))
            if head != word:
                expected.add((offset + head, offset + word, relation))
                expected.add((offset + word, offset + head, relation + 4))
        offset += len(heads)
    index, kinds = trees.tree_edges([np.array(h, int) for h, _ in texts], [np.array(r, int) for _, r in texts], 3)
    found = list(zip(index[0].tolist(), index[1].tolist(), kinds.tolist(), strict=True))
    assert sorted(found) == sorted(expected)  # each once
    assert len(trees.edge_groups({"a": 1, "b": 2, "c": 3})) == 9


@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.integers(0, n - 1), min_size=n, max_size=n)), st.data())
def test_arcs_of_a_relation_and_its_subtypes(heads: list[int], data: st.DataObject) -> None:
    names = [data.draw(st.sampled_from(["obj", "nsubj", "nsubj:pass", "nsubjpass"])) for _ in heads]
    arcs = trees.relation_links(np.array(heads), names, "nsubj")
    assert arcs.tolist() == [[w, head] for w, head in enumerate(heads) if names[w] in ("nsubj", "nsubj:pass")]


def test_vocabulary_does_not_depend_on_order() -> None:
    assert trees.relation_vocabulary(["b", "a", "b"]) == trees.relation_vocabulary(["a", "b"]) == {"a": 1, "b": 2}


Tags = list[str]
TEXT = "Its two battery packs charge phones"
PHRASES = [NounPhrase(2, 4, True), NounPhrase(5, 6, True)]
UPOS = ["PRON", "NUM", "NOUN", "NOUN", "VERB", "NOUN"]
NUMBER = ["", "Number=Plur", "Number=Sing", "Number=Plur", "Number=Plur", "Number=Plur"]
XPOS = ["PRP$", "CD", "NN", "NNS", "VBP", "NNS"]


def columns(path: Path, upos: Tags, xpos: Tags, feats: Tags) -> Parse:
    rows = zip(TEXT.split(), upos, xpos, feats, strict=True)
    lines = [f"{i}\t{w}\t_\t{u}\t{x}\t{f or '_'}\t{5 * (i != 5)}\tdep\t_\t_" for i, (w, u, x, f) in enumerate(rows, 1)]
    path.write_text("\n".join([f"# text = {TEXT}", *lines, "", ""]), encoding="utf-8")
    [parse] = ConlluParser(path).parse(unlabelled([TEXT]))
    return parse


@pytest.mark.parametrize(
    ("upos", "xpos", "feats"),
    [
        (["_"] * 6, XPOS, [""] * 6),
        (UPOS, XPOS, NUMBER),
        (UPOS, ["_"] * 6, NUMBER),
        (UPOS, ["PPOSAT", "CARD", "NN", "NE", "VVFIN", "NN"], NUMBER),  # another language's tags
    ],
)
def test_columns_that_say_the_same_give_the_same_nouns(upos: Tags, xpos: Tags, feats: Tags, tmp_path: Path) -> None:
    parse = columns(tmp_path / "a.conllu", upos, xpos, feats)
    assert list(noun_phrases(parse, TEXT)) == PHRASES
    again = tmp_path / "again.conllu"
    again.write_text(conllu("1", TEXT, parse), encoding="utf-8")
    [read] = ConlluParser(again).parse(unlabelled([TEXT]))
    assert read.tags == parse.tags


def test_a_pipeline_of_another_language_gives_universal_tags() -> None:
    words, heads = TEXT.split(), [4] * 6
    tags = ["PPOSAT", "CARD", "NN", "NE", "VVFIN", "NN"]
    doc = Doc(Vocab(), words, tags=tags, pos=UPOS, morphs=NUMBER, heads=heads, deps=["dep"] * 6)
    assert from_doc(doc).tags == ("PRON", "NUM", "NOUN", "NOUN|Plur", "VERB", "NOUN|Plur")
    assert list(noun_phrases(from_doc(doc), TEXT)) == PHRASES


def test_the_shipped_parsers_tags_are_all_known() -> None:
    assert {*load_pipeline(SHIPPED).get_pipe("tagger").labels} <= PENN.keys()
    [parse] = SpacyParser().parse(unlabelled(["The battery packs of my phone are new."]))
    assert " ".join(map(universal_tag, parse.tags)) == "DET NOUN NOUN ADP PRON NOUN VERB ADJ PUNCT"


def test_a_parser_without_tags_is_refused_in_words(tmp_path: Path) -> None:
    parse = columns(tmp_path / "a.conllu", ["_"] * 6, ["_"] * 6, [""] * 6)
    with pytest.raises(ValueError, match=r"gives no part-of-speech tags of 'Its two battery .* tags \(UPOS\)"):
        list(noun_phrases(parse, TEXT))


def parsed(*words: str) -> tuple[UnlabelledText, Parse]:
    """Of words as ``form/tag/head/relation``, heads counted from 0."""
    forms, tags, heads, relations = zip(*(word.split("/") for word in words), strict=True)
    text = " ".join(forms)
    return UnlabelledText("", "", text), Parse(word_ranges(text), np.array([*map(int, heads)]), relations, tags)


SUBJECT = parsed("The/DT/2/det", "battery/NN/2/compound", "life/NN/4/nsubj", "is/VBZ/4/cop", "great/JJ/4/ROOT")
MODIFIER = parsed("A/DT/2/det", "great/JJ/2/amod", "screen/NN/3/obj", "helps/VBZ/3/ROOT", "work/NN/3/obl")


def test_a_rule_leads_to_the_whole_run_of_nouns() -> None:
    assert {(words, way) for words, _, way in linked_nouns(*SUBJECT, {4}, 1)} == {((1, 3), ("nsubj",))}
    assert ((1, 3), 4, ("nsubj", "compound")) in linked_nouns(*SUBJECT, {4}, 2)
    assert {way for _, _, way in linked_nouns(*MODIFIER, {1}, 3)} == {("^amod",), ("^amod", "^obj", "obl")}
    assert not [*linked_nouns(*SUBJECT, {2}, 3)]  # the run has the opinion word in it


def test_rules_are_taken_by_what_they_add_and_no_more_than_raise_the_score() -> None:
    texts, parses = zip(SUBJECT, MODIFIER, MODIFIER, strict=True)
    opinions, terms = [{4}, {1}, {1}], [{(1, 3)}, {(2, 3)}, {(2, 3)}]
    rules = learn_rules(texts, parses, opinions, terms, 10, 3)
    assert [rule.path for rule in rules] == [("^amod",), ("nsubj",)]
    assert [(rule.matches, rule.right) for rule in rules] == [(2, 2), (1, 1)]
    assert str(rules[1]) == "nsubj: 1 of 1 are terms (100 %), as from 'great' to 'battery life'"
    assert [rule.path for rule in learn_rules(texts, parses, opinions, terms, 1, 3)] == [("^amod",)]
    again = learn_rules(texts[::-1], parses[::-1], opinions[::-1], terms[::-1], 10, 3)
    assert [rule[:3] for rule in again] == [rule[:3] for rule in rules]
    assert learn_rules([], [], [], [], 10, 3) == []
    assert learn_rules(*zip(SUBJECT, strict=True), [{4}], [set()], 10, 3) == []  # type: ignore[call-arg]


NAMES = ["shuffled", "linear", "random", "self_loops"]


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
    parser, words = MadeParser(lambda _: parse), len(parse.heads)
    several = {Shuffled(parser, seed): len(roots(parse)), SelfLoops(parser): words}
    found: dict[Control, int] = {**several, Linear(parser): min(1, words), RandomTree(parser, seed): min(1, words)}
    for control, expected in found.items():
        [other], [again] = (list(control.parse(unlabelled([text]))) for _ in range(2))
        assert other.heads.tolist() == again.heads.tolist() and other.relations == again.relations
        assert len(other.heads) == len(other.relations) == words
        assert other.heads.dtype == np.int64 and all(0 <= head < words for head in other.heads)
        assert len(roots(other)) == expected
        assert all(reaches_a_root(other, word) for word in range(words))  # there is no circle
        assert np.array_equal(other.words, parse.words) and other.tags == parse.tags
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
        assert (moved.heads[order[word]], moved.relations[order[word]]) == (order[heads[word]], f"r{word}")


def test_every_tree_is_as_likely() -> None:
    """Four words have 4 ** 3 rooted trees; each is drawn 100 times in 6400, give or take four standard deviations."""
    drawn = Counter(tuple(random_heads(4, np.random.default_rng(seed)).tolist()) for seed in range(6400))
    assert len(drawn) == 64 and max(abs(count - 100) for count in drawn.values()) < 40


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
    parses = dict(zip(texts, SpacyParser().parse(texts), strict=True))
    parser = MadeParser(parses.__getitem__, "known")
    cache = ParseCache(parser, tmp_path)
    wrapped = controlled(cache, compose("train", [f"control={name}"]).control)
    assert isinstance(wrapped, Control) and wrapped.name.endswith("/known")
    first, second = (list(wrapped.parse(texts)) for _ in range(2))
    assert parser.seen == 2
    assert [p.heads.tolist() for p in first] == [p.heads.tolist() for p in second]
    assert [p.heads.tolist() for p in cache.parse(texts)] == [p.heads.tolist() for p in parses.values()]
    assert len([*tmp_path.glob("*.sqlite")]) == 1
    assert controlled(cache, {}) is cache


def test_a_control_has_the_same_parameters_and_the_same_work(tmp_path: Path) -> None:
    """Of all injections, under every control: nothing differs but the trees."""

    def made(control: str) -> tuple[dict[str, object], Batch]:
        session = built(tmp_path, *EVERY_INJECTION, f"control={control}")
        modules = {"encoder": session.encoder, **session.methods}
        named = {f"{of}.{name}": value for of, module in modules.items() for name, value in module.named_parameters()}
        shapes = {name: (value.shape, value.requires_grad) for name, value in named.items()}
        return shapes | {"examples": (len(session.source), len(session.target))}, session.collator(session.source[:4])

    plain, batch = made("none")
    for control in NAMES:
        same, other = made(control)
        assert same == plain, control
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
        method.side_losses(view_of(session, session.source[:4]))["gnn/agreement"].backward()
        pulls[control] = sum(float(p.grad.abs().sum()) for p in session.encoder.parameters() if p.grad is not None)
        assert torch.isfinite(torch.tensor(pulls[control]))
    assert pulls["self_loops"] < 1e-4 * pulls["none"]
