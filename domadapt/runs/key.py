"""A cell is one run; its key says what could change its numbers."""

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Code that can change no number of a run: files, and whole rooms.
NO_NUMBERS = {"api.py", "cli.py", "conllu.py", "files.py", "messages.py", "prediction.py", "progress.py"}
NO_NUMBERS |= {"provenance.py", "redact.py", "resolvers.py", "streams.py", "treebank.py", "verbs.py"}
NO_NUMBERS |= {"auditing", "benchmarking", "bundling", "reporting", "statistics", "tracking"}
# Where a run is written, who watches it, what it is called.
LONGEST_PATH = 4096  # of the system's; a longer text is none
LEFT_OUT = ("paths", "tracking", "method", "pair", "benchmark")


def cell_key(cfg: DictConfig, without: Sequence[str] = ()) -> str:
    """16 hex digits of the resolved configuration (less paths, tracking and threads), the code and the files it names.

    Args:
        cfg: a composed ``train.yaml``.
        without: more groups of settings to leave out.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    kept = {name: value for name, value in config.items() if name not in (*LEFT_OUT, *without)}
    kept["trainer"] = {name: value for name, value in kept["trainer"].items() if name != "threads"}
    # Files count by their content, wherever they lie.
    content = json.dumps([_by_content(kept), package_fingerprint(), _hash(Path(str(files("domadapt.shipped"))))])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def run_folder(cfg: DictConfig) -> Path:
    """Where a cell is written: as configured, else by pair, method, seed and the beginning of its key."""
    if cfg.paths.run:
        return Path(cfg.paths.run)
    return Path(cfg.paths.runs, cfg.pair, cfg.method, f"seed={cfg.seed}-{cell_key(cfg)[:8]}")


@lru_cache(maxsize=1)
def package_fingerprint() -> str:
    """Hash of the code that training runs: reporting and the command line change no number."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if not NO_NUMBERS & {path.name, path.relative_to(root).parts[0]}:
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _by_content(value: Any, name: str = "") -> Any:
    """A configuration with the names of files, folders and foreign code replaced by hashes of their content."""
    if isinstance(value, dict):
        plain = {key: _by_content(value[key], key) for key in sorted(value)}
        if value.get("root") and value.get("folder"):  # other corpora in the same folder change nothing
            plain["root"] = _hash(Path(value["root"], value["folder"]))
        return plain
    if isinstance(value, list):
        return [_by_content(item, name) for item in value]
    if name == "_target_" and not str(value).startswith("domadapt."):
        return [value, _foreign_code(str(value).partition(".")[0])]
    return _hash(Path(value)) if names_file(name, value) else value


def names_file(name: str, value: Any) -> bool:
    """Is a setting the path of a file or folder?"""
    if not isinstance(value, str) or "\0" in value or len(value) > LONGEST_PATH:
        return False
    if name in ("root", "path") or name.endswith("_path"):
        return Path(value).exists()
    return "/" in value and (Path(value).is_file() or (name == "name" and Path(value).exists()))


def _foreign_code(package: str) -> str:
    """Hash of a package outside of this one; of nothing if it is not there, which making the object will tell."""
    spec = find_spec(package) if package else None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return _hash(Path(spec.origin) if Path(spec.origin).name != "__init__.py" else Path(spec.origin).parent)


def _hash(path: Path) -> str:
    """Of a file, or of all files in a folder with their names."""
    inside = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    files = [path] if path.is_file() else inside
    return _hash_files(path, tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files))


@lru_cache(maxsize=64)
def _hash_files(path: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """A benchmark asks for the same folder once a cell; time and size say whether it is the same."""
    digest = hashlib.sha256()
    for file, _, _ in files:
        digest.update(file.relative_to(path).as_posix().encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
