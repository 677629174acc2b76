"""The table's numbers, against ones worked out by hand."""

from typing import Any

import pytest

from domadapt.reporting.rows import rows
from domadapt.reporting.tables import text_table
from domadapt.reporting.words import summary
from domadapt.runs.groups import Pair, reference
from domadapt.statistics.compare import compare
from domadapt.statistics.resampling import interval, mean_of
from tests.support import grouped


def _cells(text: str, method: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(method))
    return [cell for cell in line.split("  ") if cell.strip()]


def test_numbers_by_hand(make_metrics: Any) -> None:
    scores = {"source_only": (0.40, 0.42, 0.44), "lisa": (0.50, 0.52, 0.54), "in_domain": (0.80, 0.82, 0.84)}
    runs = [make_metrics(m, seed, v) for m, values in scores.items() for seed, v in enumerate(values, start=1)]
    text = text_table([*runs, make_metrics("rnn_from_scratch", 1, 0.1)])
    # Student's t with two degrees of freedom: 4.3027 × 0.02 / √3 = 0.0497. Gap: (0.52 − 0.42) / (0.82 − 0.42) = 0.25.
    expected = ["52.0", "47.0–57.0 (s)", "42.0", "62.0", "60.0", "25 %", "3"]
    assert [cell.strip() for cell in _cells(text, "lisa")[1:]] == expected
    assert [cell.strip() for cell in _cells(text, "source_only")[1:]][5] == "0 %"
    assert "in_domain (ceiling: trained on target labels)" in text
    assert _cells(text, "in_domain")[-2].strip() == "100 %"
    assert _cells(text, "rnn_from_scratch")[2].strip() == "- [1]"
    assert _cells(text, "rnn_from_scratch")[-2].strip() == "-"  # another network is nowhere on the way
    assert "[1] fewer than 3 seeds" in text
    assert "not all run with the same seeds" in text


def test_order_of_rows(make_metrics: Any) -> None:
    names = {"in_domain": 0.9, "weak": 0.1, "strong": 0.6, "source_only": 0.4, "rnn_from_scratch": 0.5}
    (pair,) = grouped([make_metrics(name, 1, score) for name, score in names.items()])
    assert [row.method.name for row in rows(pair)] == [
        "rnn_from_scratch", "source_only", "strong", "weak", "in_domain",
    ]  # fmt: skip


def test_missing_references_have_a_footnote(make_metrics: Any) -> None:
    text = text_table([make_metrics("lisa", 1, 0.5)])
    assert "- [1]" in text
    assert "[1] no comparable run of source_only or in_domain among these" in text


def test_target_without_labels(make_metrics: Any) -> None:
    runs = [make_metrics(name, 1, None) for name in ("source_only", "lisa")]
    assert "[1] the target test has no labels" in text_table(runs)
    assert "no labels" in _summary(grouped(runs)[0])


def test_clean_column_only_where_it_differs(make_metrics: Any) -> None:
    run = make_metrics("source_only", 1, 0.5)
    assert "clean" not in text_table([run])
    run |= {"target_test_sizes": {"all": 4, "clean": 3}, "target_test_clean": {"span_f1": 0.3}}
    text = text_table([run])
    assert _cells(text, "source_only")[3].strip() == "30.0"
    assert "clean: without test texts that are copies of" in text


def test_a_score_is_not_shown_twice(make_metrics: Any) -> None:
    run = make_metrics("source_only", 1, 0.75, task="classification", headline="accuracy")
    run["target_test"] = {"accuracy": 0.75, "macro_f1": 0.5}
    header = text_table([run]).splitlines()[1]
    assert (header.count("accuracy"), header.count("macro F1")) == (0, 1)  # the headline's column is called score


def test_classification_shows_accuracy(make_metrics: Any) -> None:
    run = make_metrics("source_only", 1, 0.5, task="classification", headline="macro_f1")
    run["target_test"] = {"macro_f1": 0.5, "accuracy": 0.75, "negative_f1": 0.1}
    text = text_table([run])
    assert "accuracy" in text
    assert "75.0" in text
    assert "negative" not in text


@pytest.mark.parametrize(("count", "over"), [(1, ""), (2, ""), (3, "seeds"), (19, "seeds"), (20, "seeds")])
def test_intervals_need_three_seeds(count: int, over: str) -> None:
    found = interval(mean_of([0.5 + 0.01 * i * i for i in range(count)]))
    assert found.over == over
    assert (found.low is None) == found.reason.startswith("fewer than 3 seeds") == (count < 3)
    if found.low is not None and found.high is not None:
        assert found.low < found.mean < found.high


@pytest.mark.parametrize("count", [3, 7])
def test_equal_scores_have_an_interval_of_no_width(count: int) -> None:
    found = interval(mean_of([0.5] * count))
    assert (found.low, found.high) == (0.5, 0.5)


def test_settings_and_data_are_never_averaged_together(make_metrics: Any) -> None:
    run = make_metrics("lisa", 1, 0.5)
    longer = make_metrics("lisa", 1, 0.6, config={**run["config"], "trainer": {"epochs": 9}})
    split = make_metrics("lisa", 1, 0.7, config={**run["config"], "data": {"source": "camera", "split": 2}})
    text = text_table([run, longer, split])
    assert "lisa (trainer.epochs=2)" in text
    assert "lisa (trainer.epochs=9)" in text
    assert "camera → laptop (data.split=2)" in text


def test_pairs_of_other_tasks_and_headlines_have_other_names(make_metrics: Any) -> None:
    classes = {"task": "classification", "target_test": {"macro_f1": 0.7, "accuracy": 0.8}}
    pairs = grouped([
        make_metrics("lisa", 1, 0.6),
        make_metrics("lisa", 1, 0.7, headline="macro_f1", **classes),
        make_metrics("lisa", 1, 0.8, headline="accuracy", **classes),
    ])  # fmt: skip
    assert {pair.name for pair in pairs} == {
        "camera → laptop (task=extraction, headline=span_f1)",
        "camera → laptop (task=classification, headline=macro_f1)",
        "camera → laptop (task=classification, headline=accuracy)",
    }
    found = compare(pairs)
    for pair in pairs:
        score = found.cell(pair.name, "lisa").score
        assert score is not None and score.mean == {"span_f1": 0.6, "macro_f1": 0.7, "accuracy": 0.8}[pair.headline]


def test_what_no_cell_key_counts_splits_no_runs(make_metrics: Any) -> None:
    def run(method: str, seed: int, threads: int, data: dict[str, Any]) -> dict[str, Any]:
        config = {"trainer": {"epochs": 2, "threads": threads}, "data": data}
        made: dict[str, Any] = make_metrics(method, seed, 0.5, config=config)
        return made

    here, bundled = ({"root": root, "folder": "joint_absa"} for root in ("/data", "corpora/data"))
    (pair,) = grouped([run("lisa", 1, 0, here), run("lisa", 2, 1, bundled)])
    assert (pair.name, [m.name for m in pair.methods], pair.methods[0].seeds) == ("camera → laptop", ["lisa"], (1, 2))
    nested = ({"problems": {"first": data}} for data in (here, bundled))
    (pair,) = grouped([run("lisa", seed, 0, data) for seed, data in enumerate(nested)])
    assert [m.seeds for m in pair.methods] == [(0, 1)]
    one, other = grouped([run("lisa", 1, 0, {"root": "/one"}), run("lisa", 1, 0, {"root": "/other"})])
    assert (one.name, other.name) == ("camera → laptop (data.root=/one)", "camera → laptop (data.root=/other)")


def test_a_setting_that_came_later_parts_no_runs(make_metrics: Any) -> None:
    """It is null in newer runs, and not there in older ones."""
    old, new = {"source": "camera"}, {"source": "camera", "source_texts": None}
    runs = [
        make_metrics("lisa", seed, 0.5, config={"seed": seed, "trainer": trainer, "data": data})
        for seed, trainer, data in ((1, {"epochs": 2}, old), (2, {"epochs": 2, "least_steps": None}, new))
    ]
    (pair,) = grouped(runs)
    (method,) = pair.methods
    assert method.name == "lisa" and method.seeds == (1, 2)


def test_threads_hide_no_reference(make_metrics: Any) -> None:
    def run(method: str, backbone: str, threads: int) -> dict[str, Any]:
        config = {"backbone": {"name": backbone}, "trainer": {"epochs": 2, "threads": threads}}
        made: dict[str, Any] = make_metrics(method, 1, 0.5, config=config)
        return made

    (pair,) = grouped([run("lisa", "a", 1), run("source_only", "a", 0), run("source_only", "b", 1)])
    mine, _, lisa = pair.methods
    assert lisa.name == "lisa"
    assert reference(pair, lisa, "source_only") is mine


def test_no_gap_between_unlike_test_sets(make_metrics: Any) -> None:
    scores = {"source_only": 0.4, "lisa": 0.5, "in_domain": 0.8}
    sizes = {"source_only": 2000, "lisa": 2000, "in_domain": 400}
    runs = [make_metrics(m, 1, scores[m], target_test_sizes={"all": sizes[m], "clean": sizes[m]}) for m in scores]
    (pair,) = grouped(runs)
    assert {(r.closed.value, r.closed.reason) for r in rows(pair)} == {
        (None, "in_domain was tested on 400 texts, source_only on 2000")
    }
    runs[2]["target_test_sizes"] = {"all": 2000, "clean": 2000}
    runs[1]["target_test_sizes"] = {"all": 400, "clean": 400}
    (pair,) = grouped(runs)
    reason = "in_domain was tested on 2000 texts, lisa on 400"
    assert [(r.closed.value is None, r.closed.reason == reason) for r in rows(pair)] == [
        (False, False), (True, True), (False, False),
    ]  # fmt: skip


def test_one_interval_whoever_asks(make_metrics: Any) -> None:
    """A terminal's table and the report agree where only scores are known, however many seeds."""
    runs = [make_metrics("lisa", seed, 0.5 + seed**2 / 10_000) for seed in range(25)]
    (pair,) = grouped(runs)
    (alone,), (reported,) = rows(pair), rows(pair, compare([pair]))
    assert alone.target is not None and reported.target is not None
    assert (alone.target.low, alone.target.high) == (reported.target.low, reported.target.high)


def test_the_later_of_two_equal_runs_counts(make_metrics: Any) -> None:
    text = text_table([make_metrics("lisa", 1, 0.5), make_metrics("lisa", 1, 0.6)])
    assert _cells(text, "lisa")[1].strip() == "60.0"
    assert "1 run left out" in text


def test_reference_with_the_same_backbone_is_taken(make_metrics: Any) -> None:
    def config(backbone: str) -> dict[str, Any]:
        return {"backbone": {"name": backbone}, "trainer": {"epochs": 2}}

    runs = [make_metrics(m, 1, s, config=config("small")) for m, s in (("source_only", 0.25), ("lisa", 0.5))]
    runs += [
        make_metrics("source_only", 1, 0.4, config=config("large")),
        make_metrics("in_domain", 1, 0.75, config=config("small")),
    ]
    assert _cells(text_table(runs), "lisa")[-2].strip() == "50 % [1]"


def _summary(pair: Pair) -> str:
    return summary(pair, compare([pair]))


def test_summary_with_too_few_seeds_claims_nothing(make_metrics: Any) -> None:
    runs = [make_metrics("source_only", seed, score) for seed, score in enumerate((0.40, 0.42, 0.44))]
    runs += [make_metrics("lisa", seed, score) for seed, score in enumerate((0.70, 0.72, 0.74))]
    said = _summary(grouped(runs)[0])
    assert "30.0 points above source_only" in said
    assert "no gain or loss is shown" in said
    assert "closes" not in said


@pytest.mark.parametrize(("sign", "word"), [(1, "a gain"), (-1, "a loss")])
def test_summary_with_many_seeds_claims_a_difference(make_metrics: Any, sign: int, word: str) -> None:
    runs = [make_metrics("source_only", seed, 0.5 + seed / 1000) for seed in range(12)]
    runs += [make_metrics("lisa", seed, 0.5 + sign * 0.1 + seed / 900) for seed in range(12)]
    assert f"{word} that training again would show" in _summary(grouped(runs)[0])


def test_summary_chooses_by_source_dev(make_metrics: Any) -> None:
    best_on_target = make_metrics("lisa", 1, 0.9)
    best_on_source = make_metrics("gnn", 1, 0.2, source_dev={"span_f1": 0.8})
    assert "gnn is best on source dev" in _summary(grouped([best_on_target, best_on_source])[0])


def test_nothing_to_tabulate() -> None:
    assert text_table([]) == "no finished runs"
