"""The key of a run: everything that changes its numbers, files and code by content."""

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domadapt.config.compose import to_builtin
from domadapt.config.overrides import one_of
from domadapt.config.resolvers import SIDES
from domadapt.utils.files import matching, shipped
from domadapt.utils.redact import strike
from domadapt.utils.text import nested_values

if TYPE_CHECKING:
    import torch


MODEL_CONFIGS = ("config.json", "config.cfg")  # of transformers and of spaCy
CORPORA = "domadapt.data.corpora.shipped"  # reads two folders of those in its root, which may be the package's own
# Packages whose version can change a number.
NUMERIC = (
    *("torch", "transformers", "tokenizers", "pytorch-lightning", "spacy", "torch-geometric", "numpy"),
    "scikit-learn",  # ranks nouns
)
# Raised with every change of code that moves numbers (the pinned loss of tests/test_learning.py, a score, what is
# decoded), so that runs from before are not taken for finished ones.
NUMERICS = 7
# Where a run is written, who watches it, what it is called.
LEFT_OUT = ("paths", "tracking", "method", "pair", "benchmark")
# What the first four come to counts, not what they say; the others change no weights.
TRAINER_KEYS = ("threads", "device", "precision", "hardware", "regret", "checkpoint_seconds")
# Names in configurations that decide whether the parser that travels with the package is read.
SPACY = "domadapt.syntax.parser.SpacyParser"
READS_NO_WORDS = "domadapt.tasks.classification.Classification"  # and so, without methods, needs no parser


def by_content(value: Any, name: str = "") -> Any:
    """A configuration with the names of files, folders and foreign code replaced by hashes of their content."""
    if isinstance(value, dict):
        hashed = {key: by_content(value[key], key) for key in sorted(value)}
        if value.get("root") and value.get("folder"):  # other corpora in the same folder change nothing
            hashed["root"] = hash_of(Path(value["root"], value["folder"]))
        if value.get("_target_") == CORPORA:
            root = Path(value.get("root") or shipped())
            hashed["root"] = [hash_of(root / str(value.get(side))) for side in SIDES]
        return hashed
    if isinstance(value, list):
        return [by_content(item, name) for item in value]
    if name == "_target_" and not str(value).startswith("domadapt."):
        return [value, *([path.name, hash_of(path)] for path in foreign_code(str(value)))]
    if isinstance(value, str) and (name == "path" or name.endswith("_path")) and matching(value) != [Path(value)]:
        return [hash_of(path) for path in matching(value)]
    return hash_of(Path(value)) if names_file(name, value) else value


def foreign_code(target: str) -> list[Path]:
    """The code of the module or package that a name from outside of this package is in; none if it is not there.

    A package counts whole; a single file with all Python files beside it, which it may import, unless it is installed.
    """
    spec = None
    with suppress(ValueError):  # of what is no module of a file, such as __main__
        spec = find_spec(target.partition(".")[0])
    if spec and spec.submodule_search_locations:
        return [Path(next(iter(spec.submodule_search_locations)))]
    if not (spec and spec.origin and (file := Path(spec.origin)).is_file()):
        return []
    return [file] if {"site-packages", "dist-packages"} & {*file.parts} else sorted(file.parent.glob("*.py"))


def names_file(name: str, value: Any) -> bool:
    """Is a setting the path of a file or folder, one in the working folder perhaps?"""
    if not isinstance(value, str):
        return False
    exists = os.path.exists(value)  # noqa: PTH110 - of any length
    if name in ("name", *SIDES):  # which domains have, too: a word is a folder where a model lies in it
        return exists and ("/" in value or any(Path(value, file).is_file() for file in MODEL_CONFIGS))
    return exists and (name in ("root", "path") or name.endswith("_path") or Path(value).is_file())


def files_named(value: Any, name: str = "") -> Iterator[Path]:
    """The files that a configuration names, by patterns, too, and those in folders that it names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from files_named(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from files_named(item, name)
    elif isinstance(value, str):
        for path in matching(value) if value and "\0" not in value else ():
            if names_file(name, str(path)):
                yield from [path] if path.is_file() else path.rglob("*")


def hash_of(path: Path) -> str:
    """Of a file, or of all files in a folder, but those that only describe it, with their names."""
    inside = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts and p.name != "CARD.md")
    files = [path] if path.is_file() else inside
    return _hash(path, tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files))


@lru_cache(maxsize=64)
def _hash(path: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """A benchmark asks for the same folder once a cell; time and size say whether it is the same."""
    digest = hashlib.sha256()
    for file, _, _ in files:
        digest.update(file.relative_to(path).as_posix().encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def is_adapted(cfg: Mapping[str, Any]) -> bool:
    """Whether a run has an injection or an adaptation, which may take additional epochs; source-only takes none."""
    return bool(cfg.get("injection") or cfg.get("adaptation"))


def cell_key(cfg: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    """16 hex digits of all that changes a cell's numbers, and of nothing else.

    These are :data:`NUMERICS`, the resolved configuration (less paths and tracking), the content of files and foreign
    code that it names, the versions of the libraries beneath, and the kind of hardware. Of validators the chosen one
    counts; every other one's choice stands in a column of its own, and a new one runs nothing again.
    """
    config = to_builtin(cfg)
    counted = {name: value for name, value in config.items() if name not in (*LEFT_OUT, *without)}
    counted["parser"] = {n: value for n, value in counted["parser"].items() if n not in SIDES or value is not None}
    counted["trainer"] = {name: value for name, value in counted["trainer"].items() if name not in TRAINER_KEYS}
    if not is_adapted(config):
        counted["trainer"]["extra_epochs"] = 0
    versions = [installed(name) for name in NUMERIC]
    parts = [NUMERICS, by_content(counted), _pipelines(config), versions, _hardware(config["trainer"])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def data_key(data: Mapping[str, Any]) -> str:
    """16 hex digits of what the files of a run's data hold, wherever they lie."""
    return hashlib.sha256(json.dumps(by_content(to_builtin(data))).encode()).hexdigest()[:16]


def run_folder(cfg: Mapping[str, Any]) -> Path:
    """Where a cell is written: as configured, else by pair, method, seed and the beginning of its key."""
    if not isinstance(paths := cfg["paths"], Mapping):
        shown = "null" if paths is None else paths
        raise ValueError(f"paths={shown}: expected folders; leave it out, or set one: paths.runs=FOLDER")
    one_of("paths.share_networks", paths["share_networks"], True, False, None)  # a word would be a yes
    pair, method, run = cfg["pair"], cfg["method"], paths["run"]
    for name, text in (("pair", pair), ("method", method), ("paths.run", str(run))):
        if not isinstance(text, str):
            fix = f"expected a word, such as {name}=mine; leave it out for its default"
            raise ValueError(f"{name}={'null' if text is None else text}: {fix}")
        if strike(text) != text:
            raise ValueError(f"{name}: holds a secret of the environment, and names folders and tables; name it anew")
    return Path(run) if run else folder_of(cfg, "runs") / pair / method / f"seed{cfg['seed']}-{cell_key(cfg)[:8]}"


def folder_of(cfg: Mapping[str, Any], name: str) -> Path:
    if (folder := cfg["paths"][name]) in (None, ""):
        raise ValueError(f"paths.{name}={'null' if folder is None else repr('')}: expected a folder")
    return Path(str(folder))


def _hardware(trainer: dict[str, Any]) -> str:
    """What the cell is computed on: this machine, unless the configuration names another; with threads, if it does."""
    from domadapt.utils.runtime import kind_of_hardware  # loads torch

    try:
        kind = str(trainer.get("hardware") or kind_of_hardware(trainer["device"], trainer["precision"]))
    except ValueError:  # building will tell
        kind = f"{trainer['device']} {trainer['precision']}"
    # They add up in another order. As many as there are is no number: it would part the machines of one benchmark.
    return f"{kind} {trainer['threads']} threads" if trainer["threads"] and kind.startswith("cpu") else kind


def _pipelines(config: dict[str, Any]) -> list[str]:
    """Of spaCy's pipelines, where one is read: the content of the shipped one, the version of an installed one."""
    if config["task"].get("_target_") == READS_NO_WORDS and not (config["injection"] or config["adaptation"]):
        return []
    parts = [part for part in nested_values(config["parser"]) if isinstance(part, dict) and "_target_" in part]
    names = [str(part.get("name", "shipped")) for part in parts if part["_target_"] == SPACY]
    names += [str(part[side]) for part in parts for side in SIDES if part.get(side) is not None]
    return [hash_of(shipped() / "parser" / "model") if name == "shipped" else installed(name) for name in names]


def versions() -> dict[str, str]:
    """Versions of Python, of this package, of Hydra and of the packages that can change a number."""
    packages = {name: installed(name) for name in ("domadapt", *NUMERIC, "hydra-core")}
    return {"python": platform.python_version(), **packages}


@cache  # a process goes on with what it has loaded
def installed(name: str) -> str:
    """The version of an installed package, or that it is not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def hardware(device: "torch.device", precision: str) -> dict[str, Any]:
    """Device, threads and precision of this process."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    # Cores that this process may use, which may be fewer than the machine has.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = torch.get_num_threads()
    return {"device": device.type, "name": name, "cores": cores, "threads": threads, "precision": precision}


def described(hardware: Mapping[str, Any]) -> str:
    """What :func:`hardware` returned, as ``trainer.hardware`` names it; which processor it was changes no number."""
    name = [hardware["name"]] if hardware["device"] == "cuda" else []
    return " ".join([hardware["device"], *name, hardware["precision"]])


def processor() -> str:
    """The processor's model, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
