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
    chosen = {choice.pair: (choice.chosen[0][0][1], choice.score, choice.best) for choice in found.choices}
    assert chosen == {
        "hotel → laptop": ("1", 0.25, 0.5),  # best on the two into hotels
        "laptop → hotel": ("0", 0.25, 0.5),  # by hotel → laptop alone: camera → hotel has its target
        "camera → hotel": ("0", 0.25, 0.75),
    }
    assert (found.score, found.best) == (0.25, pytest.approx(7 / 12))
    [section] = tuned_sections(pairs)
    told = [getattr(block, "text", "") for block in section.blocks]
    assert "lisa has 25.0 (58.3 at best)." in told[0]
    assert [record["setting"] for record in tuned_records(pairs)] == [
        "injection.lisa.layer=0", "injection.lisa.layer=1", "injection.lisa.layer=0",
    ]  # fmt: skip


def test_of_settings_that_are_equal_elsewhere_none_is_picked_by_its_place() -> None:
    scores = {("hotel", "laptop"): (0.5, 0.5), ("laptop", "hotel"): (0.25, 0.75)}
    [found], _ = tuned(grouped([run(*pair, layer, own[layer]) for pair, own in scores.items() for layer in (0, 1)]))
    into_hotels = next(choice for choice in found.choices if choice.pair == "laptop → hotel")
    assert (len(into_hotels.chosen), into_hotels.score, into_hotels.best) == (2, 0.5, 0.75)
    assert any(record["setting"] == "injection.lisa.layer=0 or injection.lisa.layer=1" for record in tuned_records(
        grouped([run(*pair, layer, own[layer]) for pair, own in scores.items() for layer in (0, 1)])))  # fmt: skip


@given(st.lists(st.floats(0, 1), min_size=36, max_size=36))
def test_the_choice_is_the_best_mean_elsewhere_and_no_own_score_has_a_say(scores: list[float]) -> None:
    given = {(pair, layer): scores[6 * i + layer] for i, pair in enumerate(PAIRS) for layer in range(6)}
    [found], _ = tuned(grouped([run(*pair, layer, score) for (pair, layer), score in given.items()]))
    by_name = {f"{source} → {target}": (source, target) for source, target in PAIRS}
    for choice in found.choices:
        own = by_name[choice.pair]
        others = [pair for pair in PAIRS if pair[0] != own[0] and pair[1] != own[1]]
        means = [fmean(given[pair, layer] for pair in others) for layer in range(6)]
        assert all(means[int(one[0][1])] == pytest.approx(max(means), abs=1e-9) for one in choice.chosen)
        assert choice.score == pytest.approx(fmean(given[own, int(one[0][1])] for one in choice.chosen))
        assert choice.best == max(given[own, layer] for layer in range(6))
    moved = {key: 1 - value if key[0] == PAIRS[0] else value for key, value in given.items()}
    [again], _ = tuned(grouped([run(*pair, layer, score) for (pair, layer), score in moved.items()]))
    name = f"{PAIRS[0][0]} → {PAIRS[0][1]}"
    settings = [next(c.chosen for c in one.choices if c.pair == name) for one in (found, again)]
    assert settings[0] == settings[1]


def test_the_seeds_that_all_settings_have_are_what_counts() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    runs += [run(*pair, 0, 1.0, seed=2) for pair in PAIRS]
    runs.append(run(*PAIRS[0], 2, 0.9, seed=9))  # a setting that one pair has, of a seed of its own
    [found], [message] = tuned(grouped(runs))
    assert found.score == found.best == 0.5
    assert message == "lisa: 2 of 3 settings were run on every pair, the others are left out"


def test_a_pair_without_a_seed_of_all_settings_is_left_out() -> None:
    runs = [run(*pair, layer, 0.5, seed=1 + (layer == 1 and pair == PAIRS[0])) for pair in PAIRS for layer in (0, 1)]
    [found], [message] = tuned(grouped(runs))
    assert len(found.choices) == len(PAIRS) - 1
    assert message == "lisa: hotel → laptop is left out: no seed was run with all settings"


def test_a_setting_that_a_run_lacks_is_another_than_the_word_none() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    for one in runs[::2]:
        one["config"]["injection"]["lisa"] = {"layer": None, "targets": "x"}
    for one in runs[1::2]:
        one["config"]["injection"]["lisa"] = {"layer": "none", "targets": "x"}
    [found], _ = tuned(grouped(runs))
    assert len(found.settings) == 2
    [section] = tuned_sections(grouped(runs))
    assert "layer not set" in str(section)


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (
            [run("a", "b", layer, 0.5) for layer in (0, 1)],
            ["lisa: a → b is left out: no pair is left that shares neither source nor target"],
        ),
        (
            [run("a", "b", 0, 0.5), run("a", "b", 1, 0.5), run("b", "a", 1, 0.5), run("b", "a", 2, 0.5)],
            ["lisa: not tuned: its pairs have 1 settings in common, and two are needed"],
        ),
    ],
)
def test_what_cannot_be_tuned_elsewhere_is_told(runs: list[dict[str, Any]], words: list[str]) -> None:
    assert tuned(grouped(runs)) == ([], words)


def test_a_pair_that_cannot_be_tuned_leaves_the_others_theirs() -> None:
    runs = [run(*pair, layer, 0.5) for pair in (("a", "b"), ("c", "d"), ("a", "d")) for layer in (0, 1)]
    [found], messages = tuned(grouped([*runs, run("e", "f", 0, 0.5)]))
    assert {choice.pair for choice in found.choices} == {"a → b", "c → d"}
    assert messages == [
        "lisa: a → d is left out: no pair is left that shares neither source nor target",
        "lisa: e → f is left out: run with one setting",
    ]


def test_other_corpora_choose_where_there_are_several() -> None:
    """They may hold the same texts by other names."""

    def of(name: str, *pair: str) -> list[dict[str, Any]]:
        runs = [run(*pair, layer, 0.25 + 0.5 * (layer == (name == "joint"))) for layer in (0, 1)]
        for one in runs:
            one["config"]["data"]["folder"] = name
        return runs

    pairs = [("restaurants", "laptops"), ("laptops", "restaurants")]
    runs = [*of("aspects", *pairs[0]), *of("aspects", *pairs[1]), *of("joint", "rest", "laptop")]
    [found], _ = tuned(grouped(runs))
    assert {choice.pair: choice.chosen[0][0][1] for choice in found.choices} == {
        "restaurants → laptops": "1", "laptops → restaurants": "1", "rest → laptop": "0",
    }  # fmt: skip


def test_sources_that_are_shared_in_part_are_shared() -> None:
    runs = [run(*pair, layer, 0.5) for pair in (("a+b", "c"), ("b+c", "a")) for layer in (0, 1)]
    found, messages = tuned(grouped(runs))
    assert found == [] and len(messages) == 2


def test_scores_by_different_names_are_not_put_together() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    other = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    for one in other:
        one |= {"headline": "aspect_f1", "target_test": {"aspect_f1": 0.75}}
    [section] = tuned_sections(grouped([*runs, *other]))
    told = [getattr(block, "text", "") for block in section.blocks]
    assert [text.split(", settings")[0] for text in told if text.startswith("Extraction")] == [
        "Extraction, mean aspect_f1 in percent", "Extraction, mean span_f1 in percent",
    ]  # fmt: skip


def test_a_run_without_labelled_test_has_no_part() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    runs[0]["target_test"] = None
    [found], [message] = tuned(grouped(runs))
    assert len(found.choices) == len(PAIRS) - 1 and message == "lisa: hotel → laptop is left out: run with one setting"


def test_a_method_of_one_setting_stands_beside_those_of_several() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    runs += [run(*pair, 0, 0.25, method="source_only", role="source_only") for pair in PAIRS[:3]]
    lisa, plain = tuned(grouped(runs))[0]
    assert (lisa.method, plain.method, plain.settings, plain.score, len(plain.choices)) == (
        "lisa", "source_only", ((),), 0.25, 3,
    )  # fmt: skip
    [section] = tuned_sections(grouped(runs))
    told = getattr(section.blocks[0], "text", "")
    assert "not tried with as many settings each" in told and "not run on the same pairs" in told


def test_methods_may_be_named() -> None:
    runs = [run(*pair, layer, 0.5, method=name) for pair in PAIRS for layer in (0, 1) for name in ("lisa", "gnn")]
    pairs = grouped(runs)
    assert [one.method for one in tuned(pairs)[0]] == ["gnn", "lisa"]
    assert [one.method for one in tuned(pairs, ["gnn"])[0]] == ["gnn"]
    controls = {"benchmark": {"controls": {"lisa": ["gnn"]}}}
    for one in runs:
        one["config"] |= controls
    assert [one.method for one in tuned(grouped(runs))[0]] == ["lisa"]


def test_bars_and_single_settings_are_no_matter_for_tuning() -> None:
    ceiling = [run(*pair, layer, 0.5, method="in_domain", role="in_domain") for pair in PAIRS for layer in (0, 1)]
    pairs: list[Pair] = grouped([*ceiling, *(run(*pair, 0, 0.5) for pair in PAIRS)])
    assert tuned(pairs) == ([], []) and tuned_sections(pairs) == []


def test_unequal_budgets_are_told() -> None:
    runs = [run(*pair, layer, 0.5) for pair in PAIRS for layer in (0, 1)]
    runs += [run(*pair, layer, 0.5, method="source_only", role="source_only") for pair in PAIRS for layer in (0, 1, 2)]
    [section] = tuned_sections(grouped(runs))
    assert "not tried with as many settings each" in getattr(section.blocks[0], "text", "")
