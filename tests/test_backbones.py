"""What a processor trains fastest says what PyTorch says; embeddings that are met; the packed multilingual backbone."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from domadapt.models.dropout import ByteDropout, byte_dropout, drop_by_bytes, plain_attention
from domadapt.models.vocabulary import only_met_rows
from domadapt.training.module import AdaptationModule
from domadapt.training.options import TrainerOptions
from tests.support import setting_of, tiny_encoder, tiny_step


@pytest.mark.parametrize("mask", ["none", "boolean", "additive", "a head each"])
def test_plain_attention_is_pytorchs(mask: str) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    allowed = torch.ones(2, 3 if mask == "a head each" else 1, 5, 5, dtype=torch.bool)
    allowed[1, ..., 3:] = False
    given = {"none": None, "additive": torch.zeros(2, 1, 5, 5).masked_fill(~allowed[:, :1], -1e30)}.get(mask, allowed)
    ours = plain_attention(query, key, value, given, None, 0.0)
    theirs = scaled_dot_product_attention(query, key, value, given).transpose(1, 2)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(found.square().sum(), [query, key, value]) for found in (ours, theirs)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_bytes_drop_as_often_as_asked_and_keep_the_mean(probability: float) -> None:
    torch.manual_seed(0)
    states = torch.ones(400, 501, requires_grad=True)
    found = byte_dropout(states, probability)
    kept = found.detach()
    assert float((kept == 0).float().mean()) == pytest.approx(probability, abs=0.006)
    assert float(kept.mean()) == pytest.approx(1, abs=0.05)
    found.sum().backward()
    assert states.grad is not None and torch.equal(states.grad, kept)
    assert not torch.equal(kept, byte_dropout(states, probability))
    assert not byte_dropout(states, 1.0).any()


def test_dropout_of_a_model_draws_bytes_in_training_alone_and_is_saved_as_it_was() -> None:
    encoder = tiny_encoder()
    layers = [module for module in encoder.model.modules() if isinstance(module, nn.Dropout)]
    assert layers and {type(layer) for layer in layers} == {ByteDropout}
    states, layer = torch.ones(50, 50), layers[0]
    assert layer.train()(states).eq(0).any() and not layer.eval()(states).eq(0).any()
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    names = list(model.state_dict())
    drop_by_bytes(model)
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


def trained(cut: bool, decay: float) -> tuple[list[float], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Losses of some steps, and the weights before and after them."""
    torch.manual_seed(0)
    encoder = tiny_encoder()
    session = setting_of(encoder)
    before = copy.deepcopy(encoder.state_dict())
    met = {piece for example in session.source for piece in example.input_ids} if cut else set()
    losses = []
    with only_met_rows(encoder, met):
        encoder.eval()  # dropout falls the same anyhow; without it, nothing random is left
        optimizer = torch.optim.AdamW(encoder.parameters(), 1e-2, weight_decay=decay)
        for _ in range(6):
            loss = session.task.loss((view := tiny_step(session).source).output, view.batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        inside = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    after = encoder.state_dict()
    assert inside.keys() == after.keys() == before.keys()
    assert all(torch.equal(inside[name], after[name]) for name in after)
    return losses, before, after


def test_losses_and_saved_rows_are_those_of_the_whole_table() -> None:
    (losses, before, one), (others, _, other) = (trained(cut, 0.0) for cut in (True, False))
    assert losses == pytest.approx(others, abs=1e-6)
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=1e-6, rtol=0, msg=name)
    assert any(not torch.equal(one[name], before[name]) for name in one if "word_embeddings" in name)


def test_weight_decay_alone_tells_rows_that_are_not_met() -> None:
    (_, before, one), (_, _, other) = (trained(cut, 0.1) for cut in (True, False))
    (name,) = [name for name in one if name.endswith("word_embeddings.weight")]
    same = (one[name] == before[name]).all(1)
    assert 0 < same.sum() < len(same)
    torch.testing.assert_close(one[name][~same], other[name][~same], atol=1e-6, rtol=0)


def test_a_state_that_is_put_back_reaches_the_rows() -> None:
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


def test_frozen_embeddings_stay_as_they_are() -> None:
    encoder = tiny_encoder()
    encoder.base.requires_grad_(False)
    with only_met_rows(encoder, {1, 5}):
        assert type(encoder.base.get_input_embeddings()) is torch.nn.Embedding
