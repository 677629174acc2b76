"""A few labelled target texts say how often spans are annotated: no more are found."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import domadapt
from domadapt.data.records import Record, Span
from domadapt.methods.adaptation.label_rates import UNJUDGED, LabelRates
from domadapt.methods.found_terms import found_terms, of_judged_texts
from domadapt.methods.setting import Setting
from domadapt.models.output import Output
from tests.adaptation.test_planted_shifts import run
from tests.adaptation.test_target_labels import Fixed
from tests.support import corpora, setting_of, tiny_encoder, write_jsonl
from tests.test_learning import OPINIONS, SOURCE_NOUNS


def made(prior: float = 0.0) -> LabelRates:
    return LabelRates(prior=prior, texts=100, batch_size=4)


def labelled(number: int, *kinds: str) -> Record:
    spans = tuple(Span(4 * place, 4 * place + 3, kind) for place, kind in enumerate(kinds))
    return Record(f"t{number}", "target", f"one two six {number}", spans=spans)


def prepared(method: LabelRates, *records: Record) -> Setting:
    encoder = tiny_encoder()
    setting = setting_of(encoder, method)
    spans = (Span(4, 8, "aspect"), Span(12, 17, "opinion"))
    source = (Record("s", "camera", "The lens is great.", spans=spans), Record("e", "camera", "We went home."))
    setting.domains = replace(setting.domains, source_train=source, target_records=records)
    setting.counted["stated"] = method.prepare()
    return setting


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rate of labels is believed, however few they are."""
    monkeypatch.setattr("domadapt.methods.adaptation.label_rates.fewer", lambda *of: True)


def test_a_rate_is_held_only_where_it_is_no_chance_that_labels_have_fewer() -> None:
    """The source has an opinion in every second text: none in four is chance, none in twelve is not."""
    few, many, more = made(), made(), made()
    prepared(few, *(labelled(i) for i in range(4)))
    prepared(many, *(labelled(i) for i in range(12)))
    prepared(more, *(labelled(i, "opinion", "opinion") for i in range(12)))
    assert few.most == more.most == {} and many.most == {"opinion": 0.0}
    few.after_epoch(0)
    assert few.held == {}


@pytest.mark.usefixtures("believed")
def test_rates_are_counted_by_type_and_in_texts_that_judge_nothing() -> None:
    method = made()
    records = [labelled(0, "aspect", "opinion"), labelled(1, "aspect"), labelled(2), labelled(3, "opinion", "opinion")]
    setting = prepared(method, *records)
    assert method.most == {"opinion": 3 / 4, UNJUDGED: 1 / 2}
    assert setting.counted["stated"] == {
        "label_rates/texts": 4,
        "label_rates/opinion": 3 / 4,
        f"label_rates/{UNJUDGED}": 1 / 2,
    }
    mixed = made(prior=4.0)
    prepared(mixed, *records)
    assert mixed.most == {"opinion": (3 + 4 / 2) / 8, UNJUDGED: (1 + 4 * 0) / 6}  # beside the source's 1/2 and 0


@pytest.mark.usefixtures("believed")
@pytest.mark.parametrize(
    ("logits", "held"),
    [([0.0, 0, 0, 1.0, 0], "opinion"), ([0.0, 1.0, 0, -9, -9], UNJUDGED), ([9.0, 0, 0, 0, 0], None)],
)
def test_what_is_found_too_often_is_held_back_and_nothing_else(logits: list[float], held: str | None) -> None:
    """Every word an opinion; every word a term, where nothing judges; nothing at all."""
    method = made()
    setting = prepared(method, labelled(0), labelled(1))  # nothing is annotated in the target
    setting.encoder = Fixed(setting.encoder, logits)
    method.after_epoch(0)
    assert {kind for kind, constant in method.held.items() if constant < 0} == ({held} if held else set())
    if held:
        batch = setting.collator(setting.target)
        best = method.eval().transform(setting.encoder(batch), batch).logits.argmax(-1)
        assert not best.flatten()[batch.node_first_piece[batch.node_first_piece >= 0]].any()
        again = made()
        again.recall(method.memory())
        assert again.held == method.held and again.terms == method.terms


def test_without_target_labels_it_is_no_part_of_the_model(tmp_path: Path) -> None:
    method = made()
    setting = prepared(method)
    method.after_epoch(0)
    output = Output(torch.zeros(1), torch.zeros(1))
    assert not method.used_at_prediction
    assert method.eval().transform(output, setting.collator(setting.target)) is output


rows = st.lists(st.lists(st.integers(-8, 8), min_size=5, max_size=5), min_size=1, max_size=30)


@settings(max_examples=50)
@given(rows, st.lists(st.booleans(), min_size=30, max_size=30), st.floats(0, 2))
def test_no_more_are_found_than_the_rate_and_none_are_held_without_need(
    words: list[list[int]], starts: list[bool], most: float
) -> None:
    logits = torch.tensor(words, dtype=torch.float32) / 2
    begins = torch.tensor([True, *starts[1 : len(words)]])
    method = made()
    amount = method.constant(logits, begins, [3, 4], most)
    moved = logits.clone()
    moved[:, [3, 4]] += amount
    before, after = (found_terms(some, begins, [3, 4]) for some in (logits, moved))
    assert amount <= 0.0 and (amount == 0.0) == (before <= most * begins.sum())
    assert after <= max(most * float(begins.sum()), 0) or amount <= -7.9  # as low as it goes


def test_texts_that_judge_against_a_loop() -> None:
    best = [[0, 3, 0], [1], [2, 2], [4]]
    logits = torch.nn.functional.one_hot(torch.tensor([label for text in best for label in text]), 5).float()
    begins = torch.tensor([place == 0 for text in best for place in range(len(text))])
    expected = [any(label >= 3 for label in text) for text in best for _ in text]
    assert of_judged_texts(logits, begins, [1, 2]).tolist() == expected


def planted_pairs(folder: Path) -> None:
    """A part is annotated in the source wherever it is named, and in the target only where it is judged."""
    for seed, name in enumerate(["source", "target", "few", "test"]):
        dice = random.Random(seed)
        lines = []
        for i in range({"few": 8, "test": 60}.get(name, 150)):
            part, opinion, judged = dice.choice(SOURCE_NOUNS), dice.choice(OPINIONS), i % 3 == 0
            text = f"The {part} is {opinion}." if judged else f"We took the {part} on day {i}."
            marked = ([(part, "aspect")] if judged or name == "source" else []) + [(opinion, "opinion")] * judged
            spans = [{"start": text.index(w), "end": text.index(w) + len(w), "type": kind} for w, kind in marked]
            lines.append({"id": f"{name}-{i}", "text": text, "spans": spans})
        write_jsonl(folder / f"{name}.jsonl", lines)


def test_eight_labels_tell_that_only_what_is_judged_is_annotated(tmp_path: Path) -> None:
    """More than the network learns from the same eight among its sources."""
    planted_pairs(tmp_path)
    few = [f"data.target.train_path={tmp_path}/few.jsonl", "target_labels=6", "trainer.epochs=8"]
    few += ["target_label_share=0.0"]
    rates = ["adaptation=label_rates", "adaptation.label_rates.prior=0.0"]
    without = run(tmp_path, "without", *few)["target_test"]["aspect_f1"]
    found = run(tmp_path, "rates", *few, *rates)["target_test"]["aspect_f1"]
    assert without < 0.8 < 0.85 < found, (without, found)


def test_the_recipe_with_a_few_labels_is_saved_and_predicts_what_was_scored(tmp_path: Path) -> None:
    paths = corpora(tmp_path)
    few = [f"data.target.train_path={tmp_path}/source.jsonl", "target_labels=4", "trainer.precision=32"]
    recipe = ["experiment=best", "adaptation.term_substitution.enough=null", "adaptation.self_training.start=1"]
    metrics = domadapt.train([*recipe, *paths, *few, f"paths.cache={tmp_path}/c", f"paths.run={tmp_path}/run"])
    model = domadapt.load(tmp_path / "run" / "model", precision="32")
    assert [*model.setting.methods] == ["modifiers", "corpus_evidence", "label_rates"]
    records = domadapt.read(tmp_path / "test.jsonl", domain="laptop").records
    again = model.predict([record.text for record in records])
    assert model.setting.task.score(records, again) == metrics["target_test"]
