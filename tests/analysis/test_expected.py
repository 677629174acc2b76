"""Expected scores: right where confidence is honest, and known to be off where it is not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from benchmarks.expected import judged, record
from benchmarks.tables import RESULTS
from domadapt.analysis import expected
from domadapt.analysis.expected import ESTIMATE, expected_score, kind_counts, scores, temperature, tempered
from domadapt.data.records import Record
from domadapt.runs.metrics import Calibration, Expected, Metrics
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.rows import Predicted
from domadapt.tasks.task import Prediction
from tests.support import read_csv

WORDS = 6  # a text
typed = TypeAdapter(Calibration).validate_python


def drawn(kind: str, texts: int, spread: float, seed: int, sharp: float = 1.0) -> Predicted:
    """Predicted whose probabilities are honest at ``sharp`` 1: true classes are drawn from them."""
    rng = np.random.default_rng(seed)
    size = texts * WORDS if kind == "token" else texts
    logits = rng.normal(0, spread, (size, 3))
    logits[:, 0] += 2 * (kind == "token")
    if kind == "token":
        logits[:, 2] = -20  # no I: spans of one word, so that words are independent
    sure = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    classes = np.array([rng.choice(3, p=row) for row in sure])
    places, o_class = np.repeat(np.arange(texts), WORDS if kind == "token" else 1), 0 if kind == "token" else -1
    words = np.tile(np.arange(WORDS), texts) if kind == "token" else np.zeros(texts, np.int64)
    rows = Predicted(sure.astype(np.float32), np.zeros((size, 1), np.float16), places, words, classes, o_class)
    return tempered(rows, 1 / sharp)


def task(kind: str) -> Extraction | Classification:
    return Extraction(["aspect"]) if kind == "token" else Classification(["a", "b", "c"])


def true_score(rows: Predicted, kind: str) -> float:
    found = kind_counts(rows, task(kind).labels, labelled=True)
    return scores({kind: counts.sum(0) for kind, counts in found.items()}, "it", "macro")["it"]


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_where_confidence_is_honest_after_scaling_the_estimate_is_right(kind: str) -> None:
    """The target is harder, and all are three times too sure: dev tells, and the estimate follows the target down."""
    dev, target = drawn(kind, 1500, 3.0, 1, sharp=3), drawn(kind, 1500, 1.5, 2, sharp=3)
    assert temperature(dev) == pytest.approx(3, rel=0.1)
    unlabelled = replace(target, classes=np.full(len(target), -1))
    found = expected_score(dev, unlabelled, task(kind))
    assert true_score(dev, kind) - true_score(target, kind) > 0.1
    value = found["estimates"][ESTIMATE][task(kind).headline]
    assert value == pytest.approx(true_score(target, kind), abs=0.03)


def test_a_dev_without_errors_does_not_make_the_estimate_sure_of_an_unsure_target() -> None:
    dev, target = drawn("sequence", 200, 6.0, 1), drawn("sequence", 500, 1.0, 2)
    dev = dev.where(dev.probabilities.argmax(1) == dev.classes)
    found = expected_score(dev, target, task("sequence"))
    assert found["temperature"] == 1.0
    assert found["low"] < true_score(target, "sequence") < found["high"]


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_the_expected_score_is_corrected_by_what_is_known_and_its_interval_holds_it(kind: str) -> None:
    dev = drawn(kind, 200, 3.0, 1)
    found = expected_score(dev, drawn(kind, 100, 3.0, 2), task(kind))
    known, headline = expected.KNOWN[kind], task(kind).headline
    assert found["score"] == pytest.approx(found["estimates"][ESTIMATE][headline] - known.bias, abs=1e-5)
    assert found["low"] < found["score"] < found["high"]
    assert found["high"] - found["low"] > 2 * 1.6 * known.spread
    assert found["texts"] == 100
    assert expected_score(dev, dev.where(slice(0, 0)), task(kind)) is None
    if kind == "sequence":  # a class that source dev has not is no miss, as in dev's own score
        never = dev.where((dev.classes < 2) & (dev.probabilities.argmax(1) == dev.classes))
        assert expected_score(never, never, task(kind))["estimates"][ESTIMATE]["macro_f1"] == 1


def test_what_is_known_of_spans_is_what_results_show() -> None:
    row, _ = read_csv(RESULTS / "expected.csv")
    numbers = [float(row[name]) for name in ("bias", "spread", "error")]
    assert row["estimate"] == ESTIMATE and expected.KNOWN["token"] == expected.TrackRecord(*numbers, int(row["runs"]))


def test_a_record_counts_pairs_once_and_leaves_their_target_out() -> None:
    def run(source: str, target: str, seed: int, estimate: float) -> Metrics:
        about = {"source": source, "target": target, "method": "recipe"}
        made = Expected(0.5, 0.4, 0.6, estimates={ESTIMATE: {"span_f1": estimate}})
        return Metrics(**about, seed=seed, headline="span_f1", target_test={"span_f1": 0.5}, expected=made)

    runs = [run("a", "b", 1, 0.6), run("a", "b", 2, 0.8), run("b", "a", 1, 0.6), run("c", "a", 1, 0.7)]
    found = record(runs)
    assert found.bias == pytest.approx((0.2 + 0.1 + 0.2) / 3) and found.runs == 4
    assert found.error == pytest.approx((abs(0.2 - 0.15) + abs(0.1 - 0.2) + abs(0.2 - 0.2)) / 3)
    left, inside = judged(runs, found._replace(bias=0.2, spread=0.05))
    assert left.bias == pytest.approx(-0.025) and left.error == pytest.approx((0.1 + 0.1 + 0.1 + 0) / 4)
    assert inside == 1  # 0.2 ± 0.08


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_calibration_before_and_after_scaling(kind: str) -> None:
    """Three times too sure on both sides: what source dev tells mends the target, as long as it is off alike."""
    dev, test = drawn(kind, 1500, 2.0, 1, sharp=3), drawn(kind, 1500, 1.5, 2, sharp=3)
    found = typed(expected.calibration_under_shift(dev, test))
    assert found.error > 0.08 > 0.04 > found.scaled_error
    assert found.source_dev_error > 0.05 > 0.03 > found.source_dev_scaled_error
    assert sum(part.count for part in found.bins) == len(test)
    alone = typed(expected.calibration_under_shift(dev, None))
    assert (alone.error, alone.source_dev_error) == (None, found.source_dev_error)


def test_counts_agree_with_the_task_s_own_scores() -> None:
    """Random tags: what is counted from rows is what the task scores from spans."""
    rng, own = np.random.default_rng(0), Extraction(["aspect", "opinion"])
    tags, gold = (rng.choice(5, size=(40, WORDS), p=[0.4, 0.2, 0.2, 0.1, 0.1]) for _ in range(2))
    sure = torch.nn.functional.one_hot(torch.tensor(tags.ravel()), 5).numpy().astype(np.float32)
    places, words = np.repeat(np.arange(40), WORDS), np.tile(np.arange(WORDS), 40)
    rows = Predicted(sure, np.zeros((len(sure), 1), np.float16), places, words, gold.ravel(), 0)
    ranges = np.stack([np.arange(WORDS) * 2, np.arange(WORDS) * 2 + 1], 1)
    spans = [[own.spans(line, ranges, [1.0] * WORDS) for line in side] for side in (tags, gold)]
    records = [Record(str(i), "d", "x" * 2 * WORDS, spans=found) for i, found in enumerate(spans[1])]
    wanted = own.score(records, [Prediction(spans=found) for found in spans[0]])
    for average in ("macro", "micro"):
        found = kind_counts(rows, own.labels, labelled=True)
        told = scores({kind: counts.sum(0) for kind, counts in found.items()}, "span_f1", average)
        assert told["aspect_f1"] == pytest.approx(wanted["aspect_f1"])
        own.average = average
        assert told["span_f1"] == pytest.approx(own.score(records, [Prediction(spans=f) for f in spans[0]])["span_f1"])


def test_sides_weigh_texts() -> None:
    """A text that is drawn twice counts twice."""
    rows = drawn("token", 30, 3.0, 1)
    twice = rows.where(np.r_[np.arange(len(rows)), np.arange(WORDS)])
    doubled = replace(twice, texts=np.r_[rows.texts, np.full(WORDS, 30)])
    labels = task("token").labels
    weights = np.ones(30)
    weights[0] = 2
    found = []
    for own, weight in ((rows, weights), (doubled, np.ones(31))):
        kinds = [kind_counts(own, labels, known) for known in (True, False, False)]
        found.append(expected.by_confidence(kinds, [weight, weight], "it", "macro")["it"])
    assert found[0] == pytest.approx(found[1])
