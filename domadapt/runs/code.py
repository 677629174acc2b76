"""The code that a run reaches: the training loop and a configuration's objects, followed through their imports."""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from domadapt.runs.foreign import imports

PACKAGE = Path(__file__).parent.parent
LOOP = "domadapt.training.run"
# Reached, but no number comes from there; what only they import is not reached. Rooms that nothing in training imports
# (reporting, auditing, benchmarking, ...) need no entry.
NO_NUMBERS = {
    "domadapt.runs": "writes down what was run",
    "domadapt.tracking": "watches",
    "domadapt.training.unlabelled": "tells of a run without target labels",
    "domadapt.inference.model": "saves what has been trained",
    "domadapt.utils.files": "writes files whole or not at all",
    "domadapt.utils.progress": "draws bars",
    "domadapt.utils.redact": "hides secrets",
}


@cache  # as it was when first asked: a process goes on with the code that it has loaded
def code(starts: frozenset[str]) -> str:
    """Hash of the modules reached from the loop and from names such as ``domadapt.tasks.extraction.Extraction``.

    Docstrings, comments, layout and what is imported for type checking alone do not count. The rest is compared as
    Python's syntax tree, which Pythons of two minor versions write differently.
    """
    return hashlib.sha256(json.dumps(sorted(reached(starts).items())).encode()).hexdigest()


def reached(starts: Iterable[str]) -> dict[str, str]:
    """Modules of ours by name, with the hash of each.

    Args:
        starts: dotted names, of modules or of what is in them; others than ours are passed over.
    """
    found: dict[str, str] = {}
    todo, seen = [LOOP, *starts], set()
    while todo:
        if (name := todo.pop()) in seen:
            continue
        seen.add(name)
        for module, path in _modules(name):
            if module not in found:
                found[module], imports = _read(module, path, path.stat().st_mtime_ns)
                todo += imports
    return found


def _modules(name: str) -> Iterator[tuple[str, Path]]:
    """The modules that are loaded for a dotted name, with their files: packages on the way, and itself."""
    first, *parts = name.split(".")
    if first != "domadapt" or not parts:
        return
    if parts[0] in (public := _public()):
        first, *parts = public[parts[0]].split(".")
    for count in range(1, len(parts) + 1):  # from 1: the package's own __init__ has public names and nothing else
        module, place = ".".join([first, *parts[:count]]), PACKAGE.joinpath(*parts[:count])
        if module in NO_NUMBERS:
            return
        if parts[count - 1] == "*":
            beside = (path for path in place.parent.glob("*.py") if path.name != "__init__.py")
            yield from ((f"{module[:-1]}{path.stem}", path) for path in beside)
            return
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                yield module, path


@cache
def _public() -> dict[str, str]:
    """Where the names are that the package itself offers: ``from domadapt import read``."""
    named = imports(ast.parse((PACKAGE / "__init__.py").read_bytes()))
    return {name.rpartition(".")[2]: name for name in named if name.startswith("domadapt.")}


@cache
def _read(module: str, path: Path, changed: int) -> tuple[str, list[str]]:
    """A module's hash and what it imports, as it was when it was last changed."""
    tree = _WithoutDocs().visit(ast.parse(path.read_bytes()))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names = list(imports(tree, package))
    if any(isinstance(node, ast.Name) and node.id == "iter_modules" for node in ast.walk(tree)):
        names.append(f"{package}.*")  # it loads all that lie beside it
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), names


class _WithoutDocs(ast.NodeTransformer):
    """Takes away what is there for readers and type checkers."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A text that stands alone."""
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node

    def visit_If(self, node: ast.If) -> Any:
        """``if TYPE_CHECKING:``."""
        typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse if typing else self.generic_visit(node)
