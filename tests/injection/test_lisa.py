"""The syntax head: starts as the pretrained head, learns the tree, and says what it does with every piece."""

from pathlib import Path

import pytest
import torch

from domadapt.methods.injection.lisa import SCORES, Lisa, head_loss
from domadapt.methods.method import Step
from domadapt.syntax.alignment import IGNORED
from domadapt.training.epochs import final_weights
from tests.support import setting_of, small_encoder, tiny_encoder, tiny_step, view_of


def lisa(at_prediction: str = "predicted", layer: int = 1) -> Lisa:
    return Lisa(layer=layer, head=2, at_prediction=at_prediction, weight=1.0)


@pytest.mark.parametrize("kind", ["bert", "eurobert"])  # the second one's heads share their keys
def test_it_starts_as_the_head_it_replaces(tmp_path: Path, kind: str) -> None:
    for head in range(4):
        encoder = small_encoder(tmp_path, kind)
        method = Lisa(layer=0, head=head, at_prediction="predicted", weight=1.0)
        batch = tiny_step(setting_of(encoder, method)).source.batch
        assert method.training  # in evaluation it is in the weights, and the hook stands aside
        torch.testing.assert_close(encoder(batch).states, encoder(batch, hooked=False).states, rtol=1e-4, atol=1e-5)


def test_a_longer_batch_changes_nothing_for_a_short_text() -> None:
    encoder = tiny_encoder()
    texts = ["Nope, not sharp.", "A much longer text, whose pieces pad the other one well."]
    session = setting_of(encoder, lisa("parser").eval(), texts=texts)
    short, both = session.collator(session.source[:1]), session.collator(session.source)
    pieces = int(short.attention_mask[0].sum())
    assert pieces < both.input_ids.shape[1]
    with torch.no_grad():
        alone, padded = encoder(short).logits[0, :pieces], encoder(both).logits[0, :pieces]
    torch.testing.assert_close(alone, padded, atol=1e-5, rtol=1e-4)


def test_the_loss_against_a_loop_over_pieces() -> None:
    method = lisa()
    session = setting_of(tiny_encoder(), method)
    source = tiny_step(session, target=False).source
    losses = []
    for row, example in enumerate(session.source):
        first = example.alignment.word_first_pieces().tolist()
        weights = source.encoded.kept[SCORES][row].softmax(-1)
        for piece, word in enumerate(example.alignment.piece_words().tolist()):
            if word >= 0:
                losses.append(-weights[piece, first[example.parse.heads[word]]].log())
    torch.testing.assert_close(method.head_loss(source)["lisa/head"], torch.stack(losses).mean())
    assert head_loss(torch.randn(2, 4, 4), torch.full((2, 4), IGNORED)) == 0


def test_losses_of_source_and_target_come_from_their_own_passes() -> None:
    method = lisa()
    session = setting_of(tiny_encoder(), method)
    other = session.target[1:]  # a batch of another shape
    apart = [method.head_loss(view_of(session, part))["lisa/head"] for part in (session.source, other)]
    source, target = view_of(session, session.source), view_of(session, other)
    target.weight = 0.5
    _ = target.output, source.output
    session.encoder(view_of(session, session.source[:1]).batch)  # a pass of somebody else's in between
    losses = method.losses(Step(source, target, 0, 0.5))
    torch.testing.assert_close(losses["lisa/head"], apart[0] + 0.5 * apart[1])


def test_parser_mode_depends_on_the_tree_and_predicted_mode_does_not() -> None:
    for mode, reads in (("parser", True), ("predicted", False)):
        encoder, method = tiny_encoder(), lisa(mode, layer=0)
        batch = tiny_step(setting_of(encoder, method)).source.batch
        for training in (True, False):
            method.train(training)
            with torch.no_grad():
                tree = encoder(batch).logits
                batch.piece_heads[:, 1] = 2 + training
                assert (not torch.equal(encoder(batch).logits, tree)) == reads


def folded_and_hooked(tmp_path: Path, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of a stock model with the folded weights, and of the network that was trained."""
    encoder, method = small_encoder(tmp_path, kind), lisa()
    session = setting_of(encoder, method)
    with torch.no_grad():
        method.bilinear.normal_()
        method.bias.normal_()
    batch = tiny_step(session).source.batch
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    with torch.no_grad():
        plain = encoder(batch, hooked=False).logits
        hooked = encoder.train()(batch).logits
        stock = small_encoder(tmp_path, kind).eval()
        stock.load_state_dict(method.final_weights(encoder.state_dict()))
        folded = stock(batch).logits
        assert not torch.allclose(hooked, plain, atol=1e-3)  # there is something to fold
        method.eval()
        encoder.eval()
        with final_weights(session):  # as an epoch is scored
            torch.testing.assert_close(encoder(batch).logits, folded, rtol=0, atol=0)
    assert not method.used_at_prediction
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())  # it trains on
    return folded, hooked


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_folded_it_is_the_stock_model_with_other_weights(tmp_path: Path, kind: str) -> None:
    torch.testing.assert_close(*folded_and_hooked(tmp_path, kind), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("kind", "mode"), [("modernbert", "predicted"), ("bert", "parser")])
def test_what_does_not_fold_is_part_of_the_model(tmp_path: Path, kind: str, mode: str) -> None:
    encoder, method = small_encoder(tmp_path, kind), lisa(mode)
    session = setting_of(encoder, method)
    weights = encoder.state_dict()
    assert method.used_at_prediction
    assert method.final_weights(weights) is weights
    batch = tiny_step(session).source.batch
    with torch.no_grad():
        method.bilinear.normal_()
        trained, scored = encoder.train()(batch).logits, encoder.eval()(batch).logits
        method.eval()
        torch.testing.assert_close(scored, trained, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(encoder(batch).logits, trained, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(encoder(batch, hooked=False).logits, trained, atol=1e-3)
