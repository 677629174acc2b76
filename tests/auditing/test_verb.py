"""`domadapt audit` and `domadapt.audit`, on a user's own files."""

import sys
from pathlib import Path

import pytest

import domadapt
from domadapt.auditing.audit import read_audit
from domadapt.cli import main as cli

from ..support import records, write_jsonl


def files(folder: Path) -> list[str]:
    """A small problem whose test stands in the unlabelled text."""
    test = records("laptop", 12, 6)
    write_jsonl(folder / "source.jsonl", records("camera", 24))
    write_jsonl(folder / "target.jsonl", records("laptop", 20, 5) + [{**r, "id": f"copy-{r['id']}"} for r in test])
    write_jsonl(folder / "test.jsonl", test)
    return [
        "data=my_files",
        f"data.source.path={folder}/source.jsonl",
        f"data.target.path={folder}/target.jsonl",
        f"data.target.test_path={folder}/test.jsonl",
    ]


def test_prints_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["domadapt", "audit", *files(tmp_path), "output=out/audit.json"])
    cli.main()
    out = capsys.readouterr().out
    assert "source → target: scores can't be taken as they stand" in out
    assert "12 of 12 texts of the target test (100 %) stand in the target unlabelled too" in out
    assert "dependency paths" in out
    found = read_audit(tmp_path / "out")
    assert found.parts == {"source train": 22, "source dev": 2, "target unlabelled": 32, "target test": 12}
    assert found.findings[0].severity == "severe"
    assert found.verdict.startswith("source → target: scores can't be taken")


def test_a_task_chooses_the_annotation(tmp_path: Path) -> None:
    labels = domadapt.audit([*files(tmp_path), "task=classification"])
    spans = domadapt.audit([*files(tmp_path), "task=extraction", "paths_overlap=false"])
    assert "terms" not in {f.kind for f in labels.findings}
    assert "paths" not in {f.kind for f in spans.findings}
    assert any("Cramér" in f.text for f in labels.findings)
    assert not any("Cramér" in f.text for f in spans.findings)
    assert not (tmp_path / "audit.json").exists()


@pytest.mark.parametrize(
    ("override", "told"), [("seed=x", "seed='x': expected a whole number"), ("data=my_files", "source.path is not set")]
)
def test_an_error_of_the_user(
    override: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["domadapt", "audit", override, "output=null"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert told in capsys.readouterr().err
