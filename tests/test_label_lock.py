"""Target labels are out of reach of training, selection and rules: shown by changing them."""

from collections.abc import Callable, Sequence
from inspect import isfunction
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import domadapt
from domadapt.data.batches import Example
from domadapt.data.domains import SealedTest, TargetUnlabelled, UnlabelledText
from domadapt.data.records import Record
from domadapt.methods.method import Method
from domadapt.methods.rule_baseline import PathRules
from domadapt.reporting.frames import rows as rows_of
from domadapt.syntax.parser import SpacyParser
from domadapt.tasks.extraction import Extraction
from domadapt.training.build import build
from tests import support
from tests.support import VALIDATORS, amazon_corpus, built, corpora, grouped, joint_corpus, records, write_jsonl
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


def blind_choices(metrics: dict) -> dict[str, int]:
    """The epochs that validators without a target label choose."""
    return {n: c["epoch"] for n, c in metrics["selection"]["choices"].items() if not VALIDATORS[n].uses_target_labels}


Problem = Callable[[Path, bool], list[str]]


def small(*overrides: str) -> Problem:
    """The small problem, with its true target labels or with others."""

    def made(folder: Path, scrambled: bool) -> list[str]:
        given = corpora(folder)
        if scrambled:
            scramble(folder, "classification" if "task=classification" in overrides else "extraction")
        return [*given, *overrides]

    return made


def of_several_sources(folder: Path, scrambled: bool) -> list[str]:
    given, names = small("trainer.epochs=1")(folder, scrambled), ("first", "second")
    write_jsonl(folder / "second.jsonl", records("phone", 24, 3))
    moved = [o.replace("data.", f"data.problems.{name}.") for o in given if o.startswith("data.") for name in names]
    moved += [f"data.problems.second.source.path={folder}/second.jsonl", "data.problems.second.source.name=phone"]
    added = [f"+data@data.problems.{name}=my_files" for name in names]
    rest = [o for o in given if not o.startswith("data")]
    return ["data=several", *added, *moved, *rest, "data.problems.first.source.name=source"]


def of_research(pair: str, corpus: Callable[[Path], Path], target: str, *overrides: str) -> Problem:
    """A small invented form of a research corpus, whose target files are those of a pattern."""

    def made(folder: Path, scrambled: bool) -> list[str]:
        root = corpus(folder)
        for path in folder.glob(target) if scrambled else ():
            text = path.read_text(encoding="utf-8").replace('"positive"', '"negative"').replace("-POS", "-NEG")
            path.write_text(text, encoding="utf-8")
        own = ["backbone=tiny_random", "trainer.epochs=1", "trainer.device=cpu", "trainer.batch_size=8"]
        return [f"data={target.partition('/')[0]}", f"data.pair={pair}", f"data.root={root}", *own, *overrides]

    return made


EVERY = ("adaptation=masked_lm", "injection=[lisa,gnn]", "injection.lisa.layer=1", "trainer.regret=true")
PROBLEMS: dict[str, Problem] = {
    "spans": small("task=extraction", *EVERY),
    "classes": small("task=classification", *EVERY),
    "few target labels": small("target_labels=all"),
    "rules": small("rule_baseline=path_rules"),
    "several sources": of_several_sources,
    "joint_absa": of_research(
        "rest_to_device", joint_corpus, "joint_absa/device.*", "task=extraction", "task.types=[POS,NEG,NEU]"
    ),
    "amazon_reviews": of_research("books_to_dvd", amazon_corpus, "amazon_reviews/dvd.l*", "task=classification"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_runs_that_differ_only_in_target_labels_are_byte_identical(tmp_path: Path, name: str) -> None:
    """Of several methods at once, and what every validator would choose; test_methods.py has each method alone."""
    metrics, found = [], []
    for scrambled in (False, True):
        folder = tmp_path / str(scrambled)
        given = PROBLEMS[name](folder, scrambled)
        metrics.append(domadapt.train([*given, f"paths.run={folder}/run", f"paths.cache={folder}/cache"]))
        rows = support.read_jsonl(folder / "run" / "predictions.jsonl")
        found.append(([row["predicted"] for row in rows], weights(folder / "run") if name != "rules" else {}))
    one, other = metrics
    assert found[0] == found[1]
    for blind in ("curve", "expected", "stages", "source_dev"):
        assert one.get(blind) == other.get(blind)  # rules expect no score
    if name != "rules":  # which choose no epoch
        assert one["selection"]["epoch"] == other["selection"]["epoch"]
    assert one["target_test"] != other["target_test"] or name in ("joint_absa", "amazon_reviews")
    if name in ("spans", "classes"):  # with trainer.regret=true, which asks them all
        assert blind_choices(one) == blind_choices(other)
        assert set(blind_choices(one)) == {n for n, v in VALIDATORS.items() if not v.uses_target_labels}


def test_target_text_has_no_field_for_labels() -> None:
    assert set(UnlabelledText.__slots__) == {"id", "domain", "text", "words"}
    assert set(TargetUnlabelled.__slots__) == {"domain", "texts"}
    with pytest.raises((AttributeError, TypeError)):
        UnlabelledText("1", "laptop", "Fast.").label = "positive"  # type: ignore[attr-defined]


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
    session = built(tmp_path, "task._target_=tests.test_label_lock.Curious")
    assert {*Curious.shown} == {"source", "target"}
    assert {record.domain for record in session.task.seen} == {"source"}  # type: ignore[attr-defined]


class Peeping(Method):
    """A method that would predict what the gold says, wherever it can be seen."""

    used_at_prediction = True
    seen: ClassVar[set[str]] = set()

    def collate(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        self.seen.update(e.domain for e in examples if e.label is not None or e.word_tags is not None)
        return {}


@pytest.mark.parametrize("task", ["extraction", "classification"])
def test_what_predicts_the_test_sees_no_label_of_it(tmp_path: Path, task: str) -> None:
    Peeping.seen.clear()
    support.trained(tmp_path, "run", f"task={task}", "+adaptation.peep._target_=tests.test_label_lock.Peeping")
    assert Peeping.seen == {"source"}


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


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in ("few target labels", "rules")])
def test_nothing_that_training_works_with_leads_to_target_labels(tmp_path: Path, name: str) -> None:
    session, _ = build(domadapt.compose("train", [*PROBLEMS[name](tmp_path, False), "adaptation=masked_lm"]))
    found = reachable(session, {}).values()
    assert any(isinstance(thing, TargetUnlabelled) for thing in found)
    assert not [thing for thing in found if isinstance(thing, SealedTest) or isfunction(thing)]
    assert {thing.domain for thing in found if isinstance(thing, Record)} == {*session.domains.source.split("+")}


def test_on_shipped_data_rules_find_some_of_both_and_stand_below_the_bars(tmp_path: Path) -> None:
    rules = ["rule_baseline=path_rules", "rule_baseline.path_rules.rules=8"]
    metrics = domadapt.train(given := ["data=camera_laptop", *rules, f"paths.run={tmp_path}/run"])
    stages = metrics["stages"]
    assert 2 < len(stages["rule_baseline/rules"]) <= 8
    assert all(" are terms (" in rule and "as from '" in rule for rule in stages["rule_baseline/rules"])
    assert (metrics["method"], metrics["role"], metrics["curve"]) == ("path_rules", "rule_baseline", [])
    for name in ("target_test", "target_test_clean"):
        scores = metrics[name]
        assert 0.05 < scores["aspect_f1"] < 0.6 and 0.2 < scores["opinion_f1"] < 0.8, (name, scores)
    assert domadapt.train(given) == metrics  # finished: read again
    other = {**metrics, "method": "rnn_from_scratch", "role": "rnn_from_scratch"}
    (pair,) = grouped([other, metrics])
    assert [row.method.name for row in rows_of(pair)] == ["path_rules", "rnn_from_scratch"]
    assert all(row.gap_closed.value is None and not row.gap_closed.reason for row in rows_of(pair))


def test_without_target_labels_the_target_is_labelled(tmp_path: Path) -> None:
    metrics = support.trained(tmp_path, "path_rules", "rule_baseline=path_rules", "data.target.test_path=null")
    assert metrics["target_test"] is None
    found = support.read_jsonl(tmp_path / "path_rules" / "predictions.jsonl")
    assert len(found) == 20 and {"id", "text", "spans"} == found[0].keys()
    assert grouped([metrics])  # what a report needs


def test_where_terms_have_polarities_the_opinion_word_tells_which() -> None:
    spans = [("lens", "sharp", "POS"), ("screen", "dull", "NEG")]
    records = []
    for number, (part, opinion, kind) in enumerate(spans * 3):
        text = f"The {part} is {opinion}."
        span = domadapt.data.records.Span(text.index(part), text.index(part) + len(part), kind)
        records.append(domadapt.data.records.Record(str(number), "a", text, spans=(span,)))
    parser, rules = SpacyParser(), PathRules(rules=10, longest=3, min_uses=1, opinion_share=0.3)
    texts = [domadapt.data.domains.UnlabelledText("0", "b", "The fan is dull and the hinge is sharp.")]
    trees = [*parser.parse(texts)]
    rules.learn(records, [*parser.parse(records)])
    found = {texts[0].text[s.start : s.end]: s.type for s in rules.predict(texts[0], trees[0]).spans}
    assert found == {"fan": "NEG", "hinge": "POS"}  # no opinion is annotated, and none is predicted
    with pytest.raises(ValueError, match=r"^rule_baseline: expected spans that are mostly nouns[^\n]*leave it out$"):
        rules.learn([], [])
