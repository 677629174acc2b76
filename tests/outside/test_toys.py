"""The contract carries methods that the package does not know: written here, found by --config-dir."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import domadapt
from domadapt.methods.method import Method, Step
from tests.support import Command, corpora
from tests.trouble import weights

CONF = Path(__file__).parent / "conf"
TOYS = [(path.parent.name, path.stem) for path in sorted(CONF.rglob("*.yaml"))]
Train = Callable[..., tuple[dict[str, Any], Path]]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toys")


@pytest.fixture
def trained(command: Command, folder: Path) -> Train:
    """Trains with overrides, once a session; returns the metrics and the run's folder."""

    def train(*overrides: str) -> tuple[dict[str, Any], Path]:
        run = folder / ("+".join(overrides).replace("/", "_") or "plain")
        common = [*corpora(folder), "trainer.precision=32", f"paths.run='{run}'", f"paths.cache={folder}/cache"]
        command("train", f"--config-dir={CONF}", *overrides, *common)
        return json.loads((run / "metrics.json").read_text()), run

    return train


@pytest.mark.parametrize(("group", "name"), TOYS)
def test_it_trains_changes_the_model_and_predicts_the_same_when_loaded(trained: Train, group: str, name: str) -> None:
    metrics, run = trained(f"{group}={name}")
    _, plain = trained()
    predicts = (run / "model" / "methods.safetensors").exists()
    assert predicts or weights(run) != weights(plain)
    losses = {loss for line in metrics["curve"] for loss in line["losses"]} - {"task", "total"}
    assert losses == ({name} if name == "teacher" else set())  # named by the method, logged by training
    assert all(torch.isfinite(torch.tensor(line["losses"]["total"])) for line in metrics["curve"])
    model = domadapt.load(run / "model", precision="32", trust_code=predicts)  # what only trained is never made
    labelled = domadapt.read(run.parent / "test.jsonl", domain="laptop").records
    again = model.predict([record.text for record in labelled])
    assert model.session.task.score(labelled, again) == metrics["target_test"]


def test_the_teacher_is_what_is_saved(trained: Train) -> None:
    """With a decay of 1 it never moves: the model that is saved has the weights it was made with."""
    _, moved = trained("adaptation=teacher")
    _, still = trained("adaptation=teacher", "adaptation.teacher.decay=1.0")
    _, longer = trained("adaptation=teacher", "adaptation.teacher.decay=1.0", "trainer.epochs=3")
    assert weights(still) == weights(longer) and weights(still) != weights(moved)


def test_a_words_bias_decides_its_tag_at_prediction(trained: Train) -> None:
    _, run = trained("adaptation=word_bias", "adaptation.word_bias.shift=50.0")
    model = domadapt.load(run / "model", trust_code=True)
    (prediction,) = model.predict(["A lens, a menu."])
    assert (2, 6) in [(span.start, span.end) for span in prediction.spans if span.type == "aspect"]


METHOD = """
from shrink_helper import FACTOR
from domadapt.methods.method import Method

class Shrink(Method):
    def __init__(self, weight):
        super().__init__({"shrink": weight})

    def losses(self, step):
        return {"shrink": FACTOR * step.source.output.logits.square().mean()}
"""


def test_a_file_beside_the_yaml_is_found_with_its_helper(command: Command, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    mine = tmp_path / "mine"
    (mine / "adaptation").mkdir(parents=True)
    (mine / "adaptation" / "shrink.yaml").write_text(
        "# Small logits.\nshrink:\n  # Of its loss.\n  weight: 1.0\n  _target_: shrink.Shrink\n"
    )
    given = [*corpora(tmp_path), "adaptation=shrink", "trainer.epochs=1", f"paths.cache={tmp_path}/cache"]
    _, told = command("train", "--config-dir=mine", *given, code=2)
    assert "No module named 'shrink'" in told and "looked for in the folder of --config-dir and on PYTHONPATH" in told
    (mine / "shrink.py").write_text(METHOD)
    for factor, count in (("1.0", 1), ("1.0", 1), ("2.0", 2)):
        (mine / "shrink_helper.py").write_text(f"FACTOR = {factor}\n")
        command("train", "--config-dir=mine", *given)
        assert len([*(tmp_path / "runs").rglob("metrics.json")]) == count
    listed, _ = command("train", "--help", "--config-dir", "mine")
    assert f"shrink                   Small logits. ({mine}/adaptation/shrink.yaml)" in listed
    assert "* none" in listed and "dann" in listed
    one, _ = command("train", "adaptation=shrink", "--help", "--config-dir", "mine")
    assert one.startswith("# Small logits.")


def test_they_stack(trained: Train) -> None:
    """An injection of ours, one of a stranger's, and two adaptations."""
    metrics, run = trained("injection=[lisa,gate]", "injection.lisa.layer=1", "adaptation=[teacher,word_bias]")
    assert metrics["method"] == "lisa+gate+teacher+word_bias"
    assert {"teacher", "lisa/head"} < set(metrics["curve"][0]["losses"])
    assert sorted(json.loads((run / "model" / "domadapt.json").read_text())["methods"]) == ["gate", "word_bias"]


SLIPS = {
    "no constructor": (
        "def __init__(self, weight): self.weight = weight",
        "adaptation.mine: Mine.__init__() does not call super().__init__()",
    ),
    "not attached": (
        "def attach(self, session): pass",
        "mine: Mine.attach() does not call super().attach(session)",
    ),
    "no target": (
        "def losses(self, step): return {'mine': step.target.output.logits.mean()}",
        "mine.losses(): 'NoneType' object has no attribute 'output': step.target is None; to have it at each step",
    ),
    "not kept": (
        "used_at_prediction = True\n"
        "    def prepare(self): self.shift = 1.0; return {}\n"
        "    def transform(self, output, batch): return replace(output, states=output.states + self.shift)",
        "mine.transform(): 'Mine' object has no attribute 'shift'; what prepare() finds is not there",
    ),
    "not kept for batches": (
        "used_at_prediction = True\n"
        "    def prepare(self): self.hints = [1.0]; return {}\n"
        "    def collate(self, examples): return {'hints': torch.tensor(self.hints)}",
        "mine.collate(): 'Mine' object has no attribute 'hints'; what prepare() finds is not there",
    ),
    "no target to classify": (
        "def losses(self, step): return {'mine': logits_of(step.target).mean()}",
        "mine.losses(): 'NoneType' object has no attribute 'session': step.target is None; to have it at each step",
    ),
    "not in the model": (
        "def transform(self, output, batch): return replace(output, logits=output.logits * 2)",
        "mine.transform() changes what is scored, and the saved model would lack it; set used_at_prediction = True",
    ),
    "a hook": (
        "def attach(self, session):\n"
        "        super().attach(session)\n"
        "        session.encoder.hook_states(lambda states, batch, kept: states)",
        "mine hooks into the states; unless used_at_prediction = True in its class, what it changes beyond training is",
    ),
    "other labels": (
        "augments = True\n"
        "    def augment(self, records, epoch, random): return [replace(r, spans=r.spans[1:]) for r in records]",
        "mine.augment() labels record ",
    ),
    "weights made late": (
        "used_at_prediction = True\n    def prepare(self): self.layer = torch.nn.Linear(2, 2); return {}",
        "mine.prepare() makes the weights ['layer.bias', 'layer.weight']: a loaded model has no place for them",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_told_in_one_line(command: Command, tmp_path: Path, monkeypatch: Any, slip: str) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_slip", raising=False)
    body, message = SLIPS[slip]
    mine = tmp_path / "mine"
    (mine / "adaptation").mkdir(parents=True)
    (mine / "adaptation" / "mine.yaml").write_text(
        "# Mine.\nmine:\n  # Of its loss.\n  weight: 1.0\n  _target_: own_slip.Mine\n"
    )
    start = "def __init__(self, weight): super().__init__({'mine': weight})"
    body = body if "__init__" in body else f"{start}\n    {body}"
    imports = "from dataclasses import replace\nimport torch\nfrom domadapt.methods.method import Method\n"
    imports += "from domadapt.methods.units import logits_of\n\n"
    (mine / "own_slip.py").write_text(f"{imports}class Mine(Method):\n    {body}\n")
    given = [*corpora(tmp_path), "adaptation=mine", "trainer.epochs=1", f"paths.cache={tmp_path}/cache"]
    late = slip.startswith("not kept")  # it is told when the model predicts
    code = 0 if late or slip == "a hook" else 2
    told = "".join(command("train", "--config-dir=mine", *given, f"paths.run={tmp_path}/run", code=code))
    if late:
        _, told = command("predict", f"model={tmp_path}/run", "text=A lens.", "trust_code=true", code=2)
    assert message in told and "Traceback" not in told


def test_a_name_that_is_mistyped_is_not_blamed_on_loading() -> None:
    class Mine(Method):
        used_at_prediction = True

        def prepare(self) -> dict[str, Any]:
            return {}

        def transform(self, output: Any, batch: Any) -> Any:
            return self.shift

    mine, none = Mine().eval(), SimpleNamespace()
    with pytest.raises(ValueError, match="what prepare\\(\\) finds is not there"):
        mine.transform(none, none)
    mine.prepare()
    with pytest.raises(AttributeError, match="'Mine' object has no attribute 'shift'$"):
        mine.transform(none, none)


def test_another_none_in_a_loss_is_not_taken_for_a_missing_target() -> None:
    class Mine(Method):
        def losses(self, step: Step) -> dict[str, torch.Tensor]:
            return {"mine": step.source.batch.relations.float()}  # type: ignore[union-attr]

    source: Any = SimpleNamespace(batch=SimpleNamespace(relations=None))
    with pytest.raises(AttributeError, match="has no attribute 'float'$"):
        Mine().losses(Step(source, None, 0, 0.0))
