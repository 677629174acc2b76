"""Scores by number of target labels, and how many adaptation is worth."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from domadapt.reporting.labels import drawn_curves, label_budgets, label_table, worth
from domadapt.reporting.report import report
from tests.reporting.test_report import HOSTILE, assert_harmless
from tests.support import grouped

EVERY = 200
PLAIN: dict[int | str, float] = {0: 0.40, 8: 0.44, 32: 0.50, 128: 0.56, "all": 0.60}
BEST: dict[int | str, float] = {0: 0.53, 8: 0.54, 32: 0.56, 128: 0.58, "all": 0.60}


def run(make: Any, way: str, labels: int | str, seed: int, score: float, **changes: Any) -> Any:
    """As training writes it: the name says how many were asked for, the counts how many these are."""
    config = {"seed": seed, "target_labels": labels, "trainer": {"epochs": 2}, "data": {"source": "camera"}}
    name = f"{way}+{labels}_labels" if labels else way
    counts = {"target_labels": EVERY if labels == "all" else labels}
    role = {"role": "adapted"} if labels else {}
    return make(name, seed, score, **{"config": config, "counts": counts, **role, **changes})


def test_methods_of_one_way_are_told_by_setting_and_name(make_metrics: Any) -> None:
    runs = [run(make_metrics, way, n, 1, s) for way, curve in (("source_only", PLAIN), ("best", BEST))
            for n, s in curve.items()]  # fmt: skip
    runs.append(make_metrics("in_domain", 1, 0.7))
    # A name that says labels, of a run that was given none; and other settings: neither is one of best's.
    runs.append(make_metrics("best+8_labels", 2, 0.5))
    (pair,) = grouped(runs)
    found = {way.name: way for way in label_budgets(pair)}
    assert [point.labels for point in found["source_only"].points] == [0, 8, 32, 128, EVERY]
    assert [point.score.mean for point in found["best"].points] == [*BEST.values()]
    assert (found["source_only"].role, found["best"].role) == ("source_only", "adapted")
    assert [way.name for way in drawn_curves(pair)] == ["source_only", "best"]
    table = label_table(pair, drawn_curves(pair))
    assert [line[0] for line in table.rows] == ["0", "8", "32", "128", "200 (all)"]
    assert (table.header, table.rows[1][1:]) == (["labels", "source_only", "best"], ["44.0", "54.0"])


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        (PLAIN, "worth between 32 and 128 labels here: best with none scores 53.0, source_only 50.0 with 32 and 56.0 "
                "with 128. One seed: nothing"),
        ({0: 0.4, 8: 0.55}, "fewer than 8 labels here: best with none scores 53.0, source_only 40.0 with none"),
        ({8: 0.55, 32: 0.6}, "fewer than 8 labels here: best with none scores 53.0, source_only 55.0 with 8."),
        ({0: 0.4, 8: 0.41, 128: 0.5}, "more than 128 labels here: best with none scores 53.0, source_only 50.0 with"),
        ({0: 0.54, 8: 0.6}, "no labels here: best with none scores 53.0, source_only 54.0 with none."),
        ({0: 0.4, 32: 0.53}, "worth 32 labels here"),
        ({0: 0.4}, "not known: no run of source_only with target labels"),
    ],
)  # fmt: skip
def test_how_many_labels_adaptation_is_worth(make_metrics: Any, plain: dict[Any, float], said: str) -> None:
    runs = [run(make_metrics, "source_only", n, 1, score) for n, score in plain.items()]
    (pair,) = grouped([*runs, *(run(make_metrics, "best", n, 1, score) for n, score in BEST.items())])
    (sentence,) = worth(pair, drawn_curves(pair))
    assert said in sentence


def test_an_adapted_method_that_never_had_labels_is_compared(make_metrics: Any) -> None:
    runs = [run(make_metrics, "source_only", n, 1, score) for n, score in PLAIN.items()]
    (pair,) = grouped([*runs, run(make_metrics, "best", 0, 1, 0.53)])
    assert [(way.name, len(way.points)) for way in drawn_curves(pair)] == [("source_only", 5), ("best", 1)]
    assert "Adaptation is worth between" in worth(pair, drawn_curves(pair))[0]


def test_without_a_run_without_labels(make_metrics: Any) -> None:
    runs = [run(make_metrics, way, n, 1, 0.5) for way in ("source_only", "best") for n in (8, 32)]
    (pair,) = grouped(runs)
    assert worth(pair, drawn_curves(pair)) == [
        "How many labels adaptation is worth is not known: no run of an adapted method without target labels is among "
        "these."
    ]
    (none,) = grouped([run(make_metrics, way, 0, 1, 0.5) for way in ("source_only", "best")])
    assert drawn_curves(none) == []


def test_seeds_that_disagree_are_said_to(make_metrics: Any) -> None:
    """With seed 1 plain fine-tuning gets there at 32 labels, with seed 2 never."""
    runs = [run(make_metrics, "source_only", n, seed, score + (seed == 1 and n == 32) / 10)
            for n, score in {0: 0.4, 8: 0.41, 32: 0.45}.items() for seed in (1, 2)]  # fmt: skip
    (pair,) = grouped([*runs, *(run(make_metrics, "best", n, seed, 0.55) for n in (0, 8) for seed in (1, 2))])
    (sentence,) = worth(pair, drawn_curves(pair))
    assert "more than 32 labels here" in sentence
    assert "over 2 seeds, it is 32 labels at the least and more than 32 labels at the most" in sentence


@pytest.mark.parametrize("targets", [("laptop",), ("laptop", HOSTILE[0])])
def test_page_markdown_and_columns(make_run: Any, tmp_path: Path, targets: tuple[str, ...]) -> None:
    hostile = (HOSTILE[1] + "\u202e" + "x" * 90).replace("/", "-")
    for seed, target in enumerate(targets):
        for way, curve in (("source_only", PLAIN), (hostile, BEST)):
            for labels, score in curve.items():
                run(make_run, way, labels, seed, score, target=target)
    output = report(tmp_path / "runs", tmp_path / "r.html", ["html", "markdown", "csv"])
    html = output.read_text(encoding="utf-8")
    words = " ".join(assert_harmless(html).text.split())
    assert re.findall(r"<h2[^>]*><bdi>([^<]*)", html)[1:3] == ["Scores", "Target labels"]
    assert "adaptation is worth" in words.lower() and "200 (all)" in words
    markdown = output.with_suffix(".md").read_text(encoding="utf-8")
    assert "## Target labels" in markdown and "by number of target labels, percent" in markdown
    with output.with_suffix(".methods.csv").open(encoding="utf-8", newline="") as file:
        assert {line["target_labels"] for line in csv.DictReader(file)} == {"0", "8", "32", "128", "200"}
