"""The syntax head: starts as the pretrained head, learns the tree, and says what it does with every piece."""

from pathlib import Path

import pytest
import torch
import transformers

from domadapt.methods.injection.attention_supervision import mass_loss
from domadapt.methods.injection.lisa import SCORES, Lisa, head_loss
from domadapt.methods.method import Step
from domadapt.models.encoder import Encoder
from domadapt.models.pretrained import load_tokenizer
from domadapt.syntax.alignment import IGNORED
from domadapt.training.epochs import final_weights
from tests.support import parsed_batch, setting_of, small_encoder, tiny_encoder, tiny_step, view_of


def lisa(at_prediction: str = "predicted", layer: int = 1) -> Lisa:
    return Lisa(layer=layer, head=2, at_prediction=at_prediction, weight=1.0)


def test_it_starts_as_the_head_it_replaces() -> None:
    plain, hooked = tiny_encoder(), tiny_encoder()
    batch, _ = parsed_batch(plain)
    method = lisa()
    setting_of(hooked, method)
    assert method.training  # in evaluation it is in the weights, and the hook stands aside
    with torch.no_grad():
        torch.testing.assert_close(hooked(batch).logits, plain(batch).logits, atol=1e-5, rtol=1e-4)


def test_heads_that_share_their_keys_read_their_own(tmp_path: Path) -> None:
    tokenizer = load_tokenizer("tiny_random")
    config = transformers.EuroBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        **{f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "cls", "sep", "mask")},
    )
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for head in range(4):
        encoder = Encoder(str(tmp_path), "token", [str(i) for i in range(5)]).eval()
        method = Lisa(layer=0, head=head, at_prediction="predicted", weight=1.0)
        batch = tiny_step(setting_of(encoder, method)).source.batch
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


def test_mass_on_a_set_against_a_loop() -> None:
    torch.manual_seed(0)
    scores = torch.randn(2, 4, 4, requires_grad=True)
    sets = {(0, 1): [0, 3], (1, 0): [2], (1, 3): [0, 1, 2, 3]}
    links = torch.tensor([(row, piece, other) for (row, piece), others in sets.items() for other in others]).T
    slow = [-scores[row, piece].softmax(-1)[others].sum().log() for (row, piece), others in sets.items()]
    fast = mass_loss(scores, links)
    torch.testing.assert_close(fast, torch.stack(slow).mean())
    fast.backward()
    assert scores.grad is not None and torch.isfinite(scores.grad).all()
    assert mass_loss(scores, links[:, :0]) == 0 == head_loss(scores, torch.full((2, 4), IGNORED))
    one = mass_loss(scores, torch.tensor([[0, 1], [2, 0], [1, 2]]))
    parents = torch.full((2, 4), IGNORED).index_put((torch.tensor([0, 1]), torch.tensor([2, 0])), torch.tensor([1, 2]))
    torch.testing.assert_close(one, head_loss(scores, parents))


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


def test_truncated_heads_roots_and_special_pieces() -> None:
    encoder = tiny_encoder()
    text = "The lens is sharp"  # its root is the last word
    full, _ = parsed_batch(encoder, [text])
    pieces = int(full.attention_mask.sum())
    assert full.piece_heads[0, 0] == full.piece_heads[0, pieces - 1] == IGNORED
    assert (full.piece_heads[0, pieces:] == IGNORED).all()
    root = int((full.piece_heads[0] == torch.arange(full.piece_heads.shape[1])).nonzero()[0])
    assert root == pieces - 2
    cut, _ = parsed_batch(encoder, [text], max_pieces=pieces - 1)  # the root is truncated away
    subject = 2
    assert full.piece_heads[0, subject] == root
    assert cut.piece_heads[0, subject] == IGNORED
    assert cut.piece_heads[0, 1] == subject


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
