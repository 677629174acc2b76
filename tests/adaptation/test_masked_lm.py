"""Masking, and the language model's loss."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from domadapt.methods.adaptation.masked_lm import MaskedLanguageModel, mask_pieces
from tests.support import setting_of, tiny_encoder, tiny_step

SPECIAL = torch.tensor([True] * 3 + [False] * 97)


@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_special_pieces_stay_and_the_rest_is_restorable(seed: int, share: float) -> None:
    torch.manual_seed(seed)
    ids = torch.randint(100, (4, 12))
    corrupted, chosen = mask_pieces(ids, SPECIAL, mask_id=2, share=share)
    assert not chosen[SPECIAL[ids]].any()
    assert torch.equal(corrupted[~chosen], ids[~chosen])


def test_shares_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    ids = torch.full((400, 100), 50)
    corrupted, chosen = mask_pieces(ids, SPECIAL, mask_id=2, share=0.15)
    assert abs(chosen.float().mean() - 0.15) < 0.01
    assert abs((corrupted[chosen] == 2).float().mean() - 0.80) < 0.02
    assert abs((corrupted[chosen] == 50).float().mean() - 0.10) < 0.02


def test_the_joint_loss_reads_target_text_only() -> None:
    method = MaskedLanguageModel(0, 1e-3, 1e-3, 4, 0.5, True, 1.0)
    setting = setting_of(tiny_encoder(), method)
    assert method.losses(tiny_step(setting, target=False)) == {}
    loss = method.losses(tiny_step(setting))["masked_lm"]
    loss.backward()
    assert torch.isfinite(loss)
    assert setting.encoder.base.get_input_embeddings().weight.grad is not None


def test_without_a_joint_stage_there_is_no_joint_loss() -> None:
    method = MaskedLanguageModel(2, 1e-3, 1e-3, 4, 0.15, True, 0.0)
    assert method.losses(tiny_step(setting_of(tiny_encoder(), method))) == {}
