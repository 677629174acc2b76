"""README.md and docs/ say what results/ and conf/ say; results/ is what finished runs say."""

import csv
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import benchmarks
from benchmarks.collect import main
from benchmarks.tables import MISSING, PAGES, RESULTS, ROOT, written
from tests.support import make_metrics, read_csv, write_jsonl

RUNS = """pair,method,role,seed,span_f1,aspect_f1,train_seconds,regret,expected,expected_low,expected_high,decoding,\
network,processor,precision,commit
a → b,source_only,source_only,1,60.0,50.0,20,1.0,58.0,50.0,66.0,Viterbi 0.5,x,some,32,abc
a → b,recipe,adapted,1,66.0,60.0,60,0.0,70.0,68.0,72.0,Viterbi 0.5,y,some,32,abc
b → a,recipe,adapted,1,70.0,60.0,40,0.5,69.0,60.0,75.0,Viterbi 0.5,z,some,32,abc
"""
GAINS = """score,pair,method,other,pairs,seeds,before,after,gain,low,high,over,p_some_pair,p_other_pairs,gap_closed,\
gap_low,gap_high
span_f1,a → b,recipe,source_only,1,3,60.0,66.0,6.0,5.0,7.0,seeds,,,50.0,40.0,60.0
span_f1,b → a,recipe,source_only,1,3,71.0,70.0,-1.0,-2.0,0.5,seeds,,,,,
span_f1,all pairs,recipe,source_only,2,3,65.5,68.0,2.5,1.5,3.5,seeds,0.01,0.2,25.0,15.0,35.0
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "some.csv").write_text(RUNS, encoding="utf-8")
    (tmp_path / "some.gains.csv").write_text(GAINS, encoding="utf-8")
    (tmp_path / "experiments.csv").write_text("file,asks\nsome,made-up pairs\n", encoding="utf-8")
    return tmp_path


def test_every_block_of_the_pages_is_what_its_source_gives() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(ROOT))
        assert written(text, name) == text, f"{name} is not what results/ and conf/ say: run `make tables`"


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("gains: some span_f1", "| `recipe` − `source_only` | 2 × 3 | +2.5 (+1.5 to +3.5) | -1.0 (b → a) | -1.0 | 0"),
        ("scores: some span_f1", "| `recipe` | 66.0 | 70.0 | 68.0 |"),
        ("scores: some span_f1", "| `source_only` | 60.0 | – |  |"),
        ("claims: some=no", "| `recipe` − `source_only`, spans: made-up pairs | 65.5 → 68.0 | +2.5 (+1.5 to +3.5)"),
        ("costs: some", "| `recipe` | 60 | 4.0 | 0.2 |"),
        ("summary: some", "| spans: made-up pairs | 2 × 3 | 65.5 | **68.0** | – | +2.5 (+1.5 to +3.5) | 25 % (15"),
        ("gains: nothing span_f1", MISSING),
        ("choices: injection", "- **`injection=none`**: No syntax."),
    ],
)
def test_a_block_is_written_anew_and_the_prose_around_it_is_kept(results: Path, block: str, line: str) -> None:
    text = f"Before.\n<!-- {block} -->\nold 99.9\n<!-- end -->\nAfter.\n".replace("\\\n", "\n")
    found = written(text, results=results)
    assert found.startswith("Before.\n<!-- ") and found.endswith("<!-- end -->\nAfter.\n") and "99.9" not in found
    assert any(one.startswith(line.rstrip("|").rstrip()) or line in one for one in found.splitlines()), found
    assert written(found, results=results) == found


@pytest.mark.parametrize(("epochs", "earlier"), [(5, True), (4, False)])
def test_a_recipe_that_took_two_more_epochs_than_source_only_is_called_the_earlier_one(
    results: Path, epochs: int, earlier: bool
) -> None:
    header, *lines = RUNS.splitlines()
    counted = [f"{line},{3 if 'source_only' in line else epochs}" for line in lines]
    (results / "later.csv").write_text("\n".join([f"{header},epochs", *counted]), encoding="utf-8")
    (results / "later.gains.csv").write_text(GAINS, encoding="utf-8")
    for block in ("gains: later span_f1", "scores: later span_f1", "claims: later=no", "summary: later"):
        assert ("(earlier)" in written(f"<!-- {block} -->\n<!-- end -->", results=results)) == earlier


def test_every_benchmark_can_be_imported() -> None:
    modules = [import_module(module.name) for module in pkgutil.iter_modules(benchmarks.__path__, "benchmarks.")]
    assert modules and all(module.__doc__ for module in modules)


def test_results_are_few_tidy_and_name_no_machine() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert len(files) <= 64 and sum(path.stat().st_size for path in files) <= 3_000_000
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(home|root|tmp|work|Users|mnt)/", text), path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- tabel: some -->\n<!-- end -->", "tabel.*: no such block; there are summary, claims, scores"),
        ("<!-- scores: some span_f1 -->\n", "a block without an end"),
        ("<!-- scores: a b -->\n<!-- scores: a b -->\n<!-- end -->", "a block without an end"),
        ("<!-- settings: nowhere -->\n<!-- end -->", "settings: nowhere: no such file or folder"),
    ],
)
def test_a_wrong_block_is_named(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        written(text)


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
    made = [tmp_path / name for name in ("memd.csv", "memd.gains.csv")]
    runs, gains = map(read_csv, made)
    return runs, gains, "".join(path.read_text(encoding="utf-8") for path in made)


def _run(folder: Path, target: str, method: str, role: str, seed: int, aspect: int, opinion: int) -> None:
    aspect_f1, opinion_f1 = (aspect + seed) / 100, (opinion + (seed if role == "adapted" else 0)) / 100
    scores = {"span_f1": (aspect_f1 + opinion_f1) / 2, "aspect_f1": aspect_f1, "opinion_f1": opinion_f1}
    config = {
        "task": {"transition_weight": 0.5}, "trainer": {"epochs": 5}, "backbone": {"name": "/home/me/minilm"},
        "paths": {"runs": "/home/me/runs"}, "benchmark": {"controls": {"recipe": ["recipe@linear"]}},
    }  # fmt: skip
    made = make_metrics(
        method, seed, None, key=f"{target[0]}{method[:3]}{seed}", source="laptop", target=target, role=role,
        source_dev=scores, target_test={**scores, "aspect_support": 100.0}, curve=[], config=config,
        seconds={"build": 1.0, "fit": 20.0, "evaluate": 5.0},
        hardware={"name": "A processor", "threads": 1, "precision": "32-true"},
    )  # fmt: skip
    write_jsonl(folder / "metrics.json", [made])


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


def test_rows_of_earlier_runs_join_and_gain_what_their_runs_did(collected: Any, tmp_path: Path) -> None:
    runs, gains, _ = collected
    for name, seeds in (("old", "12"), ("new", "3")):
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(runs[0]))
            writer.writeheader()
            writer.writerows(row for row in runs if row["seed"] in seeds)
    main([*(str(tmp_path / name) for name in ("old.csv", "new.csv", "both.csv")), "--scores", "span_f1", "aspect_f1"])
    both = read_csv(tmp_path / "both.gains.csv")
    known = {(g["score"], g["pair"], g["method"], g["other"]): g for g in gains}
    for row in both:
        other = known[row["score"], row["pair"], row["method"], row["other"]]
        same = ("pairs", "seeds", "before", "after", "gain", "low", "high", "over")
        assert [row[name] for name in same] == [other[name] for name in same]
    assert len(both) == 2 * 3 * 3  # scores; methods; two pairs and both


def test_a_wrong_output_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), str(tmp_path / "memd.txt")])
    assert "memd.txt: expected a name that ends in .csv" in capsys.readouterr().err
