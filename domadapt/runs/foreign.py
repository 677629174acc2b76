"""Code of a user's own: where a method from outside lies, and what it imports of its neighbours and of ours."""

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

INSTALLED = {"site-packages", "dist-packages"}


def foreign_code(target: str) -> list[Path]:
    """The files and folders of code that a name from outside of this package stands for.

    These are the module or package that it is in, a package whole, and those beside it that they import, wherever in
    them; what is imported by a name made up at run time hides. Where libraries are installed the neighbours are other
    people's: there it is the package alone.

    Args:
        target: dotted name of something in it.

    Returns:
        In the order of their names; none if it is not there, as making the object tells.
    """
    first = _home(target.partition(".")[0])
    todo, found = [first] if first else [], set[Path]()
    while todo:
        if (path := todo.pop()) in found:
            continue
        found.add(path)
        if not INSTALLED & set(path.parts) and path.stem not in sys.stdlib_module_names:
            names = {name.partition(".")[0] for name in _imported_by(path)} - {"domadapt", ""}
            todo += [beside for name in names if (beside := _beside(path.parent, name))]
    return sorted(found)


def imported(target: str) -> set[str]:
    """Names of ours that the code behind a name from outside imports."""
    return {name for path in foreign_code(target) for name in _imported_by(path) if name.startswith("domadapt.")}


def imports(tree: ast.AST, package: str = "") -> Iterator[str]:
    """Dotted names that a syntax tree imports, wherever in it; of ``from a import b`` it is ``a.b``.

    Args:
        tree: of a module.
        package: that relative imports start from.

    >>> list(imports(ast.parse("import a.b\\nfrom .c import d"), "domadapt.data"))
    ['a.b', 'domadapt.data.c.d']
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            yield from (".".join([*home, *filter(None, [node.module]), alias.name]) for alias in node.names)


def _home(package: str) -> Path | None:
    """A module's file or a package's folder, one without an ``__init__.py`` too."""
    try:
        spec = find_spec(package) if package else None
    except ValueError:  # of what is no module of a file, such as __main__
        return None
    if spec is None:
        return None
    if spec.origin is None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec.origin is None or not Path(spec.origin).is_file():
        return None
    return Path(spec.origin).parent if Path(spec.origin).name == "__init__.py" else Path(spec.origin)


def _beside(place: Path, name: str) -> Path | None:
    """What Python would import of a folder by a name."""
    folder, file = place / name, place / f"{name}.py"
    if (folder / "__init__.py").is_file():
        return folder
    if file.is_file():
        return file
    return folder if any(_python(folder)) else None


def _imported_by(path: Path) -> set[str]:
    return {name for file in _python(path) for name in _imports(file, file.stat().st_mtime_ns)}


def _python(path: Path) -> Iterator[Path]:
    yield from [path] if path.is_file() else path.rglob("*.py")


@lru_cache(maxsize=1024)
def _imports(file: Path, changed: int) -> frozenset[str]:
    """Of one file, as it was when it was last changed; nothing if it is no Python, as making its object tells."""
    try:
        return frozenset(imports(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):
        return frozenset()
