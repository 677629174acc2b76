"""Paths from opinion words: against loops, by pairs, and what is left at prediction."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import domadapt
from domadapt.data.records import Record, Span
from domadapt.methods.injection.paths import OpinionPaths, path_loss
from domadapt.methods.session import Session
from domadapt.methods.terms import leaning_words, opinion_words
from domadapt.syntax.parser import SpacyParser
from domadapt.syntax.trees import path
from domadapt.training.build import build
from tests.support import corpora, setting_of, tiny_encoder, tiny_step

TEXTS = ["The lens is sharp.", "A sharp screen helps me.", "Nope."]


def prepared(tmp_path: Path, *overrides: str) -> tuple[Session, OpinionPaths, dict[str, object]]:
    given = [*corpora(tmp_path), "injection=paths", "injection.paths.paths=3", *overrides]
    session, _ = build(domadapt.compose("train", given))
    method = session.methods["paths"]
    return session, method, method.prepare()


def told(method: OpinionPaths) -> OpinionPaths:
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
    session = setting_of(tiny_encoder(), told(OpinionPaths(10, 3, 8, 1.0)), texts=TEXTS)
    batch = tiny_step(session).source.batch
    words = [(e.word(i).lower(), e.parse) for e in session.source for i in range(len(e.words))]
    firsts = np.concatenate([np.arange(len(e.words)) for e in session.source])
    pairs = batch.extra["OpinionPaths/pairs"].T.tolist()
    assert {(words[i][0], words[j][0], number) for i, j, number in pairs if number} == {
        ("sharp", "lens", 1),
        ("sharp", "screen", 2),
    }
    for i, j, _ in pairs:
        way = path(words[i][1], int(firsts[i]), int(firsts[j]))  # type: ignore[arg-type]
        assert words[i][0] == "sharp" and way is not None and 0 < len(way) <= 3
    assert len(pairs) > 4  # pairs without a path of these among them


def test_it_learns_paths_from_the_source_and_lowers_its_loss(tmp_path: Path) -> None:
    session, method, stage = prepared(tmp_path)
    assert stage["paths/opinions"] == 5
    assert any("nsubj" in str(told) for told in stage["paths/paths"])  # type: ignore[union-attr, attr-defined]
    optimizer = torch.optim.Adam([*method.parameters(), *session.encoder.parameters()], 1e-2)
    found = []
    for _ in range(10):
        (loss,) = method.losses(tiny_step(session)).values()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    assert found[-1] < found[0] - 0.1


def test_words_that_lean_to_a_class_take_the_place_of_opinions(tmp_path: Path) -> None:
    _, method, stage = prepared(tmp_path, "task=classification")
    assert {"great", "dull", "superb", "weak", "lovely"} >= method.opinions > set()
    assert stage["paths/paths"] and len(method.numbers) <= 3
    assert leaning_words([], [], ["good", "bad"]) == frozenset()


def test_a_controls_twin_has_its_own_paths_and_as_many_parameters(tmp_path: Path) -> None:
    sides = [prepared(tmp_path), prepared(tmp_path, "control=linear")]
    assert sides[0][1].numbers != sides[1][1].numbers
    assert len({sum(p.numel() for p in method.parameters()) for _, method, _ in sides}) == 1


def test_it_leaves_the_encoder_as_it_was_and_truncated_words_out() -> None:
    encoder, method = tiny_encoder(), told(OpinionPaths(10, 3, 8, 1.0))
    before = set(encoder.state_dict())
    step = tiny_step(setting_of(encoder, method, texts=TEXTS, max_pieces=5))
    assert (step.source.batch.node_first_piece < 0).any()
    assert all(torch.isfinite(loss) for loss in method.losses(step).values())
    assert set(encoder.state_dict()) == before and not method.used_at_prediction
    assert not encoder.attention_hooks and not encoder.states_hooks


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
    with pytest.raises(ValueError, match=r"^OpinionPaths: expected spans that are mostly nouns.*leave the method out$"):
        method.prepare()
