"""Injections that read the tree at prediction: what holds for each of them, on every family of backbones."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from omegaconf import OmegaConf

import domadapt
from domadapt.config.compose import make
from domadapt.data.batches import Batch
from domadapt.methods.injection.extra_head import ExtraHead, piece_arcs
from domadapt.methods.injection.gnn import CONVOLUTIONS
from domadapt.methods.injection.gnn_fusion import GraphFusion
from domadapt.methods.injection.paths import OpinionPaths
from domadapt.methods.injection.tree_bias import TreeBias, distance_kinds
from domadapt.methods.method import Method
from domadapt.methods.session import Session
from domadapt.models.contracts import AttentionCall
from domadapt.syntax.controls import Control
from domadapt.syntax.parser import SpacyParser
from tests import support
from tests.support import CONF, INJECTIONS, made_of, of_yaml, setting_of, small_encoder, tiny_encoder, tiny_step

READING = [c for c in INJECTIONS if any({"parses", "parses_at_prediction"} <= m.reads for m in made_of(c).values())]
CONTROLS = [path.stem for path in sorted((CONF / "control").glob("*.yaml")) if path.stem != "none"]
CLOSED = {"key.bias"}  # adds the same to all scores of a piece


def only(choice: str) -> Method:
    [method] = made_of(choice).values()
    if isinstance(method, OpinionPaths):  # the texts here have no labels to learn them from
        method.opinions, method.numbers = frozenset({"sharp", "great"}), {("nsubj",): 1, ("^amod",): 2}
    return method


def opened(method: Method) -> Method:
    """As if it had been trained: nothing of it is zero any more."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter += torch.randn_like(parameter)
    return method


def with_trees(session: Session, control: Control) -> Batch:
    """The source's texts with the trees of a control."""
    return session.collator([replace(e, parse=control.other(e.parse, e.text)) for e in session.source])


def control_of(name: str) -> Control:
    control: Control = make(OmegaConf.load(CONF / "control" / f"{name}.yaml")[name], parser=SpacyParser())
    return control


def read_at_first_and_plain(tmp_path: Path, choice: str, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits as it starts and of the plain model; that it learns to read is seen on the way."""
    encoder, method = small_encoder(tmp_path, kind), only(choice)
    session = setting_of(encoder, method)
    batch = tiny_step(session).source.batch
    plain = encoder(batch, hooked=False).logits
    hooked = encoder(batch).logits
    torch.testing.assert_close(encoder.states(batch), encoder.states(batch, hooked=False), atol=1e-5, rtol=1e-4)
    hooked.square().mean().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in method.parameters())  # it will not stay closed
    opened(method)
    method.zero_grad()
    reading = encoder(batch).logits
    reading.square().mean().backward()
    still = {name for name, p in method.named_parameters() if p.grad is None or p.grad.abs().sum() == 0}
    assert still <= CLOSED
    assert all(torch.isfinite(p.grad).all() for p in method.parameters() if p.grad is not None)
    with torch.no_grad():
        assert not torch.allclose(reading, plain, atol=1e-3)
        assert not torch.allclose(encoder(with_trees(session, control_of("linear"))).logits, reading, atol=1e-3)
        torch.testing.assert_close(encoder(batch, hooked=False).logits, plain.detach())
        # Large random weights add up what processors round otherwise: of logits up to 39, one was .003 off.
        off = 1e-3 * float(reading.abs().max())
        torch.testing.assert_close(*support.alone_and_padded(session), atol=off, rtol=1e-3)
    return hooked, plain


@pytest.mark.parametrize(("choice", "kind"), [*product(READING, ["bert", "modernbert"])])
def test_it_starts_as_the_plain_model_and_learns_to_read(tmp_path: Path, choice: str, kind: str) -> None:
    torch.testing.assert_close(*read_at_first_and_plain(tmp_path, choice, kind), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("control", CONTROLS)
# Paths need a source with terms: tests/injection/test_supervising.py, and a whole run in tests/syntax/test_trees.py.
@pytest.mark.parametrize("choice", [choice for choice in INJECTIONS if not isinstance(only(choice), OpinionPaths)])
def test_every_injection_learns_from_a_controls_trees(choice: str, control: str) -> None:
    encoder, method = tiny_encoder(), only(choice)
    session = setting_of(encoder, method)
    method.prepare()
    real = tiny_step(session).source
    if choice in READING:
        opened(method)
    batch = with_trees(session, control_of(control))
    other = replace(tiny_step(session, target=False), source=type(real)(batch, session))
    losses = [*method.losses(other).values()]
    torch.stack([*losses, other.source.output.logits.square().mean()]).sum().backward()
    found = [p.grad for p in [*encoder.parameters(), *method.parameters()] if p.grad is not None]
    assert all(torch.isfinite(gradient).all() for gradient in found)
    if choice in READING:
        assert not torch.allclose(other.source.output.logits, real.output.logits, atol=1e-6)


TEXTS = {"no words": ["", "   "], "some": ["", "Nope.", "😀😀", "¿?"], "cut": ["The incomprehensible menus are dull."]}


@pytest.mark.parametrize("texts", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("choice", READING)
def test_texts_without_words_and_cut_ones_are_read(choice: str, texts: Sequence[str]) -> None:
    encoder, method = tiny_encoder(), only(choice)
    session = setting_of(encoder, method, texts=[*texts], max_length=6)
    output = encoder(session.collator(session.source))
    opened(method)
    opened_output = encoder(session.collator(session.source))
    opened_output.logits.sum().backward()
    assert torch.isfinite(opened_output.logits).all() and torch.isfinite(output.logits).all()
    bare = replace(session.collator(session.source), word_heads=None)
    with pytest.raises(ValueError, match="these texts came without parses, which a method of this model reads"):
        encoder(bare)


@pytest.mark.parametrize("choice", READING)
def test_its_model_names_its_parser_and_refuses_another(tmp_path: Path, choice: str) -> None:
    own = [*of_yaml(choice), "trainer.epochs=1", "task=classification"]  # which needs no words of its own
    support.trained(tmp_path, "run", *own)
    model = tmp_path / "run" / "model"
    path = support.without_checksums(model) / "domadapt.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["parses_at_prediction"] and told["parser_name"] == SpacyParser().name
    assert [*told["methods"]] == [choice.partition("=")[2]]
    for change, reason in (
        ({"parser_name": "spacy-0/other"}, "this model reads the parses of spacy-0/other, here is spacy-"),
        ({"parser": {**told["parser"], "name": "no_such_pipeline"}}, "no such spaCy pipeline; install it"),
        ({"parses_at_prediction": False}, "damaged: parses_at_prediction=False, but its methods say otherwise"),
    ):
        path.write_text(json.dumps(told | change), encoding="utf-8")
        with pytest.raises(ValueError, match=reason) as error:
            domadapt.load(model)
        assert "\n" not in str(error.value)


def test_a_mask_keeps_what_is_far_apart_from_attending() -> None:
    encoder, method, masks = tiny_encoder(), TreeBias([1], 4, 2, 1.0), []

    def spy(call: AttentionCall) -> torch.Tensor:
        masks.append(call.mask)
        return call.inner()

    encoder.hook_attention(1, spy)
    session = setting_of(encoder, opened(method))
    opened(method)
    batch = tiny_step(session).source.batch
    encoder(batch)
    [mask] = masks
    kinds = distance_kinds(batch, 4).unsqueeze(1)
    padding = (batch.attention_mask == 0).view(len(batch.words), 1, 1, -1)
    assert ((mask < -1e30) == ((kinds > 2) & (kinds < 6) | padding)).all()
    near = ~padding & ((kinds <= 2) | (kinds == 6))
    learned = F.embedding(kinds[:, 0], method.bias[0]).permute(0, 3, 1, 2)
    assert torch.equal(mask[near.expand_as(mask)], learned[near.expand_as(mask)])
    assert (kinds == 5).any() and (kinds == 3).any()


@pytest.mark.parametrize("shape", ["product", "bias"])
def test_the_extra_head_against_a_loop(shape: str) -> None:
    encoder, method = tiny_encoder(), ExtraHead(0, shape, "both", 1.0)
    session = setting_of(encoder, method)
    opened(method)
    batch = session.collator(session.source)
    states = torch.randn(*batch.input_ids.shape, encoder.width)
    found = method._beside(states, batch, {})
    for row, example in enumerate(session.source):
        heads, words = example.parse.heads.tolist(), example.alignment.piece_words().tolist()
        query, key, value = (part(states[row, : len(words)]) for part in (method.query, method.key, method.value))
        for i, one in enumerate(words):
            arcs = torch.tensor([float(one >= 0 <= w and (heads[one] == w or heads[w] == one)) for w in words])
            scores = torch.stack([query[i] @ key[j] / key.shape[1] ** 0.5 for j in range(len(words))])
            weights = scores.softmax(0) * arcs if shape == "product" else (scores + method.bias * arcs).softmax(0)
            torch.testing.assert_close(found[row, i], method.output(weights @ value), atol=1e-4, rtol=1e-4)


def test_parents_and_children_are_each_others_and_several_heads_add_up() -> None:
    encoder = tiny_encoder()
    session = setting_of(encoder)
    batch = session.collator(session.source)
    parents, children, both = (piece_arcs(batch, kind) for kind in ("parents", "children", "both"))
    assert torch.equal(parents.transpose(1, 2), children) and torch.equal(parents | children, both)
    inside = batch.piece_words() >= 0
    assert (parents.any(-1) == inside).all()
    plain = encoder(batch).logits
    for sign in (1, -1):
        encoder.hook_attention_output(0, lambda states, batch, kept, sign=sign: sign * states)
    torch.testing.assert_close(encoder(batch).logits, plain)
    encoder.hook_attention_output(1, lambda states, batch, kept: kept.update(seen=states) or states)  # type: ignore[func-returns-value]
    output = encoder(batch)
    assert output.kept["seen"].shape == output.states.shape and not torch.allclose(output.logits, plain)


@pytest.mark.parametrize("choice", ["injection=extra_head", "injection=tree_bias"])
def test_of_a_long_text_only_what_is_read_is_compared(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its words with each other, for every text of the batch, would not fit into memory."""
    texts = ["The screen is sharp.", " ".join(["The very sharp screen of it is great, and so it goes on."] * 200)]
    encoder, method = tiny_encoder(), opened(only(choice))
    session = setting_of(encoder, method, texts=texts, max_length=12)
    compared = list[torch.Size]()
    home = __import__(type(method).__module__, fromlist=["between_pieces"])
    between = home.between_pieces
    monkeypatch.setattr(
        home, "between_pieces", lambda words, *others: compared.append(words.shape) or between(words, *others)
    )
    method.eval()
    torch.testing.assert_close(*support.alone_and_padded(session), atol=1e-4, rtol=1e-4)
    assert compared and max(shape[1] for shape in compared) <= 12 < int(session.collator(session.source).words.max())


def test_a_family_without_room_beside_its_heads_is_refused(tmp_path: Path) -> None:
    encoder = small_encoder(tmp_path, "mobilebert")
    with pytest.raises(ValueError, match=r"\(MobileBertModel\) has no output projection of its own width") as error:
        setting_of(encoder, ExtraHead(0, "product", "parents", 1.0))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_fusion_tells_words_of_their_tree_and_the_rest_of_all_words(convolution: str) -> None:
    encoder, method = tiny_encoder(), GraphFusion(convolution, 8, 1, 1.0)
    session = setting_of(encoder, method, texts=["The lens is sharp."])
    opened(method)
    batch = session.collator(session.source)
    states = torch.randn(*batch.input_ids.shape, encoder.width)
    once = method._fuse(states, batch, {}) - states
    example = session.source[0]
    words, heads = example.alignment.piece_words().tolist(), example.parse.heads.tolist()
    moved, far = states.clone(), next(w for w, head in enumerate(heads) if heads[head] != w or head == w)
    moved[0, words.index(far)] += 1
    felt = (method._fuse(moved, batch, {}) - moved - once).abs().sum(-1)[0] > 1e-6
    for piece, word in enumerate(words):
        near = word < 0 or word == far or heads[word] == far or heads[far] == word
        assert felt[piece] == near, (piece, word)


def test_fusion_means_are_of_the_words_that_are_read() -> None:
    encoder, method = tiny_encoder(), GraphFusion("gcn", 8, 1, 1.0)
    session = setting_of(encoder, method, texts=["The lens is sharp and the zoom is dull."], max_length=6)
    opened(method)
    batch = session.collator(session.source)
    states, read = torch.randn(*batch.input_ids.shape, encoder.width), batch.node_first_piece >= 0
    assert 0 < read.sum() < len(read)
    mean = method.graph(batch.word_states(states), batch.edge_index, batch.edge_type)[read].mean(0)
    gate = torch.tanh(method.gate(torch.cat([states[0, 0], mean])))
    torch.testing.assert_close(method._fuse(states, batch, {})[0, 0], states[0, 0] + gate * method.leave(mean))
