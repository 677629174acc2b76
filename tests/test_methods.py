"""Every method that has a yaml: finite losses, gradients, the same predictions after saving and loading."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import domadapt
from domadapt.data.batches import Batch
from domadapt.data.domains import UnlabelledText
from domadapt.methods.method import Method, Step
from domadapt.models.output import Output
from domadapt.runs.status import Status
from domadapt.training import run as training
from domadapt.training.build import build, make_methods, make_validators
from domadapt.training.epochs import Epochs
from domadapt.training.fit import fit
from domadapt.training.options import read_options
from tests.support import (
    EVERY_INJECTION,
    METHODS,
    TEXTS,
    corpora,
    finished,
    of_family,
    of_yaml,
    parsed_batch,
    tiny_step,
    without_dropout,
)
from tests.trouble import numbers, weights


@pytest.mark.parametrize("method", METHODS)
def test_losses_are_finite_and_move_something(tmp_path: Path, method: str) -> None:
    torch.manual_seed(0)
    session, _ = build(domadapt.compose("train", [*corpora(tmp_path), *of_yaml(method)]))
    session.source_only = finished("extraction")
    for own in session.methods.values():
        own.prepare()
        own.after_epoch(100)  # some losses need labels that are made after an epoch
    step = tiny_step(session)
    for own in session.methods.values():
        losses = own.losses(step)
        assert set(losses) == {name for name, weight in own.weights.items() if weight}
        moves = [*losses.values()] or [step.source.output.logits.square().mean()]  # what has no loss has the task's
        torch.stack(moves).sum().backward(retain_graph=True)
        assert all(torch.isfinite(loss) and loss.ndim == 0 for loss in losses.values())
        assert all(p.grad is not None for p in own.parameters() if p.requires_grad)
    if any(own.weights for own in session.methods.values()):
        gradients = [p.grad for p in session.encoder.parameters() if p.grad is not None]
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
        assert any(gradient.abs().sum() > 0 for gradient in gradients)


def changes_more_than_the_loss(method: Method) -> str:
    """Why a method acts even where its losses weigh nothing; empty if it does not."""
    more = ("prepare", "augment", "transform", "final_weights")
    own = [name for name in more if getattr(type(method), name) is not getattr(Method, name)]
    return ", ".join(own)


@pytest.mark.parametrize("method", METHODS)
def test_losses_that_weigh_nothing_change_nothing(tmp_path: Path, method: str) -> None:
    ends = []
    for name, overrides in (("plain", []), ("weightless", of_yaml(method))):
        steady = ["trainer.precision=32", "trainer.gradient_clip=1e9", "trainer.epochs=1"]
        cfg = domadapt.compose("train", [*corpora(tmp_path), *overrides, *steady])
        torch.manual_seed(0)
        session, _ = build(cfg)
        without_dropout(session.encoder)
        for label, own in session.methods.items():
            if reason := changes_more_than_the_loss(own):
                pytest.skip(f"{label} has its own {reason}")
            own.weights = dict.fromkeys(own.weights, 0.0)
        encoder = session.encoder
        if session.methods and (encoder.attention_hooks or encoder.output_hooks or encoder.states_hooks):
            pytest.skip("it has hooks in the encoder")
        validators = list(make_validators(cfg.selection))
        options, status = read_options(cfg), Status(tmp_path / name, "key")
        fit(options, session, Epochs(tmp_path / name, "key", session, validators, options, status), None)
        ends.append(session.encoder.state_dict())
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, msg=name)


class StoppedAt(Status):
    """Ends its run, not the source-only one before it, in the middle of the second epoch."""

    def note(self, every: float = 0.0, **fields: object) -> None:
        if fields.get("epoch") == 2 and self.path.parent.name != "source_only":
            raise ValueError("pulled the plug")
        super().note(every, **fields)


@pytest.mark.parametrize(
    ("method", "backbone"),
    [*((method, "bert") for method in METHODS), ("injection=attention_supervision", "deberta-v2")],
)
def test_a_run_that_was_killed_goes_on_and_its_model_predicts_the_same(
    tmp_path: Path, method: str, backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(name: str) -> dict[str, object]:
        folder = tmp_path / name
        return domadapt.train([*overrides, f"paths.run={folder}/run", f"paths.cache={folder}/cache"])

    overrides = [*corpora(tmp_path), *of_yaml(method), "trainer.precision=32", "trainer.threads=1"]
    if backbone != "bert":
        overrides += of_family(tmp_path / "backbone", backbone)
    metrics = trained("whole")
    with monkeypatch.context() as patch:
        patch.setattr(training, "Status", StoppedAt)
        with pytest.raises(ValueError, match="^pulled the plug$"):
            trained("cut")
    assert (tmp_path / "cut" / "run" / "checkpoint" / "last.safetensors").is_file()
    assert trained("cut")["attempts"] == 2
    assert weights(tmp_path / "cut" / "run") == weights(tmp_path / "whole" / "run")
    assert numbers(tmp_path / "cut" / "run") == numbers(tmp_path / "whole" / "run")
    model = domadapt.load(tmp_path / "whole" / "run" / "model", precision="32")
    corpus = domadapt.read(tmp_path / "test.jsonl", domain="laptop")
    again = model.predict_texts([UnlabelledText(r.id, "", r.text) for r in corpus.records])
    assert model.session.task.score(corpus.records, again) == metrics["target_test"]
    rows = (tmp_path / "whole" / "run" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    for row, prediction in zip(map(json.loads, rows), again, strict=True):
        found = [{"start": s.start, "end": s.end, "type": s.type} for s in prediction.spans]
        assert [{name: span[name] for name in ("start", "end", "type")} for span in row["predicted"]["spans"]] == found
        assert row["confidence"] == pytest.approx(prediction.confidence, abs=2e-4)


@pytest.mark.parametrize("at_prediction", ["predicted", "parser"])
@pytest.mark.parametrize("task", ["extraction", "classification"])
def test_a_saved_model_predicts_the_same(tmp_path: Path, task: str, at_prediction: str) -> None:
    methods = [*EVERY_INJECTION, f"injection.lisa.at_prediction={at_prediction}"]
    overrides = [*corpora(tmp_path), *methods, f"task={task}", f"paths.run={tmp_path}/run", "trainer.precision=32"]
    made = make_methods(domadapt.compose("train", overrides))
    metrics = domadapt.train([*overrides, f"paths.cache={tmp_path}/cache"])
    model = domadapt.load(tmp_path / "run" / "model", precision="32")
    corpus = domadapt.read(tmp_path / "test.jsonl", domain="laptop")
    again = model.predict_texts([UnlabelledText(r.id, "", r.text) for r in corpus.records])
    assert model.session.task.score(corpus.records, again) == metrics["target_test"]
    kind = "token" if task == "extraction" else "sequence"
    parsing = {"parses_at_prediction", "parser_at_prediction"}
    reading = {name for name, m in made.items() if parsing & m.reads and kind in m.tasks}
    assert model.session.methods.keys() == reading
    assert ("lisa" in reading) == (at_prediction == "parser")
    for text, prediction in zip(TEXTS, model.predict(TEXTS), strict=True):
        assert all(0 <= s.start < s.end <= len(text) for s in prediction.spans)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", ["extraction", "classification"])
def test_what_needs_no_method_to_predict_is_a_stock_model(tmp_path: Path, method: str, task: str) -> None:
    overrides = [*corpora(tmp_path), *of_yaml(method, task), f"task={task}", "trainer.epochs=1", "trainer.precision=32"]
    used = [m.used_at_prediction for m in build(domadapt.compose("train", overrides))[0].methods.values()]
    if any(used):
        pytest.skip("it is part of the model")
    domadapt.train([*overrides, f"paths.run={tmp_path}/run"])
    folder = tmp_path / "run" / "model"
    assert sorted(path.name for path in folder.iterdir()) == ["SHA256SUMS", "domadapt.json", "encoder"]
    heads = {
        "extraction": transformers.AutoModelForTokenClassification,
        "classification": transformers.AutoModelForSequenceClassification,
    }
    stock = heads[task].from_pretrained(folder / "encoder").eval()
    ours = domadapt.load(folder, precision="32").session.encoder
    batch, _ = parsed_batch(ours)
    with torch.no_grad():
        logits = stock(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        torch.testing.assert_close(logits, ours(batch).logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("config", ["{layer: 1}", "5", "null"])
def test_a_method_without_a_class(config: str) -> None:
    with pytest.raises(ValueError, match=r"^injection.own=.*: expected a method's settings, its class as _target_"):
        make_methods(domadapt.compose("train", [f"+injection.own={config}"]))


def test_two_methods_can_not_share_a_loss() -> None:
    settings = "layer: 0, head: 1, at_prediction: predicted, weight: 1"
    second = f"+injection.second={{_target_: domadapt.methods.injection.lisa.Lisa, {settings}}}"
    with pytest.raises(ValueError, match="another method has this name, or one of the losses"):
        make_methods(domadapt.compose("train", ["injection=lisa", second]))


def test_the_recurrent_baseline_takes_no_methods(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rnn_from_scratch takes no injection and no adaptation"):
        domadapt.train([*corpora(tmp_path), "backbone=rnn_from_scratch", "injection=gnn"])


def test_the_recurrent_baseline_is_saved_and_loaded(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "backbone=rnn_from_scratch", f"paths.run={tmp_path}/run", "trainer.precision=32"]
    metrics = domadapt.train([*overrides, f"paths.cache={tmp_path}/cache"])
    model = domadapt.load(tmp_path / "run" / "model", precision="32")
    corpus = domadapt.read(tmp_path / "test.jsonl", domain="laptop")
    again = model.predict([r.text for r in corpus.records])
    assert model.session.task.score(corpus.records, again) == metrics["target_test"]


class OnTargetAlone(Method):
    """Such as entropy: a loss on target batches, none on source batches."""

    reads = frozenset({"target"})

    def __init__(self) -> None:
        super().__init__({"alone": 1.0})

    def prepare(self) -> dict[str, Any]:
        return {"alone/share": torch.tensor(0.5), "alone/none": float("nan"), "alone/counts": np.arange(2)}

    def transform(self, output: Output, batch: Batch) -> Output:
        assert self.training == self.session.encoder.training == torch.is_grad_enabled()
        return output

    def losses(self, step: Step) -> dict[str, torch.Tensor]:
        assert step.target is not None and step.target.batch.word_tags is None
        return {"alone": step.target.output.states.pow(2).mean()}


def test_a_method_may_have_a_loss_on_the_target_alone_and_scores_in_evaluation_mode(tmp_path: Path) -> None:
    own = "+adaptation.alone={_target_: tests.test_methods.OnTargetAlone}"
    metrics = domadapt.train([*corpora(tmp_path), own, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    assert metrics["curve"][0]["losses"]["alone"] > 0
    assert metrics["stages"] == {"alone/share": 0.5, "alone/none": None, "alone/counts": [0, 1]}
    assert json.loads((tmp_path / "run" / "metrics.json").read_text(), parse_constant=pytest.fail) == metrics
