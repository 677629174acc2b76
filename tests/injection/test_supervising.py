"""Injections that supervise the encoder alone: losses against loops, heads that are found, nothing of them left."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from domadapt.data.records import Record, Span
from domadapt.methods.injection.attention_supervision import AttentionSupervision, best_heads, mass_loss
from domadapt.methods.injection.gnn import CONVOLUTIONS, GraphNetwork, agreement_loss
from domadapt.methods.injection.lisa import SCORES, Lisa, head_loss
from domadapt.methods.injection.paths import OpinionPaths, path_loss
from domadapt.methods.injection.relations import Relations
from domadapt.methods.method import Step
from domadapt.methods.session import Session
from domadapt.methods.terms import leaning_words, opinion_words
from domadapt.syntax.alignment import IGNORED
from domadapt.syntax.parser import SpacyParser
from domadapt.syntax.trees import paths_from
from domadapt.training.epochs import final_weights
from tests import support
from tests.support import (
    built,
    of_yaml,
    setting_of,
    small_encoder,
    tiny_encoder,
    tiny_step,
    view_of,
    without_dropout,
    write_jsonl,
)


def test_agreement_against_a_loop() -> None:
    torch.manual_seed(0)
    words, graph = torch.randn(4, 3), torch.randn(4, 3)
    slow = []
    for i in range(4):
        similarities = torch.stack([F.cosine_similarity(words[i], graph[j], dim=0) / 0.1 for j in range(4)])
        slow.append(-F.log_softmax(similarities, 0)[i])
    torch.testing.assert_close(agreement_loss(words, graph, 0.1), torch.stack(slow).mean())
    assert agreement_loss(words[:1], graph[:1], 0.1) == 0


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_a_masked_word_is_hidden_from_its_own_graph_state(convolution: str) -> None:
    torch.manual_seed(0)
    network = GraphNetwork(convolution, inputs=6, width=8, depth=2, relations={"obj": 1}, masking=True)
    edges, kinds = torch.tensor([[0, 1, 0, 1, 2], [1, 0, 0, 1, 2]]), torch.tensor([0, 2, 4, 4, 4])
    words, masked = torch.randn(3, 6), torch.tensor([True, False, False])
    before = network(words, edges, kinds, masked)
    words[0] += 1  # hidden: must change nothing anywhere
    torch.testing.assert_close(network(words, edges, kinds, masked), before)
    words[1] += 1  # its neighbour: must be felt
    assert not torch.allclose(network(words, edges, kinds, masked)[0], before[0])


def test_relations_of_a_group_are_one_to_a_relational_network() -> None:
    torch.manual_seed(0)
    relations = {"det": 1, "nsubj": 2, "nsubj:pass": 3}
    network = GraphNetwork("relational", inputs=6, width=8, depth=1, relations=relations)
    words, edges = torch.randn(2, 6), torch.tensor([[0, 1, 0, 1], [1, 0, 0, 1]])
    down, up, loop = 0, 4, 8
    found = {name: network(words, edges, torch.tensor([down + i, up + i, loop, loop])) for name, i in relations.items()}
    torch.testing.assert_close(found["nsubj"], found["nsubj:pass"], rtol=0, atol=0)
    assert not torch.allclose(found["nsubj"], found["det"])
    turned = network(words, edges, torch.tensor([up + 2, down + 2, loop, loop]))
    assert not torch.allclose(turned, found["nsubj"])  # a head is not a dependent


@pytest.mark.parametrize(("layer", "max_length"), [(0, 64), (-1, 9)])  # words cut off
def test_losses_against_loops_over_words(layer: int, max_length: int) -> None:
    method = Relations(layer, 6, 4, 1.0, 1.0, 1.0)
    session = setting_of(tiny_encoder(), method, max_length=max_length)
    with torch.no_grad():
        method.arc.normal_()
    source = tiny_step(session, target=False).source
    states = source.encoded.states if layer == -1 else source.encoded.layers[0]
    one, slow = torch.ones(1), {"relations/head": [], "relations/relation": [], "relations/tag": []}
    for row, example in enumerate(session.source):
        parse, pairs = example.parse, [*zip(example.alignment.pair_pieces, example.alignment.pair_words, strict=True)]
        pieces = [[int(p) for p, w in pairs if w == word] for word in range(len(parse.heads))]
        words = [states[row, own].mean(0) if own else torch.zeros(session.encoder.width) for own in pieces]
        arcs, heads, dependents, governors = zip(*(F.gelu(method.project(word)).split([6, 6, 4, 4]) for word in words))
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
    assert len(slow["relations/tag"]) > len(slow["relations/head"]) > 3 or max_length == 64
    found = method.side_losses(source)
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


TEXTS = ["The lens is sharp.", "A sharp screen helps me.", "Nope."]


def prepared(tmp_path: Path, *overrides: str) -> tuple[Session, OpinionPaths, dict[str, object]]:
    session = built(tmp_path, "injection=paths", "injection.paths.paths=3", *overrides)
    method = session.methods["paths"]
    return session, method, method.prepare()


def taught(method: OpinionPaths) -> OpinionPaths:
    """Without a source to learn from."""
    method.opinions, method.numbers = frozenset({"sharp"}), {("nsubj",): 1, ("^amod",): 2}
    return method


def test_loss_against_a_loop() -> None:
    torch.manual_seed(0)
    start, end, pairs = torch.randn(4, 3), torch.randn(4, 3), torch.tensor([[0, 0, 3], [1, 2, 2], [2, 0, 1]])
    score = nn.Linear(9, 4)
    slow = [
        -F.log_softmax(score(torch.cat([start[i], end[j], start[i] * end[j]])), 0)[number]
        for i, j, number in pairs.T.tolist()
    ]
    torch.testing.assert_close(path_loss(start, end, pairs, score), torch.stack(slow).mean())
    assert path_loss(start, end, pairs[:, :0], score) == 0


def test_pairs_are_opinion_words_with_what_is_near_and_the_path_to_nouns() -> None:
    session = setting_of(tiny_encoder(), taught(OpinionPaths(10, 3, 8, 1.0)), texts=TEXTS)
    batch = tiny_step(session).source.batch
    words = [(e.word(i).lower(), e.parse) for e in session.source for i in range(len(e.words))]
    firsts = np.concatenate([np.arange(len(e.words)) for e in session.source])
    pairs = batch.extra["OpinionPaths/pairs"].T.tolist()
    assert {(words[i][0], words[j][0], n) for i, j, n in pairs if n} == {("sharp", "lens", 1), ("sharp", "screen", 2)}
    for i, j, _ in pairs:
        near = {end for _, end, _ in paths_from(words[i][1], [int(firsts[i])], 3)}  # type: ignore[arg-type]
        assert words[i][0] == "sharp" and int(firsts[j]) in near
    assert len(pairs) > 4  # pairs without a path of these among them


def test_paths_are_learnt_from_the_source_by_opinions_or_words_that_lean_to_a_class(tmp_path: Path) -> None:
    session, method, stage = prepared(tmp_path)
    assert stage["paths/opinions"] == 5
    assert any("nsubj" in str(told) for told in stage["paths/paths"])  # type: ignore[union-attr, attr-defined]
    found = support.losses_while_training(method, session, method, session.encoder, steps=15)
    assert found[-1] < found[0] - 0.1
    _, method, stage = prepared(tmp_path, "task=classification")
    assert {"great", "dull", "superb", "weak", "lovely"} >= method.opinions > set()
    assert stage["paths/paths"] and len(method.numbers) <= 3
    assert leaning_words([], [], ["good", "bad"]) == frozenset()


def test_controls_know_the_opinion_words_of_real_trees(tmp_path: Path) -> None:
    """Where terms alone are annotated, opinion words are read off trees; a control's would tell none."""
    write_jsonl(tmp_path / "terms.jsonl", [r | {"spans": r["spans"][:1]} for r in support.records("camera", 24)])
    terms = [f"data.source.path={tmp_path}/terms.jsonl", "data.target.test_path=null", "data.target.train_path=null"]
    controls = ("none", "linear", "self_loops")
    found = [prepared(tmp_path, *terms, f"control={name}")[1].opinions for name in controls]
    assert found[0] and found == [found[0]] * 3


def test_opinion_words_are_told_by_relations_where_only_terms_are_annotated() -> None:
    texts = ["The lens is sharp.", "A sharp zoom.", "A new day.", "A new week."]
    spans = [[(4, 8)], [(8, 12)], [], []]
    records = [
        Record(str(i), "", text, spans=tuple(Span(start, end, "x") for start, end in own))
        for i, (text, own) in enumerate(zip(texts, spans, strict=True))
    ]
    parses = list(SpacyParser().parse(records))
    assert opinion_words(records, parses, {"x"}, 1, 0.5) == {"sharp"}
    assert opinion_words(records, parses, {"x"}, 3, 0.5) == frozenset()  # not met often enough
    both = [Record(r.id, "", r.text, spans=(*(r.spans or ()), Span(0, 3, "y"))) for r in records[:1]]
    assert opinion_words(both, parses[:1], {"x"}, 1, 0.5) == {"the"}  # where opinions are annotated, they tell


def test_a_source_without_terms_is_refused() -> None:
    session = setting_of(tiny_encoder(), method := OpinionPaths(10, 3, 8, 1.0), texts=TEXTS)
    assert session.source
    with pytest.raises(ValueError, match=r"^OpinionPaths: expected spans that are mostly nouns.*leave it out$"):
        method.prepare()


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


@pytest.mark.parametrize("max_length", [64, 9])
def test_loss_and_affinity_against_loops_over_words(max_length: int) -> None:
    encoder, method = tiny_encoder(), AttentionSupervision(GIVEN, [], 1.0)
    without_dropout(encoder)
    texts = ["The lens is really not sharp.", "A dull, slow and very heavy camera was not my thing.", "It really was."]
    session = setting_of(encoder, method, texts=texts, max_length=max_length)
    source = tiny_step(session, target=False).source
    affinity, losses = method.affinity(), []
    for number, row in enumerate(GIVEN):
        scores = source.encoded.scores[row["layer"], row["head"]]
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
    assert mass_loss(torch.zeros(1, 4, 4), torch.zeros(3, 0, dtype=torch.int64)) == 0


def test_what_is_supervised_is_the_attention_that_there_is() -> None:
    encoder, method = tiny_encoder(), AttentionSupervision(GIVEN, [], 1.0)
    plain = encoder(tiny_step(setting_of(tiny_encoder())).source.batch)
    source = tiny_step(setting_of(encoder, method)).source
    assert torch.equal(source.encoded.logits, plain.logits) and not [*method.parameters()]
    method.eval()
    assert not encoder(source.batch).scores


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
    assert {*tiny_step(session).source.encoded.scores} == {(row["layer"], row["head"]) for row in method.heads}
    only = torch.tensor([[[0.9, -1.0]], [[0.8, -1.0]]])
    assert best_heads(only, ["a", "b"]) == [(0, 0, 0)]  # no head is left for the other


def test_nsubj_means_its_subtypes_too() -> None:
    method = AttentionSupervision("auto", ["nsubj"], 1.0)
    session = setting_of(tiny_encoder(), method, texts=["The camera was sold."])
    assert "nsubj:pass" in session.relations and "nsubj" not in session.relations
    assert method.prepare()["attention_supervision/heads"]


@pytest.mark.parametrize("control", ["linear", "self_loops", "shuffled", "random"])
def test_a_control_supervises_as_many_heads(tmp_path: Path, control: str) -> None:
    own = [*of_yaml("injection=attention_supervision"), "injection.attention_supervision.relations=[nsubj,det,case]"]
    counts = []
    for more in ([], [f"control={control}"]):
        session = built(tmp_path, *own, *more)
        method = session.methods["attention_supervision"]
        method.prepare()
        counts.append(len({(row["layer"], row["head"]) for row in method.heads}))
        assert all(torch.isfinite(loss) and loss > 0 for loss in method.losses(tiny_step(session)).values())
    assert counts == [3, 3]


def test_a_control_without_the_last_relation_s_name_supervises_it_all_the_same(tmp_path: Path) -> None:
    """A control's own relation takes the place of one of the names, so that the network is as large."""
    own = of_yaml("injection=attention_supervision")
    real = built(tmp_path, *own)
    last = max(set(real.relations))
    session = built(tmp_path, *own, f"injection.attention_supervision.relations=[{last}]", "control=linear")
    assert last not in session.relations and len(session.relations) == len(real.relations)
    session.methods["attention_supervision"].prepare()
    assert len(session.methods["attention_supervision"].heads) == 1


def test_a_head_that_scores_by_itself_is_not_supervised() -> None:
    """What is kept of it are not the scores that it uses."""
    other = Lisa(GIVEN[0]["layer"], GIVEN[0]["head"], "predicted", 1.0)  # type: ignore[arg-type]
    auto, given = AttentionSupervision("auto", ["nsubj", "det"], 1.0), AttentionSupervision(GIVEN, [], 1.0)
    setting_of(tiny_encoder(), auto, other)
    taken = GIVEN[0]["layer"], GIVEN[0]["head"]
    assert taken not in {(row["layer"], row["head"]) for row in auto.prepare()["attention_supervision/heads"]}
    setting_of(tiny_encoder(), given, other)
    with pytest.raises(ValueError, match=r"layer 0, head 1 is another injection's \(lisa's\)"):
        given.prepare()


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
    texts = ["Nope, not sharp.", "A much longer text, whose pieces pad the other one well."]
    session = setting_of(tiny_encoder(), lisa("parser").eval(), texts=texts)
    torch.testing.assert_close(*support.alone_and_padded(session), atol=1e-5, rtol=1e-4)


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
    torch.testing.assert_close(method.side_losses(source)["lisa/head"], torch.stack(losses).mean())
    assert head_loss(torch.randn(2, 4, 4), torch.full((2, 4), IGNORED)) == 0


def test_losses_of_source_and_target_come_from_their_own_passes() -> None:
    method = lisa()
    session = setting_of(tiny_encoder(), method)
    other = session.target[1:]  # a batch of another shape
    apart = [method.side_losses(view_of(session, part))["lisa/head"] for part in (session.source, other)]
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
    assert method.used_at_prediction and method.final_weights(weights) is weights
    batch = tiny_step(session).source.batch
    with torch.no_grad():
        method.bilinear.normal_()
        trained, scored = encoder.train()(batch).logits, encoder.eval()(batch).logits
        method.eval()
        torch.testing.assert_close(scored, trained, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(encoder(batch).logits, trained, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(encoder(batch, hooked=False).logits, trained, atol=1e-3)
