"""Run folders as domadapt.train writes them, with numbers of the test's choice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import make_metrics, write_jsonl

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A run folder under ``tmp_path/runs``; ``rows`` go to its predictions.jsonl."""

    def make(method: str, seed: int, score: float | None, rows: list[dict[str, Any]] | None = None, **kw: Any) -> Path:
        folder = tmp_path / "runs" / method / f"seed={seed}"
        write_jsonl(folder / "metrics.json", [make_metrics(method, seed, score, **kw)])
        if rows is not None:
            write_jsonl(folder / "predictions.jsonl", rows)
        return folder

    return make
