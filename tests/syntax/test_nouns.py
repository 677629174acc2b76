"""Nouns are known by universal tags, whoever gives them, and never silently missed; and rules of paths to them."""

from pathlib import Path

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.syntax.conllu import ConlluParser, conllu
from domadapt.syntax.nouns import PENN, NounPhrase, learn_rules, linked, noun_phrases, universal
from domadapt.syntax.parser import SHIPPED, Parse, SpacyParser, from_doc, load_pipeline

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
    again.write_text(conllu(UnlabelledText("1", "", TEXT), parse), encoding="utf-8")
    [read] = ConlluParser(again).parse(unlabelled([TEXT]))
    assert read.tags == parse.tags


def test_a_pipeline_of_another_language_gives_universal_tags() -> None:
    words, heads = TEXT.split(), [4] * 6
    tags = ["PPOSAT", "CARD", "NN", "NE", "VVFIN", "NN"]
    doc = Doc(Vocab(), words, tags=tags, pos=UPOS, morphs=NUMBER, heads=heads, deps=["dep"] * 6)
    assert from_doc(doc).tags == ("PRON", "NUM", "NOUN", "NOUN|Plur", "VERB", "NOUN|Plur")
    assert list(noun_phrases(from_doc(doc), TEXT)) == PHRASES


def test_the_shipped_parsers_tags_are_all_known() -> None:
    labels = load_pipeline(SHIPPED).get_pipe("tagger").labels
    assert {*labels} <= PENN.keys()
    [parse] = SpacyParser().parse(unlabelled(["The battery packs of my phone are new."]))
    assert " ".join(map(universal, parse.tags)) == "DET NOUN NOUN ADP PRON NOUN VERB ADJ PUNCT"


def test_a_parser_without_tags_is_refused_in_words(tmp_path: Path) -> None:
    parse = columns(tmp_path / "a.conllu", ["_"] * 6, ["_"] * 6, [""] * 6)
    with pytest.raises(ValueError, match=r"gives no part-of-speech tags of 'Its two battery .* tags \(UPOS\)"):
        list(noun_phrases(parse, TEXT))


Sentence = tuple[UnlabelledText, Parse]


def parsed(*words: str) -> Sentence:
    """Of words as ``form/tag/head/relation``, heads counted from 0."""
    forms, tags, heads, relations = zip(*(word.split("/") for word in words), strict=True)
    ends = np.cumsum([len(form) + 1 for form in forms])
    ranges = np.stack([ends - [len(form) + 1 for form in forms], ends - 1], axis=1)
    return UnlabelledText("", "", " ".join(forms)), Parse(ranges, np.array([*map(int, heads)]), relations, tags)


SUBJECT = parsed("The/DT/2/det", "battery/NN/2/compound", "life/NN/4/nsubj", "is/VBZ/4/cop", "great/JJ/4/ROOT")
MODIFIER = parsed("A/DT/2/det", "great/JJ/2/amod", "screen/NN/3/obj", "helps/VBZ/3/ROOT", "work/NN/3/obl")


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
