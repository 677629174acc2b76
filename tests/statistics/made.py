"""Run folders and grouped runs with made-up predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from domadapt.runs.groups import Pair
from domadapt.tasks.task import set_scores
from tests.support import grouped, make_metrics, write_jsonl

KINDS = ("aspect", "opinion")


def span_rows(right: np.ndarray, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of ``predictions.jsonl``: item i has one gold span of each kind, found where ``right[i]``, else missed."""
    rng = np.random.default_rng(seed)
    rows = []
    for i, ok in enumerate(right):
        gold = [{"start": 0, "end": 4, "type": "aspect"}, {"start": 5, "end": 9, "type": "opinion"}]
        found = list(gold) if ok else [{"start": 0, "end": 3, "type": "aspect"}] if rng.random() < 0.5 else []
        sides = {"gold": {"label": None, "spans": gold}, "predicted": {"label": None, "spans": found}}
        rows.append({"id": f"t{i:04}", "text": f"text {i}", "words": [[0, 4], [5, 9]], **sides, "confidence": 0.9})
    return rows


def span_scores(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """As the task scores them."""

    def spans(side: str, kind: str) -> set[tuple[str, int, int]]:
        return {(r["id"], s["start"], s["end"]) for r in rows for s in r[side]["spans"] if s["type"] == kind}

    scores: dict[str, float] = {}
    for kind in KINDS:
        scores |= set_scores(spans("gold", kind), spans("predicted", kind), kind)
    return {"span_f1": float(np.mean([scores[f"{kind}_f1"] for kind in KINDS])), **scores}


def run(
    folder: Path,
    rows: Sequence[dict[str, Any]] | None,
    scores: dict[str, float] | None,
    method: str = "source_only",
    seed: int = 1,
    target: str = "laptops",
    config: dict[str, Any] | None = None,
    **about: Any,
) -> dict[str, Any]:
    """Metrics of one run, its predictions written where ``folder`` says."""
    path = folder / target / method / f"seed={seed}"
    path.mkdir(parents=True, exist_ok=True)
    if rows is not None:
        write_jsonl(path / "predictions.jsonl", [*rows])
    config = {"seed": seed, "data": {"target": target}, "injection": method, **(config or {})}
    rest = {"target_test": scores, "source_dev": {}, "curve": [], "config": config, "folder": str(path)}
    return make_metrics(method, seed, None, target=target, **rest, **about)


def benchmark(
    folder: Path,
    gains: dict[str, float],
    targets: Sequence[str] = ("laptops",),
    seeds: int = 3,
    count: int = 60,
    controls: dict[str, Any] | None = None,
    keep: bool = True,
    spread: float = 0.0,
) -> list[Pair]:
    """Grouped runs of source_only and of methods that are right more often by ``gains``; seeds differ by ``spread``."""
    runs = []
    for t, target in enumerate(targets):
        for method, gain in {"source_only": 0.0, **gains}.items():
            for seed in range(1, seeds + 1):
                rng = np.random.default_rng([t, seed, sum(method.encode())])
                level = 0.5 + gain + spread * rng.standard_normal()
                rows = span_rows(rng.random(count) < level, seed)
                config = {"benchmark": {"controls": controls}} if controls else None
                runs.append(run(folder, rows if keep else None, span_scores(rows), method, seed, target, config))
    return grouped(runs)


def f1_slow(totals: np.ndarray, average: str) -> float:
    """F1 by its definition, from precision and recall; macro of the kinds that the gold has."""
    totals = totals.astype(float)
    parts = [totals.sum(axis=0)] if average == "micro" else [one for one in totals if one[0] + one[2]]
    values = []
    for hit, extra, missed in parts:
        precision = hit / (hit + extra) if hit + extra else 0.0
        recall = hit / (hit + missed) if hit + missed else 0.0
        values.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    return float(np.mean(values or [0.0]))
