"""docs/tutorial.ipynb: runs from top to bottom as a reader would run it, and is kept without what it printed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tables import ROOT

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def printed(cell: Any) -> str:
    """What a reader sees below a cell."""
    return "".join(out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs)


def test_it_is_kept_without_outputs_and_its_links_lead_to_pages() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
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
    _, train, card, use, report, _ = (printed(cell) for cell in notebook.cells if cell.cell_type == "code")
    assert "epoch 3 of 3: loss" in train and "ensemble nan" not in train and "'macro_f1': " in train
    assert "Predicted of 20 target texts" in card and "words that set them apart" in card
    assert [line.split()[0] for line in use.splitlines()] == ["positive", "negative"]
    assert "report.html" in report
    assert not [*(tmp_path / "TMPDIR").glob("tmp*")]  # the last cell removes what the first made
