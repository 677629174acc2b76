"""The code that a bundle carries: this package, pure-Python libraries, and methods from outside."""

import re
import shutil
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from domadapt.runs.foreign import foreign_code

# What the machine must have, with all that these need. The last two are compiled, and torch-geometric imports them.
MACHINE = ("torch", "transformers", "scikit-learn", "scipy", "safetensors", "psutil", "xxhash")
# What a run imports besides, and what these need, so far as it is pure Python.
CARRIED = ("pytorch-lightning", "torch-geometric", "hydra-core", "annotated-types")
COMPILED = (".so", ".pyd", ".dylib")


def needed_by(names: Iterable[str]) -> dict[str, Distribution]:
    """Installed distributions by name, with all that they require.

    >>> {"hydra-core", "omegaconf"} <= needed_by(["hydra-core"]).keys()
    True
    """
    found: dict[str, Distribution] = {}
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # of another platform
            continue
        requirements = [Requirement(line) for line in found[name].requires or ()]
        todo += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def carried() -> list[Distribution]:
    """Libraries that a run imports, that are pure Python and that the machine can't be expected to have."""
    there = needed_by(MACHINE)
    return [d for name, d in sorted(needed_by(CARRIED).items()) if name not in there and _is_pure(d)]


def _is_pure(library: Distribution) -> bool:
    return not any(str(file).endswith(COMPILED) for file in files_of(library))


def files_of(library: Distribution) -> list[Path]:
    """An installed library's files, below the folder that it is installed in.

    Raises:
        ValueError: neither its list of files nor its modules are to be found.
    """
    home = Path(str(library.locate_file("")))
    if library.read_text("RECORD") is not None:
        return [Path(file) for file in library.files or () if ".." not in file.parts]
    # An old pip without `wheel` leaves no such list, but the names of top-level modules.
    names = (library.read_text("top_level.txt") or "").split()
    modules = [path for name in names for path in (home / name, *home.glob(f"{name}.*"))]
    found = [path for module in modules for path in (module, *module.rglob("*")) if path.is_file()]
    if not found:
        raise ValueError(
            f"{library.name}: installed in {home} without a list of its files, so it can't be carried along; install "
            f"it again: pip install --force-reinstall --no-deps --use-pep517 {library.name}=={library.version}"
        )
    return [path.relative_to(home) for path in found]


def copy_libraries(site: Path) -> None:
    """Copy the carried libraries, so that the folder on Python's path makes them importable."""
    for library in carried():
        for file in files_of(library):
            source = Path(str(library.locate_file(file)))
            if "__pycache__" not in file.parts and source.is_file():
                _copy(source, site / file)


def copy_package(site: Path) -> None:
    """Copy this package without its corpora and its parser."""
    # In a checkout the configurations lie beside the package, in an installed wheel inside it.
    for home, place in ((Path(__file__).parents[1], "."), (Path(str(files("domadapt.conf"))), "conf")):
        for path in sorted(home.rglob("*")):
            inside = path.relative_to(home)
            if path.is_file() and "__pycache__" not in inside.parts and inside.parts[0] not in ("conf", "shipped"):
                _copy(path, site / "domadapt" / place / inside)
    (site / "domadapt" / "shipped").mkdir(parents=True, exist_ok=True)
    (site / "domadapt" / "shipped" / "__init__.py").touch()
    ours = distribution("domadapt")
    metadata = site / f"domadapt-{ours.version}.dist-info" / "METADATA"  # versions in metrics.json come from it
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: domadapt\nVersion: {ours.version}\n", encoding="utf-8")


def copy_foreign(config: dict[str, Any], site: Path) -> None:
    """Copy the modules of methods that live outside this package, with those beside them that they import.

    Raises:
        ValueError: a module has no file that could be copied.
    """
    for target in sorted(target for target in set(targets(config)) if not target.startswith("domadapt.")):
        if not (code := foreign_code(target)):
            raise ValueError(f"_target_: {target}: there is no file of this module that a bundle could carry")
        for origin in code:
            for path in [origin] if origin.is_file() else sorted(origin.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    _copy(path, site / path.relative_to(origin.parent))


def targets(config: Any) -> Iterator[str]:
    """Every ``_target_`` in a configuration.

    >>> list(targets({"a": [{"_target_": "x.Y", "b": {"_target_": "z.W"}}]}))
    ['x.Y', 'z.W']
    """
    if isinstance(config, dict):
        yield from (str(value) for key, value in config.items() if key == "_target_")
        config = list(config.values())
    for value in config if isinstance(config, list) else ():
        yield from targets(value)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
