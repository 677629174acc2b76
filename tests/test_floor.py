"""Floors: rules in place of a network, from the command to the table, blind to target labels."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import domadapt
from domadapt.config.compose import compose
from domadapt.methods.floor.floor import Floor
from domadapt.methods.floor.path_rules import PathRules
from domadapt.reporting.rows import rows
from domadapt.runs.code import reached
from domadapt.syntax.parser import SpacyParser
from domadapt.training.build import build
from tests.support import CONF, corpora, grouped, of_yaml
from tests.test_label_lock import scramble

FLOORS = sorted(path.stem for path in (CONF / "floor").glob("*.yaml") if path.stem != "none")


def run(folder: Path, floor: str, *overrides: str) -> dict[str, object]:
    own = [f"floor={floor}", f"paths.run={folder}/{floor}"]
    metrics: dict[str, object] = domadapt.train([*overrides, *own])
    return metrics


@pytest.mark.parametrize("floor", FLOORS)
def test_on_shipped_data_a_floor_finds_some_of_both_and_stands_below_the_bars(tmp_path: Path, floor: str) -> None:
    metrics = run(tmp_path, floor, "data=camera_laptop", f"paths.runs={tmp_path}")
    assert (metrics["method"], metrics["role"], metrics["curve"]) == (floor, "floor", [])
    for name in ("target_test", "target_test_clean"):
        scores = metrics[name]
        assert isinstance(scores, dict)
        assert 0.05 < scores["aspect_f1"] < 0.6 and 0.2 < scores["opinion_f1"] < 0.8, (name, scores)
    assert run(tmp_path, floor, "data=camera_laptop", f"paths.runs={tmp_path}") == metrics  # finished: read again
    other = {**metrics, "method": "rnn_from_scratch", "role": "rnn_from_scratch"}
    (pair,) = grouped([other, metrics])
    assert [row.method.name for row in rows(pair)] == [floor, "rnn_from_scratch"]
    assert all(row.closed.value is None and not row.closed.reason for row in rows(pair))


def test_rules_are_printed_with_their_counts(tmp_path: Path) -> None:
    metrics = run(tmp_path, "path_rules", "data=camera_laptop", "floor.path_rules.rules=2", f"paths.runs={tmp_path}")
    stages = metrics["stages"]
    assert isinstance(stages, dict) and len(stages["floor/rules"]) == 2
    assert all(" are terms (" in rule and "as from '" in rule for rule in stages["floor/rules"])


@pytest.mark.parametrize("floor", FLOORS)
def test_target_labels_change_scores_and_nothing_else(tmp_path: Path, floor: str) -> None:
    found = []
    for name in ("true", "scrambled"):
        overrides = corpora(tmp_path / name)
        if name == "scrambled":
            scramble(tmp_path / name, "extraction")
        metrics = run(tmp_path / name, floor, *overrides)
        lines = (tmp_path / name / floor / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
        found.append((metrics["source_dev"], metrics["stages"], [json.loads(line)["predicted"] for line in lines]))
        assert any(span["type"] == "aspect" for *_, rows in found for row in rows for span in row["spans"])
    assert found[0] == found[1]


def test_without_target_labels_the_target_is_labelled(tmp_path: Path) -> None:
    overrides = [o for o in corpora(tmp_path) if "test_path" not in o]
    metrics = run(tmp_path, "path_rules", *overrides)
    assert metrics["target_test"] is None
    lines = (tmp_path / "path_rules" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 20 and {"id", "text", "spans"} == json.loads(lines[0]).keys()
    assert grouped([metrics])  # what a report needs


def test_where_terms_have_polarities_the_opinion_word_tells_which() -> None:
    spans = [("lens", "sharp", "POS"), ("screen", "dull", "NEG")]
    records = []
    for number, (part, opinion, kind) in enumerate(spans * 3):
        text = f"The {part} is {opinion}."
        span = domadapt.data.records.Span(text.index(part), text.index(part) + len(part), kind)
        records.append(domadapt.data.records.Record(str(number), "a", text, spans=(span,)))
    parser, floor = SpacyParser(), PathRules(rules=10, longest=3, least=1, share=0.3)
    texts = [domadapt.data.domains.UnlabelledText("0", "b", "The fan is dull and the hinge is sharp.")]
    trees = [*parser.parse(texts)]
    floor.learn(records, [*parser.parse(records)], texts, trees)
    found = {texts[0].text[s.start : s.end]: s.type for s in floor.predict(texts[0], trees[0]).spans}
    assert found == {"fan": "NEG", "hinge": "POS"}  # no opinion is annotated, and none is predicted
    with pytest.raises(ValueError, match=r"^floor: expected spans that are mostly nouns[^\n]*leave the floor out$"):
        floor.learn([], [], texts, trees)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("injection=gnn", r"^floor=path_rules: rules in place of a network[^\n]*leave out injection=gnn$"),
        ("train_on=target", r"leave out train_on=target$"),
        ("task=classification", r"^floor=path_rules: extracts spans, and here texts are classified; leave it out$"),
        ("floor.path_rules.rules=0", r"^floor.path_rules.rules=0: expected a whole number from 1$"),
        ("+floor.second={}", r"^floor=\['path_rules', 'second'\]: expected one; run them one by one$"),
    ],
)
def test_what_a_floor_can_not_do_is_refused_in_one_line(tmp_path: Path, given: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        run(tmp_path, "path_rules", *corpora(tmp_path), given)


def test_what_floors_do_is_no_part_of_other_cells_keys() -> None:
    code = reached([compose("train", []).backbone._target_])
    assert "domadapt.training.floor" in code
    assert not [module for module in code if module.startswith("domadapt.methods.floor")]


@pytest.mark.parametrize("name", FLOORS)
def test_a_floors_yaml_makes_one(name: str) -> None:
    config = OmegaConf.load(CONF / "floor" / f"{name}.yaml")
    assert [*config] == [name]
    assert isinstance(domadapt.config.instantiate.make(config[name]), Floor)


def test_weak_labels_take_path_rules_as_evidence(tmp_path: Path) -> None:
    labels = []
    for count in (0, 5):
        given = [*of_yaml("adaptation=weak_labels"), f"adaptation.weak_labels.path_rules={count}"]
        setting, _ = build(domadapt.compose("train", [*corpora(tmp_path), *given]))
        method = setting.methods["weak_labels"]
        method.prepare()
        labels.append(method.labels)
    assert labels[0].keys() == labels[1].keys()
    assert any(not labels[0][text].allclose(labels[1][text]) for text in labels[0])
