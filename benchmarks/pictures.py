"""The two pictures of README.md: ``python -m benchmarks.pictures [REPORT.html]``.

docs/method.svg shows a source sentence before and after it is rewritten, and who labels the target's own sentences.
docs/report.png is the first screen of a report, taken by Chromium: written where a report is named.
"""

import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[1] / "docs"
WIDTH, HEIGHT, SCREEN = 960, 300, (1100, 730)
COLORS = {"aspect": "#0072b2", "opinion": "#c14f00"}
Words = list[tuple[str, str]]  # each with its label, or none
SOURCE: Words = [("The", ""), ("battery life", "aspect"), ("is", ""), ("great", "opinion"), ("for the", ""),
                 ("price.", "")]  # fmt: skip
REWRITTEN: Words = [("The", ""), ("front desk staff", "aspect"), ("is", ""), ("great", "opinion"), ("for the", ""),
                    ("elevator.", "")]  # fmt: skip
TARGET: Words = [("The", ""), ("elevator", "aspect"), ("was", ""), ("slow", "opinion"), ("all week.", "")]


def method_svg() -> str:
    """Three sentences, one a row, with what happens to each beside it."""
    rows = [
        (50, SOURCE, "labelled source (laptops)", "trains the source-only network"),
        (140, REWRITTEN, "rewritten with words of the target", "trains the adapted network; the labels stay"),
        (230, TARGET, "the target's own text (hotels)", "both networks label it for the last two epochs"),
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="16">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for y, words, title, use in rows:
        parts += [_text(20, y - 22, title, "#555e68", 13), *_sentence(20, y + 6, words)]
        parts += [_text(500, y + 6, "→", "#555e68"), _text(530, y + 6, use, "#1b1f24", 15)]
    for x, (name, color) in zip((20, 120), COLORS.items(), strict=True):
        parts += [
            f'<rect x="{x}" y="279" width="14" height="4" fill="{color}"/>',
            _text(x + 20, 286, name, "#555e68", 13),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _sentence(x: float, y: float, words: Words) -> list[str]:
    """Words with a coloured line under those that are labelled; a letter is taken to be 7.4 wide."""
    parts = []
    for word, label in words:
        width = 7.4 * len(word)
        parts.append(_text(x, y, word, COLORS.get(label, "#1b1f24"), 16, width))
        if label:
            parts.append(f'<rect x="{x:.0f}" y="{y + 6:.0f}" width="{width:.0f}" height="3" fill="{COLORS[label]}"/>')
        x += width + 7
    return parts


def _text(x: float, y: float, text: str, color: str, size: int = 16, width: float | None = None) -> str:
    fitted = f' textLength="{width:.0f}" lengthAdjust="spacingAndGlyphs"' if width else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{color}" font-size="{size}"{fitted}>{escape(text)}</text>'


def report_png(report: Path, path: Path) -> None:
    """Take a picture of a report's first screen, in few colours."""
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if browser is None:
        raise SystemExit("pictures: no Chromium found; docs/report.png stays as it is")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        size = ",".join(map(str, SCREEN))
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}", f"--screenshot={shot}"]
        subprocess.run([browser, *flags, report.resolve().as_uri()], check=True, capture_output=True)
        Image.open(shot).convert("RGB").quantize(200).save(path, optimize=True)


if __name__ == "__main__":
    (DOCS / "method.svg").write_text(method_svg(), encoding="utf-8")
    for given in sys.argv[1:2]:
        report_png(Path(given), DOCS / "report.png")
