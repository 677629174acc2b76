"""Heads, relations and parts of speech from a layer's word states, against loops over words."""

import pytest
import torch
import torch.nn.functional as F

from domadapt.methods.injection.relations import Relations
from tests.support import setting_of, tiny_encoder, tiny_step


@pytest.mark.parametrize(("layer", "max_pieces"), [(0, 64), (-1, 9)])  # words cut off
def test_losses_against_loops_over_words(layer: int, max_pieces: int) -> None:
    method = Relations(layer, 6, 4, 1.0, 1.0, 1.0)
    session = setting_of(tiny_encoder(), method, max_pieces=max_pieces)
    with torch.no_grad():
        method.arc.normal_()
    source = tiny_step(session, target=False).source
    states = source.encoded.states if layer == -1 else source.encoded.kept["layer/0"]
    one, slow = torch.ones(1), {"relations/head": [], "relations/relation": [], "relations/tag": []}
    for row, example in enumerate(session.source):
        parse, pairs = example.parse, [*zip(example.alignment.pair_pieces, example.alignment.pair_words, strict=True)]
        assert parse is not None
        pieces = [[int(p) for p, w in pairs if w == word] for word in range(len(parse.heads))]
        words = [states[row, own].mean(0) if own else torch.zeros(session.encoder.width) for own in pieces]
        arcs, heads, dependents, governors = zip(
            *(F.gelu(method.project(word)).split([6, 6, 4, 4]) for word in words), strict=True
        )
        for word, head in enumerate(parse.heads.tolist()):
            if not pieces[word]:
                continue
            tag = method.tags[parse.tags[word]]
            slow["relations/tag"].append(-method.tag(words[word]).log_softmax(-1)[tag])
            if pieces[head]:
                scores = torch.stack([torch.cat([arcs[word], one]) @ method.arc @ heads[j] for j in range(len(words))])
                slow["relations/head"].append(-scores.log_softmax(-1)[head])
                dependent, governor = torch.cat([dependents[word], one]), torch.cat([governors[head], one])
                kinds = torch.stack([dependent @ form @ governor for form in method.relation])
                kind = session.relations[parse.relations[word]]
                slow["relations/relation"].append(-kinds.log_softmax(-1)[kind])
    assert len(slow["relations/tag"]) > len(slow["relations/head"]) > 3 or max_pieces == 64
    found = method.batch_losses(source.encoded, source.batch)
    for name, values in slow.items():
        torch.testing.assert_close(found[name], torch.stack(values).mean(), atol=1e-4, rtol=1e-4)
        session.encoder.zero_grad()
        found[name].backward(retain_graph=True)
        assert session.encoder.base.get_input_embeddings().weight.grad.abs().sum() > 0


def test_layers_above_the_chosen_one_learn_nothing() -> None:
    method = Relations(0, 6, 4, 1.0, 1.0, 1.0)
    session = setting_of(tiny_encoder(), method)
    torch.stack([*method.losses(tiny_step(session)).values()]).sum().backward()
    below, above = session.encoder.layers()
    assert all(p.grad is not None for p in below.parameters())
    assert all(p.grad is None for p in above.parameters())
