"""Training on the embeddings that are met is training on all of them, but for what is never met."""

import copy

import pytest
import torch

from domadapt.models.vocabulary import only_met_rows
from tests.support import setting_of, tiny_encoder, tiny_step


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
