"""Run folders of any number without training: for measuring the report, and for testing it at size."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from domadapt.tasks.task import set_scores

WORDS = ("the", "battery", "screen", "hinge", "is", "feels", "great", "poor", "bright", "flimsy", "and", "but")
STANDING = ("rnn_from_scratch", "source_only", "in_domain")
BINS = 10


def synthetic_runs(folder: Path, pairs: int, methods: int, seeds: int, texts: int = 100, seed: int = 0) -> int:
    """Write finished runs of an extraction task, with everything that ``metrics.json`` may hold; returns how many.

    Three of the methods are the bars that stand. Each ``predictions.jsonl`` has so many texts; their spans give the
    scores.
    """
    random = np.random.default_rng(seed)
    names = [*STANDING, *(f"method_{i + 1}" for i in range(methods - len(STANDING)))][:methods]
    for pair in range(pairs):
        corpus = [_text(random) for _ in range(texts)]
        base = random.uniform(0.4, 0.6)
        for place, name in enumerate(names):
            skill = base + {"rnn_from_scratch": -0.2, "source_only": 0.0, "in_domain": 0.2}.get(name, 0.01 * place)
            for number in range(1, seeds + 1):
                own = folder / f"source{pair}_to_target{pair}" / name / f"seed={number}-{pair:04d}{place:04d}"
                own.mkdir(parents=True)
                rows = [_row(f"{i}", *one, skill, random) for i, one in enumerate(corpus)]
                lines = "".join(json.dumps(row) + "\n" for row in rows)
                (own / "predictions.jsonl").write_text(lines, encoding="utf-8")
                content = json.dumps(_metrics(pair, name, number, rows, random))
                (own / "metrics.json").write_text(content, encoding="utf-8")
    return pairs * len(names) * seeds


def _text(random: np.random.Generator) -> tuple[str, list[dict[str, Any]]]:
    words = [str(word) for word in random.choice(WORDS, size=int(random.integers(6, 20)))]
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])
    spans = [
        {"start": int(starts[i]), "end": int(starts[i]) + len(words[i]), "type": kind}
        for i, kind in zip(random.choice(len(words), size=2, replace=False).tolist(), ("aspect", "opinion"))
    ]
    return " ".join(words), spans


def _row(name: str, text: str, gold: list[dict[str, Any]], skill: float, random: np.random.Generator) -> dict[str, Any]:
    found = [span for span in gold if random.random() < skill]
    if random.random() > skill:
        found.append({"start": 0, "end": len(text.split()[0]), "type": "aspect"})
    unique = [json.loads(span) for span in sorted({json.dumps(span) for span in found})]
    both: dict[str, Any] = {"gold": {"label": None, "spans": gold}, "predicted": {"label": None, "spans": unique}}
    return {"id": name, "text": text, "words": None, **both, "confidence": 0.5}


def _scores(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Scores of each type, and the mean of their F1."""
    scores = dict[str, float]()
    for kind in ("aspect", "opinion"):
        gold, predicted = (
            {(i, s["start"], s["end"]) for i, row in enumerate(rows) for s in row[part]["spans"] if s["type"] == kind}
            for part in ("gold", "predicted")
        )
        scores |= set_scores(gold, predicted, kind)
    return {"span_f1": (scores["aspect_f1"] + scores["opinion_f1"]) / 2, **scores}


def _metrics(
    pair: int, name: str, number: int, rows: list[dict[str, Any]], random: np.random.Generator
) -> dict[str, Any]:
    test = _scores(rows)
    role = name if name in STANDING else "adapted"
    curve = [
        {"epoch": e, "step": 10 * e, "losses": {"task": 1 / e, f"{name}/loss": 2 / e, "total": 3 / e},
         "source_dev": {"span_f1": 0.7 + 0.02 * e + 0.01 * random.random()},
         "validators": {"entropy": 1 / e}, "selection": 0.7} for e in (1, 2, 3)
    ]  # fmt: skip
    choices = {
        validator: {"epoch": epoch, "target_test": {"span_f1": test["span_f1"] + gain}}
        for validator, epoch, gain in (("source_dev", 2, 0.0), ("entropy", 1, -0.01), ("oracle", 3, 0.02))
    }
    bins = [
        {"confidence": (i + 0.5) / BINS, "accuracy": float(min(1, (i + 0.5) / BINS + 0.1)), "count": 10 * i + 1}
        for i in range(BINS)
    ]
    config = {"seed": number, "method": name, "injection": {name: {}} if role == "adapted" else {},
              "data": {"pair": f"pair{pair}"}, "trainer": {"epochs": 3}}  # fmt: skip
    return {
        "format": 1, "key": f"{pair:04d}{number:04d}", "source": f"source{pair}", "target": f"target{pair}",
        "task": "extraction", "headline": "span_f1", "method": name, "role": role, "seed": number,
        "source_dev": {"span_f1": 0.75}, "source_test": None, "target_test": test,
        "target_test_clean": _scores(rows[1:]),
        "target_test_sizes": {"all": len(rows), "clean": len(rows) - 1}, "curve": curve,
        "selection": {"validator": "source_dev", "epoch": 2, "gap": 0.02, "choices": choices},
        "calibration": {"error": 0.1, "bins": bins}, "config": config, "attempts": 1,
        "counts": {"parameters": 22_000_000, "truncated": {}, "warnings": {}},
        "seconds": {"build": 2.0, "prepare": 1.0, "fit": 100 * random.random() + 50, "evaluate": 3.0},
        "versions": {"python": "3.11.7", "torch": "2.13.0"}, "hardware": {"device": "cpu", "cores": 2},
        "command": f"domadapt train experiment=synthetic method={name} seed={number}",
    }  # fmt: skip
