"""README.md says what results/ says."""

import ast
import re
from pathlib import Path

import pytest

from benchmarks.readme import KINDS, written
from domadapt.config.compose import compose

README = Path(__file__).parents[1] / "README.md"


def test_every_number_of_results_in_the_readme_is_the_one_that_results_give() -> None:
    text = README.read_text(encoding="utf-8")
    assert written(text) == text, "README.md is not what results/ says: run `make tables`"
    assert {kind for kind, _ in re.findall(r"<!-- (\w+): (\S+) -->", text)} == KINDS.keys()


def test_a_block_is_written_anew_and_the_prose_around_it_is_kept() -> None:
    text = "Before.\n<!-- table: results/camera_laptop -->\nold 99.9\n<!-- end -->\nAfter.\n"
    found = written(text)
    assert found.startswith("Before.\n<!-- table: results/camera_laptop -->\n**span_f1") and "99.9" not in found
    assert found.endswith("\n<!-- end -->\nAfter.\n")
    assert "| source_only | 74.0 (72.6–75.3) |" in found and "95 % interval over seeds" in found
    assert written(found) == found


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


def test_what_the_first_screen_types_in_python_composes() -> None:
    """Every list of overrides in README's Python block is one that `domadapt.train` takes."""
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    calls = [node for node in ast.walk(ast.parse(block[1])) if isinstance(node, ast.Call)]
    lists = [ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "domadapt.train"]
    assert len(lists) >= 3
    for overrides in lists:
        compose("train", overrides)
