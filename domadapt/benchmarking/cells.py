"""A cell is one run; its key says what could change its numbers."""

import hashlib
import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Code that can change no number of a run.
NO_NUMBERS = {
    "reporting",
    "benchmarking",
    "api.py",
    "cli.py",
    "conllu.py",
    "messages.py",
    "prediction.py",
    "progress.py",
}
NO_NUMBERS |= {"provenance.py", "resolvers.py", "streams.py", "treebank.py", "verbs.py"}
LEFT_OUT = (
    "paths",
    "tracking",
    "method",
    "pair",
    "benchmark",
)  # where a run is written, who watches it, what it is called


def cell_key(cfg: DictConfig) -> str:
    """16 hex digits of the resolved configuration (less paths and tracking), the package's code and the data files.

    Args:
        cfg: a composed ``train.yaml``.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    kept = {name: value for name, value in config.items() if name not in LEFT_OUT}
    content = json.dumps([kept, package_fingerprint(), data_fingerprint(kept.get("data"))], sort_keys=True)
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


def data_fingerprint(data: Any) -> str:
    """Hash of the contents of every file and folder that a data configuration names; the shipped ones if none."""
    named = _paths(data) or {Path(str(files("domadapt.shipped")))}
    digest = hashlib.sha256()
    for path in sorted(f for p in named for f in ([p] if p.is_file() else p.rglob("*.json*"))):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _paths(data: Any) -> set[Path]:
    if isinstance(data, dict):
        return {path for name, value in data.items() for path in _paths(value) if name != "_target_"}
    path = Path(data) if isinstance(data, str) and data and "\0" not in data else None
    return {path} if (path and path.is_absolute() and path.exists()) or (path and path.is_file()) else set()
