"""The selection study against a slow reference, and what it reads of run folders."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domadapt.runs.groups import group
from domadapt.runs.reading import typed
from domadapt.statistics.choices import Choices, choices
from domadapt.statistics.selection_study import selection_study
from tests.statistics.made import run

NAMES = ("entropy", "infomax", "source_dev")
SIXTEENTHS = st.integers(0, 16).map(lambda n: n / 16)  # exact in binary: no tie hangs on rounding


def made(
    corpus: str, pair: str, method: str, seed: int, losses: tuple[float, ...], values: tuple[float, ...]
) -> Choices:
    scores = {"oracle": 1.0, **{name: 1 - loss for name, loss in zip(NAMES, losses)}}
    return Choices(corpus, pair[0], pair[1], "extraction", method, seed, "bert", scores, dict(zip(NAMES, values)), {})


cells = st.fixed_dictionaries(
    {},
    optional={
        (corpus, pair, method, seed): st.tuples(st.tuples(*[SIXTEENTHS] * 3), st.tuples(*[SIXTEENTHS] * 3))
        for corpus in ("one", "two")
        for pair in ("ab", "ba", "ac", "cb")
        for method in ("gnn", "source_only")
        for seed in (1, 2)
    },
).filter(bool)


def slow_mean(table: dict[tuple[str, str, str, int], float]) -> float:
    """Mean over seeds, methods, pairs, corpora, one level after the other."""
    flat: dict[tuple[Any, ...], float] = dict(table)
    while len(next(iter(flat))):
        levels = defaultdict(list)
        for key, value in flat.items():
            levels[key[:-1]].append(value)
        flat = {key: sum(values) / len(values) for key, values in levels.items()}
    return flat[()]


@given(cells)
@settings(max_examples=60)
def test_the_study_is_what_a_slow_one_finds(found: dict[Any, Any]) -> None:
    [study] = selection_study([made(*key, *value) for key, value in found.items()])
    losses = {name: {key: value[0][i] for key, value in found.items()} for i, name in enumerate(NAMES)}
    means = {name: slow_mean(table) for name, table in losses.items()}
    for one in study.validators[:-1]:
        assert one.mean == pytest.approx(means[one.validator])
        assert one.worst == max(losses[one.validator].values())
        assert one.score == pytest.approx(1 - means[one.validator])
    assert study.validators[-1].validator == "oracle" and study.validators[-1].mean == 0
    assert means[study.default] == pytest.approx(min(means.values()))

    corpora = {key[0] for key in found}
    assert study.unit == ("corpus" if len(corpora) > 1 else "pair")
    pairs = sorted({key[1] for key in found})
    for fold in study.folds:
        for name, table in losses.items():
            if len(corpora) > 1:
                inside = {key for key in table if key[0] == fold.held_out}
                outside = table.keys() - inside
            else:
                source, target = fold.held_out[0], fold.held_out[-1]
                inside = {key for key in table if key[1] == source + target}
                outside = {key for key in table if key[1][0] != source and key[1][1] != target}
            assert fold.regrets[name] == pytest.approx(slow_mean({key: table[key] for key in inside}))
            elsewhere = slow_mean({key: table[key] for key in outside})
            chosen = slow_mean({key: losses[fold.chosen][key] for key in outside})
            assert chosen <= elsewhere + 1e-12
    for fold in study.alone:
        rest = {key for key in found if key[1] != fold.held_out[0] + fold.held_out[-1]}
        by_name = {name: slow_mean({key: table[key] for key in rest}) for name, table in losses.items()}
        assert by_name[fold.chosen] == pytest.approx(min(by_name.values()))
    if study.folds:
        assert [fold.held_out for fold in study.folds] == (
            sorted(corpora) if len(corpora) > 1 else [f"{a} → {b}" for a, b in pairs]
        )


@given(cells)
@settings(max_examples=40)
def test_choosing_among_methods_is_what_a_slow_one_finds(found: dict[Any, Any]) -> None:
    [study] = selection_study([made(*key, *value) for key, value in found.items()])
    for one in study.validators[:-1]:
        place, lost = NAMES.index(one.validator), []
        for corpus, pair, method, seed in found:
            if method == "gnn" and (other := (corpus, pair, "source_only", seed)) in found:
                (gnn_loss, gnn), (plain_loss, plain) = found[corpus, pair, method, seed], found[other]
                # Of equal values the first by name counts.
                loss = gnn_loss[place] if gnn[place] >= plain[place] else plain_loss[place]
                lost.append(loss - min(gnn_loss[place], plain_loss[place]))
        assert one.choices == len(lost)
        assert (one.across is None) == (not lost)
        if lost:
            assert one.across == pytest.approx(sum(lost) / len(lost))


def test_nothing_is_chosen_on_the_test_labels_that_it_is_reported_on() -> None:
    """Pairs with the held-out pair's source or target have no say in it."""
    runs = [made("one", pair, "gnn", 1, (1.0, 0.5, 0.0), (0,) * 3) for pair in ("ab", "ac", "cb")]
    [study] = selection_study(runs)
    assert study.folds == ()  # for ab nothing is left
    assert [fold.chosen for fold in study.alone] == ["source_dev"] * 3
    runs += [made("one", "ba", "gnn", 1, (0.0, 0.5, 1.0), (0,) * 3)]
    [study] = selection_study(runs)
    assert {fold.held_out: fold.chosen for fold in study.folds}["a → b"] == "entropy"


def test_correlation_over_epochs_where_their_target_scores_are_known() -> None:
    one = {"picked": {}, "scores": {"entropy": 0.5, "oracle": 0.75}}
    values = {"entropy": (0.1, 0.2, 0.3)}
    runs = [
        Choices("c", "a", "b", "extraction", "gnn", seed, "", values=values, curve=curve, **one)
        for seed, curve in enumerate([(0.5, 0.7, 0.75), (0.75, 0.7, 0.5), (0.75, 0.5, 0.7), ()])
    ]
    [study] = selection_study(runs)
    assert study.validators[0].correlation == pytest.approx((1 - 1 - 0.5) / 3)
    assert study.validators[0].correlated == 3


def selected(folder: Path, method: str, scores: dict[str, float], **changes: Any) -> dict[str, Any]:
    """A run with the epochs that validators picked: the nth picks epoch n."""
    role = changes.pop("role", method if method in ("source_only", "in_domain") else "adapted")
    picks = {
        name: {"epoch": epoch, "target_test": {"span_f1": score}}
        for epoch, (name, score) in enumerate(scores.items(), start=1)
    }
    curve = [{"epoch": epoch, "validators": dict.fromkeys(scores, epoch / 8)} for epoch in range(1, len(scores) + 1)]
    return {
        **run(folder, None, {"span_f1": 0.5}, method, role, **changes),
        "selection": {"validator": "source_dev", "choices": picks, "target_curve": [0.1, 0.2, 0.3]},
        "curve": curve,
    }


def test_what_is_read_of_runs(tmp_path: Path) -> None:
    scores = {"source_dev": 0.5, "entropy": 0.625, "oracle": 0.75}
    controls = {"benchmark": {"controls": {"gnn": "gnn_linear"}}}
    runs = [
        selected(tmp_path, method, scores, config=controls)
        for method in ("source_only", "gnn", "gnn_linear", "in_domain")
    ]
    found, messages = choices(group([typed(run) for run in runs]))
    assert [one.method for one in found] == ["source_only", "gnn"] and not messages
    assert found[0].scores == scores
    assert found[0].picked["entropy"] == 2 / 8
    assert found[0].values["entropy"] == [1 / 8, 2 / 8, 3 / 8]
    assert found[0].curve == (0.1, 0.2, 0.3)
    assert [one.method for one in choices(group([typed(run) for run in runs]), ["in_domain"])[0]] == ["in_domain"]
    with pytest.raises(
        ValueError, match=r"methods=\['lisa'\]: no such methods among these runs; there are source_only,"
    ):
        choices(group([typed(run) for run in runs]), ["lisa"])


def test_runs_without_scores_of_choices_and_validators_of_some_are_told(tmp_path: Path) -> None:
    runs = [
        selected(tmp_path, "gnn", {"source_dev": 0.5, "oracle": 0.75}),
        selected(tmp_path, "lisa", {"source_dev": 0.5, "entropy": 0.5, "oracle": 0.75}),
        run(tmp_path, None, {"span_f1": 0.5}, "masked_lm", "adapted"),
    ]
    found, messages = choices(group([typed(run) for run in runs]))
    assert messages == [
        "1 run keeps no target scores of validators' choices: left out",
        "validators that not every run was scored by are left out: entropy (not in 1 of 2 runs)",
    ]
    [study] = selection_study(found)
    assert [one.validator for one in study.validators] == ["source_dev", "oracle"]
