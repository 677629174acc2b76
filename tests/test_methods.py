"""Every method that has a yaml: finite losses, gradients, the same predictions after saving and loading."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import domadapt
from domadapt.config.instantiate import make
from domadapt.data.batches import Batch, Step
from domadapt.methods.method import Method
from domadapt.models.encoder import Output
from domadapt.training.build import make_methods
from tests.support import TEXTS, corpora, parsed_batch, tiny_encoder

CONF = Path(__file__).parents[1] / "conf"
METHODS = [
    (group, path.stem)
    for group in ("injection", "adaptation")
    for path in sorted((CONF / group).glob("*.yaml"))
    if path.stem != "none"
]
FITTING = {"lisa": ["injection.lisa.layer=1"]}  # the tiny encoder has two layers


@pytest.mark.parametrize(("group", "name"), METHODS)
def test_losses_are_finite_and_move_something(group: str, name: str) -> None:
    cfg = domadapt.compose("train", [f"{group}={name}", *FITTING.get(name, [])])
    (config,) = cfg[group].values()
    method, encoder = make(config), tiny_encoder()
    batch, relations = parsed_batch(encoder)
    method.attach(encoder, len(relations))
    losses = {**method.batch_losses(encoder(batch), batch), **method.step_losses(encoder, Step(batch, batch))}
    assert set(losses) == set(method.weights)
    sum(losses.values()).backward()
    assert all(torch.isfinite(loss) for loss in losses.values())
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.parameters())
    assert all(p.grad is not None for p in method.parameters())


@pytest.mark.parametrize("at_prediction", ["predicted", "parser"])
@pytest.mark.parametrize("task", ["extraction", "classification"])
def test_a_saved_model_predicts_the_same(tmp_path: Path, task: str, at_prediction: str) -> None:
    methods = ["injection=[lisa,gnn]", "injection.lisa.layer=1", f"injection.lisa.at_prediction={at_prediction}"]
    overrides = [*corpora(tmp_path), *methods, f"task={task}", f"paths.run={tmp_path}/run", "trainer.precision=32"]
    metrics = domadapt.train([*overrides, f"paths.cache={tmp_path}/cache"])
    model = domadapt.load(tmp_path / "run" / "model", precision="32")
    from domadapt.data.domains import UnlabelledText

    corpus = domadapt.read(tmp_path / "test.jsonl", domain="laptop")
    again = model.predict_texts([UnlabelledText(r.id, "", r.text) for r in corpus.records])
    assert model.setting.task.score(corpus.records, again) == metrics["target_test"]
    assert [m.__class__.__name__ for m in model.setting.methods.values()] == ["Lisa"]
    for text, prediction in zip(TEXTS, model.predict(TEXTS), strict=True):
        assert all(0 <= s.start < s.end <= len(text) for s in prediction.spans)


def test_graph_supervision_leaves_a_stock_model(tmp_path: Path) -> None:
    import transformers

    domadapt.train([*corpora(tmp_path), "injection=gnn", f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    folder = tmp_path / "run" / "model"
    assert sorted(path.name for path in folder.iterdir()) == ["domadapt.json", "encoder"]
    stock = transformers.AutoModelForTokenClassification.from_pretrained(folder / "encoder").eval()
    ours = domadapt.load(folder, precision="32").setting.encoder
    batch, _ = parsed_batch(ours)
    with torch.no_grad():
        logits = stock(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        torch.testing.assert_close(logits, ours(batch).logits, atol=1e-5, rtol=1e-4)


FOREIGN = [
    lambda d, mark: d["task"].update(_target_="os.system"),
    lambda d, mark: d["task"].update(_target_="domadapt.training.run.os.makedirs", name=mark),
    lambda d, mark: d["task"].update(_target_="domadapt.inference.model.Path.touch", self=mark),
    lambda d, mark: d["task"].update(types={"_target_": "os.makedirs", "name": mark}),
    lambda d, mark: d["parser"].update(name=[{"_target_": "domadapt.inference.model.Path", "_args_": [mark]}]),
    lambda d, mark: d["task"].update(types=f"${{oc.create:{{_target_:os.makedirs,name:'{mark}'}}}}"),
    lambda d, mark: d["task"].update({"${oc.env:HOME}": 1}),
    lambda d, mark: d["parser"].update(name=["${oc.env:HOME}"]),
]


@pytest.mark.parametrize("change", FOREIGN)
def test_a_model_folder_can_not_name_foreign_code(tmp_path: Path, change: Callable[..., None]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    description = {
        "format": 1,
        "task": {"_target_": "domadapt.tasks.extraction.Extraction", "types": ["aspect"]},
        "backbone": {"_target_": "domadapt.models.encoder.Encoder", "trainable": "all"},
        "parser": {"_target_": "domadapt.syntax.parser.SpacyParser", "name": "shipped"},
        "methods": {},
    }
    mark = tmp_path / "mark"
    change(description, str(mark))
    (folder / "domadapt.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(ValueError, match="outside domadapt; a model folder can name any code"):
        domadapt.load(folder)
    assert not mark.exists()


@pytest.mark.parametrize("damage", ["json", "field", "weights"])
def test_a_damaged_model_folder_is_told_in_one_line(tmp_path: Path, damage: str) -> None:
    fields: dict[str, object] = {
        "format": 1,
        "task": {"_target_": "domadapt.tasks.extraction.Extraction", "types": ["aspect"]},
        "backbone": {"_target_": "domadapt.models.encoder.Encoder", "trainable": "all"},
        "methods": {},
    }
    others = ("relations", "max_pieces", "source", "target", "parser", "control", "parser_name", "parses_at_prediction")
    text = json.dumps(fields | dict.fromkeys(others if damage == "weights" else others[1:]))
    (tmp_path / "domadapt.json").write_text(text[:-9] if damage == "json" else text, encoding="utf-8")
    (tmp_path / "methods.safetensors").write_bytes(b"short")
    tiny_encoder(labels=3).save(tmp_path / "encoder")
    told = {
        "json": r"json: damaged \(",
        "field": "json: damaged: it lacks relations",
        "weights": "safetensors: damaged",
    }
    with pytest.raises(ValueError, match=rf"{told[damage]}.*; copy the folder again"):
        domadapt.load(tmp_path)


def test_a_model_folder_without_the_weights_of_its_method(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "injection=lisa", "injection.lisa.layer=1", "trainer.epochs=1"]
    domadapt.train([*overrides, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    (tmp_path / "run" / "model" / "methods.safetensors").unlink()
    with pytest.raises(ValueError, match="damaged: not all weights of lisa are there; copy the folder again"):
        domadapt.load(tmp_path / "run" / "model")


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
    assert model.setting.task.score(corpus.records, again) == metrics["target_test"]


class OnTargetAlone(Method):
    """Such as entropy: a loss on target batches, none on source batches."""

    reads_target = True

    def __init__(self) -> None:
        super().__init__({"alone": 1.0})

    def batch_losses(self, output: Output, batch: Batch) -> dict[str, torch.Tensor]:
        return {} if batch.word_tags is not None else {"alone": output.states.pow(2).mean()}


def test_a_method_may_have_a_loss_on_the_target_alone(tmp_path: Path) -> None:
    own = "+adaptation.alone={_target_: tests.test_methods.OnTargetAlone}"
    metrics = domadapt.train([*corpora(tmp_path), own, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    assert metrics["curve"][0]["losses"]["alone"] > 0
