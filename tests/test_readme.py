"""README.md and docs/ say what results/ says."""

import os
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.readme import KINDS, PAGES, ROOT, written


def test_every_number_of_results_in_the_pages_is_the_one_that_results_give() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    for name, text in texts.items():
        assert written(text) == text, f"{name} is not what results/ says: run `make tables`"
    assert set(re.findall(r"<!-- (\w+): \S+ -->", "".join(texts.values()))) == KINDS.keys()


def test_a_block_is_written_anew_and_the_prose_around_it_is_kept() -> None:
    text = "Before.\n<!-- table: results/camera_laptop -->\nold 99.9\n<!-- end -->\nAfter.\n"
    found = written(text)
    assert found.startswith("Before.\n<!-- table: results/camera_laptop -->\n**span_f1") and "99.9" not in found
    assert found.endswith("\n<!-- end -->\nAfter.\n")
    assert "| source_only | 74.0 (72.6–75.3) |" in found and "95 % interval over seeds" in found
    assert written(found) == found


def test_a_method_stands_beside_its_twins_and_folders_are_read_together(tmp_path: Path) -> None:
    found = written("<!-- beside_twins: results/aspect_opinion_syntax -->\n<!-- end -->\n")
    (line,) = (line for line in found.splitlines() if line.startswith("| gnn |"))
    numbers = [float(cell) for cell in line.split("|")[2:-1]]
    plain = next(one for one in found.splitlines() if one.startswith("| source_only |"))
    before = [float(cell) for cell in plain.split("|")[2:-1] if cell.strip() != "-"]
    scores, gains = numbers[:-3], numbers[-3:]
    own, shuffled, linear = scores[0::3], scores[1::3], scores[2::3]
    for gain, others in zip(gains, (before, shuffled, linear), strict=True):
        assert gain == pytest.approx(sum(own) / len(own) - sum(others) / len(own), abs=0.11)
    folders = [f"results/aspect_opinion_{name}" for name in ("relations", "small_source")]
    for kind in ("table", "printed"):
        both = written(f"<!-- {kind}: {','.join(folders)} -->\n<!-- end -->\n")
        assert "best_relations" in both and "best+relations" in both


def test_a_block_does_not_hang_on_the_order_in_which_a_clone_wrote_its_files(tmp_path: Path) -> None:
    names = sorted((ROOT / "results/aspect_opinion").rglob("metrics.json"))
    pages = []
    for turn, ordered in enumerate((names, names[::-1])):
        for age, name in enumerate(ordered):
            copy = tmp_path / str(turn) / name.relative_to(ROOT)
            copy.parent.mkdir(parents=True)
            os.utime(shutil.copy(name, copy), (age, age))
        blocks = "".join(f"<!-- {kind}: results/aspect_opinion -->\n<!-- end -->\n" for kind in KINDS)
        pages.append(written(blocks, root=tmp_path / str(turn)))
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- tabel: results/camera_laptop -->\n<!-- end -->", "tabel.*: no such block; there are printed, table"),
        ("<!-- table: results/camera_laptop -->\n", "a block without an end"),
        ("<!-- table: a -->\n<!-- table: b -->\n<!-- end -->", "a block without an end"),
        ("<!-- table: results/nowhere -->\n<!-- end -->", "no such folder"),
    ],
)
def test_a_wrong_block_is_named(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        written(text)
