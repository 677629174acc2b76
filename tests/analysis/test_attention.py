"""Attention that is drawn is the attention that the model has."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from domadapt.analysis.attention import LEAST, as_parse, attention, by_words, most_syntactic, recorded
from domadapt.api import train
from domadapt.models.attention import AttentionCall
from domadapt.reporting.report import report
from domadapt.syntax.parser import Parse
from tests.support import corpora, parsed_batch, tiny_encoder


def test_weights_are_those_of_softmax() -> None:
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)
    seen: list[Any] = []

    def spy(call: AttentionCall) -> torch.Tensor:
        assert call.mask is not None and call.scaling is not None
        scores = call.query @ call.key.transpose(-1, -2) * call.scaling
        seen.append(scores.masked_fill(~call.mask, float("-inf")).softmax(-1))
        return call.inner()

    with torch.no_grad():
        plain = encoder(batch).logits
        with recorded(encoder) as (layer, found):
            logits = encoder(batch).logits
        encoder.hook_attention(layer, spy)
        encoder(batch)
    assert layer == len(encoder.attention_layers()) - 1
    assert encoder.attention_hooks == {layer: [spy]}  # reading has left no hook behind
    torch.testing.assert_close(logits, plain)  # to read changes nothing
    torch.testing.assert_close(found[0], seen[0])


def test_a_hooked_layer_is_read_through_its_hook() -> None:
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)

    def uniform(call: AttentionCall) -> torch.Tensor:
        return call.value.mean(2, keepdim=True).expand_as(call.value).transpose(1, 2)

    encoder.hook_attention(0, uniform)
    with torch.no_grad(), recorded(encoder) as (layer, found):
        encoder(batch)
    assert layer == 0
    pieces = batch.input_ids.shape[1]
    torch.testing.assert_close(found[0], torch.full_like(found[0], 1 / pieces))


def test_words_by_hand() -> None:
    weights = np.array([[[0.5, 0.25, 0.25], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]], dtype=np.float32)
    # Special piece, then one word in two pieces.
    np.testing.assert_allclose(by_words(weights, np.array([-1, 0, 0]), 1), [[[0.85]]])


def test_head_and_drawing_by_hand() -> None:
    parse = Parse(np.array([[0, 1], [2, 3], [3, 4]]), np.array([1, 1, 1]), ("nsubj", "root", "punct"), ("", "", ""))
    away = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)
    onto = np.array([[0.3, 0.7, 0], [0.01, 0.02, 0], [0.5, 0.5, 0]], dtype=np.float32)
    assert most_syntactic([np.stack([away, onto])], [parse]) == 1
    drawn, agree, of = as_parse(onto, parse)
    assert (agree, of) == (1, 1)
    assert drawn.heads.tolist() == [1, 1, 0]
    assert drawn.relations == ("70", "punct", "punct")  # the second word's attention is below LEAST
    assert onto[1].max() < LEAST


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny models, one with a syntax head in layer 0."""
    folder = tmp_path_factory.mktemp("attention")
    common = [*corpora(folder), "trainer.epochs=1"]
    train([*common, f"paths.run={folder}/runs/source_only", "method=source_only"])
    settings = ["injection=lisa", "injection.lisa.layer=0", "injection.lisa.head=2", "method=syntax"]
    train([*common, *settings, f"paths.run={folder}/runs/syntax"])
    path = folder / "runs" / "syntax" / "predictions.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for method, part in (("source_only", {"label": None, "spans": []}), ("syntax", rows[0]["gold"])):
        rows[0]["predicted"] = part  # so tiny a model gets no sentence right by itself
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "runs" / method / "predictions.jsonl").write_text(lines, encoding="utf-8")
    return folder / "runs"


def test_models_are_loaded_and_drawn(runs: Path, tmp_path: Path) -> None:
    html = report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Fixed: 1 text has fewer errors" in html
    assert "attention in layer 1, head" in html
    assert html.count("with a syntactic head look most at it") == html.count("Attention between the words") == 1
    without = report(runs, tmp_path / "w.html", attention=False).read_text(encoding="utf-8")
    assert "left out, as attention=false asked" in without
    assert "Attention between the words" not in without


def test_foreign_and_damaged_models_spoil_only_their_drawings(runs: Path, tmp_path: Path) -> None:
    parse = Parse(np.array([[0, 2]]), np.array([0]), ("root",), ("",))
    assert attention(tmp_path, ["It"], [parse]) == f"no model in {tmp_path}"
    broken = tmp_path / "model"
    broken.mkdir()
    (broken / "domadapt.json").write_text('{"format": 3, "task": {"_target_": "os.system"}}', encoding="utf-8")
    assert "domadapt.json: damaged: backbone: Field required" in str(attention(broken, ["It"], [parse]))
