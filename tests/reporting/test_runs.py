"""Run folders: found at any depth, refused or counted by name when broken."""

from pathlib import Path
from typing import Any

import pytest

from domadapt.runs.groups import read_runs


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


def test_a_field_of_another_kind_is_named(make_run: Any) -> None:
    with pytest.raises(ValueError, match="lacks curve, config, or has something else"):
        read_runs(make_run("lisa", 1, 0.5, config="a string", curve=None))


@pytest.mark.parametrize(("name", "message"), [("absent", "no such folder"), (".", "no metrics.json there")])
def test_nothing_there(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_runs(tmp_path / name)
