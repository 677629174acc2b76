"""Is the model starved of recall on the target? Seen without a label, and what follows from it."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import domadapt
from domadapt.data.domains import TargetUnlabeled, unlabelled
from domadapt.data.records import Record, Span
from domadapt.methods.adaptation.term_substitution import Place, Pool, TermSubstitution
from domadapt.methods.found_terms import expected_terms, found_terms, judging, share_of_expected, text_begins
from domadapt.methods.look import found_of_expected
from domadapt.methods.term_rates import ENOUGH_TERMS, FOUND_TERMS, PerText, by_sentence, terms_per_text
from domadapt.methods.term_types import TermTypes
from tests.support import corpora, setting_of, tiny_encoder

NONE, BEGIN, INSIDE, OTHER = range(4)


def words(*texts: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of words with these labels, and where texts begin."""
    labels = torch.tensor([label for text in texts for label in text])
    begins = torch.tensor([place == 0 for text in texts for place in range(len(text))])
    return 9.0 * torch.nn.functional.one_hot(labels, 4), begins


def test_spans_are_counted_as_they_are_decoded_and_end_with_their_text() -> None:
    logits, begins = words([NONE, BEGIN, INSIDE, NONE, BEGIN], [BEGIN, NONE], [OTHER])
    assert found_terms(logits, begins, [BEGIN, INSIDE]) == 3
    assert expected_terms(logits, begins, [BEGIN, INSIDE], PerText(without=0.5, judged=2.0)) == 0.5 + 0.5 + 2.0


SENTENCES = [
    ("A good lens.", [(2, 6, "opinion"), (7, 11, "aspect")]),
    ("It is v1.2!", []),
    ("The zoom?", [(4, 8, "aspect")]),
]


def joined(times: int) -> list[Record]:
    """So many of the sentences a record, over and over, with their spans."""
    records = []
    for start in range(0, 12, times):
        text, spans = "", list[Span]()
        for sentence, own in (SENTENCES[i % 3] for i in range(start, start + times)):
            spans += [Span(len(text) + first, len(text) + end, kind) for first, end, kind in own]
            text += f"{sentence} "
        records.append(Record(str(start), "x", text.strip(), spans=tuple(spans)))
    return records


@pytest.mark.parametrize("times", [1, 2, 4, 6])
def test_sentences_have_one_rate_however_many_are_in_a_text(times: int) -> None:
    kinds = frozenset({"aspect"})
    assert terms_per_text(joined(times), kinds, sentences=True) == terms_per_text(joined(1), kinds) == PerText(0.5, 1.0)
    encoder = tiny_encoder()
    setting = setting_of(encoder, texts=[record.text for record in joined(times)], max_pieces=128)
    batch = setting.collator(setting.source)
    texts, sentences = (int(text_begins(batch, by).sum()) for by in (False, True))
    assert (texts, sentences) == (12 // times, 12)


@pytest.mark.parametrize(("lengths", "told"), [((1, 1), False), ((1, 2), False), ((1, 3), True), ((3, 1), True)])
def test_sentences_are_counted_where_one_domain_s_texts_are_longer(lengths: tuple[int, int], told: bool) -> None:
    setting = setting_of(tiny_encoder(), texts=["It works well."] * 4)
    source, target = (["It works well. " * times] * 4 for times in lengths)
    setting.domains = replace(
        setting.domains,
        source_train=tuple(Record(str(i), "camera", text, spans=()) for i, text in enumerate(source)),
        unlabeled=TargetUnlabeled("laptop", tuple(unlabelled(target))),
    )
    assert by_sentence(setting) == told


def test_where_all_words_are_inside_few_spans_are_much() -> None:
    logits, begins = words([BEGIN, *[INSIDE] * 29])
    assert found_terms(logits, begins, [BEGIN, INSIDE]) == 10


@given(
    arrays(np.float32, (12, 5), elements=st.floats(-60, 60, width=32)),
    arrays(np.bool_, 12),
    st.tuples(st.floats(0, 3), st.floats(0, 3)),
    st.lists(st.integers(0, 4), max_size=40),
)
def test_what_a_model_means_to_find_is_counted_text_by_text(
    numbers: np.ndarray, starts: np.ndarray, rates: tuple[float, float], labelled: list[int]
) -> None:
    """Beside the sums as the formula has them, one word after the other."""
    starts[0] = True
    found = expected = 0.0
    for text in np.split(np.arange(12), np.flatnonzero(starts)[1:]):
        silent = 1.0
        for word in text:
            likely = np.exp(numbers[word].astype(float) - numbers[word].max())
            likely /= likely.sum()
            found += likely[1]
            silent *= max(1e-6, 1 - likely[3] - likely[4])
        expected += (1 - silent) * rates[1] + silent * rates[0]
    texts = int(starts.sum())
    expected = texts * np.mean([*labelled, *[expected / texts] * 8])  # the source's rates count for eight
    logits, begins = torch.from_numpy(numbers), torch.from_numpy(starts)
    share = share_of_expected(logits, begins, [1, 2], PerText(*rates), labelled)
    assert share == pytest.approx(found / max(1.0, expected), rel=1e-3, abs=1e-5)


def test_a_model_that_is_unsure_of_strange_words_is_not_starved_by_that_alone() -> None:
    """It labels none of them, and means to find as many as there are."""
    unsure, begins = torch.tensor([[0.6, 0.4, 0.0, 0.0]]).log().repeat(10, 1), torch.ones(10, dtype=torch.bool)
    assert found_terms(unsure, begins, [BEGIN, INSIDE]) == 0
    assert share_of_expected(unsure, begins, [BEGIN, INSIDE], PerText(0.4, 2.0)) == pytest.approx(1.0)


@pytest.mark.parametrize(("found", "starved"), [(0.4, True), (0.84, True), (1.05, False), (1.0, False)])
def test_a_model_that_finds_enough_is_taught_evenly_and_does_not_teach_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: float, starved: bool
) -> None:
    monkeypatch.setattr("domadapt.methods.adaptation.term_substitution.found_of_expected", lambda *of: found)
    changed: list[int] = []
    plain = TermSubstitution.augment

    def augment(self: Any, records: Sequence[Any], epoch: int, random: Any) -> Sequence[Any]:
        result = plain(self, records, epoch, random)
        changed.append(sum(old is not new for old, new in zip(records, result, strict=True)))
        return result

    monkeypatch.setattr(TermSubstitution, "augment", augment)
    recipe = [
        "adaptation=[best,coral]",
        "adaptation.coral.only_starved=true",
        "trainer.epochs=3",
        "adaptation.self_training.start=2",
        "selection=last",
    ]
    curve = domadapt.train([*corpora(tmp_path), *recipe])["curve"]
    assert changed[0] == 0 < min(changed[1:]) and len(changed) == 3
    assert ("self_training" in curve[2]["losses"]) == starved
    assert "coral" in curve[0]["losses"] and ("coral" in curve[2]["losses"]) == starved


def test_what_was_seen_is_remembered_and_rules_what_is_replaced() -> None:
    method = TermSubstitution(0.5, 0.7, 0.0, 0.75, 1.0, None, enough=1.0)
    setting_of(tiny_encoder(), method)
    record = Record("1", "x", "a lens and a strap", spans=(Span(2, 6, "aspect"),))
    method.looks, method.ranks = True, TermTypes({}, {}, {}, np.full(41, 0.5))
    method.places = {"1": [Place(2, 6, True, False, "lens"), Place(13, 18, False, False, "strap")]}
    keys = itertools.product([False], (False, True), (None, False))
    method.pools = {key: Pool({"hinge": 1}, 1.0, {}) for key in keys}
    method.kept, method.full, method.heads = 1.0, [], []
    random = np.random.default_rng(0)
    assert method.augment([record], 0, random) == [record], "nothing is rewritten before anybody has looked"
    method.recall({"found": 0.3})
    assert method.memory() == {"found": 0.3} and not method.setting.counted["enough terms"]
    seldom = {method._rewritten(record, random).text for _ in range(50)}
    assert seldom == {"a hinge and a strap", record.text}
    method.recall({"found": 1.3})
    assert method.setting.counted["enough terms"]
    assert "a lens and a hinge" in {method._rewritten(record, random).text for _ in range(50)}


@pytest.mark.parametrize(
    ("looks", "taken"),
    [
        ([0.84], 0.84),
        ([1.0], 1.0),
        ([0.86, 0.5], 0.5),  # the first look of what is starved was too near to tell
        ([0.99, 0.86, 1.1], 1.1),
        ([0.95, 0.95, 0.91], 0.91),  # no epoch is left: a tenth less than enough is enough
        ([0.95, 0.95, 0.89], 0.89),
        ([None, 0.9, 0.9], 0.9),
        ([None, None, None], 0.0),
    ],
)
def test_it_looks_until_it_is_clear(looks: list[float | None], taken: float, monkeypatch: pytest.MonkeyPatch) -> None:
    method, left = TermSubstitution(0.5, 0.7, 0.0, 0.75, 1.0, None, enough=1.0), iter(looks)
    setting = setting_of(tiny_encoder(), method)
    method.looks = True
    monkeypatch.setattr("domadapt.methods.adaptation.term_substitution.found_of_expected", lambda *of: next(left))
    for epoch in range(5):
        method.after_epoch(epoch)
        assert (ENOUGH_TERMS in setting.counted) == (epoch + 1 >= len(looks))
    assert method.memory() == {"found": taken} and next(left, "none") == "none"
    assert setting.counted[ENOUGH_TERMS] == (taken >= 0.9)
    assert setting.counted[FOUND_TERMS] == taken


@pytest.mark.parametrize(("found", "starved"), [(1.07, True), (1.3, False)])
def test_more_is_asked_for_beside_labelled_target_texts(found: float, starved: bool) -> None:
    method = TermSubstitution(0.5, 0.7, 0.4, 0.75, 1.0, None, enough=1.0)
    setting = setting_of(tiny_encoder(), method)
    method.looks, method.found = True, found
    assert not method.starved
    setting.domains = replace(setting.domains, target_records=setting.domains.source_train[:1])
    assert method.starved == starved


def test_a_model_that_has_learnt_nothing_tells_nothing() -> None:
    setting = setting_of(tiny_encoder(), TermSubstitution(0.5, 0.7, 0.4, 0.75, 1.0, None, enough=1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("domadapt.methods.look.term_labels", lambda *of: [1, 2])
        patch.setattr("domadapt.methods.look.term_kinds", lambda *of: frozenset({"aspect"}))
        patch.setattr("domadapt.methods.look.expected_terms", lambda *of: 100.0)
        patch.setattr("domadapt.methods.look.found_terms", lambda *of: 49)
        setting.dev = setting.validation = setting.source
        assert found_of_expected(setting, 10, 4) is None
        patch.setattr("domadapt.methods.look.found_terms", lambda *of: 80)
        assert found_of_expected(setting, 10, 4) == 1.0


@pytest.mark.parametrize(("target", "found"), [(0.1, 0.2), (0.32, 0.64), (0.34, 1.0), (0.9, 1.0)])
def test_a_model_that_judges_too_seldom_is_starved_whatever_terms_that_lets_expect(target: float, found: float) -> None:
    setting = setting_of(tiny_encoder(), TermSubstitution(0.5, 0.7, 0.4, 0.75, 1.0, None, enough=1.0))
    shares = iter((target, 0.5))  # of texts that judge, in the target and in source dev
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("domadapt.methods.look.term_labels", lambda *of: [1, 2])
        patch.setattr("domadapt.methods.look.term_kinds", lambda *of: frozenset({"aspect"}))
        patch.setattr("domadapt.methods.look.expected_terms", lambda *of: 1.0)
        patch.setattr("domadapt.methods.look.found_terms", lambda *of: 1)
        patch.setattr("domadapt.methods.look.share_of_expected", lambda *of: 0.7)
        patch.setattr("domadapt.methods.look.judging", lambda *of: torch.full((3,), next(shares)))
        setting.dev = setting.validation = setting.source
        assert found_of_expected(setting, 10, 4) == pytest.approx(found)


def test_labels_of_the_target_tell_how_many_terms_there_are() -> None:
    """What is enough by the source's rates is too few where labelled target texts have more."""
    setting = setting_of(tiny_encoder(), TermSubstitution(0.5, 0.7, 0.4, 0.75, 1.0, None, enough=1.0))
    setting.dev = setting.validation = setting.source

    def found(*spans: int) -> float | None:
        few = [Record(f"t{i}", "x", f"text {i}", spans=(Span(0, 1, "aspect"),) * many) for i, many in enumerate(spans)]
        setting.domains = replace(setting.domains, target_records=tuple(few))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("domadapt.methods.look.term_labels", lambda *of: [1, 2])
            patch.setattr("domadapt.methods.look.term_kinds", lambda *of: frozenset({"aspect"}))
            patch.setattr("domadapt.methods.look.terms_per_text", lambda *of: PerText(1.0, 1.0))
            patch.setattr("domadapt.methods.look.found_terms", lambda *of: 100)
            return found_of_expected(setting, 10, 4)

    assert found() == 1.0
    assert found(*[3] * 32) == pytest.approx((8 + 32) / (8 + 3 * 32))


def test_a_text_judges_where_one_of_its_words_does() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 99.0], [99.0, 0.0, 0.0, 0.0], [9.0, 9.0, -99.0, -99.0]])
    assert judging(logits, torch.tensor([True, False, True]), [1, 2]).tolist() == pytest.approx([1, 0], abs=1e-5)
    assert judging(logits[:, :3], torch.tensor([True, False, True]), [1, 2]).tolist() == [0, 0]  # nothing judges
