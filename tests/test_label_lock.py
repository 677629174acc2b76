"""Target labels are out of reach of training and selection: shown by changing them."""

import json
from collections.abc import Sequence
from inspect import isfunction
from itertools import cycle
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from omegaconf import OmegaConf

import domadapt
from domadapt.config.compose import make
from domadapt.data.domains import SealedLabels, SealedTest, TargetUnlabelled, UnlabelledText
from domadapt.data.records import Record
from domadapt.tasks.extraction import Extraction
from domadapt.training.build import build
from tests.support import CONF, amazon_corpus, corpora, joint_corpus, records, write_jsonl
from tests.trouble import weights


def scrambled(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The same texts with other labels and other spans."""
    return [row | {"label": "neutral", "spans": [{"start": 0, "end": 3, "type": "opinion"}]} for row in rows]


def scramble(folder: Path, task: str) -> None:
    """Change every target label of the small problem in a folder, and no target text."""
    write_jsonl(folder / "target.jsonl", scrambled(records("laptop", 20, 5)))
    test = scrambled(records("laptop", 12, 6))
    if task == "classification":
        test = [row | {"label": "negative"} for row in test]
    write_jsonl(folder / "test.jsonl", test)


def with_and_without_true_labels(tmp_path: Path, task: str, *more: str) -> tuple[list[dict], list[dict[str, bytes]]]:
    """Metrics and weights of two runs that differ in target labels alone."""
    metrics = []
    for name in ("true", "scrambled"):
        folder = tmp_path / name
        overrides = [*corpora(folder), f"task={task}", f"paths.cache={folder}/cache", f"paths.run={folder}/run"]
        if name == "scrambled":
            scramble(folder, task)
        metrics.append(domadapt.train([*overrides, *more]))
    return metrics, [weights(tmp_path / name / "run") for name in ("true", "scrambled")]


def blind_choices(metrics: dict) -> dict[str, int]:
    """The epochs that validators without a target label choose."""
    return {n: c["epoch"] for n, c in metrics["selection"]["choices"].items() if not VALIDATORS[n].uses_target_labels}


VALIDATORS = {
    path.stem: make(OmegaConf.create(path.read_text(encoding="utf-8")))
    for path in sorted((CONF / "selection").glob("*.yaml"))
}
TASKS = ["extraction", "classification"]
EVERY = ["adaptation=masked_lm", "injection=[lisa,gnn]", "injection.lisa.layer=1"]


@pytest.mark.parametrize("task", ["extraction", "classification"])
def test_runs_that_differ_only_in_target_labels_are_byte_identical(tmp_path: Path, task: str) -> None:
    """Of several methods at once; tests/test_methods.py has each of them alone."""
    metrics, found = with_and_without_true_labels(tmp_path, task, *EVERY, "trainer.regret=true")
    assert found[0] == found[1]
    assert blind_choices(metrics[0]) == blind_choices(metrics[1])
    assert set(blind_choices(metrics[0])) == {n for n, v in VALIDATORS.items() if not v.uses_target_labels}
    assert metrics[0]["selection"]["epoch"] == metrics[1]["selection"]["epoch"]
    assert metrics[0]["curve"] == metrics[1]["curve"]
    assert metrics[0]["expected"] == metrics[1]["expected"]
    assert metrics[0]["expected"] is not None
    assert metrics[0]["target_test"] != metrics[1]["target_test"]


# Each on one of the tasks: every run scores with all of them, so the test above has seen them on both.
@pytest.mark.parametrize(("validator", "task"), [*zip(VALIDATORS, cycle(TASKS), strict=False)])
def test_no_validator_is_swayed_by_target_labels(tmp_path: Path, validator: str, task: str) -> None:
    metrics, found = with_and_without_true_labels(tmp_path, task, f"selection={validator}")
    assert metrics[0]["curve"] == metrics[1]["curve"]
    assert blind_choices(metrics[0]) == blind_choices(metrics[1])
    assert metrics[0]["target_test"] != metrics[1]["target_test"]
    if not VALIDATORS[validator].uses_target_labels:  # a bound is what target labels choose, after training
        assert found[0] == found[1]
        assert metrics[0]["selection"]["epoch"] == metrics[1]["selection"]["epoch"]


def test_target_text_has_no_field_for_labels() -> None:
    assert set(UnlabelledText.__slots__) == {"id", "domain", "text", "words"}
    assert set(TargetUnlabelled.__slots__) == {"domain", "texts"}
    with pytest.raises((AttributeError, TypeError)):
        UnlabelledText("1", "laptop", "Fast.").label = "positive"  # type: ignore[attr-defined]


def test_the_test_is_read_when_opened_and_once() -> None:
    opened = []
    test = SealedTest("laptop", lambda: opened.append(1) or ())  # type: ignore[func-returns-value]
    assert opened == []
    test.open()
    with pytest.raises(SealedLabels):
        test.open()
    assert opened == [1]


BAD_LINES = {
    "not json": "not json",
    "no text": '{"id": "x", "domain": "laptop", "spans": [], "label": "positive"}',
    "unknown label": '{"text": "Fast.", "label": "postive", "spans": [{"start": 0, "end": 4, "type": "aspct"}]}',
    "another kind": '{"text": "Fast.", "label": 7, "spans": 7}',
}


@pytest.mark.parametrize("task", ["extraction", "classification"])
@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_in_the_test_is_told_before_training(tmp_path: Path, task: str, line: str) -> None:
    overrides = corpora(tmp_path)
    with (tmp_path / "test.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"test\.jsonl:13: "):
        domadapt.train([*overrides, f"task={task}", f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    assert not (tmp_path / "run").exists(), "nothing is left behind"


class Curious(Extraction):
    """A task that keeps whatever it is shown."""

    shown: ClassVar[list[str]] = []

    def check(self, records: Sequence[Record]) -> None:
        self.seen = [*getattr(self, "seen", []), *records]
        self.shown.extend(record.domain for record in records)
        super().check(records)


def test_the_check_of_the_test_leaves_no_label_behind(tmp_path: Path) -> None:
    """The task that checks is a copy: the one that trains has not seen what it saw."""
    overrides = [*corpora(tmp_path), f"paths.cache={tmp_path}/cache", "task._target_=tests.test_label_lock.Curious"]
    session, _ = build(domadapt.compose("train", overrides))
    assert {*Curious.shown} == {"source", "target"}
    assert {record.domain for record in session.task.seen} == {"source"}  # type: ignore[attr-defined]


def reachable(thing: object, seen: dict[int, object]) -> dict[int, object]:
    """Every object of ours, and every function, that can be reached from a thing."""
    if id(thing) in seen or isinstance(thing, torch.nn.Module | torch.Tensor | str | bytes | int | float | type(None)):
        return seen
    seen[id(thing)] = thing
    if isinstance(thing, dict):
        inside = [*thing.values()]
    elif isinstance(thing, list | tuple):
        inside = [*thing]
    else:
        names = [*getattr(thing, "__dict__", {}), *getattr(type(thing), "__slots__", ())]
        inside = [getattr(thing, name, None) for name in names] if type(thing).__module__.startswith("domadapt") else []
    for item in inside:
        reachable(item, seen)
    return seen


def test_nothing_that_training_works_with_leads_to_target_labels(tmp_path: Path) -> None:
    cfg = domadapt.compose("train", [*corpora(tmp_path), f"paths.cache={tmp_path}/cache", "adaptation=masked_lm"])
    session, sealed = build(cfg)
    assert isinstance(sealed, SealedTest)
    found = reachable(session, {}).values()
    assert any(isinstance(thing, TargetUnlabelled) for thing in found)
    assert not [thing for thing in found if isinstance(thing, SealedTest) or isfunction(thing)]
    assert {thing.domain for thing in found if isinstance(thing, Record)} == {"source"}


def problem(folder: Path, data: str) -> list[str]:
    """A small invented form of a research corpus, and the overrides that point to it."""
    root, task = (joint_corpus, "extraction") if data == "joint_absa" else (amazon_corpus, "classification")
    small = ["backbone=tiny_random", "trainer.epochs=1", "trainer.device=cpu", "trainer.batch_size=8"]
    pair = "data.pair=" + ("rest_to_device" if data == "joint_absa" else "books_to_dvd")
    return [f"data={data}", pair, f"data.root={root(folder)}", f"task={task}", *small, f"paths.cache={folder}/cache"]


TARGET_FILES = {"joint_absa": "joint_absa/device.*.jsonl", "amazon_reviews": "amazon_reviews/dvd.labeled.jsonl"}


@pytest.mark.parametrize("data", TARGET_FILES)
def test_target_labels_of_a_research_corpus_change_nothing(tmp_path: Path, data: str) -> None:
    found: list[dict[str, bytes]] = []
    scores: list[list[object]] = []
    for name in ("true", "swapped"):
        folder = tmp_path / name
        overrides = [*problem(folder, data), "adaptation=masked_lm", f"paths.run={folder}/run"]
        overrides += ["task.types=[POS,NEG,NEU]"] if data == "joint_absa" else []
        if name == "swapped":
            for path in folder.glob(TARGET_FILES[data]):
                text = path.read_text(encoding="utf-8").replace('"positive"', '"negative"').replace("-POS", "-NEG")
                path.write_text(text, encoding="utf-8")
        metrics = domadapt.train(overrides)
        found.append(weights(folder / "run"))
        scores.append([(point["epoch"], point["losses"], point["source_dev"]) for point in metrics["curve"]])
        scores[-1].append(metrics["selection"]["epoch"])
        assert metrics["target_test"]
    assert found[0] == found[1]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("data", TARGET_FILES)
def test_nothing_of_a_research_corpus_leads_to_target_labels(tmp_path: Path, data: str) -> None:
    session, sealed = build(domadapt.compose("train", [*problem(tmp_path, data), "adaptation=masked_lm"]))
    assert isinstance(sealed, SealedTest)
    found = reachable(session, {}).values()
    assert any(isinstance(thing, TargetUnlabelled) for thing in found)
    assert not [thing for thing in found if isinstance(thing, SealedTest) or isfunction(thing)]
    assert {thing.domain for thing in found if isinstance(thing, Record)} == {session.domains.source}


def test_the_reviews_ceiling_cannot_reach_its_test(tmp_path: Path) -> None:
    session, sealed = build(domadapt.compose("train", [*problem(tmp_path, "amazon_reviews"), "train_on=target"]))
    assert sealed is not None
    learnt = {thing.id for thing in reachable(session, {}).values() if isinstance(thing, Record)}
    tested = {record.id for record in sealed.open()}
    assert (len(learnt), len(tested)) == (16, 4)
    assert not learnt & tested


def test_the_ceiling_is_marked(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"]
    metrics = domadapt.train([*overrides, "train_on=target"])
    assert (metrics["role"], metrics["method"]) == ("in_domain", "in_domain")
    rows = (tmp_path / "run" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(row)["id"] for row in rows] == [f"laptop-{i}" for i in range(12)]
