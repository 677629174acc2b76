"""Run folders: found at any depth, refused or counted by name when broken; and their numbers for a notebook."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.reporting.frames import FORMULA, inert, write_csv
from domadapt.reporting.report import FORMATS, report
from domadapt.runs.groups import read_runs

WORD = {"span_f1": "0.5"}


def test_found_at_any_depth_once_and_broken_ones_are_counted(make_run: Any, tmp_path: Path) -> None:
    folder = make_run("source_only", 1, 0.5)
    found = read_runs([tmp_path, folder, folder / "metrics.json"])
    assert ([run.folder for run in found.runs], found.skipped) == ([str(folder)], ())
    broken = tmp_path / "runs" / "broken"
    broken.mkdir()
    (broken / "metrics.json").write_text("{", encoding="utf-8")
    found = read_runs(tmp_path / "runs")
    assert (len(found.runs), len(found.skipped)) == (1, 1) and str(broken / "metrics.json") in found.skipped[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not whole JSON"),
        ('{"format": 1, "source": "cam', "not whole JSON"),
        ("[" * 100_000, "not whole JSON"),
        ("[1]", "holds a list, expected an object"),
        ('{"format": 99}', "format 99, expected 1"),
        ('{"format": 1}', "lacks source, target"),
        (b"\xff\xfe", "unreadable"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    (tmp_path / "metrics.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"metrics\.json.*{message}.*run that cell again"):
        read_runs(tmp_path)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"config": "a string", "curve": None}, "curve, config"), ({"source_dev": WORD}, "source_dev")],
)
def test_a_field_of_another_kind_is_named(make_run: Any, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"lacks {named}, or has something else"):
        read_runs(make_run("lisa", 1, 0.5, **fields))


@pytest.mark.parametrize(("name", "message"), [("absent", "no such folder"), (".", "no metrics.json there")])
def test_nothing_there(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_runs(tmp_path / name)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@given(st.text(max_size=20))
def test_no_cell_is_a_formula(text: str) -> None:
    assert not inert(text).lstrip().startswith(FORMULA)


def test_one_row_a_run_and_one_a_method(make_run: Any, tmp_path: Path) -> None:
    choices = {"entropy": {"epoch": 1, "target_test": {"span_f1": 0.25}}}
    selection = {"validator": "source_dev", "epoch": 2, "gap": 0.125, "choices": choices}
    for method, score in (("source_only", 0.5), ("lisa", 0.625), ("in_domain", 0.75)):
        for seed in (1, 2):
            make_run(method, seed, score, selection=selection)
    report(tmp_path / "runs", tmp_path / "r.html", FORMATS)
    runs = {(row["method"], row["seed"]): row for row in read(tmp_path / "r.runs.csv")}
    lisa = runs["lisa", "2"]
    assert (len(runs), lisa["pair"], lisa["role"], lisa["key"]) == (6, "camera → laptop", "adapted", "lisa2")
    numbers = {"score": 0.625, "seconds": 3.0, "seconds_fit": 2.0, "selection_epoch": 2, "selection_gap": 0.125}
    numbers |= {"score_by_entropy": 0.25, "epoch_by_entropy": 1, "target_test_aspect_f1": 0.525}
    assert {name: float(lisa[name]) for name in numbers} == numbers
    method = next(row for row in read(tmp_path / "r.methods.csv") if row["method"] == "lisa")
    assert (method["baseline"], float(method["baseline_difference"]), float(method["gap_closed"])) == (
        "source_only", 0.125, 0.5,
    )  # fmt: skip


def test_formulas_control_characters_and_negative_numbers(make_run: Any, tmp_path: Path) -> None:
    make_run("source_only", 1, 0.5, target="=cmd()\x07", key="@SUM(A1)")
    report(tmp_path / "runs", tmp_path / "r.html", ["csv"])
    (line,) = read(tmp_path / "r.runs.csv")
    assert (line["target"], line["key"]) == ("'=cmd()⟨U+0007⟩", "'@SUM(A1)")
    write_csv([{"=name": -0.5}, {"=name": None, "b": "-1"}], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "'=name,b\n-0.5,\n,'-1\n"
