"""Backbones: which attention can be reached, what is refused, what is trained, whether weights are whole."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers

from domadapt.models.attention import ATTENTION, attention_modules, refuse_unreachable_attention
from domadapt.models.encoder import Encoder, freeze
from domadapt.models.pretrained import load_tokenizer, verify
from tests.support import parsed_batch, tiny_encoder

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99}
REACHED = {
    "bert": SMALL,
    "roberta": SMALL,
    "xlm-roberta": SMALL,
    "camembert": SMALL,
    "electra": SMALL | {"embedding_size": 32},
    "ernie": SMALL,
    "modernbert": SMALL
    | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 99},
}
IGNORING = {
    "deberta-v2": SMALL,
    "mpnet": SMALL,
    "roformer": SMALL | {"embedding_size": 32},
    "albert": SMALL | {"embedding_size": 16},
}


def small_model(kind: str, settings: dict[str, int]) -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **settings)
    return transformers.AutoModel.from_config(config, attn_implementation=ATTENTION).eval()


@pytest.mark.parametrize("kind", REACHED)
def test_a_hook_sees_and_changes_the_attention_of_its_layer(kind: str) -> None:
    model = small_model(kind, REACHED[kind])
    refuse_unreachable_attention(model, kind)
    ids = torch.arange(10, 18).view(1, 8)
    mask = torch.tensor([[1] * 6 + [0] * 2])
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=mask).last_hidden_state
        masks = []

        def hook(query, key, value, mask, scaling, dropout, fused, **inputs):  # type: ignore[no-untyped-def]
            masks.append(mask)
            return fused() * 0

        object.__setattr__(attention_modules(model)[1], "domadapt_hook", hook)
        after = model(input_ids=ids, attention_mask=mask).last_hidden_state
    assert len(masks) == 1
    assert masks[0] is not None  # without a mask, padding would be attended
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert", "ernie", "distilbert"])
def test_the_longest_text_is_as_long_as_positions_go(kind: str) -> None:
    model = small_model(kind, REACHED[kind] | {"max_position_embeddings": 16})
    longest = Encoder.longest.fget(SimpleNamespace(model=model, base=model))  # type: ignore[attr-defined]
    model(input_ids=torch.full((1, longest), 9))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 9))


@pytest.mark.parametrize("kind", IGNORING)
def test_backbones_whose_attention_can_not_be_reached_are_refused(kind: str) -> None:
    try:
        model = small_model(kind, IGNORING[kind])
    except ValueError as error:  # transformers itself refuses the attention function
        assert ATTENTION in str(error)
        return
    with pytest.raises(ValueError, match=r"These work: BERT, RoBERTa"):
        refuse_unreachable_attention(model, kind)


def test_padding_does_not_change_a_text() -> None:
    encoder = tiny_encoder()
    alone, _ = parsed_batch(encoder, ["Nope."])
    padded, _ = parsed_batch(encoder, ["Nope.", "The lens of this one is sharp, and the strap is not."])
    pieces = int(alone.attention_mask.sum())
    with torch.no_grad():
        torch.testing.assert_close(
            encoder(alone).logits[0, :pieces], encoder(padded).logits[0, :pieces], atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize(("trainable", "layers"), [("all", 2), ("none", 0), ("top:1", 1), ("top:0", 0)])
def test_what_is_trained(trainable: str, layers: int) -> None:
    encoder = Encoder("tiny_random", "token", ["a", "b"], trainable)
    trained = [any(p.requires_grad for p in layer.parameters()) for layer in encoder.layers()]
    assert trained == [False] * (2 - layers) + [True] * layers
    assert encoder.base.get_input_embeddings().weight.requires_grad == (trainable == "all")
    assert encoder.model.classifier.weight.requires_grad


@pytest.mark.parametrize("trainable", ["top:3", "top:", "top:-1", "half", "bottom:1"])
def test_malformed_trainable(trainable: str) -> None:
    with pytest.raises(ValueError, match=r"backbone.trainable=.*expected all, none, or top:N with N from 0 to 2"):
        freeze(tiny_encoder(), trainable)


def test_a_hub_name_that_is_not_reached() -> None:
    with pytest.raises(ValueError, match=r"backbone.name='no-such/model' could not be loaded.*backbone=minilm"):
        load_tokenizer("no-such/model")


def test_replaced_weights_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"other")
    with pytest.raises(ValueError, match="sha256 .* expected abc.*reinstall"):
        verify(path, "abc")


def test_minilm_has_its_known_weights() -> None:
    encoder = Encoder("minilm", "token", ["O", "B-aspect", "I-aspect"])
    assert (encoder.width, len(encoder.layers()), len(encoder.attention_layers())) == (384, 6, 6)
    assert next(encoder.parameters()).dtype == torch.float32
