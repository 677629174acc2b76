"""Counts give back the score that metrics.json names, for every task and average."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.runs.groups import typed
from domadapt.statistics.compare import compare
from domadapt.statistics.items import ItemCounts, f1, read_items
from domadapt.tasks.task import class_scores
from tests.statistics.made import class_rows, f1_slow, run, span_rows, span_scores
from tests.support import grouped

counts = st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=1, max_size=4)


@given(counts, st.sampled_from(["macro", "micro"]))
def test_f1_is_the_harmonic_mean_of_precision_and_recall(totals: list[list[int]], average: str) -> None:
    assert f1(np.array(totals), average) == pytest.approx(f1_slow(np.array(totals), average), abs=1e-12)


def read(run_: dict) -> ItemCounts:
    found = read_items(typed(run_))
    assert isinstance(found, ItemCounts), found
    return found


def test_spans_give_the_stored_score_of_either_average(tmp_path: Path) -> None:
    rows = span_rows(np.arange(40) % 3 > 0)
    rows[0]["predicted"]["spans"].append({"start": 7, "end": 8, "type": "unscored"})
    scores = span_scores(rows)
    found = read(run(tmp_path, rows, scores))
    assert found.score == pytest.approx(scores["span_f1"], abs=1e-12)
    assert found.counts.shape == (40, 2, 3)
    assert found.counts[1].tolist() == [[1, 0, 0], [1, 0, 0]]
    scores["span_f1"] = f1_slow(found.counts.sum(axis=0), "micro")
    assert read(run(tmp_path, rows, scores, config={"task": {"average": "micro"}})).average == "micro"


def test_classes_give_the_stored_score_by_scikit_learn(tmp_path: Path) -> None:
    gold, found = list("aabbbcaab"), list("abbbccdac")  # d is no gold label, and so no class of its own
    scores = class_scores(gold, found, list("abcd"))
    items = read(run(tmp_path, class_rows(gold, found), scores, task="classification", headline="macro_f1"))
    assert items.score == pytest.approx(scores["macro_f1"], abs=1e-12)
    assert items.counts.shape == (9, 3, 3)


def test_accuracy_is_compared_by_items_too(tmp_path: Path) -> None:
    """Each run predicts another class that no gold label has; their counts have one shape all the same."""
    gold = list("aabbbcaab")
    runs = []
    for name, method, found in (("source_only", "source_only", "abbbccdac"), ("lisa", "adapted", "aabbbeaab")):
        scores = class_scores(gold, list(found), list("abcde"))
        for seed in (1, 2, 3):
            made = class_rows(gold, list(found))
            runs.append(run(tmp_path, made, scores, name, method, seed, task="classification", headline="accuracy"))
        assert read(runs[-1]).score == pytest.approx(scores["accuracy"], abs=1e-12)
    found = compare(grouped(runs))
    assert found.messages == ()
    assert found.cell("camera → laptops", "lisa").baseline.elsewhere.count == 9


def test_what_is_missing_or_of_another_run_is_said(tmp_path: Path) -> None:
    assert read_items(typed(run(tmp_path, None, None))) == "the target test has no labels"
    assert "no predictions.jsonl" in str(read_items(typed(run(tmp_path, None, {"span_f1": 0.5}))))
    rows = span_rows(np.ones(4))
    with pytest.raises(ValueError, match="not of one run"):
        read_items(typed(run(tmp_path, rows, {**span_scores(rows), "span_f1": 0.5})))


def test_other_gold_labels_are_another_test_set_and_another_order_is_none(tmp_path: Path) -> None:
    rows = span_rows(np.arange(30) % 2 > 0)
    one, other = (read(run(tmp_path / str(i), each, span_scores(rows))) for i, each in enumerate((rows, rows[::-1])))
    assert one.digest == other.digest and (one.counts == other.counts).all()
    for row in rows:
        row["gold"]["spans"] = row["predicted"]["spans"] = row["gold"]["spans"][:1]
    scores = {name: value for name, value in span_scores(rows).items() if "opinion" not in name} | {"span_f1": 1.0}
    assert one.digest != read(run(tmp_path / "b", rows, scores)).digest


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "predictions.jsonl:2: not a prediction"),
        ('{"id": "1", "text": "x"}', "KeyError: 'gold'"),
        ('{"id": "1", "text": "x", "gold": null, "predicted": null}', "TypeError"),
        ('{"id": "1", "text": "x", "gold": {"spans": [{"start": [], "end": 1, "type": "a"}]}}', "TypeError"),
        ("[" * 100_000, "RecursionError"),
        ('{"text": "caf\xe9"}', "not a prediction"),  # and not UTF-8
    ],
)
def test_damaged_predictions_are_refused_by_line(tmp_path: Path, line: str, error: str) -> None:
    rows = span_rows(np.ones(1))
    made = run(tmp_path, rows, span_scores(rows))
    with Path(made["folder"], "predictions.jsonl").open("a", encoding="latin-1") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"predictions.jsonl:2") as caught:
        read_items(typed(made))
    assert error in str(caught.value)


def test_hostile_text_is_only_hashed(tmp_path: Path) -> None:
    rows = span_rows(np.ones(3))
    rows[0]["text"] = "<script>\u202e\x00" + "x" * 1_000_000
    made = run(tmp_path, None, span_scores(rows))
    lone = json.dumps({**rows[1], "text": "\ud800"})
    path = Path(made["folder"], "predictions.jsonl")
    path.write_text("\n".join([json.dumps(rows[0]), lone, json.dumps(rows[2])]), encoding="utf-8")
    assert read(made).score == 1.0
