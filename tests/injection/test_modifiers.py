"""Spans that take in their modifiers: counting by hand, extension against the definition, trees of controls."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from domadapt.data.domains import Domains, TargetUnlabeled, UnlabelledText
from domadapt.data.records import Record, Span
from domadapt.methods.injection.modifiers import Modifiers, extent, modifier_counts
from domadapt.methods.setting import Setting
from domadapt.models.output import Output
from domadapt.syntax.controls import Linear, WordClasses
from domadapt.syntax.parser import Parse, SpacyParser, Text
from tests.support import made_of, setting_of, tiny_encoder

TEXT = "The battery life of my old dvd drive amazed me."
TAGS = ["O", "B-aspect", "I-aspect", "B-opinion", "I-opinion"]


def words_of(text: str) -> list[tuple[int, int]]:
    [parse] = SpacyParser().parse([Record("1", "d", text)])
    return [(int(start), int(end)) for start, end in parse.words]


def record(text: str, *terms: str) -> Record:
    return Record("1", "d", text, spans=tuple(Span(text.find(t), text.find(t) + len(t), "aspect") for t in terms))


def tree(*arcs: tuple[int, str]) -> Parse:
    words = np.array([(3 * i, 3 * i + 2) for i in range(len(arcs))])
    return Parse(words, np.array([head for head, _ in arcs]), tuple(name for _, name in arcs), ("",) * len(arcs))


def test_modifiers_are_counted_by_relation_inside_and_directly_before() -> None:
    #       ab     cd     ef     gh       "gh" is the head of all; "cd ef gh" is a term, "ab" an adjective before it
    parse = tree((3, "amod"), (2, "compound"), (3, "compound"), (3, "ROOT"))
    text = "ab cd ef gh"
    inside, before = modifier_counts([record(text, "cd ef gh")], [parse])
    assert inside == {("aspect", "compound"): 2}
    assert before == {("aspect", "amod"): 1}
    inside, before = modifier_counts([record(text, "gh")], [parse])
    assert (inside, before) == ({}, {("aspect", "compound"): 1})  # "ab" is not directly before
    inside, before = modifier_counts([record(text, "f gh")], [parse])  # begins within a word
    assert (inside, before) == ({}, {})


def with_modifiers(text: str, **taken: list[str]) -> tuple[Setting, Modifiers]:
    [method] = made_of("injection=modifiers").values()
    assert isinstance(method, Modifiers)
    setting = setting_of(tiny_encoder(), method, texts=[text])
    method.recall({"taken": taken})
    return setting, method.eval()


def decoded(setting: Setting, tags: dict[str, str], trees: Any = None) -> list[str]:
    """What a model that gives words these tags predicts."""
    source = setting.source
    if trees is not None:
        source = [replace(e, parse=trees.other(e.parse, e.text)) for e in source]
    batch = setting.collator(source)
    words = [source[0].text[start:end] for start, end in source[0].words.tolist()]
    logits = torch.zeros(*batch.input_ids.shape, len(TAGS))
    for word, piece in zip(words, batch.node_first_piece.tolist(), strict=True):
        logits.view(-1, len(TAGS))[piece, TAGS.index(tags.get(word, "O"))] = 3.0
    output = setting.transformed(Output(states=torch.zeros(*batch.input_ids.shape, 4), logits=logits), batch)
    [prediction] = setting.task.decode(output, batch, [source[0].words])
    return [source[0].text[s.start : s.end] for s in prediction.spans]


def test_a_span_takes_in_compounds_and_what_others_have_stays_theirs() -> None:
    setting, _ = with_modifiers(TEXT, aspect=["compound"])
    assert decoded(setting, {"drive": "B-aspect", "life": "I-aspect"}) == ["battery life", "dvd drive"]
    assert decoded(setting, {"drive": "B-aspect", "dvd": "B-opinion"}) == ["dvd", "drive"]
    assert decoded(setting, {"drive": "B-opinion"}) == ["drive"]
    setting, _ = with_modifiers(TEXT, aspect=["compound", "amod"], opinion=["compound"])
    assert decoded(setting, {"drive": "B-aspect", "life": "B-opinion"}) == ["battery life", "old dvd drive"]
    assert decoded(setting, {"drive": "B-aspect"}, Linear(SpacyParser())) == [
        "drive"
    ]  # the wrong tree has no compounds
    setting, method = with_modifiers(TEXT, aspect=["compound"])
    method.train()
    assert decoded(setting, {"drive": "B-aspect"}) == ["drive"]


class Counting(SpacyParser):
    """The shipped parser; keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        texts = list(texts)
        self.asked.extend(text.text for text in texts)
        yield from super().parse(texts, processes)


def test_only_texts_with_something_to_ask_are_parsed() -> None:
    setting, method = with_modifiers(TEXT, aspect=["compound"])
    parser = Counting()
    setting.parser = parser
    setting.source = [replace(example, parse=None) for example in setting.source]
    for tags, found in (
        ({"my": "B-aspect"}, ["my"]),  # the word before it is asked for, and is no compound
        ({"drive": "B-aspect"}, ["dvd drive"]),
        ({"drive": "B-opinion"}, ["drive"]),  # of a type that takes nothing in
        ({"The": "B-aspect"}, ["The"]),  # nothing before it
        ({"drive": "B-aspect", "dvd": "B-opinion"}, ["dvd", "drive"]),  # that is another's
        ({}, []),
    ):
        parser.asked.clear()
        setting.recent.clear()
        assert decoded(setting, tags) == found
        assert parser.asked == ([TEXT] if found in (["my"], ["dvd drive"]) else [])
    assert decoded(setting, {"drive": "B-aspect"}) == decoded(setting, {"drive": "B-aspect"}) == ["dvd drive"]
    assert parser.asked == [TEXT]  # once for all that ask
    parser.asked.clear()
    setting.recent.clear()
    method.never = {"of", "dvd"}
    assert decoded(setting, {"my": "B-aspect", "drive": "B-aspect"}) == ["my", "drive"]
    assert parser.asked == []


def test_an_owners_words_are_the_ones_that_are_parsed() -> None:
    setting, _ = with_modifiers(TEXT, aspect=["compound"])
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", TEXT)]  # "me." is one
    texts = [UnlabelledText("1", "d", TEXT, tuple(words))]
    setting.source = setting.examples(texts, "test", parses=False, labelled=False)
    assert decoded(setting, {"drive": "B-aspect"}) == ["dvd drive"]
    assert setting.parsed(setting.source)[0].words.tolist() == [list(word) for word in words]


def test_nouns_before_a_span_by_the_control_of_word_classes() -> None:
    setting, _ = with_modifiers(TEXT, aspect=["NN"])
    assert decoded(setting, {"drive": "B-aspect"}, WordClasses(SpacyParser())) == ["dvd drive"]
    setting, _ = with_modifiers(TEXT, aspect=["NN", "JJ"])
    assert decoded(setting, {"drive": "B-aspect"}, WordClasses(SpacyParser())) == ["old dvd drive"]


def test_it_learns_from_the_source_what_is_taken_in() -> None:
    texts = [f"The {noun} drive of my old {noun} player died." for noun in ("dvd", "tape", "disk")]
    records = [record(text, text.split()[1] + " drive", text.split()[6] + " player") for text in texts]
    setting, method = with_modifiers(TEXT)
    setting.domains = Domains("a", "b", tuple(records), (), (), setting.domains.unlabeled, None)
    method.least = 3
    told = method.prepare()
    assert method.memory()["taken"] == {"aspect": ["compound"]}
    assert method.never == set()  # three uses are too few to know a word by
    assert told == {"modifiers/aspect compound": 1.0}
    method.taken, method.least = {}, 7  # of six
    assert (method.prepare(), method.taken) == ({}, {})


def test_words_of_source_and_target_that_are_hardly_ever_a_modifier_are_not_asked_for() -> None:
    texts = [f"The {noun} drive of my old {noun} player died." for noun in ("dvd", "tape", "disk")]
    records = [record(text, text.split()[1] + " drive", text.split()[6] + " player") for text in texts]
    setting, method = with_modifiers(TEXT)
    target = UnlabelledText("1", "b", "The tape drive of my new tape player died. The book died.")
    setting.domains = Domains("a", "b", tuple(records), (), (), TargetUnlabeled("b", (target, target)), None)
    method.least = 3
    method.prepare()
    assert method.never == {"my", "of", "the", ".", "died"}  # not "old" and "new", of too few uses, and not "tape"


@pytest.mark.parametrize(("share", "least"), [(1.5, 10), (0.8, 0)])
def test_settings_out_of_range_are_refused(share: float, least: int) -> None:
    with pytest.raises(ValueError, match=r"modifiers\.(share=1.5|least=0): expected"):
        Modifiers(share, least)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[int], list[int], list[bool], list[bool]]:
    count = draw(st.integers(1, 9))
    heads = draw(st.lists(st.integers(0, count - 1), min_size=count, max_size=count))
    tags = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    return heads, tags, [True, *draw(flags)[1:]], draw(flags)


@given(sentences())
@settings(max_examples=300)
def test_every_extension_is_one_by_the_definition(made: tuple[list[int], list[int], list[bool], list[bool]]) -> None:
    heads, tags, begins, taken = made
    first, last = next(((i, i) for i, tag in enumerate(tags) if tag), (0, 0))
    free = [tag == 0 for tag in tags]
    texts = np.cumsum(begins) - 1
    numbers = np.concatenate([np.arange(n) for n in np.bincount(texts)])
    names = tuple("compound" if one else "amod" for one in taken)  # by number in the text, as the heads are
    parse = Parse(np.zeros((len(heads), 2), np.int64), np.array(heads), names, ("",) * len(heads))
    start = extent(first, last, parse, ["compound"], np.array(free), texts, numbers)

    def fits(row: int, low: int) -> bool:
        word = numbers[row]
        return texts[row] == texts[last] and free[row] and taken[word] and low <= heads[word] <= numbers[last]

    assert all(fits(row, numbers[row] + 1) for row in range(start, first))
    assert not (start and fits(start - 1, numbers[start]))
