"""What a text is about as a whole is found no more often than the source's annotation has its own."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.data.domains import TargetUnlabeled
from domadapt.data.records import Record, Span
from domadapt.methods.adaptation.corpus_evidence import CorpusEvidence
from domadapt.methods.adaptation.term_substitution import TermSubstitution, spellings
from domadapt.methods.products import ARE_TERMS, found_rate, held_back, product_rate, products
from domadapt.methods.setting import Setting
from domadapt.methods.term_rates import ENOUGH_TERMS, NEED_OPINION, PerText
from domadapt.syntax.parser import Parse
from domadapt.tasks.task import Prediction
from domadapt.training.build import build
from domadapt.training.target_card import product_terms, questions, unjudged_terms
from tests.adaptation.test_target_labels import Fixed
from tests.support import setting_of, tiny_encoder


def record(owner: str, noun: str, aspect: bool) -> tuple[Record, Parse]:
    """Two words, 'my laptop' or 'good lens', the second of them a noun."""
    words = np.array([[0, len(owner)], [len(owner) + 1, len(owner) + 1 + len(noun)]])
    spans = (Span(int(words[1, 0]), int(words[1, 1]), "aspect"),) if aspect else ()
    parse = Parse(words, np.array([1, 1]), ("poss", "ROOT"), ("PRP$", "NN"))
    return Record("1", "x", f"{owner} {noun}", spans=spans), parse


@pytest.mark.parametrize(("annotated", "low", "high"), [(0, 0.0, 0.3), (10, 0.45, 0.55), (20, 0.99, 1.01)])
def test_the_rate_is_counted_in_the_sources_annotation(annotated: int, low: float, high: float) -> None:
    mine = [record("my", "laptop", place < annotated) for place in range(20)]
    others = [record("good", "lens", aspect=True) for _ in range(20)]
    records, parses = zip(*mine, *others, strict=True)
    rate = product_rate(records, parses, frozenset({"aspect"}), frozenset({"laptop"}))
    expected = (annotated + 5.0) / 25  # five more uses that are as other nouns', all of which are terms
    assert rate == pytest.approx(expected)
    assert low <= (rate - 0.2) / 0.8 <= high


def test_without_terms_or_products_nothing_is_told() -> None:
    records, parses = zip(*[record("good", "lens", aspect=False)] * 9, strict=True)
    nothing = frozenset[str]()
    assert (
        product_rate(records, parses, frozenset({"aspect"}), nothing) == product_rate([], [], nothing, nothing) == 1.0
    )


@given(
    st.lists(st.tuples(st.integers(-40, 40), st.booleans()), max_size=40, unique_by=lambda pair: pair[0]),
    st.floats(0, 3),
)
def test_no_product_is_found_more_often_than_asked_and_none_is_lowered_without_need(
    words: list[tuple[int, bool]], rate: float
) -> None:
    odds = torch.tensor([value / 4 for value, _ in words])
    product = torch.tensor([own for _, own in words], dtype=torch.bool)
    amount = held_back(odds, product, rate)
    own = odds[product]
    if not len(own) or product.all():
        assert amount == 0.0
        return
    most = rate * float((odds[~product] > 0).float().mean())
    found, held = float((own > 0).float().mean()), float((own + amount > 0).float().mean())
    assert amount <= 0.0 and held <= max(0.0, most) + 1e-6
    assert (amount == 0.0) == (found <= most)
    # the first that is held back would have been one too many
    assert amount == 0.0 or held + 1.0 / len(own) + 1e-6 >= min(1.0, most)


def reading(found: list[float], products: bool = True) -> CorpusEvidence:
    """In a setting whose network says the same of every word, and whose first word in the alphabet is the product."""
    encoder = tiny_encoder()
    method = CorpusEvidence(rank=1.0, pooled=0.5, cap=1e6, texts=100, batch_size=4, products=products)
    setting = setting_of(encoder, method)
    setting.encoder = Fixed(encoder, found)
    words = sorted({e.text[s:t].lower() for e in setting.target for s, t in e.words.tolist()})
    method.types, method.terms = {word: place for place, word in enumerate(words)}, [1, 2]
    method.prior, method.mean, method.count, method.held = (torch.zeros(len(words)) for _ in range(4))
    method.noun = torch.ones(len(words), dtype=torch.bool)
    method.product = torch.arange(len(words)) == 0
    method.product_rate, method.rates = 0.0, PerText(9.0, 9.0)
    return method


@pytest.mark.parametrize(("seen", "held"), [(None, True), (ENOUGH_TERMS, False), (ARE_TERMS, False)])
def test_evidence_holds_products_back_and_nothing_else(seen: str | None, held: bool) -> None:
    """Not where enough is found as it is, and not where the user says that they are terms."""
    method = reading([0.0, 1.0, 0.0, -9.0, -9.0])
    if seen:
        method.setting.counted[seen] = True
    method.after_epoch(0)
    assert bool(method.held[0] < 0) == held
    assert not method.held[1:].any()
    if held:
        assert method.held_of(torch.tensor([0, 1, -1])).tolist() == [method.held[0], 0.0, 0.0]
        again = CorpusEvidence(rank=0.0, pooled=0.0, cap=1e6, texts=100, batch_size=4, products=True)
        again.recall(method.memory())
        assert torch.equal(again.held, method.held)


@pytest.mark.parametrize("enough", [False, True])
def test_where_enough_is_found_evidence_says_nothing(enough: bool) -> None:
    method = reading([0.0, 1.0, 0.0, -9.0, -9.0])
    method.prior = torch.linspace(-1.0, 1.0, len(method.types))
    method.setting.counted[ENOUGH_TERMS] = enough
    method.after_epoch(0)
    types = torch.arange(len(method.types))
    assert bool(method.shift(torch.zeros(len(types)), types).any()) != enough


def test_products_are_held_to_what_the_network_finds_before_it_reads_them_as_terms() -> None:
    """Asked once, when it is known whether enough is found; by few labels of the target, not at all; and remembered."""
    method = reading([0.0, 1.0, 0.0, -9.0, -9.0])  # of all words alike
    method.product_rate = 3.0
    method.after_epoch(0)
    assert method.product_rate == 3.0, "too early to tell"
    method.setting.counted[ENOUGH_TERMS] = False
    again = CorpusEvidence(rank=0.0, pooled=0.0, cap=1e6, texts=100, batch_size=4, products=True)
    again.recall(method.memory())
    assert not again.asked
    method.after_epoch(1)
    uses = int(method.count[0])
    assert method.product_rate == pytest.approx((uses + 5 * 3.0) / (uses + 5))
    again.recall(method.memory())
    assert again.asked and again.product_rate == method.product_rate
    method.product_rate = 9.0
    method.after_epoch(2)
    assert method.product_rate == 9.0, "by then it has read them"
    labelled = reading([0.0, 1.0, 0.0, -9.0, -9.0])
    few = replace(labelled.setting.domains, target_records=labelled.setting.domains.source_train[:1])
    labelled.setting.domains, labelled.product_rate = few, 3.0
    labelled.setting.counted[ENOUGH_TERMS] = False
    labelled.after_epoch(0)
    assert labelled.product_rate == 3.0


def test_what_is_found_is_counted_as_what_is_annotated() -> None:
    mine = [record("my", "laptop", place < 3) for place in range(20)]
    others = [record("good", "lens", place < 15) for place in range(20)]
    records, parses = zip(*mine, *others, strict=True)
    annotated = product_rate(records, parses, frozenset({"aspect"}), frozenset({"laptop"}))
    odds = torch.tensor([1.0 if r.spans else -1.0 for r in records])
    assert found_rate(odds, torch.arange(40) < 20, 1.0) == pytest.approx(annotated)


def test_the_card_asks_what_only_the_user_knows(tmp_path: Path) -> None:
    """Where terms name the product; not where the user has said so, and not where no method reads parses."""
    setting = built(tmp_path)
    texts = setting.domains.unlabeled.texts

    def told(noun: str) -> list[str]:
        spans = [(Span(t.text.index(noun), t.text.index(noun) + len(noun), "aspect"),) for t in texts if noun in t.text]
        predictions = [Prediction(spans=own) for own in spans] + [Prediction()] * (len(texts) - len(spans))
        kept = [t for t in texts if noun in t.text] + [t for t in texts if noun not in t.text]
        setting.domains = replace(setting.domains, unlabeled=TargetUnlabeled("camera", tuple(kept)))
        for name in ("target parses", "target products"):
            setting.counted.pop(name, None)
        assert products(setting, "target") == {"camera"}
        return [*product_terms(setting, predictions)]

    assert told("camera") == [
        "100 % of the terms found name what the texts are about as a whole (camera): if that is none to you, add "
        "guidelines to adaptation, and adaptation.guidelines.entity_is_term=false; if it is one, =true"
    ]
    assert told("zoom") == []
    setting.counted[ARE_TERMS] = True
    assert told("camera") == []
    del setting.counted[ARE_TERMS], setting.counted["target products"]
    assert [*product_terms(setting, [Prediction()] * len(texts))] == []


def test_the_card_asks_whether_terms_need_an_opinion(tmp_path: Path) -> None:
    setting = built(tmp_path)
    setting.task.types = ["aspect", "opinion"]
    term, opinion = Span(0, 3, "aspect"), Span(4, 6, "opinion")
    judged, alone = Prediction(spans=(term, opinion)), Prediction(spans=(term,))
    many, few = [*[judged] * 3, alone], [*[judged] * 19, alone]
    assert [*unjudged_terms(setting, many)] == []  # no method counts terms
    products(setting, "target")
    (told,) = unjudged_terms(setting, many)
    assert told == (
        "25 % of the terms found stand in texts without any opinion: if a term counts for you only where one is given "
        "on it, add guidelines to adaptation, and adaptation.guidelines.terms_need_opinion=true; if not, leave it"
    )
    nothing = [Prediction()] * (len(setting.domains.unlabeled.texts) - len(many))
    assert [*questions(setting, many + nothing)] == [told]
    assert [*unjudged_terms(setting, few)] == [*unjudged_terms(setting, [Prediction()])] == []
    setting.counted[NEED_OPINION] = True
    assert [*unjudged_terms(setting, many)] == []


def test_a_setting_out_of_range() -> None:
    with pytest.raises(ValueError, match="corpus_evidence.products='no': expected true or false"):
        CorpusEvidence(rank=0.0, pooled=0.0, cap=1.5, texts=1, batch_size=1, products="no")  # type: ignore[arg-type]


def built(tmp_path: Path) -> Setting:
    """Of a source about laptops and a target about cameras, not trained."""
    words = [
        "the lens of this laptop is great",
        "this laptop has a strap",
        "my laptop and a hinge",
        "a lid on this laptop",
    ]
    owned = ["this camera has a zoom", "my camera takes a photo", "this camera and a flash", "my camera has a menu"]
    lines = [
        {"text": text, "spans": [{"start": text.index(noun), "end": text.index(noun) + len(noun), "type": "aspect"}]}
        for text in words * 5
        for noun in [next(n for n in ("lens", "strap", "hinge", "lid") if n in text)]
    ]
    files: dict[str, list[Any]] = {"a.jsonl": lines, "b.jsonl": [{"text": text} for text in owned * 5]}
    for name, rows in files.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = ["data=my_files", f"source.path={tmp_path}/a.jsonl", f"target.path={tmp_path}/b.jsonl"]
    settings = ["adaptation=term_substitution", "adaptation.term_substitution.share=1", f"paths.cache={tmp_path}/c"]
    more = ["adaptation.term_substitution.terms=1", "adaptation.term_substitution.others=1"]
    setting, _ = build(domadapt.compose("train", [*given, *settings, *more, "adaptation.term_substitution.window=1"]))
    return setting


def test_products_stand_for_products_alone(tmp_path: Path) -> None:
    """'this laptop' of the source becomes 'this camera', and no other noun does; where enough is found, any may."""
    setting = built(tmp_path)
    method = setting.methods["term_substitution"]
    assert isinstance(method, TermSubstitution)
    method.prepare()
    assert {"laptop"} <= method.products and "lens" not in method.products
    records, random = setting.domains.source_train, np.random.default_rng(0)

    def replaced() -> tuple[set[str], set[str]]:
        texts = [method._rewritten(record, random).text.split() for record in records for _ in range(20)]
        firsts = {after for text in texts for before, after in pairwise(text) if before in ("this", "my")}
        return firsts, {word for text in texts for word in text if word in ("camera", "zoom", "photo", "flash", "menu")}

    method.recall({"found": 0.1})
    firsts, drawn = replaced()
    assert firsts == {"camera"} and {"zoom", "photo"} <= drawn
    setting.counted[ARE_TERMS] = True
    assert len(replaced()[0]) > 1, "as other nouns, where the user says that they are terms"
    del setting.counted[ARE_TERMS]
    method.recall({"found": 2.0})
    assert len(replaced()[0]) > 1


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (["runs Windows well", "has Windows", "has windows"], "Windows"),
        (["Menus are slow", "Menus crash"], "menus"),
        (["Menus are slow", "has MENUS"], "MENUS"),
        (["HP is slow"], "HP"),
        (["Windows crash", "has windows", "Windows hang"], "windows"),
    ],
)
def test_what_is_written_into_the_source_keeps_the_target_s_capitals(texts: list[str], written: str) -> None:
    """Names stay names for a cased backbone; a capital that only opens a text is none."""
    noun = written.lower()

    def parse(text: str) -> Parse:
        ends = np.cumsum([len(word) + 1 for word in text.split()])
        words = np.stack([np.r_[0, ends[:-1]], ends - 1], axis=1)
        tags = tuple("NNS" if word.lower() == noun else "VBZ" for word in text.split())
        return Parse(words, np.zeros(len(words), np.int64), ("dep",) * len(words), tags)

    records = [Record(str(i), "x", text) for i, text in enumerate(texts)]
    assert spellings(records, [parse(text) for text in texts]) == {noun: written}


def test_a_few_target_labels_tell_more_than_the_sources_rate() -> None:
    """Five uses at the source's rate beside those that are met; without labels the source's rate as it is."""
    mine = [record("my", "laptop", aspect=False) for _ in range(15)]
    others = [record("good", "lens", aspect=True) for _ in range(20)]
    records, parses = zip(*mine, *others, strict=True)
    kinds, named = frozenset({"aspect"}), frozenset({"laptop"})
    assert product_rate(records, parses, kinds, named, expected=0.8) == pytest.approx(5 * 0.8 / 20)
    assert product_rate([], [], kinds, named, expected=0.8) == 0.8
