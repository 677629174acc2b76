"""The contract of every method that has a yaml, on both tasks; what holds for several at once and for a stranger's."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

import domadapt
from domadapt.config.compose import make
from domadapt.data.batches import Batch
from domadapt.data.domains import UnlabelledText
from domadapt.methods.method import Method, Step
from domadapt.methods.session import Session
from domadapt.models.contracts import Output
from domadapt.runs.status import Status
from domadapt.selection.validators import Evidence, Validator
from domadapt.training import cell as training
from domadapt.training.build import build, make_methods, make_validators
from domadapt.training.epochs import Epochs, fit
from domadapt.training.options import read_options
from domadapt.utils.runtime import preserve_random_state
from tests import support
from tests.support import CONF, EVERY_INJECTION, METHODS, TEXTS, StoppedAt, corpora, finished, of_yaml, trained
from tests.test_label_lock import blind_choices, scramble
from tests.trouble import numbers, weights

TASKS = ["extraction", "classification"]
STOCK = dict(zip(TASKS, (AutoModelForTokenClassification, AutoModelForSequenceClassification), strict=True))
DEBERTA = "injection=attention_supervision", "deberta-v2"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("method", "backbone"), [*((method, "bert") for method in METHODS), DEBERTA])
def test_the_contract(tmp_path: Path, method: str, backbone: str, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finite losses that move something; the model predicts what was scored, and is a stock one where it says so;
    and a run with other target labels that is killed in its second epoch goes on to the same end, byte by byte."""
    overrides = [*corpora(tmp_path), *of_yaml(method, task), f"task={task}", "trainer.precision=32"]
    if backbone != "bert":
        overrides += support.of_family(tmp_path / "backbone", backbone)
    torch.manual_seed(0)
    session, _ = build(domadapt.compose("train", overrides))
    session.source_only = finished(task)
    losses_move_something(session)

    def trained(name: str) -> dict[str, Any]:
        folder = tmp_path / name
        return domadapt.train([*overrides, "trainer.threads=1", f"paths.run={folder}", f"paths.cache={folder}-cache"])

    metrics, whole = trained("whole"), tmp_path / "whole"
    predicts_what_was_scored(whole, tmp_path / "test.jsonl", metrics)
    if not any(own.used_at_prediction for own in session.methods.values()):
        is_a_stock_model(whole / "model", task)
    scramble(tmp_path, task)
    with monkeypatch.context() as patch:
        patch.setattr(training, "Status", StoppedAt)
        with pytest.raises(ValueError, match="^pulled the plug"):
            trained("cut")
    assert (tmp_path / "cut" / "checkpoint" / "last.safetensors").is_file()
    scrambled = trained("cut")
    assert scrambled["attempts"] == 2
    assert weights(tmp_path / "cut") == weights(whole) and blind_choices(metrics) == blind_choices(scrambled)
    one, other = (blind(tmp_path / name) for name in ("whole", "cut"))
    assert one == other and metrics["curve"] and metrics["expected"]
    assert metrics["target_test"] != scrambled["target_test"]


def blind(run: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Numbers and predictions of a run, less what target labels may change."""
    labelled = ("key", "data", "selection", "calibration", "target_test", "target_test_clean")
    rows = [{**row, "gold": None} for row in support.read_jsonl(run / "predictions.jsonl")]
    return {name: value for name, value in numbers(run).items() if name not in labelled}, rows


def losses_move_something(session: Session) -> None:
    for own in session.methods.values():
        own.prepare()
        own.after_epoch(100)  # some losses need labels that are made after an epoch
    step = support.tiny_step(session)
    for own in session.methods.values():
        losses = own.losses(step)
        refused = getattr(own, "refusals", 0)  # labels that have collapsed are not learnt from
        assert set(losses) == {name for name, weight in own.weights.items() if weight and not refused}
        moves = [*losses.values()] or [step.source.output.logits.square().mean()]  # what has no loss has the task's
        torch.stack(moves).sum().backward(retain_graph=True)
        assert all(torch.isfinite(loss) and loss.ndim == 0 for loss in losses.values())
        assert all(p.grad is not None for p in own.parameters() if p.requires_grad)
    if any(own.weights for own in session.methods.values()):
        gradients = [p.grad for p in session.encoder.parameters() if p.grad is not None]
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
        assert any(gradient.abs().sum() > 0 for gradient in gradients)


def predicts_what_was_scored(run: Path, test: Path, metrics: dict[str, Any]) -> domadapt.Model:
    """Loaded from disk: the same scores, spans and confidence as the run has written down."""
    model = domadapt.load(run / "model", precision="32")
    records = domadapt.read(test, domain="laptop").records
    again = model.predict_texts([UnlabelledText(r.id, "", r.text) for r in records])
    assert model.session.task.score(records, again) == metrics["target_test"]
    rows = (run / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    for row, prediction in zip(map(json.loads, rows), again, strict=True):
        found = [{"start": s.start, "end": s.end, "type": s.type} for s in prediction.spans]
        spans = row["predicted"].get("spans", []) if isinstance(row["predicted"], dict) else []
        assert [{name: span[name] for name in ("start", "end", "type")} for span in spans] == found
        assert row["confidence"] == pytest.approx(prediction.confidence, abs=2e-4)
    return model


def is_a_stock_model(folder: Path, task: str) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["SHA256SUMS", "domadapt.json", "encoder", "source_dev.json"]
    stock = STOCK[task].from_pretrained(folder / "encoder").eval()
    ours = domadapt.load(folder, device="cpu", precision="32").session.encoder
    batch, _ = support.parsed_batch(ours)
    with torch.no_grad():
        logits = stock(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        torch.testing.assert_close(logits, ours(batch).logits, atol=1e-5, rtol=1e-4)


def weightless(folder: Path, *overrides: str) -> dict[str, torch.Tensor]:
    """The encoder after a run whose methods' losses weigh nothing."""
    steady = ["trainer.precision=32", "trainer.gradient_clip=1e9", "trainer.epochs=1"]
    cfg = domadapt.compose("train", [*corpora(folder), *overrides, *steady])
    torch.manual_seed(0)
    session, _ = build(cfg)
    encoder = session.encoder
    support.without_dropout(encoder)
    for label, own in session.methods.items():
        more = ("augment", "transform", "final_weights")  # by which it acts even where its losses weigh nothing
        if any(getattr(type(own), name) is not getattr(Method, name) for name in more):
            pytest.skip(f"{label} does more than its loss")
        own.weights = dict.fromkeys(own.weights, 0.0)
        before = {key: value.clone() for key, value in encoder.state_dict().items()}
        session.source_only = finished("extraction")
        with preserve_random_state():
            own.prepare()
        if not all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items()):
            pytest.skip(f"{label} changes the encoder before training")
    if session.methods and (encoder.attention_hooks or encoder.output_hooks or encoder.states_hooks):
        pytest.skip("it has hooks in the encoder")
    validators = list(make_validators(cfg))
    options, status = read_options(cfg), Status(folder / "run", "key")
    fit(options, session, Epochs(folder / "run", "key", session, validators, options, status), None)
    return dict(encoder.state_dict())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    return weightless(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("method", METHODS)
def test_losses_that_weigh_nothing_change_nothing(plain: dict[str, torch.Tensor], tmp_path: Path, method: str) -> None:
    for name, tensor in weightless(tmp_path, *of_yaml(method)).items():
        torch.testing.assert_close(tensor, plain[name], msg=name)


@pytest.mark.parametrize("at_prediction", ["predicted", "parser"])
@pytest.mark.parametrize("task", TASKS)
def test_every_injection_at_once_predicts_what_was_scored(tmp_path: Path, task: str, at_prediction: str) -> None:
    methods = [*EVERY_INJECTION, f"injection.lisa.at_prediction={at_prediction}"]
    made = make_methods(domadapt.compose("train", methods))
    metrics = trained(tmp_path, "run", *methods, f"task={task}", "trainer.precision=32")
    model = predicts_what_was_scored(tmp_path / "run", tmp_path / "test.jsonl", metrics)
    kind = "token" if task == "extraction" else "sequence"
    parsing = {"parses_at_prediction", "parser_at_prediction"}
    reading = {name for name, m in made.items() if parsing & m.reads and kind in m.tasks}
    assert model.session.methods.keys() == reading
    assert ("lisa" in reading) == (at_prediction == "parser")
    for text, prediction in zip(TEXTS, model.predict(TEXTS), strict=True):
        assert all(0 <= s.start < s.end <= len(text) for s in prediction.spans)


GIVEN = {"layer": 0, "head": 1, "relation": "det", "direction": "to_head"}
REFUSED: list[tuple[str, dict[str, Any], str]] = [  # a method, settings in place of its yaml's, what is said of them
    ("lisa", {"layer": 7}, "lisa.layer=7: tiny_random has layers 0 to 1"),
    ("lisa", {"head": 4}, "lisa.head=4: tiny_random has heads 0 to 3"),
    ("lisa", {"at_prediction": "gold"}, "lisa.at_prediction='gold': expected predicted or parser"),
    ("attention_supervision", {"relations": []}, r"relations=\[\]: expected a list of relation names"),
    ("attention_supervision", {"relations": ["dobj"]}, "no relation dobj in the parses, whose relations are: .*nsubj"),
    ("attention_supervision", {"heads": "best"}, "heads='best': expected a list of {layer: ..., head: ..., relation"),
    ("attention_supervision", {"heads": [GIVEN | {"layer": 2}]}, r"heads\[0\].layer=2: tiny_random has layers 0 to 1"),
    ("attention_supervision", {"heads": [GIVEN | {"head": 4}]}, r"heads\[0\].head=4: tiny_random has heads 0 to 3"),
    ("attention_supervision", {"heads": [GIVEN, GIVEN]}, r"attention_supervision.heads\[1\]=.*: is there twice"),
    ("attention_supervision", {"heads": [GIVEN | {"relation": 5}]}, r"heads\[0\].relation=5: expected a name"),
    ("attention_supervision", {"heads": [GIVEN | {"direction": "up"}]}, "direction='up': expected to_head or to_"),
    ("gnn", {"convolution": "rgcn"}, "gnn.convolution="),
    ("gnn", {"masked": 0.0}, "gnn.masked=0.0: expected a share between 0 and 1, both excluded"),
    ("gnn", {"masked": 1.0}, "gnn.masked=1.0: expected a share between 0 and 1, both excluded"),
    ("relations", {"layer": 2}, "layer 2: tiny_random has layers 0 to 1, or from the last -1 to -2"),
    ("relations", {"layer": 0.5}, "relations.layer=0.5: expected a whole number"),
    ("relations", {"width": 0}, "relations.width=0: expected a whole number from 1"),
    ("relations", {"relation_width": 0}, "relations.relation_width=0: expected a whole number from 1"),
    ("tree_bias", {"layers": []}, r"tree_bias.layers=\[\]: expected all, or different numbers"),
    ("tree_bias", {"layers": "top"}, "tree_bias.layers='top': expected all"),
    ("tree_bias", {"layers": [1, 1]}, r"tree_bias.layers=\[1, 1\]: expected all, or different"),
    ("tree_bias", {"layers": [2]}, "tree_bias.layers=2: tiny_random has layers 0 to 1"),
    ("tree_bias", {"max_distance": 0}, "tree_bias.max_distance=0: expected a whole number from 1"),
    ("tree_bias", {"mask": True}, "tree_bias.mask=True: expected false, or a whole number from 1 to 6"),
    ("tree_bias", {"mask": 7}, "tree_bias.mask=7: expected false, or a whole number from 1 to 6"),
    ("extra_head", {"layer": 2}, "extra_head.layer=2: tiny_random has layers 0 to 1"),
    ("extra_head", {"shape": "sum"}, "extra_head.shape='sum': expected product or bias"),
    ("extra_head", {"arcs": "siblings"}, "extra_head.arcs='siblings': expected parents, children or both"),
    ("gnn_fusion", {"convolution": "gat"}, "gnn_fusion.convolution='gat': expected gatv2, gcn, relational"),
    ("gnn_fusion", {"width": 6}, "gnn_fusion.width=6: expected a whole multiple of 4"),
    ("gnn_fusion", {"depth": 0}, "gnn_fusion.depth=0: expected a whole number from 1"),
    ("gnn_fusion", {"rate_factor": -1.0}, "gnn_fusion.rate_factor=-1.0: expected a number from 0.0 to"),
    ("self_training", {"average": 1}, "average=1: expected true or false"),
    ("self_training", {"bag_of_words": "yes"}, "bag_of_words='yes': expected true or false"),
    ("self_training", {"start_after": 2}, "self_training.start_after=2: expected a number from 0.0 to 1.0"),
    ("self_training", {"temperature": 0}, "self_training.temperature=0: expected a number from 0.01 to 10.0"),
    ("guidelines", {"terms_need_opinion": 0}, "terms_need_opinion=0: expected true, false or null"),
    ("guidelines", {"terms_need_opinion": "no"}, "terms_need_opinion='no': expected true, false or null"),
    ("averaging", {"start": 1.0}, "averaging.start=1.0: expected a number from 0.0 to 0.9 .1 would average nothing"),
    ("coral", {"level": "spans"}, "coral.level='spans': expected sentence, word or null"),
]


@pytest.mark.parametrize(("name", "settings", "message"), REFUSED)
def test_a_setting_out_of_range_is_named(name: str, settings: dict[str, Any], message: str) -> None:
    [path] = CONF.glob(f"*/{name}.yaml")
    config = dict(OmegaConf.to_container(OmegaConf.load(path))[name])  # type: ignore[index, arg-type, call-overload]
    config |= ({"layer": 1} if isinstance(config.get("layer"), int) else {}) | settings
    with pytest.raises(ValueError, match=message):
        support.setting_of(support.tiny_encoder(), make(config))


CLASSLESS = r"^injection.own=.*: expected a method's settings, its class as _target_"
SECOND = "{_target_: domadapt.methods.injection.lisa.Lisa, layer: 0, head: 1, at_prediction: predicted, weight: 1}"


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        *(
            ([f"+injection.own={config}"], CLASSLESS)
            for config in ("{layer: 1}", "5", "null", "{_target_: collections.Counter}")
        ),
        (["injection=lisa", f"+injection.second={SECOND}"], "another has this name, or one of the losses"),
    ],
)
def test_a_method_without_a_class_and_two_that_share_a_loss(overrides: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make_methods(domadapt.compose("train", overrides))


def test_a_class_that_is_no_validator_is_named() -> None:
    with pytest.raises(ValueError, match="collections.Counter.*: expected a subclass of Validator, with a name"):
        list(make_validators(domadapt.compose("train", ["selection._target_=collections.Counter"])))


def test_the_recurrent_baseline_is_saved_and_loaded(tmp_path: Path) -> None:
    metrics = trained(tmp_path, "run", "backbone=rnn_from_scratch", "trainer.precision=32")
    assert metrics["role"] == "rnn_from_scratch"
    predicts_what_was_scored(tmp_path / "run", tmp_path / "test.jsonl", metrics)


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


class Weightless(OnTargetAlone):
    def losses(self, step: Step) -> dict[str, torch.Tensor]:
        return {"other": step.source.output.logits.sum()}


class Returning(Method):
    """Hooks that return what nobody expects."""

    augments = True

    def __init__(self, hook: str) -> None:
        super().__init__({"odd": 1.0})
        self.hook = hook

    def prepare(self) -> Any:
        return None if self.hook == "prepare" else {}

    def augment(self, records: Any, epoch: int, random: Any) -> Any:
        return {"augment": None, "fewer": records[1:], "texts": [r.text for r in records]}.get(self.hook, records)

    def collate(self, examples: Any) -> Any:
        return {"collate": [], "collated": {"hints": [1]}}.get(self.hook, {})

    def transform(self, output: Output, batch: Batch) -> Any:
        return None if self.hook == "transform" else output

    def losses(self, step: Step) -> Any:
        return {"odd": {"losses": 0.5}.get(self.hook, step.source.output.logits.sum())}


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        ("prepare", r"mine.prepare\(\) returned None; expected a dict of what to record"),
        ("augment", r"mine.augment\(\) returned None; expected a sequence of records"),
        ("fewer", r"mine.augment\(\) returned 21 items, the first Record.*; expected 22 source records"),
        ("texts", r"mine.augment\(\) returned 22 items, the first '.*'; expected 22 source records"),
        ("collate", r"mine.collate\(\) returned \[\]; expected a dict of tensors by key"),
        ("collated", r"mine.collate\(\): hints=\[1\]; expected a tensor"),
        ("transform", r"mine.transform\(\) returned None; expected an Output"),
        ("losses", r"mine.losses\(\): odd=0.5; expected a tensor that is one number"),
    ],
)
def test_a_hook_that_returns_something_else_is_named(hook: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=told):
        trained(tmp_path, "run", f"+adaptation.mine={{_target_: tests.test_methods.Returning, hook: {hook}}}")


def test_a_misspelt_hook_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    type("Mine", (Method,), {"__module__": "mine", "colate": len, "read": frozenset(), "helper": len})
    assert sorted(caplog.messages) == [
        "Mine.colate: did you mean collate? Nobody else uses this name",
        "Mine.read: did you mean reads? Nobody else uses this name",
    ]


class Forgetful(OnTargetAlone):
    def losses(self, step: Step) -> Any:
        return None


class Greedy(OnTargetAlone):
    """Takes the place of the loss on labels."""

    def losses(self, step: Step) -> dict[str, torch.Tensor]:
        return {"task": super().losses(step)["alone"]}


class Endless(OnTargetAlone):
    """A division by zero in the second step."""

    def losses(self, step: Step) -> dict[str, torch.Tensor]:
        return {"alone": super().losses(step)["alone"] / (step.progress == 0)}


class Wordy(Validator):
    def __init__(self) -> None:
        super().__init__("last")

    def __call__(self, evidence: Evidence) -> Any:
        return "good"


def test_a_method_may_have_a_loss_on_the_target_alone_and_scores_in_evaluation_mode(tmp_path: Path) -> None:
    own = "+adaptation.alone={_target_: tests.test_methods.OnTargetAlone}"
    metrics = trained(tmp_path, "run", own)
    assert metrics["curve"][0]["losses"]["alone"] > 0
    assert metrics["stages"] == {"alone/share": 0.5, "alone/none": None, "alone/counts": [0, 1]}
    with pytest.raises(ValueError, match="loss 'other' has no weight: its method gives one"):
        trained(tmp_path, "other", own.replace("OnTargetAlone", "Weightless"))
    with pytest.raises(ValueError, match=r"alone.losses\(\): 'task' is the name of another loss"):
        trained(tmp_path, "taken", own.replace("OnTargetAlone", "Greedy"))
    with pytest.raises(ValueError, match=r"step 2: the loss is no number \(task [\d.]+, alone inf, total inf\)"):
        trained(tmp_path, "endless", own.replace("OnTargetAlone", "Endless"))
    with pytest.raises(ValueError, match=r"alone.losses\(\) returned None; expected a dict of scalars by name"):
        trained(tmp_path, "none", own.replace("OnTargetAlone", "Forgetful"))
    with pytest.raises(ValueError, match="selection: last gives 'good'; expected a number to maximise"):
        trained(tmp_path, "words", "~selection", "+selection={_target_: tests.test_methods.Wordy}")
    assert json.loads((tmp_path / "run" / "metrics.json").read_text(), parse_constant=pytest.fail) == metrics
