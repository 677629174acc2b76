"""Run folders as domadapt.train writes them, with numbers of the test's choice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeMetrics = Callable[..., dict[str, Any]]
MakeRun = Callable[..., Path]
Spans = list[tuple[int, int]]

BARS = ("rnn_from_scratch", "source_only", "in_domain")


@pytest.fixture
def make_metrics() -> MakeMetrics:
    """The content of a metrics.json; ``score=None`` for a target test without labels."""

    def make(method: str, seed: int, score: float | None, **changes: Any) -> dict[str, Any]:
        headline = changes.get("headline", "span_f1")
        test = None if score is None else {headline: score, "aspect_f1": score - 0.1, "opinion_f1": score + 0.1}
        curve = {"epoch": 1, "step": 9, "losses": {"task": 0.5, "total": 0.5}, "source_dev": {headline: 0.7}}
        return {
            "format": 1,
            "key": f"{method}{seed}",
            "source": "camera",
            "target": "laptop",
            "task": "extraction",
            "headline": headline,
            "method": method,
            "role": method if method in BARS else "adapted",
            "seed": seed,
            "source_dev": {headline: 0.7},
            "source_test": {headline: 0.6},
            "target_test": test,
            "target_test_clean": test,
            "target_test_sizes": {"all": 4, "clean": 4},
            "curve": [curve, {**curve, "epoch": 2}],
            "counts": {"truncated": {"target test": {"texts": 1, "words": 12}}, "warnings": {"a mended tag": 2}},
            "seconds": {"build": 1.0, "fit": 2.0},
            "config": {"seed": seed, "method": method, "trainer": {"epochs": 2}, "data": {"source": "camera"}},
            "versions": {"python": "3.11"},
            "hardware": {"device": "cpu"},
            "command": f"domadapt train seed={seed}",
            **changes,
        }

    return make


@pytest.fixture
def make_run(tmp_path: Path, make_metrics: MakeMetrics) -> MakeRun:
    """A run folder under ``tmp_path/runs``; ``rows`` go to its predictions.jsonl."""

    def make(method: str, seed: int, score: float | None, rows: list[dict[str, Any]] | None = None, **kw: Any) -> Path:
        folder = tmp_path / "runs" / method / f"seed={seed}"
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(json.dumps(make_metrics(method, seed, score, **kw)), encoding="utf-8")
        if rows is not None:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / "predictions.jsonl").write_text(lines, encoding="utf-8")
        return folder

    return make


@pytest.fixture
def row() -> Callable[..., dict[str, Any]]:
    """A line of predictions.jsonl from a text and (start, end) aspects."""

    def make(text: str, gold: Spans, predicted: Spans, **changes: Any) -> dict[str, Any]:
        def spans(items: Spans) -> dict[str, Any]:
            return {"label": None, "spans": [{"start": s, "end": e, "type": "aspect"} for s, e in items]}

        made = {"id": text[:8], "text": text, "words": None, "gold": spans(gold), "predicted": spans(predicted)}
        return {**made, "confidence": 0.5, **changes}

    return make
