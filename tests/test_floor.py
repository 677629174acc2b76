"""Floors: rules in place of a network, from the command to the table, blind to target labels."""

from pathlib import Path

import pytest

import domadapt
from domadapt.methods.rule_baseline import PathRules
from domadapt.reporting.frames import rows as rows_of
from domadapt.syntax.parser import SpacyParser
from tests.support import corpora, grouped, read_jsonl
from tests.test_label_lock import scramble


def run(folder: Path, *overrides: str) -> dict[str, object]:
    own = ["floor=path_rules", f"paths.run={folder}/path_rules"]
    metrics: dict[str, object] = domadapt.train([*overrides, *own])
    return metrics


def test_on_shipped_data_a_floor_finds_some_of_both_and_stands_below_the_bars(tmp_path: Path) -> None:
    given = ["data=camera_laptop", "floor.path_rules.rules=8", f"paths.runs={tmp_path}"]
    metrics = run(tmp_path, *given)
    stages = metrics["stages"]
    assert 2 < len(stages["floor/rules"]) <= 8
    assert all(" are terms (" in rule and "as from '" in rule for rule in stages["floor/rules"])
    assert (metrics["method"], metrics["role"], metrics["curve"]) == ("path_rules", "floor", [])
    for name in ("target_test", "target_test_clean"):
        scores = metrics[name]
        assert 0.05 < scores["aspect_f1"] < 0.6 and 0.2 < scores["opinion_f1"] < 0.8, (name, scores)
    assert run(tmp_path, *given) == metrics  # finished: read again
    other = {**metrics, "method": "rnn_from_scratch", "role": "rnn_from_scratch"}
    (pair,) = grouped([other, metrics])
    assert [row.method.name for row in rows_of(pair)] == ["path_rules", "rnn_from_scratch"]
    assert all(row.closed.value is None and not row.closed.reason for row in rows_of(pair))


def test_target_labels_change_scores_and_nothing_else(tmp_path: Path) -> None:
    found = []
    for name in ("true", "scrambled"):
        overrides = corpora(tmp_path / name)
        if name == "scrambled":
            scramble(tmp_path / name, "extraction")
        metrics = run(tmp_path / name, *overrides)
        rows = read_jsonl(tmp_path / name / "path_rules" / "predictions.jsonl")
        found.append((metrics["source_dev"], metrics["stages"], [row["predicted"] for row in rows]))
        assert any(span["type"] == "aspect" for *_, rows in found for row in rows for span in row["spans"])
    assert found[0] == found[1]


def test_without_target_labels_the_target_is_labelled(tmp_path: Path) -> None:
    metrics = run(tmp_path, *corpora(tmp_path), "data.target.test_path=null")
    assert metrics["target_test"] is None
    found = read_jsonl(tmp_path / "path_rules" / "predictions.jsonl")
    assert len(found) == 20 and {"id", "text", "spans"} == found[0].keys()
    assert grouped([metrics])  # what a report needs


def test_where_terms_have_polarities_the_opinion_word_tells_which() -> None:
    spans = [("lens", "sharp", "POS"), ("screen", "dull", "NEG")]
    records = []
    for number, (part, opinion, kind) in enumerate(spans * 3):
        text = f"The {part} is {opinion}."
        span = domadapt.data.records.Span(text.index(part), text.index(part) + len(part), kind)
        records.append(domadapt.data.records.Record(str(number), "a", text, spans=(span,)))
    parser, floor = SpacyParser(), PathRules(rules=10, longest=3, min_uses=1, opinion_share=0.3)
    texts = [domadapt.data.domains.UnlabelledText("0", "b", "The fan is dull and the hinge is sharp.")]
    trees = [*parser.parse(texts)]
    floor.learn(records, [*parser.parse(records)])
    found = {texts[0].text[s.start : s.end]: s.type for s in floor.predict(texts[0], trees[0]).spans}
    assert found == {"fan": "NEG", "hinge": "POS"}  # no opinion is annotated, and none is predicted
    with pytest.raises(ValueError, match=r"^floor: expected spans that are mostly nouns[^\n]*leave it out$"):
        floor.learn([], [])
