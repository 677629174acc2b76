"""Layers and heads that go: the right ones, exactly, and what stays learns from the whole model."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from domadapt.inference.export import export
from domadapt.inference.smaller import answers, distil, divergence, drop_layers, prune_heads
from domadapt.models.attention import attention_modules, output_projection
from tests.support import Command

TEXTS = [f"The {part} of number {number} is {how}." for number in range(5) for part in ("lens", "strap", "zoom")
         for how in ("superb", "dull", "too slow for me")]  # fmt: skip


def network(depth: int = 4) -> Any:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=depth, num_attention_heads=4, intermediate_size=32,
        num_labels=3, initializer_range=0.5,
    )  # fmt: skip
    return transformers.BertForTokenClassification(config).eval()


def taught(model: Any) -> list[Any]:
    inputs = []
    for length in (5, 9, 7):
        mask = torch.ones(6, length, dtype=torch.long)
        mask[0, 3:] = 0
        inputs.append({"input_ids": torch.randint(1, 50, (6, length)), "attention_mask": mask})
    return [(one, answers(model, one)) for one in inputs]


def test_those_layers_go_without_which_answers_change_least() -> None:
    model = network()
    known, losses = taught(model), {}
    for place in range(4):
        other = copy.deepcopy(model)
        del other.base_model.encoder.layer[place]
        other.config.num_hidden_layers = 3
        losses[place] = divergence(other, known)
    kept = drop_layers(model, 3, known)
    assert kept == sorted({*range(4)} - {min(losses, key=losses.__getitem__)})
    assert divergence(model, known) == pytest.approx(min(losses.values()), abs=1e-6)
    assert (len(model.base_model.encoder.layer), model.config.num_hidden_layers) == (3, 3)


def test_a_model_without_heads_answers_as_one_whose_heads_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = network()
    known, less = taught(whole), copy.deepcopy(whole)
    assert prune_heads(less, 0.5, known) == (8, 16)
    counts = [module.num_attention_heads for module in attention_modules(less.base_model)]
    assert sum(counts) == 8 and min(counts) >= 1
    for module, cut in zip(attention_modules(whole.base_model), attention_modules(less.base_model), strict=True):
        rows = {tuple(row) for row in cut.query.weight.tolist()}
        stays = torch.tensor([tuple(row) in rows for row in module.query.weight.tolist()])
        projection: Any = output_projection(whole.base_model, module)
        projection.register_forward_pre_hook(lambda module, args, stays=stays: (args[0] * stays, *args[1:]))
    for inputs, _ in known:
        torch.testing.assert_close(answers(less, inputs), answers(whole, inputs), atol=1e-5, rtol=1e-4)


def test_what_stays_learns_what_the_whole_model_says() -> None:
    model = network()
    known = taught(model)
    drop_layers(model, 2, known)
    before = divergence(model, known)
    distil(model, known, 60)
    assert divergence(model, known) < 0.3 * before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("layers=9", "input=texts.txt"), "layers=9: expected 1 to 1"),
        (("layers=1",), "input=FILE"),
        (("layers=1", "input=few.txt"), "expected 30 texts or more"),
        (("prune_heads=0.5", "input=texts.txt"), "add format=onnx"),
        (("prune_heads=1", "input=texts.txt", "format=onnx"), "a number from 0 to 0.9"),
        (("layers=1", "input=texts.txt", "distil_epochs=0"), "a whole number from 1"),
        (("layers=many", "input=texts.txt"), "layers='many': expected a whole number from 1"),
    ],
)
def test_what_cannot_be_made_smaller_is_refused(
    tiny_run: Path, tmp_path: Path, command: Command, given: tuple[str, ...], message: str
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    (tmp_path / "few.txt").write_text("\n".join(TEXTS[:9]))
    code, _, err = command("export", f"model={tiny_run}", "to=out", *given)
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tiny_run", ["extraction"], indirect=True)
def test_fewer_layers_are_a_stock_model_and_fewer_heads_a_graph(tiny_run: Path, tmp_path: Path) -> None:
    told = export(tiny_run, tmp_path / "stock", texts=TEXTS, layers=1, vocabulary="corpus", distil_epochs=1)
    assert any("1 of 2 layers stay" in line for line in told)
    stock: Any = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "stock")
    assert stock.config.num_hidden_layers == len(stock.base_model.encoder.layer) == 1
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    told = export(tiny_run, tmp_path / "onnx", "onnx", TEXTS, layers=1, prune_heads=0.5, distil_epochs=1)
    assert any("attention heads are gone" in line for line in told)
    assert any("others:" in line for line in told) and any("% of all spans are shared" in line for line in told)
