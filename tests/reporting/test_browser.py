"""The page in a real browser: a quiet console, nothing beside the page, something to be seen."""

import base64
import json
from pathlib import Path

import pytest
from matplotlib.image import imread

from benchmarks.synthetic import synthetic_runs
from domadapt.reporting.report import report
from tests.reporting.chromium import Chromium

OVERFLOWING = """JSON.stringify([...document.querySelectorAll("body *")].filter(element => {
  const inner = element.parentElement.closest(".scroll");
  const box = element.getBoundingClientRect();
  return !inner && box.width > 0 && (box.right > document.documentElement.clientWidth + 1 || box.left < -1);
}).map(element => element.outerHTML.slice(0, 200)))"""
# A table that is wider than the paper is cut there: nobody can scroll it.
CLIPPED = """JSON.stringify([...document.querySelectorAll(".scroll")].filter(
  element => element.firstElementChild.getBoundingClientRect().right > document.documentElement.clientWidth + 1
).map(element => element.getAttribute("aria-label")))"""
PAPER = 703  # pixels: A4 less the margins of the style sheet


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with everything in it but trained models, and names that hurt."""
    folder = tmp_path_factory.mktemp("browser")
    synthetic_runs(folder / "runs", pairs=2, methods=6, seeds=3, texts=30)
    for path in (folder / "runs").rglob("metrics.json"):
        metrics = json.loads(path.read_text(encoding="utf-8"))
        if metrics["method"] == "method_1":
            metrics["method"] = "a_method_with_a_name_that_is_far_longer_than_anybody_ever_wanted+and_more"
        if metrics["source"] == "source1":
            metrics["target"] = "<script>alert(1)</script>\u202e" + "x" * 90
        path.write_text(json.dumps(metrics), encoding="utf-8")
    for path in (folder / "runs").rglob("predictions.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines()
        row = json.loads(lines[0])
        row["text"] = f"{row['text']} </p><script>alert(1)</script> \u202e الكاميرا {'y' * 2000}"
        path.write_text("\n".join([json.dumps(row), *lines[1:], ""]), encoding="utf-8")
    return report(folder / "runs", folder / "report.html", ["html"])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 900, 1400])
def test_page(page: Path, chromium: Chromium, tmp_path: Path, width: int, dark: bool) -> None:
    chromium.visit(page.as_uri(), width, dark)
    assert chromium.complaints() == []
    assert chromium.evaluate("document.documentElement.scrollWidth") == width
    assert json.loads(chromium.evaluate(OVERFLOWING)) == []
    if width == 390:  # a last column of words is wide enough that its rows are no strips of nothing beside it
        chromium.evaluate("document.querySelector('tbody tr').insertAdjacentHTML('beforeend', '<td class=l id=last>a')")
        assert chromium.evaluate("last.offsetWidth") >= 288
        chromium.visit(page.as_uri(), width, dark)
    height = chromium.evaluate("document.documentElement.scrollHeight")
    for index, top in enumerate(range(0, height, 4000)):
        clip = {"x": 0, "y": top, "width": width, "height": min(4000, height - top), "scale": 1}
        shot = tmp_path / f"{index}.png"
        taken = chromium.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        shot.write_bytes(base64.b64decode(taken["data"]))
        pixels = imread(shot)[..., :3]
        background = pixels[0, 0]
        assert (background.mean() < 0.3) == dark
        drawn = (abs(pixels - background) > 0.2).any(axis=-1).mean()
        assert 0.005 < drawn < 0.5, f"{shot}: {drawn:.1%} of it is not background"


def test_tables_fit_the_paper(page: Path, chromium: Chromium, tmp_path: Path) -> None:
    chromium.visit(page.as_uri(), PAPER, False)
    chromium.call("Emulation.setEmulatedMedia", media="print")
    clipped = json.loads(chromium.evaluate(CLIPPED))
    chromium.call("Emulation.setEmulatedMedia", media="")
    assert clipped == []
    paper = chromium.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert base64.b64decode(paper).startswith(b"%PDF")
