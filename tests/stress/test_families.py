"""Injections that supervise, on every family of models: they learn, and leave a stock model that gives the same."""

import json
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import domadapt
from domadapt.api import train
from domadapt.methods.injection.attention_supervision import AttentionSupervision
from domadapt.methods.injection.gnn import GraphSupervision
from domadapt.methods.injection.lisa import Lisa
from domadapt.methods.injection.paths import OpinionPaths
from domadapt.methods.injection.relations import Relations
from domadapt.methods.method import Method, Step
from domadapt.training.build import build, source_only
from domadapt.training.cell import train as train_cell
from domadapt.training.epochs import final_weights
from tests.adaptation.test_objectives import WITH
from tests.injection import test_reading, test_supervising
from tests.support import (
    FAMILIES,
    UNREACHABLE,
    Command,
    corpora,
    losses_while_training,
    of_family,
    of_yaml,
    parsed_batch,
    records,
    setting_of,
    small_encoder,
    tiny_encoder,
    tiny_step,
    view_of,
    write_jsonl,
)


class KnownPaths(OpinionPaths):
    """Its opinions and paths are given: the texts here have no labels to learn them from."""

    def prepare(self) -> dict[str, Any]:
        self.opinions, self.numbers = frozenset({"sharp", "great"}), {("nsubj",): 1, ("^amod",): 2}
        return {}


SUPERVISING: dict[str, Callable[[], Method]] = {
    "attention_supervision": lambda: AttentionSupervision("auto", ["nsubj", "det"], 1.0),
    "gnn": lambda: GraphSupervision("gcn", 16, 1, 0.5, 0.1, 1.0, 1.0, 1.0),
    "lisa": lambda: Lisa(1, 2, "predicted", 1.0),
    "paths": lambda: KnownPaths(10, 3, 8, 1.0),
    "relations": lambda: Relations(0, 8, 4, 1.0, 1.0, 1.0),
}


REACHED = [kind for kind in FAMILIES if kind != "mobilebert"]
INNER = {"albert", "xlnet"}  # states of a layer below the last can't be read: it is another's weights, or turned


@pytest.mark.parametrize(
    ("kind", "name"),  # test_what_needs_to_get_into_attention_is_refused_where_it_can_not has the others
    [(k, name) for name in SUPERVISING for k in (*REACHED, *UNREACHABLE) if name != "lisa" or k in REACHED],
)
def test_it_learns_and_leaves_a_stock_model(tmp_path: Path, kind: str, name: str) -> None:
    encoder, method = small_encoder(tmp_path / "made", kind), SUPERVISING[name]()
    if name == "relations" and kind in INNER:
        method = Relations(-1, 8, 4, 1.0, 1.0, 1.0)
    session = setting_of(encoder.train(), method)
    method.prepare()
    found = losses_while_training(method, session, encoder, method, steps=12)
    assert found[-1] < found[0] - 0.01, found
    assert method.used_at_prediction == ((kind, name) == ("modernbert", "lisa"))  # its positions are rotated
    if method.used_at_prediction:
        return
    encoder.eval()
    method.eval()
    with torch.no_grad(), final_weights(session):
        batch, _ = parsed_batch(encoder)
        ours = encoder(batch).logits
        encoder.save(tmp_path / "saved")
        stock = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "saved").eval()
        logits = stock(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    torch.testing.assert_close(logits, ours, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("choice", "kind"), [*product(test_reading.READING, REACHED), *(("injection=gnn_fusion", k) for k in UNREACHABLE)]
)
def test_what_reads_trees_starts_as_the_plain_model(tmp_path: Path, choice: str, kind: str) -> None:
    torch.testing.assert_close(*test_reading.read_at_first_and_plain(tmp_path, choice, kind), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [kind for kind in REACHED if kind != "modernbert"])
def test_syntax_heads_fold(tmp_path: Path, kind: str) -> None:
    torch.testing.assert_close(*test_supervising.folded_and_hooked(tmp_path, kind), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [*REACHED, "deberta-v2", "mpnet"])
def test_what_a_layer_gives_out_is_kept(tmp_path: Path, kind: str) -> None:
    encoder = small_encoder(tmp_path, kind).eval()
    batch, _ = parsed_batch(encoder)
    encoder.hook_states(lambda states, batch, kept: states * 2)
    numbers = [encoder.keep_layer(0), encoder.keep_layer(-1), encoder.keep_layer(1)]
    assert numbers == [0, 1, 1]
    stock = transformers.AutoModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        output = encoder(batch)
        plain = stock(input_ids=batch.input_ids, attention_mask=batch.attention_mask, output_hidden_states=True)
        assert not encoder(batch, hooked=False).layers
    torch.testing.assert_close(output.layers[0], plain.hidden_states[1], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(output.layers[1], plain.last_hidden_state, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(output.states, 2 * output.layers[1])
    with pytest.raises(ValueError, match="layer -3: .* has layers 0 to 1, or from the last -1 to -2"):
        encoder.keep_layer(-3)


@pytest.mark.parametrize("name", SUPERVISING)
def test_texts_that_a_parser_makes_no_sense_of(name: str) -> None:
    odd = ["😀🙃", "Nope", " \n ", "good " * 5000, "这个镜头不错", "a" * 900]
    method = SUPERVISING[name]()
    session = setting_of(tiny_encoder(), method, texts=["The lens is sharp.", *odd])
    method.prepare()
    for example in session.source[1:]:
        losses = method.losses(Step(view_of(session, [example]), None, 0, 0.5))
        assert all(torch.isfinite(loss) and loss >= 0 for loss in losses.values()), example.text[:10]


def test_a_family_whose_attention_can_not_be_replaced_is_adapted(tmp_path: Path) -> None:
    own = [session for name in WITH for session in of_yaml(f"adaptation={name}")[1:]]
    overrides = [*corpora(tmp_path), f"adaptation=[{','.join(WITH)}]", "adaptation.masked_lm.epochs=0", *own]
    overrides += [*of_family(tmp_path / "backbone", "deberta-v2"), f"paths.cache={tmp_path}/cache"]
    cfg = domadapt.compose("train", [*overrides, "trainer.epochs=1", "trainer.min_steps=0"])
    before = source_only(cfg)
    assert before is not None  # which some of them learn from
    train_cell(before)
    session, _ = build(cfg)
    for method in session.methods.values():
        method.prepare()
        method.after_epoch(100)
    for name, method in session.methods.items():
        losses = method.losses(tiny_step(session))
        assert set(losses) == {name for name, weight in method.weights.items() if weight}
        session.encoder.zero_grad()
        torch.stack([*losses.values()]).sum().backward()
        gradients = [p.grad for p in session.encoder.parameters() if p.grad is not None]
        assert all(torch.isfinite(g).all() for g in gradients) and any(g.abs().sum() > 0 for g in gradients), name


NO_HEADS = "Heads switched off and heads against relations can't be had: "
# Families whose attention can't be reached, and why layers can't be read; empty if they can.
CLOSED = {
    "deberta-v2": "",
    "mpnet": "",
    "albert": "shares weights between its layers",
    "xlnet": "gives states of shape",  # whose layers give pieces first, but are there
    "xlm": "splits its layers",
}


@pytest.mark.parametrize("kind", CLOSED)
def test_what_cannot_be_had_is_left_out_with_the_reason(kind: str, command: Command, tmp_path: Path) -> None:
    data = [word for word in corpora(tmp_path) if word.startswith("data")]
    write_jsonl(tmp_path / "source.jsonl", records("camera", 60))  # enough for probes
    settings = ["trainer.epochs=1", "trainer.min_steps=0", "trainer.checkpoint_seconds=60", "trainer.precision=32"]
    train([*data, *of_family(tmp_path / "backbone", kind), *settings, f"paths.run={tmp_path}/run"])
    out, _ = command("analyze", f"model={tmp_path}/run", *data, "texts=60", "scored_texts=4")
    html = unescape(Path("analysis.html").read_text(encoding="utf-8"))
    found = json.loads(Path("analysis.json").read_text(encoding="ascii"))
    why, unread = found["unreachable"], found["unreadable"] or ""
    probes, shift = found["structural_probe"], found["domain_shift"]
    assert found["heads"] is found["ablation"] is None
    assert probes["reason"] == shift["reason"] == unread and bool(unread) == bool(CLOSED[kind])
    assert set(shift["compared"]) >= {"words", "relations", "aspect terms"}
    assert "Of what is met in " in html
    told = [f"{NO_HEADS}{why}."]
    if unread:
        assert CLOSED[kind] in unread and "last layer" not in unread  # which nobody asked for
        assert probes["found"] == shift["a_distances"] == {}
        assert f"No probes: {unread}." in html and f"No A-distance: {unread}." in html
        told.append(f"Structural probes and A-distances can't be had: {unread}.")
    else:
        assert "computes its attention in a way of its own" in why
        for model in ("before", "after"):
            probed = probes["found"][model]
            assert [len(probed["source"]), len(probed["target"]), len(shift["a_distances"][model])] == [3] * 3
        assert html.count("<figure>") == 2
        told += ["The pretrained model's trees are clearest in ", "A linear classifier tells the domains apart "]
    assert all(sentence in html and sentence in out for sentence in told)


def test_docstrings_that_python_has_dropped_are_not_the_backbones_fault() -> None:
    code = "from domadapt.models.pretrained import load_tokenizer; load_tokenizer('tiny_random')"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ValueError: python -OO takes away docstrings")
