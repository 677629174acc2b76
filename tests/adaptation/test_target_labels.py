"""What adapts by the target's text: labels that collapse are refused, evidence moves words, switches rule terms out."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import domadapt
from domadapt.data.batches import Batch
from domadapt.data.records import Record, Span
from domadapt.methods.adaptation.corpus_evidence import CorpusEvidence
from domadapt.methods.adaptation.guidelines import Guidelines, arcs_to_opinions
from domadapt.methods.adaptation.self_training import SelfTraining, soft_cross_entropy
from domadapt.methods.method import Method
from domadapt.methods.term_rates import ENOUGH_TERMS, FOUND_TERMS, PerText
from domadapt.models.output import Output
from domadapt.syntax.parser import Parse
from domadapt.syntax.trees import path
from domadapt.training.build import build
from tests.support import corpora, setting_of, tiny_encoder, tiny_step


class Fixed(torch.nn.Module):
    """An encoder that gives every word the same logits."""

    def __init__(self, encoder: Any, logits: list[float]) -> None:
        super().__init__()
        self.tokenizer, self.width, self.kind = encoder.tokenizer, encoder.width, encoder.kind
        self.logits = torch.tensor(logits)

    def forward(self, batch: Any, hooked: bool = True) -> Output:
        size = batch.input_ids.shape
        return Output(torch.zeros(*size, self.width), self.logits.expand(*size, -1).clone())


def self_training(start: int = 1, **settings: Any) -> SelfTraining:
    return SelfTraining(start=start, temperature=0.5, sure=0.7, texts=100, batch_size=4, weight=1.0, **settings)


@pytest.mark.parametrize(("logits", "collapsed"), [([9.0, 0, 0, 0, 0], True), ([0, 9.0, 0, 0, 0], True)])
def test_labels_that_collapse_are_told_and_not_learnt_from(
    logits: list[float], collapsed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """All words nothing, or all words something, where a tenth of the source's words are."""
    encoder, method = tiny_encoder(), self_training()
    setting = setting_of(encoder, method)
    tags = [e.word_tags * 0 for e in setting.source if e.word_tags is not None]
    for array in tags:
        array[::10] = 1
    setting.source = [replace(e, word_tags=array) for e, array in zip(setting.source, tags, strict=True)]
    setting.encoder = Fixed(encoder, logits)
    with caplog.at_level(logging.WARNING):
        method.after_epoch(0)
    assert method.refused == collapsed and not method.labels
    assert "have collapsed and are not learnt from" in caplog.text
    assert method.losses(tiny_step(setting)) == {}


def test_its_own_labels_are_learnt_and_remembered() -> None:
    encoder, method = tiny_encoder(), self_training()
    setting = setting_of(encoder, method)
    method.after_epoch(0)
    assert method.labels, "a random network labels about as many words as the random source"
    optimizer = torch.optim.Adam(encoder.parameters(), 1e-3)
    losses = []
    for _ in range(15):
        (loss,) = method.losses(tiny_step(setting)).values()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    again = self_training()
    again.recall(method.memory())
    assert again.labels.keys() == method.labels.keys()


def test_soft_labels_against_a_loop() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 3), torch.randn(6, 3).log_softmax(-1)
    tilt = torch.tensor([0.0, -0.5, -1.0])
    total = weights = torch.zeros(())
    for row in range(6):
        sharp = labels[row].exp() ** 2 / tilt.exp()
        sharp = sharp / sharp.sum()
        weight = 1.0 if labels[row].exp().max() > 0.7 else 0.1
        total = total - weight * (sharp * logits[row].log_softmax(-1)).sum()
        weights = weights + weight
    torch.testing.assert_close(soft_cross_entropy(logits, labels, 0.5, 0.7, tilt), total / weights)


def test_agreement_is_yes_or_no() -> None:
    with pytest.raises(ValueError, match="self_training.agreement='abc': expected true or false"):
        self_training(agreement="abc")


def test_averaging_beside_it_is_its_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are made under the moving average of the weights, not under those of the last step."""
    seen: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []
    made = SelfTraining.labelled

    def watched(self: SelfTraining, alone: bool) -> dict[str, torch.Tensor]:
        averaging: Any = self.setting.methods["averaging"]
        own = {name: weight.clone() for name, weight in self.setting.encoder.state_dict().items()}
        seen.append((own, {name: mean.clone() for name, mean in averaging.mean.items()}))
        return made(self, alone)

    monkeypatch.setattr(SelfTraining, "labelled", watched)
    methods = [
        "adaptation=[self_training,averaging]",
        "adaptation.self_training.start=1",
        "adaptation.averaging.start=0",
    ]
    domadapt.train([*corpora(tmp_path), *methods, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"], seed=1)
    assert seen
    for own, mean in seen:
        assert mean and all(torch.equal(own[name], weight) for name, weight in mean.items())


class Contrary(Method):
    """At decoding, texts of an even number of pieces are labelled otherwise than the network does."""

    def transform(self, output: Output, batch: Batch) -> Output:
        even = (batch.attention_mask.sum(1) % 2 == 0)[:, None, None]
        return replace(output, logits=torch.where(even, -output.logits, output.logits))


def test_texts_that_two_labellers_label_alike_are_learnt_from_alone() -> None:
    encoder, method, contrary = tiny_encoder(), self_training(agreement=True, balance=0.5), Contrary()
    setting = setting_of(encoder, method, contrary)
    method.after_epoch(0)
    odd = {e.text for e in setting.target if len(e.input_ids) % 2}
    assert 0 < len(odd) < len(setting.target)
    assert method.labels.keys() == odd
    found = torch.cat([*method.labelled(alone=False).values()]).argmax(-1)
    assert method.tilt.argmax() == found.mode().values, "the commonest class is lowered most"


def test_labels_are_dropped_when_enough_turns_out_to_be_found() -> None:
    method = self_training()
    setting = setting_of(tiny_encoder(), method)
    method.after_epoch(0)
    assert method.labels
    setting.counted[ENOUGH_TERMS] = True
    method.after_epoch(1)
    assert not method.labels


def test_a_target_without_texts_is_not_learnt_from() -> None:
    method = self_training()
    setting = setting_of(tiny_encoder(), method)
    setting.target = []
    method.after_epoch(0)
    assert not method.labels


def test_evidence_of_whole_texts_is_no_part_of_the_model(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "task=classification", "adaptation=corpus_evidence", f"paths.cache={tmp_path}/c"]
    setting, _ = build(domadapt.compose("train", overrides))
    method = setting.methods["corpus_evidence"]
    assert method.prepare() == {"corpus_evidence/types": 0} and not method.used_at_prediction


def evidence() -> CorpusEvidence:
    return CorpusEvidence(rank=0.5, pooled=0.5, cap=1.5, texts=100, batch_size=4)


def test_a_words_type_moves_it_where_its_sentence_does_not(tmp_path: Path) -> None:
    """The shift of unknown words is none, of known ones as the formula says, and a saved table gives the same."""
    method = evidence()
    method.types, method.terms = {"lens": 0, "day": 1}, [1, 2]
    method.prior, method.mean, method.count = (
        torch.tensor([2.0, -2.0]),
        torch.tensor([1.0, -3.0]),
        torch.tensor([3.0, 9.0]),
    )
    odds, types = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([0, 1, -1])
    expected = [1.0 + 0.5 * 3 / 6 * (1.0 - 1.0), -1.0 + 0.5 * 9 / 12 * (-3.0 + 1.0), 0.0]
    assert method.shift(odds, types).tolist() == pytest.approx(expected)
    again = evidence()
    again.recall(method.memory())
    assert torch.equal(again.shift(odds, types), method.shift(odds, types))


def test_evidence_is_of_the_network_whatever_other_methods_add() -> None:
    found = []
    for others in ([], [Contrary()]):
        method = evidence()
        setting = setting_of(tiny_encoder(), method, *others)
        method.terms, method.rates = [1, 2], PerText(0.0, 1.0)
        words = sorted({e.text[s:t].lower() for e in setting.target for s, t in e.words.tolist()})
        method.types = {word: place for place, word in enumerate(words)}
        method.prior, method.noun = torch.zeros(len(words)), torch.ones(len(words), dtype=torch.bool)
        method.product = torch.zeros(len(words), dtype=torch.bool)
        method.after_epoch(0)
        found.append(method.mean)
    assert found[0].any() and torch.equal(*found)


def test_the_cap_takes_terms_away_only_where_there_are_too_many(caplog: pytest.LogCaptureFixture) -> None:
    """And none that the network found before it adapted: a domain may have more of them than the source has."""
    method = evidence()
    setting = setting_of(tiny_encoder(), method)
    method.terms, method.rates = [1, 2], PerText(0.0, 1.0)
    logits = torch.tensor(
        [[0.0, 1.0, -9, -9, -9], [0.0, -9, -9, 5.0, -9], [0.0, 0.5, -9, -9, -9], [0.0, -9, -9, -9, -9]] * 4
    )
    begins = torch.tensor([True, False, False, False] * 4)
    with caplog.at_level(logging.INFO):
        assert method.capped(logits, torch.zeros(16), begins) < 0  # two terms a text, one is expected
    assert "more than 1.5 times the terms to expect were found in the target; all are held back" in caplog.text
    setting.counted |= {ENOUGH_TERMS: True, FOUND_TERMS: 2.5}
    assert method.capped(logits, torch.zeros(16), begins) == 0.0
    setting.counted |= {ENOUGH_TERMS: False, FOUND_TERMS: 0.5}
    assert method.capped(logits, torch.zeros(16), begins) < 0
    method.rates = PerText(0.0, 2.0)
    assert method.capped(logits, torch.zeros(16), begins) == 0.0


@pytest.mark.parametrize("joined", [[], ["aspect"]])
@pytest.mark.parametrize("judged", [0, 1])
@pytest.mark.parametrize("arcs", [1, 2, 9, None])
def test_a_switch_drops_terms_that_no_opinion_is_near(arcs: int | None, judged: int, joined: list[str]) -> None:
    encoder = tiny_encoder()
    method = Guidelines(entity_is_term=None, terms_need_opinion=True)
    setting = setting_of(encoder, method)
    setting.task.joined = joined
    method.terms, method.arcs = [1, 2], arcs
    method.eval()
    batch = setting.collator(setting.target)
    read = batch.node_first_piece[batch.node_first_piece >= 0]
    logits = torch.zeros(*batch.input_ids.shape, 5)
    flat = logits.view(-1, 5)
    flat[read, 1] = 2.0  # every word a term of its own, or all of them one
    own = batch.node_places()[0][batch.node_first_piece >= 0] == judged
    middle = 1
    flat[read[own][middle], 3] = 5.0  # and in one text one opinion
    best = method.transform(Output(torch.zeros(1), logits), batch).logits.view(-1, 5)[read].argmax(-1)
    (parse,) = setting.parsed([batch.examples[judged]])

    def is_near(word: int) -> bool:
        way = path(parse, middle, word)
        return arcs is None or (way is not None and len(way) <= arcs)

    for word, label in enumerate(best[own].tolist()):
        beside = range(middle) if word < middle else range(middle + 1, int(own.sum()))
        expected = any(map(is_near, beside)) if joined and word != middle else is_near(word)
        assert label == (3 if word == middle else int(expected))
    assert (best[~own] == 0).all()


def test_how_near_opinions_are_is_read_off_the_source() -> None:
    words = np.array([(0, 3), (4, 7), (8, 11), (12, 15), (16, 19)])
    chain = Parse(words, np.array([0, 0, 1, 2, 3]), ("ROOT", *["dep"] * 4), ("NN",) * 5)

    def record(*terms: int, opinion: bool = True) -> Record:
        spans = [Span(*words[word].tolist(), "aspect") for word in terms]
        return Record("1", "x", "a" * 19, spans=(*spans, *([Span(0, 3, "opinion")] if opinion else [])))

    def arcs(*records: Record, share: float = 0.9) -> int | None:
        return arcs_to_opinions(records, [chain] * len(records), {"aspect"}, share)

    assert [arcs(record(n)) for n in (1, 2, 4)] == [1, 2, 4]
    assert arcs(record(1), record(3)) == 3 and arcs(record(1), record(3), share=0.5) == 1
    assert arcs(record(1), record(4, opinion=False)) == 1  # it has none that could be near
    assert arcs(record(3, opinion=False)) is arcs() is None
    apart = chain._replace(heads=np.array([0, 0, 1, 3, 3]))  # two sentences
    assert arcs_to_opinions([record(4), record(1)], [apart] * 2, {"aspect"}, 0.9) is None
    assert arcs_to_opinions([record(4), record(1)], [apart] * 2, {"aspect"}, 0.5) == 1
    nearest = Record("1", "x", "a" * 19, spans=(Span(0, 3, "opinion"), Span(12, 15, "opinion"), Span(16, 19, "aspect")))
    assert arcs(nearest) == 1


def test_what_is_stated_is_saved_with_the_parser_that_it_reads(tmp_path: Path) -> None:
    stated = ["adaptation=guidelines", "adaptation.guidelines.terms_need_opinion=true", "trainer.precision=32"]
    metrics = domadapt.train([*corpora(tmp_path), *stated, f"paths.run={tmp_path}/run"])
    assert metrics["stages"]["guidelines/arcs"] == 1  # "The lens of number 3 is sharp."
    model = domadapt.load(tmp_path / "run" / "model", precision="32")
    labelled = domadapt.read(tmp_path / "test.jsonl", domain="laptop").records
    again = model.predict([record.text for record in labelled])
    assert model.setting.task.score(labelled, again) == metrics["target_test"]
    assert model.setting.parser_at_prediction and model.setting.methods["guidelines"].arcs == 1
    plain = domadapt.train([*corpora(tmp_path), "adaptation=guidelines", f"paths.run={tmp_path}/plain"])
    assert "guidelines/arcs" not in plain["stages"]
    assert not domadapt.load(tmp_path / "plain" / "model").setting.parser_at_prediction


def test_the_recipe_trains_is_saved_and_predicts_what_was_scored(tmp_path: Path) -> None:
    recipe = [
        "experiment=best",
        "adaptation.self_training.start=1",
        "adaptation.term_substitution.enough=null",
        "trainer.precision=32",
        f"paths.cache={tmp_path}/c",
    ]
    metrics = domadapt.train([*recipe, *corpora(tmp_path), f"paths.run={tmp_path}/run"])
    assert metrics["method"] == "best" and metrics["selection"]["validator"] == "last"
    assert "self_training" in metrics["curve"][1]["losses"]
    model = domadapt.load(tmp_path / "run" / "model", precision="32")
    labelled = domadapt.read(tmp_path / "test.jsonl", domain="laptop").records
    again = model.predict([record.text for record in labelled])
    assert model.setting.task.score(labelled, again) == metrics["target_test"]
    assert [*model.setting.methods] == ["modifiers", "corpus_evidence"]
    setting, _ = build(domadapt.compose("train", [*recipe, *corpora(tmp_path)]))
    assert setting.augments and setting.reads_target
