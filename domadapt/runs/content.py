"""What a configuration names, by content: files, folders, and code of other packages, wherever they lie."""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from domadapt.utils.files import matching

LONGEST_PATH = 4096  # of the system's; a longer text is none
CORPORA = "domadapt.data.sources.shipped"  # reads two folders of those in its root, which may be the package's own


def by_content(value: Any, name: str = "") -> Any:
    """A configuration with the names of files, folders and foreign code replaced by hashes of their content.

    Args:
        value: any part of a resolved configuration.
        name: of the setting that it is the value of.
    """
    if isinstance(value, dict):
        plain = {key: by_content(value[key], key) for key in sorted(value)}
        if value.get("root") and value.get("folder"):  # other corpora in the same folder change nothing
            plain["root"] = hash_of(Path(value["root"], value["folder"]))
        if value.get("_target_") == CORPORA:
            root = Path(value.get("root") or shipped())
            plain["root"] = [hash_of(root / str(value.get(side))) for side in ("source", "target")]
        return plain
    if isinstance(value, list):
        return [by_content(item, name) for item in value]
    if name == "_target_" and not str(value).startswith("domadapt."):
        return [value, *([path.name, hash_of(path)] for path in foreign_code(str(value)))]
    if isinstance(value, str) and (name == "path" or name.endswith("_path")) and matching(value) != [Path(value)]:
        return [hash_of(path) for path in matching(value)]
    if name == "teachers" and Path(str(value), "model").is_dir():  # a run counts by its model
        return hash_of(Path(str(value), "model"))
    return hash_of(Path(value)) if names_file(name, value) else value


def foreign_code(target: str) -> list[Path]:
    """The code of the module or package that a name from outside of this package is in; none if it is not there.

    A package counts whole; a single file with all Python files beside it, which it may import, unless it is installed.
    """
    package = target.partition(".")[0]
    try:
        spec = find_spec(package) if package else None
    except ValueError:  # of what is no module of a file, such as __main__
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(next(iter(spec.submodule_search_locations)))]
    if not spec.origin or not (file := Path(spec.origin)).is_file():
        return []
    return [file] if {"site-packages", "dist-packages"} & {*file.parts} else sorted(file.parent.glob("*.py"))


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """The parts of a configuration that become objects, inner ones too.

    >>> [part["_target_"] for part in objects({"a": {"_target_": "x.A", "inner": [{"_target_": "x.B"}]}})]
    ['x.A', 'x.B']
    """
    if isinstance(value, dict):
        if "_target_" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from objects(item)


def names_file(name: str, value: Any) -> bool:
    """Is a setting the path of a file or folder?"""
    if not isinstance(value, str) or "\0" in value or len(value) > LONGEST_PATH:
        return False
    if name in ("root", "path") or name.endswith("_path"):
        return Path(value).exists()
    return "/" in value and (Path(value).is_file() or (name == "name" and Path(value).exists()))


def files_named(value: Any, name: str = "") -> Iterator[Path]:
    """The files and folders that a configuration names.

    Args:
        value: any part of a resolved configuration.
        name: of the setting that it is the value of.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from files_named(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from files_named(item, name)
    elif names_file(name, value):
        yield Path(value)


def shipped() -> Path:
    """The folder of the corpora and the parser that travel with the package."""
    return Path(str(files("domadapt.shipped")))


def files_in(path: Path) -> list[Path]:
    """The file itself, or all files in a folder but those that only describe it; none if there is nothing."""
    if path.is_file():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts and p.name != "CARD.md")


def hash_of(path: Path) -> str:
    """Of a file, or of all files in a folder with their names."""
    return _hash(path, tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files_in(path)))


@lru_cache(maxsize=64)
def _hash(path: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """A benchmark asks for the same folder once a cell; time and size say whether it is the same."""
    digest = hashlib.sha256()
    for file, _, _ in files:
        digest.update(file.relative_to(path).as_posix().encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
