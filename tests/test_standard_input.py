"""A corpus through a pipe: kept under its hash, and the run reads that file."""

import gzip
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from domadapt.cli.main import pipe_to_file
from domadapt.data.readers import read

ROWS = "".join(json.dumps({"text": f"The {noun} is great.", "label": label}) + "\n" for noun, label in
               [("lens", "good"), ("strap", "bad")] * 20)  # fmt: skip


def test_train_reads_a_pipe_and_its_command_works_without(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROWS, encoding="utf-8")
    given = ["source.path=a.jsonl", f"paths.cache={tmp_path}/c", "--cfg", "job", "--package", "data.target"]
    command = [sys.executable, "-m", "domadapt", "train", "data=my_files", "target.path=-", *given]
    done = subprocess.run(command, input=b"One text.\nAnother.\n", capture_output=True, cwd=tmp_path, check=True)
    digest = hashlib.sha256(b"One text.\nAnother.\n").hexdigest()[:16]
    path = tmp_path / "c" / "stdin" / digest / "stdin.txt"
    assert f"path: {path}" in done.stdout.decode() and path.read_bytes() == b"One text.\nAnother.\n"


@pytest.mark.parametrize(
    ("arguments", "content", "told"),
    [
        (
            ["source.path=-", "target.path=-"],
            b"x",
            r"^source.path=- and target.path=-: standard input can be read once",
        ),
        (["data.target.path=-"], b" \n", "^data.target.path=-: standard input holds nothing"),
    ],
)
def test_what_cant_be_read(
    arguments: list[str], content: bytes, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(ValueError, match=told):
        pipe_to_file([*arguments, f"paths.cache={tmp_path}"])
    assert not [*tmp_path.iterdir()]


def test_a_file_that_was_damaged_is_written_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One text.")))
        found.append(pipe_to_file(["seed=1", "source.path=-", f"paths.cache={tmp_path}"]))
        path = Path(found[-1][1].removeprefix("source.path="))
        assert path.read_bytes() == b"One text."
        path.write_bytes(b"One")
    assert found[0] == found[1] and found[0][0] == "seed=1"


@pytest.mark.parametrize(
    ("columns", "content", "texts"),
    [
        ([], b"One text.\nAnother, too.\n", ["One text.", "Another, too."]),
        ([], b'{"text": "One text."}\n', ["One text."]),
        ([], gzip.compress(b"One text.\nAnother.\n", mtime=0), ["One text.", "Another."]),
        (["target.text=review"], b"review,stars\nOne text.,5\n", ["One text."]),
    ],
    ids=["lines", "jsonl", "gzip", "table"],  # gzip holds the time, by which workers would differ
)
def test_every_format_comes_through_a_pipe(
    columns: list[str], content: bytes, texts: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    given = pipe_to_file(["target.path=-", *columns, f"paths.cache={tmp_path}"])
    path = Path(given[0].removeprefix("target.path="))
    found = read(path, domain="camera", labelled=False, columns={"text": ("review",)} if columns else None)
    assert [record.text for record in found.records] == texts
