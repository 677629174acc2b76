"""Heads are found by what they look at, and learn to look along their relation, and nothing but attention is read."""

from pathlib import Path

import pytest
import torch

import domadapt
from domadapt.methods.injection.attention_supervision import AttentionSupervision, best_heads
from domadapt.methods.injection.lisa import Lisa
from domadapt.training.build import build
from tests.support import corpora, of_yaml, setting_of, tiny_encoder, tiny_step, without_dropout

GIVEN = [
    {"layer": 0, "head": 1, "relation": "det", "direction": "to_head"},
    {"layer": 0, "head": 1, "relation": "nsubj", "direction": "to_head"},
    {"layer": 1, "head": 3, "relation": "advmod", "direction": "to_dependent"},
]


def related(example: object, relation: str, direction: str) -> dict[int, list[int]]:
    """First pieces of words, and of those that they are related with; by loops."""
    parse, first = example.parse, example.alignment.word_first_pieces().tolist()  # type: ignore[attr-defined]
    found: dict[int, list[int]] = {}
    for word, (head, name) in enumerate(zip(parse.heads.tolist(), parse.relations, strict=True)):
        if name.split(":")[0] == relation and first[word] >= 0 and first[head] >= 0:
            start, end = (word, head) if direction == "to_head" else (head, word)
            found.setdefault(first[start], []).append(first[end])
    return found


@pytest.mark.parametrize("max_pieces", [64, 9])
def test_loss_and_affinity_against_loops_over_words(max_pieces: int) -> None:
    encoder, method = tiny_encoder(), AttentionSupervision(GIVEN, [], 1.0)
    without_dropout(encoder)
    texts = ["The lens is really not sharp.", "A dull, slow and very heavy camera was not my thing.", "It really was."]
    session = setting_of(encoder, method, texts=texts, max_pieces=max_pieces)
    source = tiny_step(session, target=False).source
    affinity, losses = method.affinity(), []
    for number, row in enumerate(GIVEN):
        scores = source.encoded.kept[f"scores/{row['layer']}/{row['head']}"]
        masses = [
            scores[i, piece].softmax(-1)[others].sum()
            for i, example in enumerate(session.source)
            for piece, others in related(example, str(row["relation"]), str(row["direction"])).items()
        ]
        assert masses
        losses.append(-torch.stack(masses).log().mean())
        measured = affinity[number, row["layer"], row["head"]]  # type: ignore[index]
        torch.testing.assert_close(measured.float(), torch.stack(masses).mean().detach())
    found = method.losses(tiny_step(session, target=False))
    torch.testing.assert_close(found["attention_supervision/heads"], torch.stack(losses).mean())


def test_what_is_supervised_is_the_attention_that_there_is() -> None:
    encoder, method = tiny_encoder(), AttentionSupervision(GIVEN, [], 1.0)
    plain = encoder(tiny_step(setting_of(tiny_encoder())).source.batch)
    source = tiny_step(setting_of(encoder, method)).source
    assert torch.equal(source.encoded.logits, plain.logits)
    assert not [*method.parameters()]
    method.eval()
    assert not encoder(source.batch).kept


def test_the_best_head_of_each_relation_is_taken_and_each_head_once() -> None:
    session = setting_of(tiny_encoder(), method := AttentionSupervision("auto", ["nsubj", "det", "iobj"], 1.0))
    affinity = method.affinity()
    told = method.prepare()
    assert [(row["relation"]) for row in method.heads] in (["nsubj", "det"], ["det", "nsubj"])  # no iobj is there
    assert told["attention_supervision/affinity"][0] == pytest.approx(float(affinity.max()))
    assert told["attention_supervision/heads"] == method.heads
    again = AttentionSupervision("auto", ["nsubj", "det", "iobj"], 1.0)
    again.recall(method.memory())
    assert again.heads == method.heads
    given = AttentionSupervision(method.heads, [], 1.0)  # what was told can be given
    setting_of(tiny_encoder(), given)
    assert given.prepare() == {}
    assert {key for key in tiny_step(session).source.encoded.kept if key.startswith("scores/")} == {
        f"scores/{row['layer']}/{row['head']}" for row in method.heads
    }
    only = torch.tensor([[[0.9, -1.0]], [[0.8, -1.0]]])
    assert best_heads(only, ["a", "b"]) == [(0, 0, 0)]  # no head is left for the other


def test_nsubj_means_its_subtypes_too() -> None:
    method = AttentionSupervision("auto", ["nsubj"], 1.0)
    session = setting_of(tiny_encoder(), method, texts=["The camera was sold."])
    assert "nsubj:pass" in session.relations and "nsubj" not in session.relations
    assert method.prepare()["attention_supervision/heads"]


@pytest.mark.parametrize("control", ["linear", "self_loops", "shuffled", "random"])
def test_a_control_is_a_twin_of_as_many_heads(tmp_path: Path, control: str) -> None:
    overrides = [*corpora(tmp_path), *of_yaml("injection=attention_supervision")]
    overrides += ["injection.attention_supervision.relations=[nsubj,det,case]", f"paths.cache={tmp_path}/cache"]
    counts = []
    for more in ([], [f"control={control}"]):
        session, _ = build(domadapt.compose("train", [*overrides, *more]))
        method = session.methods["attention_supervision"]
        method.prepare()
        counts.append(len({(row["layer"], row["head"]) for row in method.heads}))
        assert all(torch.isfinite(loss) and loss > 0 for loss in method.losses(tiny_step(session)).values())
    assert counts == [3, 3]


def test_a_twin_without_the_last_relation_s_name_supervises_it_all_the_same(tmp_path: Path) -> None:
    """A control's own relation takes the place of one of the names, so that the network is as large."""
    overrides = [*corpora(tmp_path), *of_yaml("injection=attention_supervision"), f"paths.cache={tmp_path}/cache"]
    real, _ = build(domadapt.compose("train", overrides))
    last = max(set(real.relations))
    overrides.append(f"injection.attention_supervision.relations=[{last}]")
    session, _ = build(domadapt.compose("train", [*overrides, "control=linear"]))
    assert last not in session.relations and len(session.relations) == len(real.relations)
    session.methods["attention_supervision"].prepare()
    assert len(session.methods["attention_supervision"].heads) == 1


def test_a_head_that_scores_by_itself_is_not_supervised() -> None:
    """What is kept of it are not the scores that it uses."""
    lisa = Lisa(GIVEN[0]["layer"], GIVEN[0]["head"], "predicted", 1.0)  # type: ignore[arg-type]
    auto, given = AttentionSupervision("auto", ["nsubj", "det"], 1.0), AttentionSupervision(GIVEN, [], 1.0)
    setting_of(tiny_encoder(), auto, lisa)
    taken = GIVEN[0]["layer"], GIVEN[0]["head"]
    assert taken not in {(row["layer"], row["head"]) for row in auto.prepare()["attention_supervision/heads"]}
    setting_of(tiny_encoder(), given, lisa)
    with pytest.raises(ValueError, match=r"layer 0, head 1 is another injection's \(lisa's\)"):
        given.prepare()
