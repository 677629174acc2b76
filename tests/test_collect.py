"""Finished runs as a tidy table, with what compares them beside it."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.collect import main

SCORES = {  # by pair and method, of seeds 1 to 3: F1 of aspects and of opinions
    "hotel": {"source_only": (40, 60), "recipe": (50, 62), "recipe@linear": (44, 61), "in_domain": (70, 70)},
    "books": {"source_only": (50, 70), "recipe": (49, 71), "recipe@linear": (50, 70), "in_domain": (80, 80)},
}


@pytest.fixture
def collected(tmp_path: Path) -> tuple[list[dict[str, str]], list[dict[str, str]], str]:
    for target, methods in SCORES.items():
        for method, (aspect, opinion) in methods.items():
            for seed in (1, 2, 3):
                role = method if method in ("source_only", "in_domain") else "adapted"
                _run(tmp_path / "runs" / target / method / str(seed), target, method, role, seed, aspect, opinion)
    main([str(tmp_path / "runs"), str(tmp_path / "memd.csv"), "--commit", "abc1234"])
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in ("memd.csv", "memd.gains.csv")]
    runs, gains = (list(csv.DictReader(text.splitlines())) for text in texts)
    return runs, gains, "".join(texts)


def _run(folder: Path, target: str, method: str, role: str, seed: int, aspect: int, opinion: int) -> None:
    aspect_f1, opinion_f1 = (aspect + seed) / 100, (opinion + (seed if role == "adapted" else 0)) / 100
    scores = {"span_f1": (aspect_f1 + opinion_f1) / 2, "aspect_f1": aspect_f1, "opinion_f1": opinion_f1}
    content: dict[str, Any] = {
        "format": 1, "key": f"{target[0]}{method[:3]}{seed}", "source": "laptop", "target": target,
        "task": "extraction", "headline": "span_f1", "method": method, "role": role, "seed": seed,
        "source_dev": scores, "target_test": {**scores, "aspect_support": 100.0}, "curve": [],
        "seconds": {"build": 1.0, "fit": 20.0, "evaluate": 5.0},
        "hardware": {"name": "A processor", "threads": 1, "precision": "32-true"},
        "config": {
            "task": {"transition_weight": 0.5}, "trainer": {"epochs": 5}, "backbone": {"name": "/home/me/minilm"},
            "paths": {"runs": "/home/me/runs"}, "benchmark": {"controls": {"recipe": ["recipe@linear"]}},
        },
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps(content), encoding="utf-8")


def test_a_row_a_run_without_any_path(collected: Any) -> None:
    runs, _, text = collected
    assert len(runs) == 24 and "/home" not in text
    [row] = [r for r in runs if (r["pair"], r["method"], r["seed"]) == ("laptop → hotel", "recipe", "2")]
    assert (row["span_f1"], row["aspect_f1"], row["opinion_f1"]) == ("58.0", "52.0", "64.0")
    made = ("epochs", "train_seconds", "seconds", "decoding", "backbone", "precision", "processor", "commit")
    expected = ["5", "21", "26", "Viterbi 0.5", "minilm", "32-true", "A processor", "abc1234"]
    assert [row[name] for name in made] == expected
    assert "aspect_support" not in row


def test_gains_over_source_only_and_over_controls(collected: Any) -> None:
    by = {(g["score"], g["pair"], g["method"], g["other"]): g for g in collected[1]}
    one = by["aspect_f1", "laptop → hotel", "recipe", "source_only"]
    assert (one["before"], one["after"], one["gain"], one["seeds"]) == ("42.0", "52.0", "10.0", "3")
    assert float(one["gap_closed"]) == pytest.approx(100 * 10 / 30, abs=0.01)
    over = by["aspect_f1", "all pairs", "recipe", "source_only"]
    assert (over["gain"], over["pairs"], over["over"]) == ("4.5", "2", "seeds")
    assert by["aspect_f1", "all pairs", "recipe", "recipe@linear"]["gain"] == "2.5"
    opinion = by["opinion_f1", "all pairs", "recipe", "source_only"]
    assert float(opinion["low"]) < float(opinion["gain"]) == 3.5 < float(opinion["high"])
    assert by["span_f1", "all pairs", "recipe", "source_only"]["p_some_pair"] == "0.0625"
    assert opinion["p_some_pair"] == ""  # only the headline is tested


def test_a_wrong_output_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), str(tmp_path / "memd.txt")])
    assert "memd.txt: expected a name that ends in .csv" in capsys.readouterr().err
