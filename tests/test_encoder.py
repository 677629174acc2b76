"""Backbones: which attention is reached, what is refused and trained, whole weights; fast parts agree with PyTorch."""

import copy
import pickle
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from domadapt.methods.injection.attention_supervision import AttentionSupervision, mass_loss
from domadapt.methods.injection.extra_head import ExtraHead
from domadapt.methods.injection.lisa import Lisa
from domadapt.methods.injection.tree_bias import TreeBias
from domadapt.methods.method import Method
from domadapt.models import attention, pretrained
from domadapt.models.encoder import Encoder, freeze
from domadapt.models.pretrained import as_scores, load_tokenizer
from domadapt.models.vocabulary import only_met_rows
from domadapt.training.module import AdaptationModule
from domadapt.training.options import TrainerOptions
from tests import support
from tests.support import FAMILIES, UNREACHABLE, parsed_batch, setting_of, small_encoder, tiny_encoder


@pytest.mark.parametrize("kind", [*FAMILIES, "camembert", "ernie"])
def test_a_hook_sees_and_changes_the_attention_of_its_layer(tmp_path: Path, kind: str) -> None:
    encoder = small_encoder(tmp_path, kind).eval()
    batch, _ = parsed_batch(encoder)
    calls: list[attention.AttentionCall] = []

    def hook(call: attention.AttentionCall) -> torch.Tensor:
        calls.append(call)
        return call.inner() * 0

    with torch.no_grad():
        before = encoder.states(batch)
        encoder.hook_attention(1, hook)
        after = encoder.states(batch)
    assert [(call.layer, call.batch) for call in calls] == [(1, batch)]
    assert calls[0].mask is not None  # without a mask, padding would be attended
    assert not torch.allclose(before, after)


def test_hooks_on_one_layer_are_a_stack() -> None:
    """Both act; the last attached sees the attention first, and what it changes reaches those beneath."""
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)
    plain = encoder(batch).logits
    seen: list[tuple[str, float]] = []

    def named(name: str, factor: float) -> attention.AttentionHook:
        def hook(call: attention.AttentionCall) -> torch.Tensor:
            seen.append((name, call.value.abs().mean().item()))
            call.kept[name] = call.query
            return call.inner(value=call.value * factor)

        return hook

    encoder.hook_attention(1, named("first", 2.0))
    with torch.no_grad():
        doubled = encoder(batch).logits
        encoder.hook_attention(1, named("last", 0.25))
        output = encoder(batch)
        assert not torch.allclose(doubled, plain) and not torch.allclose(output.logits, plain)
        seen.clear()
        with encoder.hooked(1, named("for a while", 2.0)):  # 2 * 0.25 * 2
            torch.testing.assert_close(encoder(batch).logits, plain, atol=1e-5, rtol=1e-4)
    assert [name for name, _ in seen] == ["for a while", "last", "first"]
    size = seen[0][1]
    assert [value for _, value in seen] == pytest.approx([size, 2 * size, size / 2])
    assert set(output.kept) == {"first", "last"}
    torch.testing.assert_close(encoder(batch).logits, output.logits)  # the one of a while is gone


def test_a_bias_is_added_to_the_scores() -> None:
    encoder = tiny_encoder()
    batch, _ = parsed_batch(encoder)
    shape = batch.input_ids.shape
    plain = encoder(batch).logits
    with encoder.hooked(0, lambda call: call.inner(mask=call.biased(torch.zeros(shape[0], 4, shape[1], shape[1])))):
        torch.testing.assert_close(encoder(batch).logits, plain)
    # A bias that leaves one piece to look at: what comes out is that piece's value.
    first = torch.full((shape[1],), -1e9).index_fill(0, torch.tensor([0]), 0.0)
    found: list[torch.Tensor] = []

    def hook(call: attention.AttentionCall) -> torch.Tensor:
        result = call.inner(mask=call.biased(first))
        found.extend([result, call.value])
        return result

    with encoder.hooked(0, hook):
        encoder(batch)
    result, value = found
    torch.testing.assert_close(result, value[:, :, :1].transpose(1, 2).expand_as(result))


def test_states_are_changed_between_the_last_layer_and_the_head() -> None:
    for kind in ("token", "sequence"):
        encoder = tiny_encoder(kind)
        batch, _ = parsed_batch(encoder)
        plain = encoder(batch)
        encoder.hook_states(lambda states, batch, kept: states * 2)
        encoder.hook_states(lambda states, batch, kept: kept.update(seen=states) or states + 1)  # type: ignore[func-returns-value]
        changed = encoder(batch)
        torch.testing.assert_close(changed.kept["seen"], plain.states * 2)  # in the order of their coming
        torch.testing.assert_close(changed.states, plain.states * 2 + 1)
        pooled = encoder.base.pooler(changed.states) if kind == "sequence" else changed.states
        torch.testing.assert_close(changed.logits, encoder.model.classifier(pooled))
        torch.testing.assert_close(encoder(batch, hooked=False).logits, plain.logits)


@pytest.mark.parametrize("kind", ["bert", "albert", "mpnet", "modernbert"])
def test_states_that_a_hook_leaves_as_they_are_are_classified_as_without_it(tmp_path: Path, kind: str) -> None:
    encoder = Encoder(small_encoder(tmp_path, kind).name, "sequence", ["a", "b"]).eval()
    batch, _ = parsed_batch(encoder)
    plain = encoder(batch).logits
    encoder.hook_states(lambda states, batch, kept: states.clone())
    torch.testing.assert_close(encoder(batch).logits, plain)


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert", "ernie", "distilbert"])
def test_the_longest_text_is_as_long_as_positions_go(tmp_path: Path, kind: str) -> None:
    encoder = small_encoder(tmp_path, kind, max_position_embeddings=16)
    encoder.base(input_ids=torch.full((1, encoder.longest), 9))
    with pytest.raises((IndexError, RuntimeError)):
        encoder.base(input_ids=torch.full((1, encoder.longest + 1), 9))


@pytest.mark.parametrize("kind", [*FAMILIES, *UNREACHABLE])
def test_padding_does_not_change_a_text(tmp_path: Path, kind: str) -> None:
    texts = ["Nope.", "The lens of this one is sharp, and the strap is not."]
    session = setting_of(small_encoder(tmp_path, kind).eval(), texts=texts)
    torch.testing.assert_close(*support.alone_and_padded(session), atol=1e-5, rtol=1e-4)


GIVEN = [{"layer": 0, "head": 1, "relation": "det", "direction": "to_head"}]
REACHING: list[Callable[[], Method]] = [
    lambda: Lisa(0, 0, "predicted", 1.0),
    lambda: TreeBias([1], 4, False, 1.0),
    lambda: TreeBias("all", 4, False, 1.0),
    lambda: ExtraHead(0, "product", "both", 1.0),
]


@pytest.mark.parametrize("kind", UNREACHABLE)
def test_what_needs_to_get_into_attention_is_refused_where_it_can_not(tmp_path: Path, kind: str) -> None:
    encoder = small_encoder(tmp_path, kind)
    batch, _ = parsed_batch(encoder)
    encoder(batch)
    message = rf"backbone .*{tmp_path.name}.* \(\w+Model\) .*gnn.* work with it. All injections.*: BERT, RoBERTa"
    for method in REACHING:
        own = method()
        with pytest.raises(ValueError, match=f"{type(own).__name__}: needs attention .*{message}"):
            setting_of(encoder, own)
    with pytest.raises(ValueError, match=message), encoder.hooked(0, lambda call: call.inner()):
        pass
    assert not encoder.attention_hooks and not encoder.output_hooks and not encoder.states_hooks


def test_what_returns_no_attention_is_not_supervised(tmp_path: Path) -> None:
    encoder = small_encoder(tmp_path, "fnet")
    with pytest.raises(ValueError, match="AttentionSupervision: .*FNetModel.* and returns no attention of all pieces"):
        setting_of(encoder, AttentionSupervision(GIVEN, [], 1.0))


@pytest.mark.parametrize(("kind", "shape"), [("deberta-v2", (2, 4)), ("convbert", (2, 2)), ("xlm", (2, 4))])
def test_layers_and_heads_are_those_that_are_returned(tmp_path: Path, kind: str, shape: tuple[int, int]) -> None:
    encoder = small_encoder(tmp_path, kind).eval()
    batch, _ = parsed_batch(encoder)
    with encoder.keeping_scores([*product(*map(range, shape))]):
        kept = encoder(batch).scores
    assert encoder.attention_shape == shape and len(kept) == shape[0] * shape[1] and not encoder(batch).scores
    pieces = batch.attention_mask.bool()
    for scores in kept.values():
        weights = scores.softmax(-1)[pieces]  # of pieces that are no padding
        assert weights[~pieces.unsqueeze(1).expand_as(scores)[pieces]].max() < 1e-9
    with pytest.raises(ValueError, match=rf"heads\[0\].head={shape[1]}: .* has heads 0 to {shape[1] - 1}"):
        setting_of(encoder, AttentionSupervision([{**GIVEN[0], "head": shape[1]}], [], 1.0))


def test_scores_by_hook_and_of_returned_attention_are_the_same(tmp_path: Path) -> None:
    hooked, returned = small_encoder(tmp_path, "bert").eval(), small_encoder(tmp_path, "bert").eval()
    returned.model.set_attn_implementation("eager")
    returned.__dict__["unreachable"] = "is told so"
    places = [*product(range(2), range(4))]
    losses = []
    for encoder in (hooked, returned):
        method = AttentionSupervision([{**GIVEN[0], "layer": 1}, {**GIVEN[0], "relation": "nsubj"}], [], 1.0)
        session = setting_of(encoder, method)
        with encoder.keeping_scores(places):
            kept = support.view_of(session, session.source).encoded.scores
        weights = [kept[place].softmax(-1) for place in places]
        (loss,) = method.losses(support.tiny_step(session)).values()
        loss.backward()
        assert returned.attention_shape == (2, 4)
        gradients = {n: p.grad for n, p in encoder.named_parameters() if p.grad is not None and "layer.1" not in n}
        read = torch.stack(weights)[:, session.collator(session.source).attention_mask.bool()]
        losses.append((read, loss, gradients, method.affinity()))
    (one, loss, gradients, affinity), (other, same, also, measured) = losses
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(loss, same)
    torch.testing.assert_close(affinity, measured, atol=1e-5, rtol=1e-4)
    assert {n for n in gradients if "query" in n or "key" in n} <= also.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(also[name], gradient, atol=1e-5, rtol=1e-3, msg=name)


def test_weights_that_dropout_took_make_no_gradient_that_is_no_number() -> None:
    weights = torch.tensor([[[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]], requires_grad=True)
    loss = mass_loss(as_scores(weights), torch.tensor([[0, 0, 0], [0, 0, 1], [1, 2, 1]]))
    loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss.detach(), torch.tensor(2.0).log())
    assert torch.isfinite(weights.grad).all() and weights.grad[0, 0, 2] < 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("albert", r"shares weights between its layers.*the last layer \(-1\), .*all or none"),
        ("xlm", "splits its layers into several lists, so no single one of its 2 layers"),
    ],
)
def test_layers_that_can_not_be_told_apart(tmp_path: Path, kind: str, message: str) -> None:
    encoder = small_encoder(tmp_path, kind).eval()
    with pytest.raises(ValueError, match=message) as caught:
        encoder.keep_layer(0)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # as it comes from another process
    with pytest.raises(ValueError, match=message):
        Encoder(encoder.name, "token", ["a", "b"], "top:1")
    frozen = Encoder(encoder.name, "token", ["a", "b"], "none")
    assert not any(p.requires_grad for p in frozen.base.parameters())
    batch, _ = parsed_batch(encoder)
    number = encoder.keep_layer(-1)
    output = encoder(batch)
    torch.testing.assert_close(output.layers[number], output.states)


def test_models_that_will_not_do(tmp_path: Path) -> None:
    encoder = small_encoder(tmp_path / "xlnet", "xlnet")
    assert encoder.longest == encoder.tokenizer.model_max_length  # its positions are relative
    with pytest.raises(ValueError, match=r"XLNetForSequenceClassification\) classifies a text by its last piece"):
        Encoder(encoder.name, "sequence", ["a", "b"])
    with pytest.raises(ValueError, match=r"layer 0: .*states of shape \[\(\d+, 1, 32\)\]"):
        encoder.keep_layer(0)
    funnel = {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "vocab_size": 30522}
    config = transformers.AutoConfig.for_model("funnel", **funnel)
    transformers.FunnelModel(config).save_pretrained(tmp_path / "funnel")
    encoder.tokenizer.save_pretrained(tmp_path / "funnel")
    assert Encoder(str(tmp_path / "funnel"), "token", ["a", "b"]).width == 32
    with pytest.raises(ValueError, match=r"FunnelBaseModel\): expected one state a piece, .* of shape"):
        Encoder(str(tmp_path / "funnel"), "sequence", ["a", "b"])


@pytest.mark.parametrize(("trainable", "layers"), [("all", 2), ("none", 0), ("top:1", 1), ("top:0", 0)])
def test_what_is_trained(trainable: str, layers: int) -> None:
    encoder = Encoder("tiny_random", "token", ["a", "b"], trainable)
    trained = [any(p.requires_grad for p in layer.parameters()) for layer in encoder.layers()]
    assert trained == [False] * (2 - layers) + [True] * layers
    assert encoder.base.get_input_embeddings().weight.requires_grad == (trainable == "all")
    assert encoder.model.classifier.weight.requires_grad


@pytest.mark.parametrize("trainable", ["top:3", "top:", "top:-1", "half", "bottom:1", 0])
def test_malformed_trainable(trainable: Any) -> None:
    with pytest.raises(ValueError, match=r"backbone.trainable=.*expected all, none, or top:N, N from 0 to 2"):
        freeze(tiny_encoder(), trainable)


def test_weights_that_are_out_of_reach_replaced_or_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"backbone.name='no-such/model' could not be loaded.*backbone=minilm"):
        load_tokenizer("no-such/model")
    with monkeypatch.context() as other:
        other.setattr("domadapt.models.pretrained.MINILM_SHA256", "abc")
        with pytest.raises(ValueError, match="sha256 .* expected abc.*reinstall"):
            load_tokenizer("minilm")
    encoder = Encoder("minilm", "token", ["O", "B-aspect", "I-aspect"])
    assert (encoder.width, len(encoder.layers()), len(encoder.attention_layers())) == (384, 6, 6)
    assert next(encoder.parameters()).dtype == torch.float32


def test_docstrings_that_python_has_dropped_are_not_the_backbones_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = SimpleNamespace(flags=SimpleNamespace(optimize=2))  # in a process of its own: tests/stress/test_families.py
    monkeypatch.setattr("domadapt.models.pretrained.sys", flags)
    with pytest.raises(ValueError, match="^python -OO takes away docstrings"):
        load_tokenizer("tiny_random")


@pytest.mark.parametrize("mask", ["none", "boolean", "additive", "a head each"])
def test_plain_attention_is_pytorchs(mask: str) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    allowed = torch.ones(2, 3 if mask == "a head each" else 1, 5, 5, dtype=torch.bool)
    allowed[1, ..., 3:] = False
    given = {"none": None, "additive": torch.zeros(2, 1, 5, 5).masked_fill(~allowed[:, :1], -1e30)}.get(mask, allowed)
    ours = attention.plain_attention(query, key, value, given, None, 0.0)
    theirs = scaled_dot_product_attention(query, key, value, given).transpose(1, 2)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(found.square().sum(), [query, key, value]) for found in (ours, theirs)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_bytes_drop_as_often_as_asked_and_keep_the_mean(probability: float) -> None:
    torch.manual_seed(0)
    states = torch.ones(400, 501, requires_grad=True)
    found = attention.byte_dropout(states, probability)
    kept = found.detach()
    assert float((kept == 0).float().mean()) == pytest.approx(probability, abs=0.006)
    assert float(kept.mean()) == pytest.approx(1, abs=0.05)
    found.sum().backward()
    assert states.grad is not None and torch.equal(states.grad, kept)
    assert not torch.equal(kept, attention.byte_dropout(states, probability))
    assert not attention.byte_dropout(states, 1.0).any()


def test_dropout_of_a_model_draws_bytes_in_training_alone_and_is_saved_as_it_was() -> None:
    layers = [module for module in tiny_encoder().model.modules() if isinstance(module, nn.Dropout)]
    assert layers and {type(layer) for layer in layers} == {attention.ByteDropout}
    states, layer = torch.ones(50, 50), layers[0]
    assert layer.train()(states).eq(0).any() and not layer.eval()(states).eq(0).any()
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    names = list(model.state_dict())
    attention.drop_by_bytes(model)
    assert list(model.state_dict()) == names


def test_a_gradient_is_clipped_as_by_pytorch() -> None:
    torch.manual_seed(0)
    one = [nn.Parameter(torch.randn(30, 20)) for _ in range(5)]
    other = [nn.Parameter(p.detach().clone()) for p in one]
    optimizers = [torch.optim.AdamW(parameters, lr=0.1, fused=True) for parameters in (one, other)]
    module = AdaptationModule.__new__(AdaptationModule)
    nn.Module.__init__(module)
    module.options = TrainerOptions.__new__(TrainerOptions)
    object.__setattr__(module.options, "gradient_clip", 1.0)
    for size in (1e-4, 1.0, 50.0):
        for a, b in zip(one, other, strict=True):
            a.grad = size * torch.randn_like(a)
            b.grad = a.grad.clone()
        torch.nn.utils.clip_grad_norm_(one, 1.0)
        module.configure_gradient_clipping(optimizers[1])
        for optimizer in optimizers:
            optimizer.step()
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b)


def stepped(cut: bool, decay: float) -> tuple[list[float], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Losses of some steps, and the weights before and after them."""
    torch.manual_seed(0)
    session = setting_of(encoder := tiny_encoder())
    before = copy.deepcopy(encoder.state_dict())
    met = {piece for example in session.source for piece in example.input_ids} if cut else set()
    losses = []
    with only_met_rows(encoder, met):
        encoder.eval()  # dropout falls the same anyhow; without it, nothing random is left
        optimizer = torch.optim.AdamW(encoder.parameters(), 1e-2, weight_decay=decay)
        for _ in range(6):
            loss = session.task.loss((view := support.tiny_step(session).source).output, view.batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        inside = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    after = encoder.state_dict()
    assert inside.keys() == after.keys() == before.keys()
    assert all(torch.equal(inside[name], after[name]) for name in after)
    return losses, before, after


def test_rows_that_are_met_are_trained_as_the_whole_table_and_weight_decay_alone_tells() -> None:
    (losses, before, one), (others, _, other) = (stepped(cut, 0.0) for cut in (True, False))
    assert losses == pytest.approx(others, abs=1e-6)
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=1e-6, rtol=0, msg=name)
    assert any(not torch.equal(one[name], before[name]) for name in one if "word_embeddings" in name)
    (_, before, one), (_, _, other) = (stepped(cut, 0.1) for cut in (True, False))
    (name,) = [name for name in one if name.endswith("word_embeddings.weight")]
    same = (one[name] == before[name]).all(1)
    assert 0 < same.sum() < len(same)
    torch.testing.assert_close(one[name][~same], other[name][~same], atol=1e-6, rtol=0)


def test_a_state_that_is_put_back_reaches_the_rows_and_frozen_ones_stay_as_they_are() -> None:
    encoder = tiny_encoder()
    table = encoder.base.get_input_embeddings().weight
    with only_met_rows(encoder, {1, 5}):
        state = {name: tensor.clone() + 1 for name, tensor in encoder.state_dict().items()}
        encoder.load_state_dict(state)
        layer = encoder.base.get_input_embeddings()
        assert torch.equal(layer(torch.tensor([[1, 5, 7]]))[0], layer.weight[[1, 5, 7]])
    assert encoder.base.get_input_embeddings().weight is table
    name = next(name for name in state if name.endswith("word_embeddings.weight"))
    assert torch.equal(table, state[name])
    encoder.base.requires_grad_(False)
    with only_met_rows(encoder, {1, 5}):
        assert type(encoder.base.get_input_embeddings()) is nn.Embedding


def test_attention_and_dropout_of_another_device_stay_there() -> None:
    states, mask = torch.zeros(1, 2, 3, 4, device="meta"), torch.zeros(3, dtype=torch.bool, device="meta")
    attended = attention.plain_attention(states, states, states, mask, None, 0.1)
    assert attended.device == attention.ByteDropout(0.1)(states).device == states.device
    long = torch.zeros(1, 2, attention.PLAIN_LENGTH + 1, 4, device="meta")
    assert [attention.uses_plain_attention(nn.Module(), one, one, mask) for one in (states, long)] == [True, False]


def test_a_backbone_that_is_written_first_draws_no_random_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "multilingual_folder", lambda: torch.rand(1))
    before = torch.get_rng_state()  # with which the head's weights are drawn
    pretrained.model_folder("multilingual")
    assert torch.equal(torch.get_rng_state(), before)
