"""What adapts by the target's text: labels that collapse are refused, two teachers are averaged."""

import logging
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import domadapt
from domadapt.methods.adaptation.guidelines import Guidelines, with_degree, without_degree
from domadapt.methods.adaptation.self_training import SelfTraining, by_bag_of_words, mean, soft_cross_entropy
from domadapt.methods.method import Step
from domadapt.methods.session import ReadText, Session, TargetReadings
from domadapt.models.contracts import Output
from domadapt.reporting.target_card import as_lines
from domadapt.runs.target_card import read_card
from tests.support import built, losses_while_training, setting_of, tiny_encoder, tiny_step, trained
from tests.test_methods import predicts_what_was_scored


class Fixed(torch.nn.Module):
    """An encoder that gives every word, or text, the same logits."""

    def __init__(self, encoder: Any, logits: Sequence[float]) -> None:
        super().__init__()
        self.tokenizer, self.width, self.kind = encoder.tokenizer, encoder.width, encoder.kind
        self.logits = torch.tensor(logits)

    def forward(self, batch: Any, hooked: bool = True) -> Output:
        size = batch.input_ids.shape
        logits = self.logits.expand(*(size if self.kind == "token" else size[:1]), -1).clone()
        return Output(torch.zeros(*size, self.width), logits)


def self_training(start: float = 0.0, average: bool = False) -> SelfTraining:
    return SelfTraining(
        start_after=start, temperature=0.5, confidence=0.7, weight=1.0, average=average, bag_of_words=False
    )


def setting_with(method: SelfTraining, epochs: int = 4) -> Session:
    """Of texts whose every tenth word is something."""
    session = setting_of(tiny_encoder(), method)
    session.epochs = epochs
    method.attach(session)
    session.source = [replace(e, word_tags=(np.arange(len(e.words)) % 10 == 0).astype(int)) for e in session.source]
    return session


@pytest.mark.parametrize(("logits", "rate"), [([9.0, 0, 0, 0, 0], "0.0 %"), ([0, 9.0, 0, 0, 0], "100.0 %")])
def test_labels_that_collapse_are_not_learnt(logits: list[float], rate: str, caplog: Any) -> None:
    method = self_training()
    session = setting_with(method)
    session.encoder = Fixed(session.encoder, logits)
    with caplog.at_level(logging.WARNING):
        method.after_epoch(0)
    assert method.refusals == 1 and not method.labels
    assert f"after epoch 1, {rate} of the target's words are labelled as something" in caplog.text
    assert method.losses(tiny_step(session)) == {} and method.memory() == {"refused": 1}


@pytest.mark.parametrize(("of", "refused"), [(10, 1), (50, 0)])
def test_a_lost_class_is_noticed_and_a_rare_one_is_not(tmp_path: Path, of: int, refused: int, caplog: Any) -> None:
    """One source text of so many is negative, and every text of the target is labelled positive."""
    session = built(tmp_path, "task=classification", "adaptation=self_training", "trainer.epochs=3")
    method = session.methods["self_training"]
    assert not method.collapse_reason(torch.tensor([0.05, 0.95]), torch.tensor([0.1, 0.9]))
    session.source = [replace(session.source[0], label=int(place > 0)) for place in range(of)]
    session.encoder = Fixed(session.encoder, [0.0, 9.0])
    session.readings.forget()
    method.after_epoch(1)
    assert method.refusals == refused and bool(method.labels) != bool(refused)
    assert ("hardly any of the target's texts are labelled 'negative'" in caplog.text) == bool(refused)


def test_its_labels_are_learnt_and_remembered() -> None:
    method = self_training()
    session = setting_with(method)
    encoder = session.encoder
    with torch.no_grad():  # so that the share of something is like the source's
        encoder.model.classifier.bias[0] += 0.02
    method.after_epoch(0)
    assert method.labels.keys() == {example.index for example in session.target}
    before = {number: rows.clone() for number, rows in method.labels.items()}
    losses = losses_while_training(method, session, encoder, steps=15)
    assert losses[-1] < losses[0]
    again = self_training()
    again.recall(method.memory())
    assert all(torch.equal(again.labels[number], rows) for number, rows in before.items())
    assert torch.equal(again.counts, method.counts)
    again.recall({"refused": 2})
    assert again.refusals == 2 and not again.labels


@pytest.mark.parametrize(("start", "epochs", "labelled"), [(0.6, 5, [2, 3]), (0.6, 3, [1]), (0, 3, [0, 1]), (1, 3, [])])
def test_when_it_labels(start: float, epochs: int, labelled: list[int], monkeypatch: Any) -> None:
    """Also in a run of three epochs, and never after the last one, when nothing learns from it."""
    method = self_training(start)
    setting_with(method, epochs)
    asked: list[int] = []
    monkeypatch.setattr(TargetReadings, "now", lambda _: asked.append(epoch) or {})
    for epoch in range(epochs):
        method.after_epoch(epoch)
    assert asked == labelled


def test_labels_are_the_mean_of_both_teachers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against probabilities worked out by hand; the other is asked for the same words of the same texts."""
    method = self_training(average=True)
    session = setting_with(method)
    assert "source_only" in method.reads and "source_only" not in self_training().reads
    own = session.readings.now()
    others = {number: ReadText(text.words, torch.full_like(text.rows, 0.2).log()) for number, text in own.items()}
    monkeypatch.setattr(TargetReadings, "source_only", lambda _: others)
    method.after_epoch(0)
    for number, rows in method.labels.items():
        torch.testing.assert_close(rows.exp(), (own[number].rows.exp() + 0.2) / 2)
    torch.testing.assert_close(mean(torch.zeros(1), torch.full((1,), -torch.inf)).exp(), torch.full((1,), 0.5))


def test_a_bag_of_words_is_one_more_teacher_of_whole_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each teacher counts the same; pairs of texts and spans have none."""
    words = "adaptation.self_training.bag_of_words=true"
    session = built(tmp_path, "task=classification", "adaptation=self_training", words, "trainer.epochs=3")
    method = session.methods["self_training"]
    own = {number: text.rows for number, text in session.readings.now().items()}
    method.average = True
    monkeypatch.setattr(TargetReadings, "source_only", lambda _: {n: ReadText([0], rows) for n, rows in own.items()})
    monkeypatch.setattr(method, "collapse_reason", lambda *_: "")
    method.after_epoch(1)
    source = [(example.text, example.label) for example in session.source]
    texts = [example.text for example in session.target]
    given = torch.cat([own[example.index] for example in session.target]).exp().double().numpy()
    expected = (2 * given + by_bag_of_words(source, texts, given)) / 3
    found = torch.cat([method.labels[example.index] for example in session.target]).exp()
    torch.testing.assert_close(found, torch.from_numpy(expected).float())
    session.task.pairs = True
    method.after_epoch(1)
    assert all(torch.equal(rows, mean(own[number], own[number])) for number, rows in method.labels.items())
    method.token, method.average, session.task.pairs = True, False, False
    method.after_epoch(1)
    assert all(torch.equal(rows, own[number]) for number, rows in method.labels.items())


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_bag_of_words_does_not_repeat_the_label_that_it_was_given(count: int) -> None:
    """A text is judged by what other texts show; a class that nothing has is possible nowhere."""
    source = [("great", 2), ("awful", 0)]
    texts = [f"{'great' if i % 2 else 'awful'} 👍 {i}" for i in range(count)]
    labels = np.array([[0.1, 0.0, 0.9] if i % 2 else [0.9, 0.0, 0.1] for i in range(count)])
    found = by_bag_of_words(source, texts, labels)
    assert np.allclose(found.sum(1), 1) and found[:, 1].max() < 1e-6
    assert count < 40 or found.argmax(1).tolist() == labels.argmax(1).tolist()
    changed = labels.copy()
    changed[0] = labels[0][::-1]
    assert np.array_equal(by_bag_of_words(source, texts, changed)[0], found[0])
    one = by_bag_of_words(source[:1], ["crisp"], labels[:1])  # what two or three labelled texts may leave
    assert one.argmax(1).tolist() == [2]
    many = [(f"text {number}", number) for number in range(30)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that so many classes may be a regression
        assert by_bag_of_words(many, ["text 3"] * 9, np.eye(30)[[3] * 9]).argmax(1).tolist() == [3] * 9


def test_the_recipe_does_not_rewrite_whole_texts_and_reads_no_trees(tmp_path: Path) -> None:
    session = built(tmp_path, "task=classification", "adaptation=recipe", "trainer.epochs=3")
    assert not session.augments and not session.reads("corpus_parses") and session.reads("source_only")
    assert session.methods["term_substitution"].prepare() == {}
    records = session.domains.source_train
    assert session.methods["term_substitution"].augment(records, 0, np.random.default_rng(0)) is records
    alone = built(tmp_path, "task=classification", "adaptation=term_substitution", "trainer.epochs=3")
    assert alone.augments and alone.reads("corpus_parses")


def test_soft_labels_against_a_loop() -> None:
    torch.manual_seed(0)
    logits, labels, counts = torch.randn(6, 3), torch.randn(6, 3).log_softmax(-1), torch.tensor([1.0, 0.5, 2.0])
    total = weights = torch.zeros(())
    for row in range(6):
        sharp = labels[row].exp() ** 2
        weight = (1.0 if labels[row].exp().max() > 0.7 else 0.1) * counts[labels[row].argmax()]
        total = total - weight * (sharp / sharp.sum() * logits[row].log_softmax(-1)).sum()
        weights = weights + weight
    torch.testing.assert_close(soft_cross_entropy(logits, labels, 0.5, 0.7, counts), total / weights)
    assert soft_cross_entropy(logits[:0], labels[:0], 0.5, 0.7, counts) == 0


def test_averaging_beside_it_is_its_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are made under the moving average of the weights, not under those of the last step."""
    seen = []
    read = TargetReadings.now

    def watched(self: TargetReadings) -> dict[int, ReadText]:
        averaging: Any = self._session.methods["averaging"]
        own = {name: weight.clone() for name, weight in self._session.encoder.state_dict().items()}
        seen.append((own, {name: mean.clone() for name, mean in averaging.mean.items()}))
        return read(self)

    monkeypatch.setattr(TargetReadings, "now", watched)
    methods = ["adaptation=[self_training,averaging]", "adaptation.averaging.start=0"]
    trained(tmp_path, "run", *methods, "seed=1")
    assert seen
    for own, mean_of in seen:
        assert mean_of and all(torch.equal(own[name], weight) for name, weight in mean_of.items())


def test_of_a_large_target_those_texts_are_in_steps_that_have_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = list[bool]()
    losses = SelfTraining.losses

    def watched(self: SelfTraining, step: Step) -> dict[str, Tensor]:
        if self.labels:
            assert step.target is not None
            met.extend(number in self.labels for number in step.target.batch.index.tolist())
        return losses(self, step)

    monkeypatch.setattr(SelfTraining, "losses", watched)
    monkeypatch.setattr("domadapt.methods.session.MOST_READ", {"token": 6})
    trained(tmp_path, "run", "adaptation=self_training", "adaptation.self_training.average=false", "seed=1")
    assert met and all(met)


def test_a_target_without_texts_is_not_learnt_from() -> None:
    method = self_training()
    session = setting_with(method)
    session.target = []
    method.after_epoch(0)
    assert not method.labels and not method.refusals


@pytest.mark.parametrize("judged", [0, 1])
def test_terms_of_texts_without_an_opinion_and_named_words_are_dropped(judged: int) -> None:
    encoder, method = tiny_encoder(), Guidelines(True, terms=None, not_terms=["LENS", "life"], degree_words=None)
    session = setting_of(encoder, method)
    method.terms = [1, 2]
    method.eval()
    batch = session.collator(session.target)
    read = batch.node_first_piece[batch.node_first_piece >= 0]
    logits = torch.zeros(*batch.input_ids.shape, 5)
    flat = logits.view(-1, 5)
    flat[read, 1], flat[read, 3] = 2.0, 1.0  # every word a term, and else an opinion
    own = batch.node_places()[0][batch.node_first_piece >= 0] == judged
    flat[read[own][1], 3] = 5.0  # and in one text one opinion
    best = method.transform(Output(torch.zeros(1), logits), batch).logits.view(-1, 5)[read].argmax(-1)
    words = [example.word(place).lower() for example in session.target for place in range(len(example.words))]
    for word, label, inside in zip(words, best.tolist(), own.tolist(), strict=True):
        assert label == 3 or label == int(inside and word not in ("lens", "life"))
    assert (best == 3).sum() == 1  # what is no term has not become an opinion


def test_no_term_is_found_where_decoding_finds_no_opinion() -> None:
    """The best sequence has an opinion that no single word has, or the other way round."""
    method = Guidelines(True, terms=None, not_terms=None, degree_words=None)
    session = setting_of(tiny_encoder(), method)
    method.terms = [1, 2]
    method.eval()
    batch = session.collator(session.target)
    words = [example.words for example in session.target]
    random = np.random.default_rng(0)
    dropped = 0
    for _ in range(100):
        session.task.transitions = random.normal(0, 2, (6, 5)).astype(np.float32)
        output = Output(torch.zeros(1), torch.from_numpy(random.normal(0, 1, (*batch.input_ids.shape, 5))))
        before = session.task.decode(output, batch, words)
        after = session.task.decode(method.transform(output, batch), batch, words)
        for was, now in zip(before, after, strict=True):
            kinds = [{span.type for span in prediction.spans} for prediction in (was, now)]
            if "opinion" in kinds[0]:
                assert now.spans == was.spans
            else:
                assert "aspect" not in kinds[1]
                dropped += "aspect" in kinds[0]
    assert dropped


def test_unset_nothing_changes_and_opinions_alone_have_their_adverbs() -> None:
    encoder = tiny_encoder()
    for degree_words in (None, ["the"]):
        method = Guidelines(None, None, None, degree_words)
        session = setting_of(encoder, method)
        method.eval()
        batch = session.collator(session.target)
        words = [example.word(place).lower() for example in session.target for place in range(len(example.words))]
        place = words.index("the")
        read = batch.node_first_piece[batch.node_first_piece >= 0]
        logits = torch.randn(*batch.input_ids.shape, 5)
        method.terms = [1, 2] if degree_words is None else []
        flat = logits.view(-1, 5)
        flat[read[place], 0] = flat[read[place + 1], 3] = 20.0
        changed = method.transform(Output(torch.zeros(1), logits), batch).logits.view(-1, 5)
        if degree_words is None:
            assert torch.equal(changed, flat)
        else:
            assert changed[read[place : place + 2]].argmax(-1).tolist() == [3, 4]


def test_what_is_stated_is_saved_and_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("Lens\n\nbattery \n", encoding="utf-8")
    stated = ["adaptation=guidelines", f"adaptation.guidelines.not_terms={tmp_path}/words.txt", "trainer.precision=32"]
    metrics = trained(tmp_path, "run", *stated, "adaptation.guidelines.degree_words=[Very]")
    assert metrics["stages"]["guidelines/not_terms"] == ["battery", "lens"]
    assert metrics["stages"]["guidelines/degree_words"] == ["very"]
    model = predicts_what_was_scored(tmp_path / "run", tmp_path / "test.jsonl", metrics)
    texts = [record.text for record in domadapt.read(tmp_path / "test.jsonl", domain="laptop").records]
    for text, predicted in zip(texts, model.predict(texts), strict=True):
        assert "lens" not in {text[span.start : span.end] for span in predicted.spans}
    with pytest.raises(ValueError, match=r"guidelines.not_terms=nowhere.txt: no such file"):
        Guidelines(None, None, "nowhere.txt", None).refuse()


@pytest.mark.parametrize(
    ("phrase", "cut"),
    [
        ("Wi-Fi", "wi - fi"),
        ("don't", "do n’t"),
        ("battery life", "Battery life"),
        ("strasse", "Straße"),  # as the card spells it
        ("cafe\u0301", "caf\u00e9"),
        ("fi", "fi"),
    ],
)
def test_phrases_are_met_however_they_are_cut_and_coded(phrase: str, cut: str) -> None:
    method = Guidelines(None, [phrase], None, None)
    words = ["a", *cut.split(), "-", "life"]
    example: Any = SimpleNamespace(words=words, word=words.__getitem__)
    inside = [True] * len(cut.split())
    assert method.collate([example])["terms"].tolist() == [False, *inside, False, False]


@given(st.lists(st.tuples(st.sampled_from(["O", "B", "I", "T"]), st.booleans()), min_size=1, max_size=8))
def test_opinions_begin_with_the_adverbs_before_them_or_behind_them(words: list[tuple[str, bool]]) -> None:
    adverbs = [place for place, (_, adverb) in enumerate(words) if adverb and place + 1 < len(words)]
    logits = 20 * torch.eye(5)[[{"O": 0, "T": 1, "B": 3, "I": 4}[tag] for tag, _ in words]]
    tags = ["O", "T", "T", "B", "I"]
    inside, outside = ([tag for tag, _ in words] for _ in range(2))
    for place in reversed(adverbs):  # slowly, a span's first word at a time
        if inside[place + 1] == "B" and inside[place] in "O":
            inside[place : place + 2] = ["B", "I"]
        elif inside[place + 1] == "B":  # the word before is in a span already: one span of both
            inside[place + 1] = "I"
    for place in adverbs:
        if outside[place : place + 2] == ["B", "I"]:
            outside[place : place + 2] = ["O", "B"]
    for limits, wanted in ((with_degree, inside), (without_degree, outside)):
        changed = limits(logits, adverbs, terms=[1, 2])
        assert torch.allclose(changed.exp().sum(-1), torch.ones(len(words)), atol=1e-4)
        assert [tags[tag] for tag in changed.argmax(-1).tolist()] == wanted


def test_the_recipe_trains_is_saved_and_predicts_what_was_scored(tmp_path: Path) -> None:
    recipe = ["adaptation=recipe", "trainer.precision=32"]
    metrics = trained(tmp_path, "run", *recipe)
    assert metrics["method"] == "recipe" and metrics["selection"]["validator"] == "last"
    assert len(metrics["curve"]) == 3 and "self_training" in metrics["curve"][2]["losses"]
    model = predicts_what_was_scored(tmp_path / "run", tmp_path / "test.jsonl", metrics)
    assert not model.session.methods, "a stock model"
    trained(tmp_path, "card", *recipe, "data.target.test_path=null")
    card = read_card(tmp_path / "card")
    assert card is not None and all(change.before != change.now for change in card.changes)
    assert f"{tmp_path}/card/source_only/model" in as_lines(card)
    # The source-only network that it learns from is a run of its own, by the baseline's budget.
    assert not domadapt.load(tmp_path / "run" / "source_only" / "model", precision="32").session.methods
    session = built(tmp_path, *recipe)
    assert session.augments and session.reads("target")
    (tmp_path / "run" / "metrics.json").unlink()  # as if it had been killed, and the other's model deleted for room
    shutil.rmtree(tmp_path / "run" / "source_only" / "model")
    with pytest.raises(ValueError, match="source_only: is finished, but its model/, .* is gone; move that"):
        trained(tmp_path, "run", *recipe)
