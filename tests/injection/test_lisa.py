"""The syntax head: starts as the pretrained head, learns the tree, and says what it does with every piece."""

import pytest
import torch
import torch.nn.functional as F

from domadapt.methods.injection.lisa import Lisa, head_loss, replace_by_tree
from domadapt.syntax.alignment import IGNORED
from tests.support import parsed_batch, tiny_encoder


def lisa(at_prediction: str = "predicted", layer: int = 1) -> Lisa:
    return Lisa(layer=layer, head=2, at_prediction=at_prediction, weight=1.0)


def test_it_starts_as_the_head_it_replaces() -> None:
    plain, hooked = tiny_encoder(), tiny_encoder()
    batch, relations = parsed_batch(plain)
    lisa().attach(hooked, len(relations))
    with torch.no_grad():
        torch.testing.assert_close(hooked(batch).logits, plain(batch).logits, atol=1e-5, rtol=1e-4)


def test_padding_is_never_attended() -> None:
    encoder = tiny_encoder()
    batch, relations = parsed_batch(encoder)
    method = lisa()
    method.attach(encoder, len(relations))
    encoder(batch)
    assert method._scores is not None
    weights = method._scores.softmax(-1)
    assert weights[(batch.attention_mask == 0).unsqueeze(1).expand_as(weights)].max() == 0
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


def test_a_longer_batch_changes_nothing_for_a_short_text() -> None:
    encoder = tiny_encoder()
    method = lisa("parser")
    short, relations = parsed_batch(encoder, ["Nope, not sharp."])
    method.attach(encoder, len(relations))
    both, _ = parsed_batch(encoder, ["Nope, not sharp.", "A much longer text, whose pieces pad the other one well."])
    pieces = int(short.attention_mask[0].sum())
    with torch.no_grad():
        alone, padded = encoder(short).logits[0, :pieces], encoder(both).logits[0, :pieces]
    torch.testing.assert_close(alone, padded, atol=1e-5, rtol=1e-4)


def test_loss_is_the_mean_over_pieces_with_a_head() -> None:
    torch.manual_seed(0)
    scores, heads = torch.randn(2, 3, 3), torch.tensor([[1, IGNORED, 0], [IGNORED, IGNORED, 2]])
    slow = [-F.log_softmax(scores[b, p], -1)[heads[b, p]] for b in range(2) for p in range(3) if heads[b, p] != IGNORED]
    torch.testing.assert_close(head_loss(scores, heads), torch.stack(slow).mean())
    assert head_loss(scores, torch.full((2, 3), IGNORED)) == 0


def test_the_head_learns_the_tree() -> None:
    encoder = tiny_encoder()
    batch, relations = parsed_batch(encoder)
    method = lisa()
    method.attach(encoder, len(relations))
    optimizer = torch.optim.Adam([*encoder.parameters(), *method.parameters()], 5e-3)
    losses = []
    for _ in range(60):
        loss = method.batch_losses(encoder(batch), batch)["lisa/head"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_the_tree_replaces_attention_where_it_is_defined() -> None:
    weights = torch.softmax(torch.randn(1, 3, 3), -1)
    replaced = replace_by_tree(weights, torch.tensor([[IGNORED, 2, 1]]))
    assert replaced[0, 1].tolist() == [0, 0, 1]
    assert replaced[0, 2].tolist() == [0, 1, 0]
    assert torch.equal(replaced[0, 0], weights[0, 0])


def test_truncated_heads_roots_and_special_pieces() -> None:
    encoder = tiny_encoder()
    text = "The lens is sharp"  # its root is the last word
    full, _ = parsed_batch(encoder, [text])
    assert full.piece_heads is not None
    pieces = int(full.attention_mask.sum())
    assert full.piece_heads[0, 0] == full.piece_heads[0, pieces - 1] == IGNORED
    assert (full.piece_heads[0, pieces:] == IGNORED).all()
    root = int((full.piece_heads[0] == torch.arange(full.piece_heads.shape[1])).nonzero()[0])
    assert root == pieces - 2
    cut, _ = parsed_batch(encoder, [text], max_pieces=pieces - 1)  # the root is truncated away
    assert cut.piece_heads is not None
    subject = 2
    assert full.piece_heads[0, subject] == root
    assert cut.piece_heads[0, subject] == IGNORED
    assert cut.piece_heads[0, 1] == subject


def test_parser_mode_depends_on_the_tree_and_predicted_mode_does_not() -> None:
    for mode, reads in (("parser", True), ("predicted", False)):
        encoder = tiny_encoder()
        batch, relations = parsed_batch(encoder)
        lisa(mode, layer=0).attach(encoder, len(relations))
        with torch.no_grad():
            tree = encoder(batch).logits
            assert batch.piece_heads is not None
            batch.piece_heads[:, 1] = 2
            assert (not torch.equal(encoder(batch).logits, tree)) == reads


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 7}, "layer 7: tiny_random has layers 0 to 1"),
        ({"head": 4}, "lisa.head=4: tiny_random has heads 0 to 3"),
        ({"at_prediction": "gold"}, "lisa.at_prediction='gold': expected predicted or parser"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lisa(**{"layer": 0, "head": 0, "at_prediction": "predicted", "weight": 1.0} | settings).attach(
            tiny_encoder(), 3
        )


def test_a_layer_takes_one_hook() -> None:
    encoder = tiny_encoder()
    lisa().attach(encoder, 3)
    with pytest.raises(ValueError, match="already has an attention hook"):
        lisa().attach(encoder, 3)
