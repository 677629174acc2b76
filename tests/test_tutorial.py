"""The tutorials, docs/tutorial.ipynb and docs/spans.md, run as a reader would run them, and print what they show."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tables import ROOT
from tests.support import Command

NOTEBOOK, SPANS = ROOT / "docs" / "tutorial.ipynb", ROOT / "docs" / "spans.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Of each cell with code, what it prints on any machine.
PRINTED = (
    (),
    ("epoch 3 of 3: loss", "epoch 5 of 5: loss"),
    ("Expect a macro F1 of about", "Before adapting", "Predicted of 20 target texts", "words that set them apart"),
    ("positive", "negative"),
    ("report.html",),
    (),
)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Of each command of docs/spans.md, by its verb: lines that it prints with any network.
SAID = {
    "adapt": (
        "Expect a span F1 of about",
        "Before adapting",
        "Predicted of 430 target texts",
        "predictions, drawn at random",
    ),
    "predict": ('"spans": [',),
    "score": (
        "170 labelled texts of hotel_labelled.jsonl",
        "  span F1 ",
        "precision",
        "Without labels the card expected",
    ),
    "compare": ("a: hotel_adapted/source_only", "of 430 texts are labelled differently"),
    "report": ("report.html",),
}
QUICK = [
    "backbone=tiny_random",
    "trainer.epochs=1",
    "trainer.extra_epochs=0",
    "trainer.min_steps=0",
    "trainer.precision=32",
]


def printed(cell: Any) -> str:
    """What a reader sees below a cell."""
    return "".join("".join(out.get("text") or out.get("data", {}).get("text/plain", "")) for out in cell["outputs"])


def test_the_notebook_is_kept_with_outputs_and_its_links_lead_to_pages() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for cell, phrases in zip(code, PRINTED, strict=True):
        assert all(phrase in printed(cell) for phrase in phrases), printed(cell)
    assert not re.search(r"/(tmp|home|root|work)/", "".join(map(printed, code)))
    links = LINK.findall("".join(line for cell in cells if cell not in code for line in cell["source"]))
    assert links and all((NOTEBOOK.parent / link).is_file() for link in links)


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name in ("TMPDIR", "HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    here = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, kernel_name="python3", resources=here).execute()
    for cell, phrases in zip([c for c in notebook.cells if c.cell_type == "code"], PRINTED, strict=True):
        assert all(phrase in printed(cell) for phrase in phrases), printed(cell)
    assert not [*(tmp_path / "TMPDIR").glob("tmp*")]  # the last cell removes what the first made


def test_the_tutorial_on_spans_runs(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a network that takes seconds: what its page shows was printed by the real one."""
    monkeypatch.setenv("DOMADAPT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "data", tmp_path / "domadapt" / "data")
    ran = []
    for block in CONSOLE.findall(SPANS.read_text(encoding="utf-8")):
        parts = re.split(r"^\$ (.*)$", block, flags=re.MULTILINE)[1:]
        for line, shown in zip(parts[::2], parts[1::2], strict=True):
            words = shlex.split(line, comments=True)
            if words[0] == "cp":
                shutil.copy(words[1], words[2])
                continue
            ran.append(words[1])
            code, out, told = command(*words[1:], *(QUICK if words[1] == "adapt" else []))
            assert code == 0, told
            for phrase in SAID[words[1]]:
                assert phrase in shown and phrase in out + told, (line, phrase, out)
    assert set(ran) == set(SAID)


def test_readme_quotes_the_card_of_the_tutorial() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [card] = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    lines = {line.strip() for line in SPANS.read_text(encoding="utf-8").splitlines()}
    assert all(line.strip() in lines for line in card.splitlines() if line.strip() != "...")
