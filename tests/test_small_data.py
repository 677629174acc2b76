"""A user with labelled files and texts of another domain: enough steps, a card, scores, two models compared."""

import csv
import html
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

import domadapt
from domadapt.auditing.finding import Finding
from domadapt.cli.labelling import _learned_from, _table
from domadapt.config.compose import compose
from domadapt.config.overrides import train_arguments
from domadapt.data.domains import TargetUnlabelled, UnlabelledText
from domadapt.data.records import DataError, Record, Span
from domadapt.inference.description import read_description
from domadapt.inference.model import _files
from domadapt.methods.adaptation import term_substitution
from domadapt.reporting.report import report
from domadapt.reporting.target_card import as_lines, as_markdown, expectation
from domadapt.runs.key import hash_of
from domadapt.runs.metrics import Expected, Metrics
from domadapt.runs.target_card import CardWarning, ChangedWords, Kind, TargetCard, read_card, write_card
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Prediction, Task, span_row
from domadapt.training.build import build
from domadapt.training.card import (
    _questions,
    _rerun_command,
    _source_only,
    audit_own_files,
    score_warnings,
    write_predictions,
)
from domadapt.training.options import MIN_STEPS, read_options
from domadapt.utils.files import write_checksums
from tests.support import (
    Command,
    grouped,
    make_metrics,
    read_csv,
    read_jsonl,
    records,
    write_csv,
    write_jsonl,
    write_texts,
)

Run = tuple[Path, dict[str, Any]]
TINY = ("backbone=tiny_random", "trainer.device=cpu", "trainer.precision=32", "trainer.batch_size=8", "max_length=32")


@pytest.mark.parametrize(("texts", "passes"), [(100, 34), (200, 17), (1000, 4), (3600, 1), (100_000, 1)])
def test_few_texts_make_as_many_steps_as_training_needs(texts: int, passes: int) -> None:
    given = ["data=my_files", "source.path=a.csv", "target.path=b.txt"]
    options = read_options(compose("train", given))
    batches = -(-round(0.9 * texts) // options.batch_size)
    assert options.passes(batches) == passes
    steps = passes * batches * options.epochs
    assert steps >= MIN_STEPS
    assert passes == 1 or steps - MIN_STEPS < batches * options.epochs  # and no more than one pass too many
    assert read_options(compose("train", [*given, "trainer.min_steps=0"])).passes(batches) == 1


@pytest.mark.parametrize("data", ["hotel_laptop", "aspect_opinion", "amazon_reviews", "joint_absa", "memd"])
def test_corpora_keep_the_epochs_of_their_protocols(data: str) -> None:
    assert read_options(compose("train", [f"data={data}"])).passes(1) == 1


@pytest.fixture(scope="module", params=["classification", "extraction"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A finished run on 100 texts, without target labels; the task is told by the file."""
    folder = tmp_path_factory.mktemp(request.param)
    rows = records("camera", 100)
    if request.param == "classification":
        write_csv(folder / "a.csv", rows, "review,mood")
        source = [f"source.path={folder}/a.csv", "source.text=review", "source.label=mood"]
    else:
        write_jsonl(folder / "a.jsonl", [{"text": row["text"], "entities": row["spans"]} for row in rows])
        source = [f"source.path={folder}/a.jsonl"]
    strange = {"text": "Overnight charging drains, hinges squeak badly."}
    target = [{"text": row["text"].lower()} for row in [*records("laptop", 20, 5), *[strange] * 10]]
    write_texts(folder / "b.txt", target)
    given = ["data=my_files", *source, f"target.path={folder}/b.txt", *TINY, "trainer.min_steps=60"]
    own = [f"paths.run={folder}/run", f"paths.cache={folder}/cache", "trainer.learning_rate=1e-3"]
    return folder, domadapt.train([*given, *own])


def test_small_data_trains_for_steps_in_as_many_epochs(run: Run) -> None:
    _, metrics = run
    assert [line["step"] for line in metrics["curve"]] == [24, 48, 72]
    assert metrics["curve"][-1]["losses"]["task"] < metrics["curve"][0]["losses"]["task"]


def test_a_damaged_card_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_card(tmp_path) is None and not caplog.text
    (tmp_path / "card.json").write_text("{")
    assert read_card(tmp_path) is None and f"{tmp_path}/card.json is damaged" in caplog.text


def test_a_run_without_target_labels_leaves_a_card(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domadapt.reporting.target_card.FEW_DEV", 4)
    folder, metrics = run
    card = read_card(folder / "run", metrics["key"])
    rows = read_jsonl(folder / "run/predictions.jsonl")
    assert len(rows) == card.texts == 30
    if metrics["task"] == "classification":
        assert {kind.name: kind.count for kind in card.kinds} == {
            name: sum(row["label"] == name for row in rows) for name in ("negative", "positive")
        }
    else:
        assert card.empty == sum(not row["spans"] for row in rows)
        assert sum(kind.count for kind in card.kinds) == sum(len(row["spans"]) for row in rows)
    assert len(card.samples) == 10 and card.expected is not None
    told = {warning.text.split(":")[0]: warning.command for warning in card.warnings}
    assert told["target unlike source"].startswith("domadapt audit data=my_files source.path=")
    assert told["Source and target are prepared in two ways"] == "domadapt train ... data.lowercase=true"
    assert told["72 steps in all, few to learn from"] == "domadapt train ... trainer.min_steps=300"
    assert "too few to expect a score from" in card.warnings[0].text or "never " in card.warnings[0].text
    assert read_card(folder / "run", "of another run") is None
    words = as_lines(card)
    assert f"domadapt predict model={folder}/run/model" in words
    assert re.search(r"  Expect a \w+ F1 of about \d+ on \w+; nine times in ten it lies between", words)
    assert "warnings, the most important first:\n  1 " in words and "by threshold=" in words
    assert max(map(len, words.split("\n")[:9])) <= 110
    assert (folder / "run" / "audit.json").is_file()
    assert domadapt.load(folder / "run" / "model").predict(["The lens is sharp."])


def test_the_report_shows_the_card_in_place_of_a_score(run: Run) -> None:
    folder, _ = run
    page = report(folder / "run", folder / "report.html", ["html", "markdown"])
    for text in (page.read_text(encoding="utf-8"), (folder / "report.md").read_text(encoding="utf-8")):
        assert "predictions, drawn at random" in text and "can't be scored" not in text
        assert re.search(r"(<h1>|# )Expect a (macro|span) F1 of about \d+ on \w+; nine times in ten", text)
        assert "For a score" in text and "Before you believe it" in text
        assert "Findings, worst first" in text  # of the audit that the run has left
        command = "domadapt train ... trainer.min_steps=300"  # a warning's
        assert f'<code class="command">{command}</code>' in text or f"`{command}`" in text


def test_a_report_of_several_such_runs_says_whose_score_its_title_is(run: Run, tmp_path: Path) -> None:
    for name in ("gnn", "recipe"):
        shutil.copytree(run[0] / "run", tmp_path / name)
        for file in ("metrics.json", "card.json"):
            path = tmp_path / name / file
            path.write_text(path.read_text().replace('"method": "source_only"', f'"method": "{name}"'))
    page = report(tmp_path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<h1>Expect a \w+ F1 of [^<]+ This is gnn; 1 other adapted model below.</h1>", page)


def test_labelled_target_records_are_no_source_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, domain, count, first in (("a", "camera", 24, 0), ("few", "laptop", 3, 30)):
        write_csv(tmp_path / f"{name}.csv", records(domain, count, first))
    (tmp_path / "b.txt").write_text("The fan whines.\nIt is fast.\n", encoding="utf-8")
    seen = list[Record]()
    kept = term_substitution.telling_nouns
    monkeypatch.setattr(term_substitution, "telling_nouns", lambda r, p: seen.extend(r) or kept(r, p))
    run = ["data=my_files", f"source.path={tmp_path}/a.csv", f"target.path={tmp_path}/b.txt", *TINY]
    run += [f"target.train_path={tmp_path}/few.csv", "target_labels=all", "adaptation=term_substitution"]
    run += ["method=term_substitution"]  # whatever it is called, it is marked
    run += ["trainer.epochs=1", "trainer.min_steps=0", f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"]
    metrics = domadapt.train(run)
    card = read_card(tmp_path / "run")
    assert card is not None and metrics["counts"]["source_train"] > card.source_texts == len(seen)
    assert sum(kind.source for kind in card.kinds) == card.source_texts
    assert {record.domain for record in seen} == {"source"}
    audited = json.loads((tmp_path / "run/audit.json").read_text(encoding="utf-8"))  # or each label would be a repeat
    assert audited["parts"]["source train"] == card.source_texts
    few = metrics["counts"]["target_labels"]
    said = (few, metrics["method"], metrics["role"], metrics["config"]["target_labels"])
    assert said == (3, "term_substitution+all_labels", "adapted", "all")
    assert len(metrics["counts"]["target_labels_checksum"]) == 16
    assert f"on {card.source_texts} texts and {few} labelled of target." in " ".join(as_lines(card).split())
    (tmp_path / "few.csv").write_text("text,label\nThe fan whines.,\nIt is fast.,\n", encoding="utf-8")
    told = "target_labels=all: no text of data.target.train_path has a label; label some"
    with pytest.raises(ValueError, match=told):
        domadapt.train([*run, f"paths.run={tmp_path}/other"])


def test_the_card_tells_of_labels_that_are_spelled_in_two_ways(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", records("camera", 24))
    write_csv(tmp_path / "few.csv", [{**row, "label": str(row["label"]).title()} for row in records("laptop", 6)])
    write_texts(tmp_path / "b.txt", records("laptop", 8))
    given = ["data=my_files", f"source.path={tmp_path}/a.csv", f"target.path={tmp_path}/b.txt", *TINY]
    given += [f"target.train_path={tmp_path}/few.csv", "target_labels=all", "trainer.epochs=1", "trainer.min_steps=0"]
    domadapt.train([*given, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    card = read_card(tmp_path / "run")
    assert card is not None
    commands = {warning.text.split(":")[0]: warning.command for warning in card.warnings}
    assert commands["Labels differ in case or spaces alone"].startswith("domadapt audit data=my_files source.path=")


def test_the_source_only_card_of_an_adaptation_trains_nothing_in_its_folder(command: Command) -> None:
    write_csv(Path("a.csv"), records("camera", 24))
    write_texts(Path("b.txt"), records("laptop", 8))
    command("adapt", "a.csv", "b.txt", *TINY, "trainer.epochs=1", "trainer.min_steps=0", "paths.run=both", "seed=1")
    commands = []
    for folder in ("both", "both/source_only"):
        card = read_card(folder)
        assert card is not None
        commands.append([w.command for w in card.warnings if "few to learn from" in w.text])
    (again,), (nothing,) = commands
    assert again.startswith("domadapt adapt a.csv b.txt ") and again.endswith("paths.run={run}_min_steps_300")
    assert not nothing


def test_commands_of_a_card_work_from_another_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    write_csv(tmp_path / "mine/a.csv", records("camera", 24))
    (tmp_path / "mine/b.txt").write_text("".join(f"Pan {i} seems rusty today.\n" for i in range(60)), encoding="utf-8")
    typed = ["domadapt adapt a.csv b.txt ", "domadapt audit data=my_files source.path=a.csv target.path=b.txt"]
    given = *TINY, "trainer.epochs=1", "trainer.min_steps=0"
    monkeypatch.chdir(tmp_path / "mine")
    out, _ = command("adapt", "a.csv", "b.txt", *given)
    assert (
        all(f"      {line}" in out for line in typed) and str(tmp_path) not in Path("b_adapted/card.json").read_text()
    )
    monkeypatch.chdir(tmp_path)
    out, _ = command("adapt", "mine/a.csv", "mine/b.txt", *given)
    assert all(f"      (cd mine && {line}" in out for line in typed) and " paths.run=b_adapted_min_steps_300)" in out
    assert "domadapt compare mine/b_adapted/source_only mine/b_adapted " in out
    command("report", "mine/b_adapted")
    report = html.unescape(Path("report.html").read_text(encoding="utf-8"))
    assert all(f">(cd mine && {line}" in report for line in typed)


def test_target_texts_that_were_trained_on_measure_nothing(tmp_path: Path) -> None:
    rows, few = (
        [{**row, "text": f"{row['text']} No {i}"} for i, row in enumerate(records("laptop", 8))],
        tmp_path / "few.csv",
    )
    write_csv(tmp_path / "a.csv", records("camera", 24))
    write_csv(few, rows[:5])
    write_texts(tmp_path / "b.txt", rows)
    given = [*TINY, f"target.train_path={few}", "target_labels=all", "trainer.epochs=1", "trainer.min_steps=0"]
    made = domadapt.adapt(tmp_path / "a.csv", tmp_path / "b.txt", [*given, f"paths.cache={tmp_path}/cache"])
    to_label = tmp_path / "b_adapted" / "fifty_to_label.csv"
    drawn = {row["text"] for row in read_csv(to_label)}
    assert {row["text"] for row in rows[5:]} <= drawn and len(drawn) == 8 - made["counts"]["target_labels"] < 8
    model = tmp_path / "b_adapted" / "model"
    assert _learned_from(model, few, []) == "in this file" and not _learned_from(model, to_label, [])
    more = [Record(str(i), "", row["text"].upper()) for i, row in enumerate(rows)]  # the file has grown since
    write_csv(few, rows)
    assert _learned_from(model, few, more) == "of 5 of these 8 texts, or of copies of them"


def test_a_dev_without_errors_makes_no_model_surer(tmp_path: Path) -> None:
    rows = ({"text": f"{word} {i}", "label": word} for i in range(40) for word in ("good", "bad"))
    write_csv(tmp_path / "a.csv", rows)
    (tmp_path / "b.txt").write_text("good thing\nbad thing\n", encoding="utf-8")
    given = ["data=my_files", f"source.path={tmp_path}/a.csv", f"target.path={tmp_path}/b.txt", *TINY]
    given += ["trainer.epochs=2", "trainer.min_steps=60", "trainer.learning_rate=3e-3"]
    metrics = domadapt.train([*given, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    assert metrics["source_dev"]["accuracy"] == 1.0
    assert domadapt.load(tmp_path / "run").session.task.temperature == 1.0


def test_an_unannotated_source_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,mood\nGood.,good\nBad.,bad\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a.csv: label is missing in every record; .* source.label=sentiment"):
        domadapt.train([f"paths.cache={tmp_path}"], source=tmp_path / "a.csv", target=["A text."], seed=3)
    with pytest.raises(DataError, match=r"^source=list: label is missing in every record; "):  # no file of the cache
        domadapt.train([f"paths.cache={tmp_path}"], source=[("Good.", None), ("Bad.", None)], target=["A text."])
    (tmp_path / "b.csv").write_text("text,label\nGood.,none\nBad.,null\nPoor.,null\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"at least 2 are needed \(2 times: label 'null', read as no label\)"):
        domadapt.train([f"paths.cache={tmp_path}"], source=tmp_path / "b.csv", target=["A text."])
    with pytest.raises(DataError, match=r"^source=list:2: label is 5.5; expected a string"):  # no file of the cache
        domadapt.train([f"paths.cache={tmp_path}"], source=[("Sharp.", "x"), ("Dull.", 5.5)], target=["A fan."])


@pytest.mark.parametrize("separator", ["\u2028", "\x85"])
def test_what_only_python_takes_for_the_end_of_a_line_is_none(tmp_path: Path, separator: str) -> None:
    """A text with it was two halves of JSON to the card, after all of the training."""
    text = UnlabelledText("1", "new", f"Sharp.{separator}Light.")
    write_predictions([text], [Prediction("good", 0.9)], "sequence", tmp_path / "predictions.jsonl")
    target = TargetUnlabelled("new", (text,))
    session: Any = SimpleNamespace(source_only=tmp_path, domains=SimpleNamespace(unlabelled=target))
    assert [line["text"] for line in _source_only(session)] == [text.text]


def test_of_two_networks_one_tells_what_the_texts_are_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = SimpleNamespace(findings=[Finding("copies", "warning", 1.0, "copies of texts")])
    monkeypatch.setattr("domadapt.training.card.audit", lambda *of, **how: found)
    monkeypatch.setattr("domadapt.training.card.write_audit", lambda *of: None)
    monkeypatch.setattr("domadapt.training.card.own_files", lambda data: True)
    config: Any = SimpleNamespace(in_domain=False, pairs=None, values={"data": {}}, folder=tmp_path)
    for before in (None, tmp_path):
        session: Any = SimpleNamespace(domains=None, task=SimpleNamespace(kind="token"), seed=1, source_only=before)
        assert audit_own_files(config, session) is found
    assert caplog.text.count("audit: copies of texts") == 1


def test_a_card_keeps_strangers_text_harmless_and_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    about = {"source": "a", "target": "b\x1b[2J", "task": "extraction", "backbone": "x", "method": "m"}
    counts = {"dev_texts": 2, "source_texts": 2, "steps": 3, "epochs": 1, "texts": 0, "empty": 0}
    rest: dict[str, Any] = {"samples": (), "seed": 1, "headline": "span_f1"}
    rest |= {"kinds": (Kind("a", 1, 1, (("so " * 99, 1),)),), "changes": (ChangedWords("a", "so " * 99, 0, 3),)}
    rest |= {"questions": ("of type \x1b?",), "answer": "domadapt guide model={run}", "folder": 'say "so"\'s'}
    rest |= {"warnings": (CardWarning("odd", "domadapt compare {source_only} {run}"),)}
    card = TargetCard(key="k", source_dev=0.5, **about, **counts, **rest)  # type: ignore[arg-type]
    Path(card.model).mkdir(parents=True)
    found = as_lines(card)
    assert f"domadapt.load({json.dumps(card.model)}).predict(" in found
    assert f"domadapt guide model={shlex.quote(card.folder)}" in found
    assert "\x1b" not in found and 2 * 13 <= found.count("so ") < 2 * 15 and found.count("…") == 2
    assert "compare" not in found + as_markdown(card), "somebody has deleted the source-only model"
    (tmp_path / "source_only" / "model").mkdir(parents=True)
    assert f"compare {tmp_path}/source_only {tmp_path}" in as_lines(replace(card, folder=str(tmp_path)))


def test_what_is_expected_is_compared_with_source_only_on_the_same_target(tmp_path: Path) -> None:
    """Its own source-only run was not kept; that of another target tells nothing of this one."""
    counts = {"dev_texts": 99, "source_texts": 99, "steps": 3, "epochs": 1, "texts": 9, "empty": 0}
    runs = []
    for method, target, score in (("lisa", "b", 0.7), ("source_only", "c", 0.2), ("source_only", "b", 0.5)):
        folder = tmp_path / method / target
        (folder / "model").mkdir(parents=True)
        about = {"source": "a", "target": target, "task": "extraction", "backbone": "x", "headline": "span_f1"}
        told = {"expected": Expected(score, score - 0.05, score + 0.05), "kinds": (), "samples": ()}
        card = TargetCard(key="k", method=method, seed=1, source_dev=0.5, **about, **counts, **told)  # type: ignore[arg-type]
        write_card(card, folder)
        runs.append(make_metrics(method, 1, None, key="k", source="a", target=target, folder=str(folder)))

    def before(*runs: Any) -> str:
        facts = expectation(grouped(runs))
        assert facts is not None
        return " ".join(fact.text for fact in facts.items if fact.name == "Before adapting")

    assert before(*runs[:2]) == ""
    assert before(*runs) == "50 (45 to 55). The ranges do not overlap."
    assert before(*runs[1:]) == ""  # nothing is adapted
    (tmp_path / "lisa" / "b" / "model").rmdir()
    facts = expectation(grouped(runs))
    assert facts is not None and any("is gone" in fact.text for fact in facts.items)


def test_what_only_a_person_knows_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domadapt.training.card.term_kinds", lambda session: frozenset({known}))
    known = "part"

    def asked(labels: list[str], found: list[str], kinds: tuple[str, ...] = ("part", "view")) -> Any:
        """Spans are what stands in brackets, parts in square ones."""
        sides = []
        for texts in (labels, found):
            rows = []
            for text in texts:
                plain = re.sub(r"[\[\]()]", "", text)
                marks = [(m[0][0], plain.index(m[0][1:-1]), m[0][1:-1]) for m in re.finditer(r"[\[(][^\])]*.", text)]
                spans = [Span(at, at + len(words), known if mark == "[" else "view") for mark, at, words in marks]
                rows.append(Record("1", "x", plain, spans=tuple(spans)))
            sides.append(rows)
        now = [{"text": r.text, "spans": [span_row(s, r.text) for s in r.spans or ()]} for r in sides[1]]
        domains = SimpleNamespace(source_records=sides[0])
        task = SimpleNamespace(kind="token", names=kinds)
        session: Any = SimpleNamespace(task=task, methods={}, reads=lambda what: True, domains=domains)
        return _questions(session, now)

    texts = ["The [fit] is very (good)."] * 10 + ["They fit so (well)."] * 15
    out, inside = asked(["A very (light) fan."] * 30, texts), asked(["A (very light) fan."] * 30, ["(So soft)."] * 9)
    assert out["questions"][0].endswith("of type part? Found so far: fit 10 of 25, they 0 of 15")
    told = "leave the adverb out (30 of 30 times), predictions 25 of 25 times; if that is wrong for the target"
    assert out["questions"][1].endswith(f"{told}, add degree_words=english")
    assert inside["questions"][0].endswith("add degree_words=english degree_words_in_opinion=false")
    # Whoever answers one question has not answered the other one against his own labels.
    assert out["answer"].endswith("'types=[part]' 'terms=[...]' 'not_terms=[...]'")
    assert inside["answer"].endswith("{run}_guided")
    assert len(asked(["A very (light) fan."] * 30, texts, ("part",))["questions"]) == 1
    assert asked(["A very (light) fan."] * 30 + ["A (very light) fan."] * 20, ["(So soft)."] * 9) == {}  # either way
    long = asked(["A very (light) fan."] * 30, [f"very ({'w' * 500})", f"The [{'n' * 500}]", "n" * 500] * 10)
    assert max(map(len, long["questions"])) < 300
    known = "parts, 'others'"
    command = shlex.split(asked([], texts)["answer"])[2:]
    assert compose("guide", [word for word in command if word.startswith("types=")]).types == [known]


TWO = Classification(["kind", "unkind"])
SPANS = Extraction(["aspect"])
BOTH = ["kind", "unkind"] * 50


def told(task: Task, dev: list[float], labels: list[str | None], called: list[str | None]) -> str:
    curve = [{"epoch": i, "source_dev": {task.headline: score}} for i, score in enumerate(dev, 1)]
    records = [Record(str(i), "x", "text", label=label, spans=()) for i, label in enumerate(labels)]
    return "\n".join(score_warnings(task, records, [Prediction(label=label) for label in called], curve, len(dev)))


@pytest.mark.parametrize(
    ("task", "dev", "labels", "called", "expected"),
    [
        (TWO, [0.8, 0.75], BOTH, BOTH, ""),
        (TWO, [0.8, 0.65], BOTH, BOTH, "the kept epoch 2 has 65.0 macro_f1 and epoch 1 had 80.0"),
        (TWO, [0.8], ["kind"] * 100, ["kind"] * 100, "the target test has no text labelled 'unkind'"),
        (TWO, [0.8], BOTH, ["kind"] * 99 + ["unkind"], "one class predicted: 99 of 100 texts of the target test"),
        (SPANS, [0.8], [None] * 3, [None] * 3, "no span is found in any of the target test's 3 texts"),
    ],
)
def test_what_is_told(task: Task, dev: list[float], labels: list[Any], called: list[Any], expected: str) -> None:
    found = told(task, dev, labels, called)
    assert expected in found and found.count("\n") == 0 and bool(found) == bool(expected)


SMALL = ["backbone=tiny_random", "trainer.epochs=1", "trainer.extra_epochs=0", "trainer.min_steps=0"]


@pytest.fixture(scope="module", params=["sequence", "token"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled texts of one domain and texts of another, as a user has them."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sequence":
        write_csv(folder / "labelled.csv", records("camera", 24))
    else:
        rows = [{name: row[name] for name in ("id", "domain", "text", "spans")} for row in records("camera", 24)]
        write_jsonl(folder / "labelled.jsonl", rows)
    write_texts(folder / "new.txt", records("laptop", 60, 5))
    with (folder / "new.txt").open("a") as file:
        file.write(" \n")
    return folder


def test_a_score_counts_whatever_is_wrongly_predicted_and_is_compared_text_by_text() -> None:
    task = Classification(["bad", "good"], headline="accuracy")
    gold = [Record(str(i), "", f"{i}", label="good") for i in range(40)]
    found, worse = ([Prediction("bad" if i % 5 < wrong else "good", 0.9) for i in range(40)] for wrong in (1, 3))
    [_, own, baseline, gain, *kinds] = _table(task, gold, found, worse)
    assert (own.split()[:2], baseline.split(), gain.split()[3]) == (["accuracy", "80.0"], ["baseline", "40.0"], "+40.0")
    low, high, p = map(float, re.search(r"\((.*) to (.*)\)  p = (.*) .permutation", gain).groups())
    assert 20 < low < 30 and 50 < high < 60 and p < 0.001 and len(kinds) == 1
    # Five texts, all right: some draws hold none of them.
    rare = [replace(record, label="bad") if i < 5 else record for i, record in enumerate(gold)]
    *_, bad, _ = _table(task, rare, [Prediction(record.label, 0.9) for record in rare])
    assert "(47.8 to 100.0)" in bad
    # A label that the first model does not know is as wrong as any other.
    strange = [Prediction("so-so" if p.label == "bad" else p.label, 0.9) for p in found]
    [_, _, baseline, gain, *_] = _table(task, gold, found, strange)
    assert (baseline.split(), gain.split()[3]) == (["baseline", "80.0"], "+0.0")


def test_a_model_knows_the_files_whose_labels_it_has_learnt_from(tmp_path: Path) -> None:
    one, other, tested, asked = (write_jsonl(tmp_path / name, records(name, 2)) for name in "abcd")
    target = {"path": str(asked), "train_path": str(other), "test_path": str(tested)}
    data: dict[str, Any] = {"source": {"path": f"{tmp_path}/[a]*"}, "target": target}
    config: dict[str, Any] = {"data": data, "train_on": "source", "adaptation": None}
    asking = config | {"adaptation": {"external_labels": {"path": [str(asked)]}}}

    def known(config: dict[str, Any], target: bool = False, oracle: bool = False) -> set[str]:
        files = _files(config, target, oracle)
        return {path.name for path in (one, other, tested, asked) if hash_of(path) in files}

    assert (known(config), known(config, target=True), known(config, oracle=True)) == ({"a"}, {"a", "b"}, {"a", "c"})
    assert (known(config | {"train_on": "target"}), known(asking)) == ({"b"}, {"a", "d"})
    assert known(config | {"data": {"problems": {"bars": data}}}) == {"a"}
    for published in ({"root": str(tmp_path), "folder": "."}, {"source": "laptop", "target": "hotel"}):
        assert known(config | {"data": published}, target=True, oracle=True) == set()


def test_two_commands_of_a_card_take_two_folders() -> None:
    run = Metrics(command="domadapt train data=my_files paths.run=x")
    assert _rerun_command(run, "max_length", 256).endswith(" max_length=256 paths.run={run}_max_length_256")
    assert _rerun_command(run, "trainer.min_steps", 300).endswith(" paths.run={run}_min_steps_300")


def test_adapt_then_label_some_then_score_and_compare(folder: Path, command: Command) -> None:
    [labelled] = folder.glob("labelled.*")
    out, err = command("adapt", str(labelled), str(folder / "new.txt"), *SMALL)
    assert (out + err).count("blank text, dropped (1 time)") == 1 and "not run again" not in out + err
    run = folder / "new_adapted"
    assert (run / "model").is_dir() and (run / "source_only" / "model").is_dir()
    assert not [*(run / "source_only").glob("fifty_to_label.*")]
    [to_label] = run.glob("fifty_to_label.*")
    assert f"score model={run} input={to_label}" in out
    assert "self_training did nothing: it begins after epoch 1, and there are 1" in " ".join(out.split())
    assert "self_training" not in read_description(run / "model").left_behind  # nor does its README name it
    assert "trainer.epochs=2" in out

    assert "or name their column: label=" in command("score", f"model={run}", f"input={to_label}", code=2)[1]
    texts = folder / "more.txt"
    texts.write_text("It is great.\n")
    assert "it would be lost" in command("predict", f"model={run}", f"input={texts}", f"output={to_label}", code=2)[1]

    if to_label.suffix == ".csv":
        rows = read_csv(to_label)
        assert len(rows) == 50
        for row in rows[:40]:
            row["label"] = "positive" if "great" in row["text"] else "negative"
        with to_label.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, ["id", "text", "label"])
            table.writeheader()
            table.writerows(rows)
    else:
        rows = read_jsonl(to_label)
        for row in rows[:40]:
            row["spans"] = [{"start": 0, "end": len(row["text"].split()[0]), "type": "aspect"}]
        rows[0]["spans"].append({"start": 0, "end": 1, "type": "aspect"})
        write_jsonl(to_label, rows)
    out, _ = command("score", f"model={run}", f"input={to_label}", f"output={folder}/scored.jsonl")
    told = "overlap another: 1; that begin or end inside a word: 1; predictions hardly" in out
    assert told == (to_label.suffix != ".csv")
    assert "40 labelled texts of fifty_to_label" in out and "10 without a label are left out" in out
    assert "(95 % over texts)" in out and "the card expected" in out
    assert len(read_jsonl(folder / "scored.jsonl")) == 40
    if to_label.suffix == ".csv":
        (folder / "one_class.csv").write_text("text,label\nIt is great.,positive\n")
        out, _ = command("score", f"model={run}", f"input={folder}/one_class.csv")
        assert "\n  no text is labelled negative: the mean leaves it out\n" in out
    shutil.copytree(run / "source_only" / "model", run / "other")  # as guide and export write one there
    assert "the card expected" not in command("score", f"model={run}/other", f"input={to_label}")[0]
    out, _ = command("score", f"model={run}", f"input={to_label}", f"baseline={run}")
    assert re.search(r"\n  gain over it +\+0.0  \(\+0.0 to \+0.0\)  p = 1 ", out)
    shutil.copy(labelled, copy := labelled.with_name(f"copy{labelled.suffix}"))
    learned = "  the model has learned from labels in this file: such scores say little of other texts"
    assert learned not in out and learned in command("score", f"model={run}", f"input={copy}")[0].splitlines()
    shutil.copytree(run / "model", handed := folder / "handed" / "model")
    command("export", f"model={handed}", f"to={folder / 'exported'}", "format=hf", "drop_methods=true")
    out, _ = command("score", f"model={handed}", f"baseline={folder / 'exported'}", f"input={copy}")
    assert {learned, learned.replace("model", "baseline")} <= {*out.splitlines()}
    out, _ = command("score", f"model={run}", f"input={run}/predictions.jsonl")
    assert "the labels have confidences: a model wrote them" in out or to_label.suffix == ".jsonl"  # perhaps no span

    asked = ["sample", f"model={run}", f"input={folder}/new.txt", f"examples={labelled}", f"output={folder}/ask.jsonl"]
    out, _ = command(*asked, "count=7", "format=plain_text")
    texts = [row["text"] for row in read_jsonl(folder / "ask.jsonl")]
    prompt = (folder / "ask.prompt.txt").read_text(encoding="utf-8")
    assert len({*texts}) == 7 and all(text in prompt for text in texts) and "10 examples" in out
    objects = [json.loads(line) for line in prompt.splitlines() if line.startswith("{")]
    assert sum({"label", "spans"} & row.keys() != set() for row in objects) == 10 and len(objects) == 17
    assert "is there already, and may hold labels" in command(*asked, code=2)[1]
    span, of_labels = {"start": 0, "end": 4, "type": "x"}, to_label.suffix == ".csv"
    given = {"spans": [span]} if of_labels else {"label": "x"}  # for a model of the other task
    other = write_jsonl(folder / "other.jsonl", [{"text": "Fine.", **given}])
    _, err = command(*asked[:3], f"examples={other}", f"output={folder}/none.jsonl", code=2)
    assert f"none of its texts has a {'label' if of_labels else 'span'}; expected the model's labelled source" in err
    unknown = write_jsonl(
        folder / "unknown.jsonl", [{"text": "Fine.", **({"label": "x"} if of_labels else {"spans": [span]})}]
    )
    _, err = command(*asked[:3], f"examples={unknown}", f"output={folder}/none.jsonl", code=2)
    assert "unknown.jsonl:1: " in err and "'x'" in err
    command(*asked[:3], f"output={folder}/none.jsonl", "count=2")
    assert "examples" not in (folder / "none.prompt.txt").read_text(encoding="utf-8")

    out, _ = command("compare", str(run / "source_only"), str(run), f"input={folder}/new.txt")
    assert "of 60 texts are labelled differently" in out
    (folder / "more.csv").write_text(f'text\nSharp. \u200b\n""\n{"so " * 200}\n', encoding="utf-8")
    out, _ = command("compare", str(run), str(run), f"input={folder}/more.csv")
    assert "0 of 2 texts are labelled differently" in out and "blank text, dropped (1 time)" in out
    assert out.count("\n  1 text is longer than") == 1
    assert of_labels or "word left out: the backbone has no subword of it (a control character, say) (1 time)" in out
    short = Path(shutil.copytree(run / "model", folder / "short"))
    about = json.loads((short / "domadapt.json").read_text(encoding="utf-8"))
    (short / "domadapt.json").write_text(json.dumps(about | {"max_length": 8}), encoding="utf-8")
    write_checksums(short)
    out, _ = command("compare", str(short), str(run), f"input={folder}/more.csv")
    assert "longer than 8 subwords" in out and f"longer than {about['max_length']} subwords" in out


def test_a_run_among_others_names_the_source_only_run_that_they_share(folder: Path, command: Command) -> None:
    [labelled] = folder.glob("labelled.*")
    given = [f"source.path={labelled}", f"target.path={folder}/new.txt", f"paths.runs={folder}/runs"]
    out, _ = command("train", "adaptation=recipe", *given, *SMALL)
    [model] = re.findall(r"^  source-only  (.*)$", out, re.MULTILINE)
    assert "/source_only/seed1-" in model and Path(model).is_dir()
    for line in re.findall(r"^ +domadapt (compare .*)$", out, re.MULTILINE):
        command(*shlex.split(line))


def test_adapt_with_a_labelled_test_prints_both_models(folder: Path, command: Command) -> None:
    [labelled] = folder.glob("labelled.*")
    tested = [f"target.test_path={labelled}", f"paths.run={folder}/tested"]
    out, err = command("adapt", str(labelled), str(folder / "new.txt"), *SMALL, *tested)
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["source_only", "recipe"]
    assert f"target.test_path: {labelled.name} is a file of the source, so that its texts were learnt from" in err


def test_a_saved_model_goes_on_with_newer_texts(
    tmp_path: Path, command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    labelled, other = write_csv(tmp_path / "a.csv", records("camera", 30)), tmp_path / "c.csv"
    other.write_text("text,label\nFine lens.,yes\nDull lens.,no\nFine fan.,yes\nDull fan.,no\n", encoding="utf-8")
    write_texts(tmp_path / "b.txt", records("laptop", 8))
    plain = ["adaptation=none", f"paths.cache={tmp_path}/cache", "trainer.epochs=1", "trainer.min_steps=0"]
    first = ["backbone=tiny_random", *plain, f"paths.run={tmp_path}/first"]
    domadapt.adapt(labelled, tmp_path / "b.txt", first)
    still = [*plain, "trainer.learning_rate=1e-12", "max_length=32"]
    again = domadapt.adapt(labelled, tmp_path / "b.txt", still, model=tmp_path / "first")
    assert "it was trained with max_length=128, and goes on with 32" in caplog.text
    one, two = (load_file(tmp_path / name / "model/encoder/model.safetensors") for name in ("first", "b_adapted"))
    assert all((one[name] - two[name]).abs().max() < 1e-4 for name in one), "the same encoder and head"
    assert again["config"]["backbone"]["name"] == f"{tmp_path}/first/model/encoder"
    go_on = [str(tmp_path / "b.txt"), f"model={tmp_path}/first", *plain]
    _, err = command("adapt", str(other), *go_on, f"paths.run={tmp_path}/x", code=2)
    assert "it labels whole texts (negative, positive), the source whole texts (no, yes)" in err
    _, err = command("adapt", str(labelled), *go_on[:1], f"model={tmp_path}/nowhere", *plain, code=2)
    assert "not a model folder" in err
    command("export", f"model={tmp_path}/b_adapted", f"to={tmp_path}/card")
    assert "from the model `first`, which learned from labels of a, seed" in (tmp_path / "card/README.md").read_text()
    shutil.rmtree(tmp_path / "b_adapted" / "model")
    (tmp_path / "b_adapted" / "status.json").write_text("{}")
    _, err = command("predict", f"model={tmp_path}/b_adapted", "text=Fine.", code=2)
    assert err.endswith("b_adapted: this run is not finished; wait for it, or repeat the command that began it\n")
    (tmp_path / "b_adapted" / "status.json").unlink()
    shutil.copytree(tmp_path / "first", tmp_path / "b_adapted" / "source_only")
    _, err = command("predict", f"model={tmp_path}/b_adapted", "text=Fine.", code=2)
    assert f"not finished; {tmp_path}/b_adapted/source_only is, and can be used; wait" in err
    runs = tmp_path / "runs" / "a_to_b"  # of a benchmark
    (runs / "source_only" / "seed=1").mkdir(parents=True)
    assert "not a model folder" in command("predict", f"model={runs}", "text=Fine.", code=2)[1]
    plain_other = [*plain, "backbone=tiny_random", f"paths.run={tmp_path}/other"]
    domadapt.adapt(other, tmp_path / "b.txt", plain_other)
    _, err = command("score", f"model={tmp_path}/first", f"input={labelled}", f"baseline={tmp_path}/other", code=2)
    assert (
        f"baseline={tmp_path}/other has 'no' or 'yes'; {labelled}:2: label is '" in err and "; give a baseline w" in err
    )
    _, err = command("adapt", str(labelled), *go_on, "backbone=minilm", f"paths.run={tmp_path}/y", code=2)
    assert f"model={tmp_path}/first goes on with that model's network; leave out backbone=minilm" in err


def test_settings_of_the_user_go_before_those_of_adapt() -> None:
    assert train_arguments(["a.csv", "new.txt", "paths.run=mine", "adaptation=none"]) == [
        *("data=my_files", "source.path=a.csv", "target.path=new.txt", "source.name=a", "target.name=new"),
        *("paths.run=mine", "adaptation=none"),
    ]


LEARNS = [
    "backbone=tiny_random",
    "trainer.epochs=4",
    "trainer.min_steps=60",
    "trainer.learning_rate=0.01",
    "max_length=24",
]
ROWS, TARGET = records("camera", 40), [row["text"] for row in records("laptop", 20, 5)]
TEXTS = [row["text"] for row in ROWS]


@pytest.mark.parametrize("names", [(0, 1), ("bad ", "good ")])
def test_labels_of_any_kind_come_back_as_they_were(tmp_path: Path, names: tuple[Any, Any]) -> None:
    y = [names[row["label"] == "positive"] for row in ROWS]
    adapter = domadapt.DomainAdapter(overrides=LEARNS, folder=tmp_path / "it's, (here)")
    assert adapter.fit(TEXTS, y, target=TARGET) is adapter
    found = adapter.predict(TARGET)
    assert {*map(repr, found.tolist())} <= {*map(repr, names)}
    shares = adapter.predict_proba(TARGET)
    assert shares.shape == (20, 2) and [names[place] for place in shares.argmax(1)] == found.tolist()
    assert 0 <= adapter.score(TEXTS, y) <= 1
    with pytest.raises(ValueError, match=r"y\[1\] of score: label is 'neither'"):  # its text was left out of macro F1
        adapter.score(TEXTS, [y[0], "neither", *y[2:]])
    [run] = (tmp_path / "it's, (here)").glob("*/*/*/metrics.json")
    again = domadapt.load(run.parent).predict(TARGET)
    assert [str(p.label) for p in again] == [str(name).strip() for name in found]
    with pytest.raises(ValueError, match="target: the data is empty"):
        adapter.fit(TEXTS, ["another", "label"] * (len(TEXTS) // 2), target=[])
    assert adapter.predict(TARGET).tolist() == found.tolist()  # what was fitted before
    other = clone(adapter)
    assert other.get_params() == adapter.get_params()
    with pytest.raises(NotFittedError):
        other.predict(TARGET)


def test_spans_go_in_and_come_out(tmp_path: Path) -> None:
    y = [[(s["start"], s["end"], s["type"]) for s in row["spans"]] for row in ROWS]
    frame: Any = SimpleNamespace(to_dicts=lambda: [{"text": text} for text in TARGET])  # of polars, say
    adapter = domadapt.DomainAdapter("extraction", LEARNS).fit(TEXTS, y, target=frame)
    assert adapter.metrics_["counts"]["target_unlabelled"] == len({*TARGET})
    assert adapter.metrics_["headline"] == "span_f1"
    assert adapter.metrics_["command"] is None  # none of the shell's: not this program's arguments
    found = adapter.predict(TEXTS)
    right = sum(len({*a} & {*b}) for a, b in zip(y, found, strict=True))
    micro = 2 * right / (sum(map(len, y)) + sum(map(len, found)))
    assert adapter.score(TEXTS, y) == pytest.approx(micro, abs=0.25)  # the mean over two types, of the same spans
    with pytest.raises(ValueError, match="finds spans"):
        adapter.predict_proba(TEXTS)
    with pytest.raises(ValueError, match=f"X has {len(TEXTS)} texts and y 1 entries: expected as many of both"):
        adapter.score(TEXTS, y[:1])
    with pytest.raises(ValueError, match=r"^y\[1\] is 'good': expected a list of \(start, end, type\)"):
        adapter.fit(TEXTS[:2], [[], "good"], target=TARGET)
    with pytest.raises(ValueError, match=r"^y\[1\] is None: expected a list of \(start, end, type\)"):
        adapter.fit(TEXTS[:2], [[], None], target=TARGET)


@pytest.mark.parametrize(
    ("y", "target", "told"),
    [
        (["a"], None, "target=None: give texts"),
        (["a"], [], "target: the data is empty; expected at least one text"),
        (None, TARGET, "X has 1 texts and y 0 entries"),
        (["a", "b"], TARGET, "X has 1 texts and y 2 entries"),
        ([float("nan")], TARGET, r"y\[0\] is nan: expected a label of each text"),
        (["None"], TARGET, r"y\[0\] is 'None': expected a label of each text"),
        ([" "], TARGET, r"y\[0\] is ' ': expected a label of each text"),
        (np.array([["a"]]), TARGET, r"y\[0\] is array\(\['a'\].*: expected a label; of a column"),
    ],
)
def test_what_does_not_fit_is_refused(y: Any, target: list[str] | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        domadapt.DomainAdapter(overrides=LEARNS).fit(TEXTS[:1], y, target)
    with pytest.raises(ValueError, match=r"^X\[1\] is blank: expected a text"):
        domadapt.DomainAdapter(overrides=LEARNS).fit(["a", " "], ["good", "bad"], TARGET)
    with pytest.raises(ValueError, match="^y has words and numbers: expected labels of one type"):
        domadapt.DomainAdapter(overrides=LEARNS).fit(["a", "b"], ["good", 1], TARGET)
    with pytest.raises(ValueError, match=r"^y\[0\] has \(0, 1.5, 'x'\): expected whole numbers"):
        domadapt.DomainAdapter("extraction", LEARNS).fit(["abc"], [[(0, 1.5, "x")]], TARGET)
    with pytest.raises(ValueError, match="^task='labels': expected classification or extraction"):
        domadapt.DomainAdapter("labels", LEARNS).fit(TEXTS[:1], ["a"], TARGET)
    with pytest.raises(ValueError, match=r"^overrides='seed=1': expected a list of settings"):
        domadapt.DomainAdapter(overrides="seed=1").fit(TEXTS[:2], ["a", "b"], TARGET)


def test_folds_of_sorted_labels_hold_both() -> None:
    """And a scorer of two classes is given the probability of the second."""
    y = sorted(row["label"] for row in ROWS)
    adapter = domadapt.DomainAdapter(overrides=[*LEARNS, "trainer.epochs=1", "trainer.min_steps=0"])
    scores = cross_val_score(adapter, TEXTS, y, cv=2, scoring="roc_auc", params={"target": TARGET}, error_score="raise")
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("table", [{"text": TEXTS}, SimpleNamespace(columns=["text"], __iter__=lambda: iter(["text"]))])
def test_names_of_columns_are_not_taken_for_texts(table: Any) -> None:
    with pytest.raises(ValueError, match=r"texts of type .*: expected a list of texts; write table\['text'\]"):
        domadapt.DomainAdapter(overrides=LEARNS).fit(table, ["good"], TARGET)


@pytest.mark.parametrize("texts", [None, 3, b"good"])
def test_what_is_no_list_is_named(texts: Any) -> None:
    with pytest.raises(ValueError, match=rf"^texts={texts!r}: expected a list of texts"):
        domadapt.DomainAdapter(overrides=LEARNS).fit(texts, ["good"], TARGET)


def test_a_fault_is_told_of_the_data_not_of_the_file_they_are_written_to() -> None:
    with pytest.raises(ValueError, match=r"^target:1: text is '.ud800'; expected whole characters"):
        domadapt.DomainAdapter(overrides=LEARNS).fit(["a", "b"], ["good", "bad"], ["x\ud800"])


def test_all_right_in_few_texts_is_no_certainty(folder: Path, command: Command) -> None:
    """Clopper and Pearson: 30 of 30 may be 88 in 100."""
    labelled, run = folder / "all_right", folder / "new_adapted"
    [known] = folder.glob("labelled.*")
    command("adapt", str(known), str(folder / "new.txt"), *SMALL)  # there already, if this process has tested adapt
    model = domadapt.load(run)
    texts = [row["text"] for row in records("camera", 30)]
    rows: list[dict[str, Any]] = [{"id": str(i), "text": text} for i, text in enumerate(texts)]
    for row, found in zip(rows, model.predict(texts), strict=True):
        spans = [{"start": s.start, "end": s.end, "type": s.type} for s in found.spans]
        row |= {"label": found.label} if found.label else {"spans": spans}
    write_jsonl(labelled.with_suffix(".jsonl"), rows)
    out, _ = command("score", f"model={run}", f"input={labelled}.jsonl")
    assert "(88.4 to 100.0)" in out and "(100.0 to 100.0)" not in out
    for row in rows:  # and 0 of 30 may be 12
        wrong = {"label": "positive" if row.get("label") == "negative" else "negative"}
        row |= wrong if "label" in row else {"spans": [{"start": 0, "end": len(row["text"]), "type": "aspect"}]}
    write_jsonl(labelled.with_suffix(".jsonl"), rows)
    out, _ = command("score", f"model={run}", f"input={labelled}.jsonl")
    assert " 0.0  (0.0 to 11.6)" in out and "(0.0 to 100.0)" not in out, out


def test_all_right_in_few_texts_of_a_class_is_no_certainty_either() -> None:
    """Of thirty texts drawn again, some draws have none of the class."""
    gold = [Record(str(i), "", f"{i}", label="good" if i < 4 else "bad") for i in range(30)]
    lines = _table(Classification(["bad", "good"]), gold, [Prediction(r.label, 0.9) for r in gold])
    assert next(line for line in lines if line.split()[0] == "good").endswith("100.0  (39.8 to 100.0)  4 labelled")


@pytest.mark.parametrize("backbone", ["minilm", "tiny_random"])
def test_an_english_backbone_is_told_of_another_language(tmp_path: Path, backbone: str, caplog: Any) -> None:
    rows = [{"text": f"It is {word} {i}.", "label": word} for i in range(9) for word in ("good", "bad")]
    write_csv(tmp_path / "a.csv", rows)
    (tmp_path / "german.txt").write_text("Die Anmeldung funktioniert leider nicht mehr, der Dienst ist weg.\n" * 60)
    files = [f"source.path={tmp_path}/a.csv", f"target.path={tmp_path}/german.txt", f"paths.cache={tmp_path}/cache"]
    build(compose("train", ["data=my_files", *files, f"backbone={backbone}"]))
    assert ("minilm reads English alone; take backbone=multilingual" in caplog.text) == (backbone == "minilm")
