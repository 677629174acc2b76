"""The house: which room may import from which. A room imports only from rooms above it in the list."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "domadapt"
ROOMS = (
    *("utils", "config", "runs", "statistics", "syntax", "data", "auditing", "models", "tasks", "selection", "methods"),
    *("inference", "analysis", "reporting", "serving", "tracking", "training", "benchmarking", "cli"),
)
AT_THE_ROOT = {"__init__.py", "__main__.py", "api.py"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Modules of ours that a file imports, wherever in it: inside functions, for typing, by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("domadapt"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("domadapt"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_rooms_are_these() -> None:
    found = {path.name for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "py.typed")}
    assert found == {*ROOMS, *AT_THE_ROOT}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_above_it(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1]}
    upward = {
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        if path.relative_to(PACKAGE).parts[0] == room
        for name in imported(path)
        if name.split(".")[1] not in allowed
    }
    assert not upward


def test_no_two_files_import_each_other() -> None:
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in modules()}
    edges = {
        name: {part for found in imported(path) for part in (found, found.rpartition(".")[0]) if part in names} - {name}
        for name, path in names.items()
    }
    while free := {name for name, needs in edges.items() if not needs & edges.keys()}:
        edges = {name: needs for name, needs in edges.items() if name not in free}
    assert not edges, f"circle among {sorted(edges)}"
