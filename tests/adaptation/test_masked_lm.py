"""Masking, and the language model's loss."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domadapt.methods.adaptation.masked_lm import MaskedLanguageModel
from tests.support import setting_of, tiny_encoder, tiny_step


@pytest.fixture(scope="module")
def method() -> MaskedLanguageModel:
    made = MaskedLanguageModel(0, 1e-3, 1e-3, 4, 0.15, True, 1.0)
    setting_of(tiny_encoder(), made)
    return made


@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_special_pieces_stay_and_the_rest_is_restorable(method: MaskedLanguageModel, seed: int, share: float) -> None:
    torch.manual_seed(seed)
    tokenizer = method.session.encoder.tokenizer
    ids = torch.randint(len(tokenizer), (4, 60))
    ids[:, ::7] = torch.tensor(tokenizer.all_special_ids)[torch.randint(len(tokenizer.all_special_ids), (4, 9))]
    before = ids.clone()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method.masking, "mlm_probability", share)
        corrupted, chosen = method.mask(ids)
    assert not chosen[torch.isin(ids, torch.tensor(tokenizer.all_special_ids))].any()
    assert torch.equal(corrupted[~chosen], ids[~chosen]) and torch.equal(ids, before)


def test_shares_are_those_of_the_paper(method: MaskedLanguageModel) -> None:
    torch.manual_seed(0)
    word = method.session.encoder.tokenizer.convert_tokens_to_ids("screen")
    corrupted, chosen = method.mask(torch.full((400, 100), word))
    mask_id = method.session.encoder.tokenizer.mask_token_id
    assert word not in method.session.encoder.tokenizer.all_special_ids
    assert abs(chosen.float().mean() - 0.15) < 0.01
    assert abs((corrupted[chosen] == mask_id).float().mean() - 0.80) < 0.02
    assert abs((corrupted[chosen] == word).float().mean() - 0.10) < 0.02


def test_the_joint_loss_reads_target_text_only() -> None:
    method = MaskedLanguageModel(0, 1e-3, 1e-3, 4, 0.5, True, 1.0)
    session = setting_of(tiny_encoder(), method)
    assert method.losses(tiny_step(session, target=False)) == {}
    loss = method.losses(tiny_step(session))["masked_lm"]
    loss.backward()
    assert torch.isfinite(loss)
    assert session.encoder.base.get_input_embeddings().weight.grad is not None


def test_without_a_joint_stage_there_is_no_joint_loss() -> None:
    method = MaskedLanguageModel(2, 1e-3, 1e-3, 4, 0.15, True, 0.0)
    assert method.losses(tiny_step(setting_of(tiny_encoder(), method))) == {}
