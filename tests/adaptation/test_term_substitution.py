"""Source sentences with the target's nouns: labels stay true, and what is drawn is what the formula says."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from domadapt.data.domains import UnlabelledText
from domadapt.data.records import Record, Span
from domadapt.methods.adaptation import term_substitution
from domadapt.methods.adaptation.term_substitution import SHRINKAGE, Phrase, Use, phrases, places, telling_nouns
from domadapt.methods.session import TargetReadings
from domadapt.syntax.parser import SpacyParser
from tests.support import built

ALWAYS = [f"adaptation.term_substitution.{name}=1.0" for name in ("sentence_share", "term_probability")]


def made(folder: Path, *more: str) -> term_substitution.TermSubstitution:
    method = built(folder, "adaptation=term_substitution", *more).methods["term_substitution"]
    method.prepare()
    return method


def test_rewritten_sentences_keep_their_labels_and_those_of_other_methods_are_left_alone(tmp_path: Path) -> None:
    method = made(tmp_path, *ALWAYS)
    records = method.session.domains.source_train
    for epoch in range(3):
        for before, after in zip(records, method.augment(records, epoch, np.random.default_rng(epoch)), strict=True):
            assert after.id == before.id and after.label == before.label
            assert [s.type for s in after.spans or ()] == [s.type for s in before.spans or ()]
            for one, other in zip(before.spans or (), after.spans or (), strict=True):
                drawn = after.text[other.start : other.end].lower()
                if one.type == "opinion":
                    assert drawn == before.text[one.start : one.end].lower()
                else:
                    assert any(phrase.words == drawn for phrase in method.phrases)
    first, again, second = (method.session.augmented(epoch) for epoch in (0, 0, 1))
    assert [e.text for e in first] == [e.text for e in again] != [e.text for e in second]
    assert [e.index for e in first] == list(range(len(method.session.source)))
    assert all(e.word_tags is not None and {1, 3} <= {*e.word_tags.tolist()} for e in first)  # where both begin
    changed = [Record(r.id, r.domain, f"{r.text} ", r.label, r.spans) for r in method.session.domains.source_train]
    assert all(a is b for a, b in zip(method.augment(changed, 0, np.random.default_rng(0)), changed, strict=True))


def test_how_often_a_phrase_is_drawn_is_the_formulas(tmp_path: Path) -> None:
    method = made(tmp_path)
    method.q = torch.linspace(0.0, 0.9, len(method.phrases), dtype=torch.float64)
    method._fill()
    for term in (True, False):
        pool, q = method.pools[term, False], method.q if term else 1 - method.q
        weights = {
            n: len(method.uses[p]) ** term_substitution.POWER * (term_substitution.FLOOR + float(q[n]))
            for n, p in enumerate(method.phrases)
            if not p.plural and (term or " " not in p.words)
        }
        random = np.random.default_rng(0)
        drawn = Counter(pool.draw(random) for _ in range(4000))
        for number, weight in weights.items():
            assert drawn[number] / 4000 == pytest.approx(weight / sum(weights.values()), abs=0.03)
    assert term_substitution.Pool(np.array([], dtype=int), np.array([])).draw(np.random.default_rng(0)) is None


def test_it_asks_the_network_after_each_epoch_but_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = made(tmp_path, "trainer.epochs=3")
    asked: list[int] = []
    read = TargetReadings.now
    monkeypatch.setattr(TargetReadings, "now", lambda session: asked.append(1) or read(session))
    for epoch in range(3):
        method.after_epoch(epoch)
    assert len(asked) == 2 and method.q is not None and ((method.q >= 0) & (method.q <= 1)).all()
    again = made(tmp_path)
    again.recall(method.memory())
    assert again.pools[True, False].sums == method.pools[True, False].sums
    without = made(tmp_path, "adaptation.term_substitution.predicted_terms=false")
    without.after_epoch(0)
    assert without.q is None and "target" not in without.reads


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_term_probabilities_against_a_loop(data: Any) -> None:
    names = data.draw(st.lists(st.sampled_from(["life", "battery life", "zoom", "long life"]), min_size=1, unique=True))
    known = [Phrase(name, False) for name in names]
    uses: dict[Phrase, list[Use]] = {}
    words: dict[int, dict[int, float]] = {}
    for text, phrase in enumerate(known * 2):
        end = len(phrase.words.split())
        if data.draw(st.booleans()):
            words[text] = {w: data.draw(st.floats(0, 1)) for w in range(end) if data.draw(st.booleans())}
        uses.setdefault(phrase, []).append(Use(text, 0, end))
    means = {p: [np.mean([*read.values()]) for use in own if (read := words.get(use.text))] for p, own in uses.items()}
    every = [value for own in means.values() for value in own]
    of_all = float(np.mean(every)) if every else 0.0
    for phrase, found in zip(known, term_substitution.term_probabilities(known, uses, words).tolist(), strict=True):
        beside = [v for p in known if p.words.split()[-1] == phrase.words.split()[-1] for v in means[p]]
        of_head = (sum(beside) + SHRINKAGE * of_all) / (len(beside) + SHRINKAGE)
        own = means[phrase]
        assert found == pytest.approx((sum(own) + SHRINKAGE * of_head) / (len(own) + SHRINKAGE))


def test_places_are_whole_spans_and_nouns_outside() -> None:
    text = "The battery life of my lens is great for the price."
    record = Record("1", "x", text, spans=(Span(4, 16, "aspect"), Span(31, 36, "opinion")))
    (parse,) = SpacyParser().parse([record])
    inside = Record("1", "x", text, spans=(Span(4, 14, "aspect"),))  # ends inside of a word
    for one, telling, expected in (
        (record, {"price"}, [("battery life", True), ("lens", False)]),
        (inside, set(), [("lens", False), ("price", False)]),
    ):
        found = places(one, parse, ["aspect"], frozenset(telling))
        assert [(text[p.start : p.end], p.term) for p in found] == expected


def test_phrases_are_counted_in_lower_case_with_their_number() -> None:
    texts = [UnlabelledText(str(i), "", t) for i, t in enumerate(["The Screens are sharp.", "A screen. The screens."])]
    found = phrases(texts, list(SpacyParser().parse(texts)))
    counts = {phrase: len(uses) for phrase, uses in found.items()}
    assert counts == {Phrase("screens", True): 2, Phrase("screen", False): 1}


def test_nouns_that_go_with_a_class_stay() -> None:
    records = [Record(str(i), "x", "The refund of the lens.", label="negative") for i in range(6)]
    records += [Record(f"p{i}", "x", "The lens and the day.", label="positive") for i in range(6)]
    assert telling_nouns(records, list(SpacyParser().parse(records))) == {"refund", "day"}
    # Where nine texts of ten are positive, a noun of whose uses as many are says nothing.
    labels = ["positive" if i % 10 else "negative" for i in range(60)]
    records = [Record(str(i), "x", "The lens of the day.", label=label) for i, label in enumerate(labels)]
    records += [Record(f"n{i}", "x", "The refund.", label="negative") for i in range(5)]
    assert telling_nouns(records, list(SpacyParser().parse(records))) == {"refund"}


@pytest.mark.parametrize("named", [True, False])
def test_several_span_types_that_are_nouns(tmp_path: Path, named: bool) -> None:
    """Where a noun tells its type nothing is rewritten, neither spans nor other nouns; else all of them are terms."""
    method = made(tmp_path, *ALWAYS)
    records = method.session.domains.source_train

    def retyped(span: Span, number: int) -> Span:
        return replace(span, type=f"{span.type}{(span.end - span.start if named else number) % 2}")

    typed = tuple(replace(r, spans=tuple(retyped(span, i) for span in r.spans or ())) for i, r in enumerate(records))
    method.session.domains = replace(method.session.domains, source_train=typed)
    method.prepare()
    kinds = {"aspect0", "aspect1"}
    blank = replace(typed[0], spans=(*(typed[0].spans or ()), Span(3, 4, "aspect0")))  # of a space alone
    agreement = term_substitution.type_agreement([blank, *typed[1:]], kinds)
    assert agreement == term_substitution.type_agreement(typed, kinds)
    rewritten = method.augment(typed, 0, np.random.default_rng(0))
    if named:
        assert term_substitution.type_agreement(typed, kinds) == 1.0 and rewritten == list(typed)
    else:
        assert term_substitution.type_agreement(typed, kinds) < 0.5 and rewritten != list(typed)
        assert method.kinds == kinds and any(place.term for own in method.places.values() for place in own)
