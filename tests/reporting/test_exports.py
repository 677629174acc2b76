"""The numbers for a notebook."""

import csv
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.reporting.frames import FORMULA, inert, write_csv
from domadapt.reporting.report import FORMATS, report


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


def test_git_sees_nothing_of_what_make_run_writes(make_run: Any, tmp_path: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    shutil.copy(Path(__file__).parents[2] / ".gitignore", tmp_path)
    make_run("source_only", 1, 0.5)
    report(tmp_path / "runs", tmp_path / "report.html", FORMATS)
    assert len([*tmp_path.glob("report.*")]) >= 4
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    status = subprocess.run([*git, "status", "--porcelain", "-uall"], capture_output=True, text=True, check=True)
    assert status.stdout == "?? .gitignore\n"


def test_formulas_control_characters_and_negative_numbers(make_run: Any, tmp_path: Path) -> None:
    make_run("source_only", 1, 0.5, target="=cmd()\x07", key="@SUM(A1)")
    report(tmp_path / "runs", tmp_path / "r.html", ["csv"])
    (line,) = read(tmp_path / "r.runs.csv")
    assert (line["target"], line["key"]) == ("'=cmd()⟨U+0007⟩", "'@SUM(A1)")
    write_csv([{"=name": -0.5}, {"=name": None, "b": "-1"}], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "'=name,b\n-0.5,\n,'-1\n"
