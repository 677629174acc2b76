"""Each adaptation alone lowers what it says it lowers; its arithmetic against a plain one; next to nothing to learn."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.data.readers import read
from domadapt.inference import model as saved
from domadapt.inference.description import labels_read
from domadapt.inference.export import export
from domadapt.methods.adaptation.averaging import Averaging
from domadapt.methods.adaptation.external_labels import ExternalLabels, average_answers, read_labelled
from domadapt.methods.adaptation.guidelines import Guidelines
from domadapt.methods.adaptation.masked_lm import MaskedLanguageModel
from domadapt.methods.adaptation.matching import SCALES, DomainAdversary, coral, mmd
from domadapt.methods.session import Session
from domadapt.methods.terms import term_kinds
from domadapt.methods.units import states_of
from domadapt.syntax.parser import load_pipeline
from domadapt.tasks.classification import Classification
from domadapt.training.build import build, read_problem
from tests import support
from tests.support import METHODS, corpora, finished, of_yaml, setting_of, tiny_encoder, tiny_step, trained, write_jsonl

ADAPTATIONS = [method.partition("=")[2] for method in METHODS if method.startswith("adaptation=")]
WITHOUT = {  # a loss: what there is instead
    "averaging": "below",
    "guidelines": "a switch at decoding: tests/adaptation/test_target_labels.py",
    "term_substitution": "other text: tests/adaptation/test_term_substitution.py",
}
WITH = [name for name in ADAPTATIONS if name not in WITHOUT]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A run with every adaptation that has a loss, prepared, its encoder as it was made."""
    folder = tmp_path_factory.mktemp("stack")
    torch.manual_seed(0)  # whatever tests have run before: the head's weights are drawn
    own = [session for name in WITH for session in of_yaml(f"adaptation={name}")[1:]]
    overrides = [*corpora(folder), f"adaptation=[{','.join(WITH)}]", "adaptation.masked_lm.epochs=0", *own]
    session, _ = build(domadapt.compose("train", [*overrides, f"paths.cache={folder}/cache"]))
    session.encoder.eval()
    session.source_only = finished("extraction")
    for method in session.methods.values():
        method.prepare()
        method.after_epoch(100)
    return session


@pytest.fixture
def every(stack: Session) -> Iterator[Session]:
    """The same, put back afterwards."""
    modules = [stack.encoder, *stack.methods.values()]
    states = [{name: value.clone() for name, value in module.state_dict().items()} for module in modules]
    yield stack
    for module, state in zip(modules, states, strict=True):
        module.load_state_dict(state)


@pytest.mark.parametrize("name", WITH)
def test_it_lowers_its_own_loss(every: Session, name: str) -> None:
    method = every.methods[name]
    found = support.losses_while_training(method, every, method if name == "dann" else every.encoder, steps=12)
    assert found[-1] < found[0] - 1e-4, found


def test_the_encoder_raises_what_the_discriminator_lowers(every: Session) -> None:
    method = every.methods["dann"]
    support.losses_while_training(method, every, method, steps=40)
    found = support.losses_while_training(method, every, every.encoder, steps=12)
    assert found[-1] > found[0] + 1e-3, found


def test_distances_of_samples_against_loops() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(5, 3), torch.randn(4, 3) + 1
    rows = torch.cat([x, y])
    squares = torch.tensor([[float(((a - b) ** 2).sum()) for b in rows] for a in rows])
    median = squares[~torch.eye(9, dtype=torch.bool)].median()

    def mean(first: range, second: range) -> float:
        pairs = [(i, j) for i in first for j in second if i != j]
        return float(np.mean([np.exp(-float(squares[i, j]) / (s * float(median))) for i, j in pairs for s in SCALES]))

    own, other = range(5), range(5, 9)
    assert float(mmd(x, y)) == pytest.approx(mean(own, own) + mean(other, other) - 2 * mean(own, other), abs=1e-5)
    difference = np.cov(x.numpy().T) - np.cov(y.numpy().T)
    assert float(coral(x, y)) == pytest.approx((difference**2).sum() / 36, rel=1e-4)
    assert mmd(x[:1], y) == coral(x, y[:0]) == 0.0


def test_rows_that_are_much_alike_are_told_apart_in_halves() -> None:
    torch.manual_seed(0)
    middle = 3 * torch.randn(384)
    x, y = (middle + 0.2 * torch.randn(n, 384) + shift for n, shift in ((32, 0.0), (16, 0.05)))
    whole = float(mmd(x, y))
    with torch.autocast("cpu", torch.bfloat16):
        assert float(mmd(x, y)) == pytest.approx(whole, rel=0.05)


@pytest.mark.parametrize("name", ["coral", "dann", "mmd"])
def test_a_text_that_fills_an_empty_share_of_a_step_counts_for_nothing(every: Session, name: str) -> None:
    """Where several devices train along, one may have nothing of its own to read."""
    step = tiny_step(every)
    assert all(float(loss.detach()) for loss in every.methods[name].losses(step).values())
    step.source.weight = step.target.weight = 0.0
    assert not any(float(loss.detach()) for loss in every.methods[name].losses(step).values())


@pytest.mark.parametrize("decay", [None, 0.6])
def test_the_mean_of_weights_is_that_of_the_formula(decay: float | None) -> None:
    encoder, method = tiny_encoder(), Averaging(decay, start=0.5)
    session = setting_of(encoder, method)
    name, expected = "model.classifier.weight", None
    for step in range(6):
        with torch.no_grad():
            for parameter in encoder.parameters():
                parameter += 1.0
        method.after_step(SimpleNamespace(progress=step / 6))  # type: ignore[arg-type]
        weight = encoder.state_dict()[name].clone()
        if step == 3:
            expected = weight
        if step > 3 and expected is not None:
            expected += max(0.0 if decay is None else 1 - decay, 1 / (step - 2)) * (weight - expected)
    again = Averaging(decay, start=0.5)
    again.session = session
    again.recall(method.memory())
    own = encoder.state_dict()
    torch.testing.assert_close(again.final_weights(own)[name], expected)
    folded = own | {name: own[name] + 5.0}  # by a method before it
    assert torch.equal(again.final_weights(folded)[name], folded[name]) and again.steps == 3


def test_words_that_are_plainly_nothing_are_not_compared() -> None:
    encoder = tiny_encoder()
    view = tiny_step(setting_of(encoder)).source
    output, read = view.output, int((view.batch.node_first_piece >= 0).sum())
    assert len(states_of(view, "word")) == read  # a random network holds anything for possible
    with torch.no_grad():
        output.logits[..., 0] += 30.0
    assert len(states_of(view, "word")) == 0
    assert states_of(view, "sentence").shape == (len(view.batch.words), encoder.width)
    with pytest.raises(ValueError, match=r"^dann.level=word: here texts are classified"):
        DomainAdversary("word", 8, 10.0, 1.0, 1.0).attach(SimpleNamespace(task=SimpleNamespace(kind="sequence")))  # type: ignore[arg-type]


def test_a_run_does_not_go_on_from_weights_that_have_seen_target_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, one = labels_read, finished("extraction")
    overrides = [*corpora(tmp_path), "task=extraction", f"paths.cache={tmp_path}/cache"]
    overrides.append(f"backbone.name={one}/model/encoder")

    def built(*more: str, **told: object) -> Session:
        monkeypatch.setattr(saved, "labels_read", lambda encoder: [replace(one, **told) for one in known(encoder)])
        return build(domadapt.compose("train", [*overrides, *more]))[0]

    built()
    for told, reason in (
        ({"role": "in_domain"}, "it was trained on target labels"),
        ({"oracle": True}, "its epoch was chosen by target labels"),
        ({"source": "hotel+target"}, "its labelled source is this run's target, target"),
        ({"target_labels": 8, "checksum": "of another split"}, "it was given 8 target labels that this run is not"),
    ):
        with pytest.raises(ValueError, match=f"model=.*encoder: {reason}.* leave out the target's test"):
            built(**told)
        untested = built("target.test_path=null", **told)
        assert any(reason in warning for warning in untested.domains.warnings)  # told in its metrics.json
    overrides += ["target_labels=8"]
    checksum_of = read_problem(domadapt.compose("train", overrides)).domains.labels_checksum
    for count in (8, 4):
        built(target_labels=count, checksum=checksum_of(count))
    for count, checksum in ((4, checksum_of(5)), (9, checksum_of(9))):
        with pytest.raises(ValueError, match=r"it was given \d target labels that this run is not"):
            built(target_labels=count, checksum=checksum)


def test_labels_that_weights_have_read_are_known_wherever_these_are_copied_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ["task=extraction", "trainer.epochs=1", "target.test_path=null"]
    trained(tmp_path, "bars", "source.name=bars", *own)
    trained(tmp_path, "student", f"backbone.name={tmp_path}/bars/model/encoder", *own)
    assert [one.source for one in labels_read(tmp_path / "student" / "model" / "encoder")] == ["source", "bars"]
    trained(tmp_path, "ceiling", "train_on=target", *own)
    trained(tmp_path, "untested", f"backbone.name={tmp_path}/ceiling/model/encoder", *own)
    encoder = tmp_path / "ceiling" / "model" / "encoder"
    (encoder / saved.LABELS).unlink()
    with pytest.raises(ValueError, match=r"labels_read.json: expected what a finished run says .* train the model ag"):
        labels_read(encoder)
    with monkeypatch.context() as there:
        there.chdir(encoder.parent)
        assert labels_read(Path("a-name-of-the-hub")) == []
    shutil.rmtree(tmp_path / "ceiling")
    shutil.copytree(tmp_path / "untested" / "model" / "encoder", tmp_path / "copied")
    export(tmp_path / "untested", tmp_path / "exported")
    for name in ("copied", "exported"):
        given = [*corpora(tmp_path), "task=extraction", f"backbone.name={tmp_path}/{name}"]
        with pytest.raises(ValueError, match=f"{name}: it was trained on target labels"):
            build(domadapt.compose("train", given))


@pytest.fixture(scope="module")
def method() -> MaskedLanguageModel:
    made = MaskedLanguageModel(0, 1e-3, 1e-3, 4, 0.15, True, 1.0)
    setting_of(tiny_encoder(), made)
    return made


@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_special_pieces_stay_and_the_rest_is_restorable(method: MaskedLanguageModel, seed: int, share: float) -> None:
    torch.manual_seed(seed)
    tokenizer = method.session.encoder.tokenizer
    ids = torch.randint(len(tokenizer), (4, 60))
    ids[:, ::7] = torch.tensor(tokenizer.all_special_ids)[torch.randint(len(tokenizer.all_special_ids), (4, 9))]
    before = ids.clone()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method.masking, "mlm_probability", share)
        corrupted, chosen = method.mask(ids)
    assert not chosen[torch.isin(ids, torch.tensor(tokenizer.all_special_ids))].any()
    assert torch.equal(corrupted[~chosen], ids[~chosen]) and torch.equal(ids, before)


def test_another_dropout_is_another_post_training(method: MaskedLanguageModel) -> None:
    before = method._key(method.session.source)
    dropouts = [m for m in method.session.encoder.modules() if isinstance(m, torch.nn.Dropout)]
    dropouts[0].p += 0.1
    assert method._key(method.session.source) != before
    dropouts[0].p -= 0.1


def test_the_joint_loss_reads_target_text_only_and_is_none_without_a_joint_stage(method: MaskedLanguageModel) -> None:
    assert method.losses(tiny_step(method.session, target=False)) == {}
    alone = MaskedLanguageModel(2, 1e-3, 1e-3, 4, 0.15, True, 0.0)
    assert alone.losses(tiny_step(setting_of(tiny_encoder(), alone))) == {}


@given(st.integers(0, 2**31), st.integers(1, 3))
def test_files_are_averaged_as_a_loop_over_words_has_it(seed: int, files: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    network = torch.rand(5, 3, generator=generator).softmax(-1)
    answers, sure = torch.randint(-1, 3, (files, 5), generator=generator), torch.rand(files, 5, generator=generator)
    for i, row in enumerate(average_answers(network, answers, sure).tolist()):
        total, said = network[i].tolist(), 1
        for f in range(files):
            if (k := int(answers[f, i])) >= 0:
                c, said = float(sure[f, i]), said + 1
                total = [t + c * (j == k) + (1 - c) * float(network[i, j]) for j, t in enumerate(total)]
        assert row == pytest.approx([t / said for t in total], abs=1e-5)


def test_texts_of_a_file_that_nobody_has_labelled_are_left_out(tmp_path: Path) -> None:
    """An empty list is what doccano writes for these."""
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "A", "label": ["good"]}, {"text": "B", "label": []}])
    known, told = read_labelled(str(path), "laptop", {"A", "B"}, Classification(["bad", "good"]))
    assert [(record.text, record.label) for record in known] == [("A", "good")]
    assert told["text without labels, left out"] == 1
    with pytest.raises(ValueError, match="letter by letter; with data.lowercase or data.detokenise, so changed"):
        read_labelled(str(path), "laptop", {"a", "b"}, Classification(["bad", "good"]))  # as a run reads them


def test_a_run_learns_from_a_file_and_takes_it_for_no_gold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = [*corpora(tmp_path), f"paths.cache={tmp_path}/cache", f"paths.runs={tmp_path}/runs"]
    texts = [record.text for record in read(tmp_path / "target.jsonl", domain="laptop", labelled=False).records]
    lines = [{"text": text, "spans": [{"text": text.split()[-1].strip("."), "type": "aspect", "confidence": 0.5}]}
             for text in texts[:8]]  # fmt: skip
    path = tmp_path / "llm.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"text": "None of theirs.", "spans": []}]))
    given = ["adaptation=external_labels", f"adaptation.external_labels.path={path}"]
    metrics = domadapt.train([*overrides, *given], seed=1)
    assert metrics["config"]["target_labels"] == 0 and metrics["role"] == "adapted"
    assert all(line["losses"]["external_labels"] > 0 for line in metrics["curve"])
    assert metrics["stages"]["external_labels/texts"] == len({line["text"] for line in lines})
    assert 0 <= metrics["stages"]["external_labels/llm.jsonl"] <= 1
    alone = domadapt.train([*overrides, *given, "adaptation.external_labels.bootstrap=false"], seed=1)
    assert caplog.text.count("text that is none of the target's, left out (1 time)") == 2  # of each run
    losses = [[line["losses"]["external_labels"] for line in one["curve"]] for one in (metrics, alone)]
    assert losses[0][0] == losses[1][0] and losses[0][1] != losses[1][1]  # of the second epoch, by the network itself
    [session] = build(domadapt.compose("train", [*overrides, *given]))[:1]
    method = session.methods["external_labels"]
    assert isinstance(method, ExternalLabels)
    read_back = method._read(str(path), {example.text.strip(): example for example in session.target})
    assert {float(said[1].min()) for said in read_back.values()} == {0.5}
    other = tmp_path / "other.jsonl"  # labels texts that the first does not
    other.write_text("".join(json.dumps({"text": text, "spans": []}) + "\n" for text in texts[6:10]))
    both = [given[0], f"adaptation.external_labels.path=[{path},{other}]"]
    monkeypatch.setattr("domadapt.methods.session.MOST_READ", {"token": 6})  # of a large target some alone are read
    stages = domadapt.train([*overrides, *both], seed=1)["stages"]
    assert stages["external_labels/texts"] == len({*texts[:10]}) and "external_labels/other.jsonl" in stages
    first, mended = json.dumps(lines[0]), []
    for change in ({}, {"text": f" {texts[0]}"}, {"spans": []}):
        other.write_text(f"{first}\n\n{json.dumps(lines[0] | change)}\n" + '{"text": "Not yet."}')
        mended.append(read_labelled(str(other), "laptop", texts, session.task)[1])
    twice = "different labels of one text, the last counts; first on lines 1 and 3"
    assert [warnings[twice] for warnings in mended] == [0, 0, 1]
    assert [warnings["text without labels, left out"] for warnings in mended] == [1, 1, 1]
    method._read(str(other), {example.text.strip(): example for example in session.target})
    assert twice not in caplog.text  # refuse tells it, once
    both[1] = f"adaptation.external_labels.path=[{other},{path}]"
    for wrong, told in (
        (path.read_text().replace("0.5", "95"), r"1; first 95 at .*llm.jsonl:1 \(8 times\); write a probability"),
        ('{"text": "None of theirs.", "spans": []}', "none of its 1 labelled texts is among"),
        ('{"text": "None of theirs."}', "none of its 1 records has a label or spans; label some"),
        (first.replace("aspect", "aspct"), r"llm.jsonl:1: span type is 'aspct'; .* did you mean 'aspect'\?"),
        (json.dumps({"text": texts[0], "label": "good"}), "llm.jsonl:1: .*this one has a label, for another task"),
    ):
        path.write_text(f"{wrong}\n")
        with pytest.raises(ValueError, match=told):
            domadapt.train([*overrides, *both], seed=2)
        assert twice in caplog.text
        caplog.clear()
    assert not list(tmp_path.glob("runs/**/seed2-*/metrics.json"))  # told before source-only is trained
    with pytest.raises(ValueError, match=r"external_labels.path=None: expected a file"):
        domadapt.train([*overrides, given[0]], seed=2)
    for name in ("test", "labelled"):  # of the target
        shutil.copy(tmp_path / f"{name}.jsonl", path)
        with pytest.raises(ValueError, match=rf"llm.jsonl: is .*{name}.jsonl, labels that the run must not learn from"):
            build(domadapt.compose("train", [*overrides, *given]))
    path.write_text("\n".join((tmp_path / "test.jsonl").read_text().splitlines()[::-1]))
    monkeypatch.setattr("domadapt.training.build.ALL_RIGHT", {"token": 6})
    with pytest.raises(ValueError, match=r"llm.jsonl: its labels of 12 texts of the target's test are the test's own"):
        build(domadapt.compose("train", [*overrides, *given]))


WORDS = ["apple", "bridge", "candle", "dragon", "engine", "forest", "garden", "hammer", "island", "jacket", "kettle"]
ONCE = [f"The {word} is great." for word in WORDS]


@pytest.mark.parametrize("texts", [ONCE, ["The lens is great."] * 12], ids=["nouns that come once", "a single noun"])
def test_a_source_of_odd_nouns_trains(tmp_path: Path, texts: list[str]) -> None:
    methods = ["adaptation=[self_training,term_substitution]", "data.dev_by=record", "trainer.epochs=1"]
    overrides = [*corpora(tmp_path), *methods]
    marked = [{"text": text.split()[1], "type": "aspect"} for text in texts]
    rows = [{"text": text, "spans": [one, {"text": "great", "type": "opinion"}]} for text, one in zip(texts, marked)]
    write_jsonl(tmp_path / "source.jsonl", rows)
    assert 0 < domadapt.train(overrides)["stages"]["term_substitution/terms"] <= len(texts)


def test_terms_can_not_need_an_opinion_where_none_is_annotated() -> None:
    method = Guidelines(terms_need_opinion=True, terms=None, not_terms=None, degree_words=None)
    session = setting_of(tiny_encoder(labels=3), method)
    session.task.types, session.task.labels = ["NEG", "POS"], ["O", "B-NEG", "I-NEG", "B-POS", "I-POS"]
    method.session = session
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("domadapt.methods.terms.noun_kinds", lambda *of: frozenset({"NEG", "POS"}))
        with pytest.raises(ValueError, match="terms_need_opinion=true: expected a span type of opinions"):
            method.prepare()
        patch.setattr("domadapt.methods.terms.noun_kinds", lambda *of: frozenset())
        with pytest.raises(ValueError, match="terms_need_opinion: expected a span type whose words are mostly nouns"):
            method.prepare()


def test_terms_are_read_off_the_source_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labelled target records stand behind the source's, each up to twenty times."""
    monkeypatch.setattr("domadapt.methods.terms.noun_kinds", lambda *of: of)
    domains = SimpleNamespace(source_records=("a", "b"), source_train=("a", "b", "target", "target"))
    corpora = SimpleNamespace(parses=lambda side: [1, 2, 3, 4])
    session: Any = SimpleNamespace(task=SimpleNamespace(kind="token"), domains=domains, corpora=corpora)
    assert term_kinds(session) == (("a", "b"), [1, 2])


def test_spans_are_nothing_to_classification(tmp_path: Path) -> None:
    methods = ["task=classification", "adaptation=term_substitution", "trainer.epochs=1"]
    stages = domadapt.train([*corpora(tmp_path), *methods])["stages"]
    assert stages["term_substitution/terms"] == 0 < stages["term_substitution/others"]
    with pytest.raises(ValueError, match="adaptation=guidelines: they are of spans, and here texts are classified"):
        domadapt.train([*corpora(tmp_path), methods[0], "adaptation=guidelines", "adaptation.guidelines.terms=[lens]"])


def test_a_parser_that_is_loaded_in_the_middle_of_training_changes_no_number(tmp_path: Path) -> None:
    def trained(name: str) -> object:
        folder = tmp_path / name
        overrides = [*corpora(tmp_path), "adaptation=term_substitution", "trainer.threads=1", f"paths.run={folder}"]
        return [(line["losses"], line["validators"]) for line in domadapt.train(overrides)["curve"]]

    warm = trained("warm")
    load_pipeline.cache_clear()  # the parses of the corpora are in the cache: what is made anew each epoch loads it
    assert trained("cold") == warm


def test_what_was_mended_is_counted_as_read_not_at_every_epoch(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "data.dev_by=record", "adaptation=term_substitution"]
    overrides.append("adaptation.term_substitution.sentence_share=1.0")
    spans = [{"start": 4, "end": 8, "type": "aspect"}, {"start": 9, "end": 10, "type": "opinion"}]
    texts = [f"The lens of a strap{i} is dull, number {i}." for i in range(20)]
    write_jsonl(tmp_path / "source.jsonl", [{"id": text, "text": text, "spans": spans} for text in texts])
    for epochs in (1, 2):
        warnings = domadapt.train([*overrides, f"trainer.epochs={epochs}"])["counts"]["warnings"]
        assert warnings["span off word boundaries, snapped outward"] == 20
