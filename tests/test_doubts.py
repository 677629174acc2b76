"""What is told beside a score that should not be taken at its word."""

import pytest

from domadapt.data.records import Record
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Prediction, Task
from domadapt.training.card import score_warnings

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
        (
            TWO,
            [0.8, 0.65],
            BOTH,
            BOTH,
            "the kept epoch 2 has 65.0 macro_f1 and epoch 1 had 80.0: compare with selection",
        ),
        (TWO, [0.8], ["kind"] * 100, ["kind"] * 100, "the target test has no text labelled 'unkind'"),
        (TWO, [0.8], BOTH, ["kind"] * 99 + ["unkind"], "one class predicted: 99 of 100 texts of the target test"),
        (SPANS, [0.8], [None] * 3, [None] * 3, "no span is found in any of the target test's 3 texts"),
    ],
)
def test_what_is_told(
    task: Task, dev: list[float], labels: list[str | None], called: list[str | None], expected: str
) -> None:
    found = told(task, dev, labels, called)
    assert expected in found and found.count("\n") == 0 and bool(found) == bool(expected)
