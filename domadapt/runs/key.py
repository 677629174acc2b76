"""A cell is one run; its key says what could change its numbers."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from domadapt.runs.content import by_content, hash_of, objects, shipped
from domadapt.runs.provenance import NUMERIC, installed
from domadapt.utils.redact import strike

# Raised with every change of code that moves numbers of runs (a pinned loss in tests/test_pins.py, a score, what is
# decoded), so that runs from before are not taken for finished ones.
NUMERICS = 1
# Where a run is written, who watches it, what it is called.
LEFT_OUT = ("paths", "tracking", "method", "pair", "benchmark")
OF_THE_TRAINER = ("threads", "device", "precision", "hardware")  # what these come to counts, not what they say
# Names in configurations that decide whether the parser that travels with the package is read.
SPACY = "domadapt.syntax.parser.SpacyParser"
READS_NO_WORDS = "domadapt.tasks.classification.Classification"  # and so, without methods, needs no parser


def cell_key(cfg: DictConfig, without: Sequence[str] = ()) -> str:
    """16 hex digits of all that changes a cell's numbers, and of nothing else.

    These are :data:`NUMERICS`, the resolved configuration (less paths and tracking), the content of files and foreign
    code that it names, the versions of the libraries beneath, and the kind of hardware. Of validators the chosen one
    counts; every other one's choice stands in a column of its own, and a new one runs nothing again.

    Args:
        cfg: a composed ``train.yaml``.
        without: more groups of settings to leave out.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    kept = {name: value for name, value in config.items() if name not in (*LEFT_OUT, *without)}
    kept["trainer"] = {name: value for name, value in kept["trainer"].items() if name not in OF_THE_TRAINER}
    parts = [
        NUMERICS,
        by_content(kept),
        _pipelines(config),
        [installed(name) for name in NUMERIC],
        _hardware(config["trainer"]),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def run_folder(cfg: DictConfig) -> Path:
    """Where a cell is written: as configured, else by pair, method, seed and the beginning of its key.

    Raises:
        ValueError: a secret of the environment would become a name in files.
    """
    if cfg.paths is None:
        raise ValueError("paths=null: expected folders; leave it out, or set one: paths.runs=FOLDER")
    for name, said in (("pair", cfg.pair), ("method", cfg.method), ("paths.run", cfg.paths.run)):
        if strike(str(said)) != str(said):
            raise ValueError(
                f"{name}: holds a secret of the environment, and it names folders and tables; name it anew"
            )
    if cfg.paths.run:
        return Path(cfg.paths.run)
    home, key = Path(folder_of(cfg, "runs"), cfg.pair, cfg.method), cell_key(cfg)[:8]
    old = home / f"seed={cfg.seed}-{key}"  # an equals sign is Hydra's: such a name had to be quoted in overrides
    return old if old.is_dir() else home / f"seed{cfg.seed}-{key}"


def folder_of(cfg: DictConfig, name: str) -> Path:
    """One of the configured folders.

    Raises:
        ValueError: it is not given.

    >>> folder_of(OmegaConf.create({"paths": {"cache": None}}), "cache")
    Traceback (most recent call last):
    ValueError: paths.cache=null: expected a folder
    """
    if cfg.paths[name] in (None, ""):
        raise ValueError(f"paths.{name}={'null' if cfg.paths[name] is None else repr('')}: expected a folder")
    return Path(str(cfg.paths[name]))


def _hardware(trainer: dict[str, Any]) -> str:
    """What the cell is computed on: this machine, unless the configuration names another; with threads, if it does."""
    from domadapt.utils.device import kind_of_hardware  # loads torch

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
    names = [str(part.get("name", "shipped")) for part in objects(config["parser"]) if part["_target_"] == SPACY]
    return [hash_of(shipped() / "parser" / "model") if name == "shipped" else installed(name) for name in names]
