"""Settings chosen on other pairs: by hand, against the definition, and what cannot be chosen so."""

from itertools import product
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.reporting.tuned import tuned_records, tuned_sections
from domadapt.runs.groups import Pair
from domadapt.statistics.tuning import tuned
from tests.support import grouped

DOMAINS = ("hotel", "laptop", "camera")
PAIRS = [pair for pair in product(DOMAINS, DOMAINS) if pair[0] != pair[1]]


def run(source: str, target: str, layer: int, score: float, seed: int = 1, **more: Any) -> dict[str, Any]:
    own = {"method": "lisa", "role": "adapted"} | more
    config = {"injection": {"lisa": {"layer": layer}}, "data": {"source": source, "target": target}}
    return {
        "source": source, "target": target, "task": "extraction", "headline": "span_f1", "seed": seed,
        "target_test": {"span_f1": score}, "config": config, "source_dev": {}, "curve": [], **own,
    }  # fmt: skip


def test_a_pair_is_tuned_on_the_pairs_that_share_neither_its_source_nor_its_target() -> None:
    scores = {
        ("hotel", "laptop"): (0.5, 0.25),
        ("laptop", "hotel"): (0.25, 0.5),
        ("camera", "hotel"): (0.25, 0.75),
    }
    pairs = grouped([run(*pair, layer, own[layer]) for pair, own in scores.items() for layer in (0, 1)])
    [found], messages = tuned(pairs)
    assert messages == []
    assert found.settings == ((("injection.lisa.layer", "0"),), (("injection.lisa.layer", "1"),))
    chosen = {choice.pair: (choice.setting[0][1], choice.score, choice.best) for choice in found.choices}
    assert chosen == {
        "hotel → laptop": ("1", 0.25, 0.5),  # best on the two into hotels
        "laptop → hotel": ("0", 0.25, 0.5),  # by hotel → laptop alone: camera → hotel has its target
        "camera → hotel": ("0", 0.25, 0.75),
    }
    assert (found.score, found.best) == (0.25, pytest.approx(7 / 12))
    [section] = tuned_sections(pairs)
    told = [getattr(block, "text", "") for block in section.blocks]
    assert "lisa has 25.0 (58.3 at best, of 2 settings)." in told[0]
    assert [record["chosen_elsewhere"] for record in tuned_records(pairs)] == [
        "injection.lisa.layer=0", "injection.lisa.layer=1", "injection.lisa.layer=0",
    ]  # fmt: skip


@given(st.lists(st.floats(0, 1), min_size=36, max_size=36))
def test_the_choice_is_the_best_mean_elsewhere_and_no_own_score_has_a_say(scores: list[float]) -> None:
    given = {(pair, layer): scores[6 * i + layer] for i, pair in enumerate(PAIRS) for layer in range(6)}
    [found], _ = tuned(grouped([run(*pair, layer, score) for (pair, layer), score in given.items()]))
    by_name = {f"{source} → {target}": (source, target) for source, target in PAIRS}
    for choice in found.choices:
        own = by_name[choice.pair]
        others = [pair for pair in PAIRS if pair[0] != own[0] and pair[1] != own[1]]
        means = [fmean(given[pair, layer] for pair in others) for layer in range(6)]
        assert means[int(choice.setting[0][1])] == pytest.approx(max(means), abs=1e-9)
        assert choice.best == max(given[own, layer] for layer in range(6))
    moved = {key: 1 - value if key[0] == PAIRS[0] else value for key, value in given.items()}
    [again], _ = tuned(grouped([run(*pair, layer, score) for (pair, layer), score in moved.items()]))
    name = f"{PAIRS[0][0]} → {PAIRS[0][1]}"
    settings = [next(c.setting for c in one.choices if c.pair == name) for one in (found, again)]
    assert settings[0] == settings[1]


def test_seeds_that_all_settings_have_are_what_counts() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    runs += [run(*pair, 0, 1.0, seed=2) for pair in PAIRS]
    [found], _ = tuned(grouped(runs))
    assert found.score == found.best == 0.5


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([run("a", "b", layer, 0.5) for layer in (0, 1)], "no pair is left that shares neither source nor target"),
        ([run("a", "b", 0, 0.5), run("a", "b", 1, 0.5), run("b", "a", 1, 0.5), run("b", "a", 2, 0.5)], "with one"),
    ],
)
def test_what_cannot_be_tuned_elsewhere_is_told(runs: list[dict[str, Any]], words: str) -> None:
    found, [message] = tuned(grouped(runs))
    assert found == [] and words in message and message.startswith("lisa, run with several settings on a → b")


def test_bars_and_single_settings_are_no_matter_for_tuning() -> None:
    ceiling = [run(*pair, layer, 0.5, method="in_domain", role="in_domain") for pair in PAIRS for layer in (0, 1)]
    pairs: list[Pair] = grouped([*ceiling, *(run(*pair, 0, 0.5) for pair in PAIRS)])
    assert tuned(pairs) == ([], []) and tuned_sections(pairs) == []


def test_unequal_budgets_are_told() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    runs += [run(*pair, layer, 0.5, method="source_only", role="source_only") for pair in PAIRS for layer in (0, 1, 2)]
    [section] = tuned_sections(grouped(runs))
    assert "not tried with as many settings each" in getattr(section.blocks[0], "text", "")
