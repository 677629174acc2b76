"""The scikit-learn face says what the verbs say."""

from pathlib import Path

import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import domadapt
from tests.support import records

TINY = [
    "backbone=tiny_random",
    "trainer.epochs=4",
    "trainer.batch_size=8",
    "trainer.learning_rate=0.01",
    "max_pieces=24",
]
ROWS, TARGET = records("camera", 40), [row["text"] for row in records("laptop", 20, 5)]
TEXTS = [row["text"] for row in ROWS]


def test_labels_of_any_kind_come_back_as_they_were(tmp_path: Path) -> None:
    y = [int(row["label"] == "positive") for row in ROWS]
    adapter = domadapt.DomainAdapter(overrides=TINY, folder=tmp_path / "it's, (here)")
    assert adapter.fit(TEXTS, y, target=TARGET) is adapter
    found = adapter.predict(TARGET)
    assert found.dtype.kind == "i" and set(found.tolist()) <= {0, 1}
    shares = adapter.predict_proba(TARGET)
    assert shares.shape == (20, 2) and shares.argmax(1).tolist() == found.tolist()
    assert 0 <= adapter.score(TEXTS, y) <= 1
    [run] = (tmp_path / "it's, (here)").glob("*/*/*/metrics.json")
    again = domadapt.load(run.parent).predict(TARGET)
    assert [int(str(p.label)) for p in again] == found.tolist()
    other = clone(adapter)
    assert other.get_params() == adapter.get_params()
    with pytest.raises(NotFittedError):
        other.predict(TARGET)


def test_spans_go_in_and_come_out(tmp_path: Path) -> None:
    y = [[(s["start"], s["end"], s["type"]) for s in row["spans"]] for row in ROWS]
    adapter = domadapt.DomainAdapter("extraction", TINY).fit(TEXTS, y, target=TARGET)
    assert adapter.metrics_["headline"] == "span_f1"
    found = adapter.predict(TEXTS)
    right = sum(len({*a} & {*b}) for a, b in zip(y, found, strict=True))
    every = sum(map(len, y)) + sum(map(len, found))
    micro = 2 * right / every
    assert adapter.score(TEXTS, y) == pytest.approx(micro, abs=0.25)  # the mean over two types, of the same spans
    with pytest.raises(ValueError, match="finds spans"):
        adapter.predict_proba(TEXTS)


@pytest.mark.parametrize(
    ("y", "target", "told"),
    [
        (["a"], None, "target=None: give texts"),
        (["a", "b"], TARGET, "X has 1 texts and y 2 entries"),
    ],
)
def test_what_does_not_fit_is_refused(y: list[str], target: list[str] | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        domadapt.DomainAdapter(overrides=TINY).fit(TEXTS[:1], y, target)
