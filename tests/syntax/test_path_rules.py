"""Paths against slow references, and rules on trees made by hand."""

from collections import deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from domadapt.data.domains import UnlabelledText
from domadapt.syntax.nouns import learn_rules, linked
from domadapt.syntax.parser import Parse
from domadapt.syntax.trees import path, paths_from

Sentence = tuple[UnlabelledText, Parse]


def parsed(*words: str) -> Sentence:
    """Of words as ``form/tag/head/relation``, heads counted from 0."""
    forms, tags, heads, relations = zip(*(word.split("/") for word in words), strict=True)
    ends = np.cumsum([len(form) + 1 for form in forms])
    ranges = np.stack([ends - [len(form) + 1 for form in forms], ends - 1], axis=1)
    return UnlabelledText("", "", " ".join(forms)), Parse(ranges, np.array([*map(int, heads)]), relations, tags)


SUBJECT = parsed("The/DT/2/det", "battery/NN/2/compound", "life/NN/4/nsubj", "is/VBZ/4/cop", "great/JJ/4/ROOT")
MODIFIER = parsed("A/DT/2/det", "great/JJ/2/amod", "screen/NN/3/obj", "helps/VBZ/3/ROOT", "work/NN/3/obl")


@st.composite
def trees(draw: st.DrawFn) -> Parse:
    """A text of one or two sentences: a head comes before its word in a shuffled order."""
    size = draw(st.integers(1, 8))
    order = draw(st.permutations(range(size)))
    heads = np.zeros(size, np.int64)
    for place, word in enumerate(order):
        root = place == 0 or (place > 2 and draw(st.booleans()) and draw(st.booleans()))
        heads[word] = word if root else order[draw(st.integers(0, place - 1))]
    relations = tuple(draw(st.sampled_from(["a", "b", "c"])) for _ in range(size))
    return Parse(np.stack([np.arange(size), np.arange(size) + 1], axis=1), heads, relations, ("NN",) * size)


def distances(parse: Parse, start: int) -> dict[int, int]:
    """Arcs from a word to each that can be reached, by search in breadth."""
    found, todo = {start: 0}, deque([start])
    while todo:
        word = todo.popleft()
        near = [int(parse.heads[word]), *np.flatnonzero(parse.heads == word).tolist()]
        for other in near:
            if other not in found:
                found[other] = found[word] + 1
                todo.append(other)
    return found


@given(trees(), st.integers(0, 4))
def test_paths_are_shortest_and_the_way_back_is_the_mirror(parse: Parse, longest: int) -> None:
    size = len(parse.words)
    for start in range(size):
        expected = distances(parse, start)
        for end in range(size):
            there, back = path(parse, start, end), path(parse, end, start)
            assert (None if there is None else len(there)) == expected.get(end)
            if there is not None and back is not None:
                assert [step.removeprefix("^") for step in there] == [s.removeprefix("^") for s in reversed(back)]
                assert all(a.startswith("^") != b.startswith("^") for a, b in zip(there, reversed(back), strict=True))
        near = {one.end: one.path for one in paths_from(parse, [start], longest)}
        assert near == {end: path(parse, start, end) for end, arcs in expected.items() if 0 < arcs <= longest}


def test_a_rule_leads_to_the_whole_run_of_nouns() -> None:
    assert {(words, way) for words, _, way in linked(*SUBJECT, {4}, 1)} == {((1, 3), ("nsubj",))}
    assert ((1, 3), 4, ("nsubj", "compound")) in linked(*SUBJECT, {4}, 2)
    assert {way for _, _, way in linked(*MODIFIER, {1}, 3)} == {("^amod",), ("^amod", "^obj", "obl")}
    assert not [*linked(*SUBJECT, {2}, 3)]  # the run has the opinion word in it


def test_rules_are_taken_by_what_they_add_and_no_more_than_raise_the_score() -> None:
    texts, parses = zip(SUBJECT, MODIFIER, MODIFIER, strict=True)
    opinions, terms = [{4}, {1}, {1}], [{(1, 3)}, {(2, 3)}, {(2, 3)}]
    rules = learn_rules(texts, parses, opinions, terms, 10, 3)
    assert [rule.path for rule in rules] == [("^amod",), ("nsubj",)]
    assert [(rule.found, rule.right) for rule in rules] == [(2, 2), (1, 1)]
    assert str(rules[1]) == "nsubj: 1 of 1 are terms (100 %), as from 'great' to 'battery life'"
    assert [rule.path for rule in learn_rules(texts, parses, opinions, terms, 1, 3)] == [("^amod",)]
    again = learn_rules(texts[::-1], parses[::-1], opinions[::-1], terms[::-1], 10, 3)
    assert [rule[:3] for rule in again] == [rule[:3] for rule in rules]


def test_nothing_is_learnt_of_nothing() -> None:
    assert learn_rules([], [], [], [], 10, 3) == []
    assert learn_rules(*zip(SUBJECT, strict=True), [{4}], [set()], 10, 3) == []  # type: ignore[call-arg]
