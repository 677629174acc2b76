"""A gain counts for syntax where it stands against source_only and against a control that does no harm."""

from typing import Any

import numpy as np
import pytest

from domadapt.reporting.words import claim, distance, overview
from domadapt.statistics.compare import compare
from domadapt.statistics.results import Interval
from tests.support import grouped

SEEDS = 8


def said(make_metrics: Any, controls: Any, **levels: float) -> str:
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


def test_a_gain_over_poison_is_no_claim(make_metrics: Any) -> None:
    text = said(make_metrics, "shuffled", source_only=0.5, gnn=0.55, shuffled=0.4)
    assert "this control harms: 10." in text and "below source_only, so a gain over it measures harm as well" in text
    assert text.endswith("It is not shown that syntax helps: no neutral control was run.")


def test_a_gain_over_source_only_and_a_neutral_control_is_one(make_metrics: Any) -> None:
    levels = {"source_only": 0.5, "gnn": 0.55, "shuffled": 0.4, "linear": 0.5}
    text = said(make_metrics, ["shuffled", "linear"], **levels)
    assert text.endswith("So it is shown on this pair that syntax helps, against source_only and linear.")
    assert "this control harms" in text  # told all the same


@pytest.mark.parametrize(
    ("levels", "against"),
    [
        ({"source_only": 0.55, "gnn": 0.55, "linear": 0.55}, "source_only and linear"),
        ({"source_only": 0.5, "gnn": 0.55, "linear": 0.55}, "linear"),
        ({"source_only": 0.55, "gnn": 0.55, "linear": 0.545}, "source_only"),
    ],
)
def test_one_of_the_two_is_not_enough(make_metrics: Any, levels: dict[str, float], against: str) -> None:
    text = said(make_metrics, "linear", **levels)
    assert "It is not shown that syntax helps: no gain whose interval excludes 0 is shown against " in text
    assert against in text.rpartition("against ")[2]


def test_what_was_not_run_is_said(make_metrics: Any) -> None:
    text = said(make_metrics, ["shuffled", "absent"], source_only=0.5, gnn=0.55, shuffled=0.4)
    assert "its control absent was not run" in text


def test_a_claim_needs_every_control_that_was_asked_for(make_metrics: Any) -> None:
    text = said(make_metrics, ["shuffled", "absent"], source_only=0.5, gnn=0.55, shuffled=0.5)
    assert text.endswith("It is not shown that syntax helps: its control absent was not run, or with several settings.")


def test_a_control_is_compared_with_nobody_else(make_metrics: Any) -> None:
    config = {"trainer": {"epochs": 2}, "benchmark": {"controls": {"gnn": "shuffled"}}}
    runs = [make_metrics(m, 1, 0.5, config=config) for m in ("source_only", "gnn", "shuffled")]
    pairs = grouped(runs)
    text = " ".join(overview(pairs, compare(pairs)))
    assert "1 comparison of an adapted method with source_only" in text
    assert "1 comparison of an adapted method with its own control" in text


def test_distance_of_a_loss_is_turned_around() -> None:
    assert distance(Interval(-0.02, -0.05, 0.01, "seeds")) == "2.0 points (-1.0 to 5.0 over seeds) below"
