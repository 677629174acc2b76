"""What the report says in words: claims need source_only and a neutral control, verdicts a test over seeds."""

from typing import Any

import numpy as np
import pytest

from domadapt.reporting.frames import best_adapted
from domadapt.reporting.words import claim, distance, verdict, verdict_card
from domadapt.statistics.compare import compare
from domadapt.statistics.results import Interval
from tests.support import grouped

SEEDS = 8
NOT_SHOWN = "It is not shown that syntax helps: "


def claimed(make_metrics: Any, controls: Any, **levels: float) -> str:
    """The claim of gnn, with scores that seeds change a little."""
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": controls}}}
    noise = np.random.default_rng(0).normal(0, 0.005, (len(levels), SEEDS))
    runs = [
        make_metrics(method, seed, level + noise[number, seed], config=config, curve=[])
        for number, (method, level) in enumerate(levels.items())
        for seed in range(SEEDS)
    ]
    statistics = compare(grouped(runs))
    return claim(next(one for one in statistics.overall if one.method == "gnn"), statistics)


@pytest.mark.parametrize(
    ("controls", "levels", "texts"),
    [
        ("shuffled", {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.4},
         ["this control harms: 10.", "below source_only, so a gain over it measures harm as well",
          f"{NOT_SHOWN}no neutral control was run."]),
        (["shuffled", "linear"], {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.4, "linear": 0.5},
         ["this control harms", "So it is shown on this pair that syntax helps, against source_only and linear."]),
        ("linear", {"source_only": 0.55, "gnn": 0.55, "linear": 0.55},
         [f"{NOT_SHOWN}no gain whose interval excludes 0 is shown against source_only and linear"]),
        ("linear", {"source_only": 0.5, "gnn": 0.55, "linear": 0.55}, ["is shown against linear"]),
        ("linear", {"source_only": 0.55, "gnn": 0.55, "linear": 0.545}, ["is shown against source_only"]),
        (["shuffled", "absent"], {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.4},
         ["its control absent was not run"]),
        (["shuffled", "absent"], {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.5},
         [f"{NOT_SHOWN}its control absent was not run, or with several settings."]),
    ],
)  # fmt: skip
def test_a_claim_stands_against_source_only_and_every_control(
    make_metrics: Any, controls: Any, levels: dict[str, float], texts: list[str]
) -> None:
    text = claimed(make_metrics, controls, **levels)
    assert all(part in text for part in texts), text


def test_a_control_is_never_named_as_the_best(make_metrics: Any) -> None:
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": "shuffled"}}}
    dev = {"source_only": 0.6, "gnn": 0.7, "shuffled": 0.8}
    pairs = grouped([make_metrics(m, 1, 0.5, config=config, source_dev={"span_f1": d}) for m, d in dev.items()])
    best = best_adapted(pairs[0])
    assert best is not None and best.name == "gnn"


def test_distance_of_a_loss_is_turned_around() -> None:
    assert distance(Interval(-0.02, -0.05, 0.01, "seeds")) == "2.0 points (-1.0 to 5.0 over seeds) below"


def said(runs: list[Any]) -> str:
    (pair,) = grouped(runs)
    best = best_adapted(pair)
    assert best is not None
    return verdict([pair], compare([pair]).cell(pair.name, best.name))


@pytest.mark.parametrize(
    ("seeds", "gain", "told"),
    [
        (3, 0.3, ["30.0 points (", ") above source_only", "more than chance is not shown: too few seeds (3)"]),
        (12, 0.1, [") above source_only", "training again would show a difference to source_only"]),
        (12, -0.1, [") below source_only", "training again would show a difference to source_only"]),
    ],
)
def test_a_verdict_needs_seeds(make_metrics: Any, seeds: int, gain: float, told: list[str]) -> None:
    runs = [make_metrics("source_only", seed, 0.5 + seed / 1000) for seed in range(seeds)]
    text = said([*runs, *(make_metrics("lisa", seed, 0.5 + gain + seed / 900) for seed in range(seeds))])
    assert all(part in text for part in told), text


def test_a_verdict_is_of_the_best_by_source_dev(make_metrics: Any) -> None:
    best_on_target = make_metrics("lisa", 1, 0.9)
    best_on_source = make_metrics("gnn", 1, 0.2, source_dev={"span_f1": 0.8})
    assert said([best_on_target, best_on_source]).startswith("gnn, best on source dev, ")
    assert "no labels" in said([make_metrics(name, 1, None) for name in ("source_only", "lisa")])


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        (
            {"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8},
            "lisa, best on source dev, is 10.0 points (no inter",
        ),
        ({"source_only": 0.4, "lisa": 0.3}, "10.0 points (no interval) below source_only on the target; that it is"),
        ({"source_only": 0.4}, "No adapted method was run"),
        ({"lisa": 0.4}, "can't be compared: "),
        ({"lisa": None}, "The target test has no labels"),
    ],
)
def test_the_card_says_what_came_out(make_metrics: Any, levels: dict[str, Any], sentence: str) -> None:
    changes = {"config": {"backbone": {"name": "minilm"}, "trainer": {"epochs": 2}}}
    pairs = grouped([make_metrics(name, 1, score, **changes) for name, score in levels.items()])
    card = verdict_card(pairs, compare(pairs))
    facts = dict(card.items)
    assert sentence in card.sentence and facts["Backbone"] == "minilm"
    assert facts["Runs"].endswith(f"; {3 * len(levels)} s in all")
    if len(levels) == 3:
        assert facts["Target score, %"] == "source_only 40.0 → lisa 50.0 → ceiling 80.0"
        assert (facts["Gap closed"], facts["Model"]) == ("25 %", "not kept beside these runs")
