"""Evidence on disk: what a validator that is not written yet will want to see of runs that are long over."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from domadapt.selection.validator import Evidence
from domadapt.tasks.rows import ARRAYS, Rows
from domadapt.utils.files import replace_atomic

PARTS = ("source", "target", "train")


def save_evidence(evidence: Evidence, path: Path) -> None:
    """Write an epoch's evidence, its rows that matter alone, as arrays: nothing in it is pickled.

    Args:
        evidence: of the epoch.
        path: of the file, ``….npz``.
    """
    about = {f.name: getattr(evidence, f.name) for f in fields(Evidence) if f.name not in PARTS}
    arrays = {"about": np.array(json.dumps(about))}
    for part in PARTS:
        rows: Rows = getattr(evidence, part).that_matter()
        arrays |= {f"{part}/{name}": getattr(rows, name) for name in ARRAYS}
        arrays[f"{part}/outside"] = np.array(rows.outside)

    def write(unfinished: Path) -> None:
        with unfinished.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomic(path, write)


def load_evidence(path: Path) -> Evidence:
    """What :func:`save_evidence` wrote; any validator can be called with it."""
    with np.load(path, allow_pickle=False) as file:
        rows: dict[str, Any] = {
            part: Rows(**{name: file[f"{part}/{name}"] for name in ARRAYS}, outside=int(file[f"{part}/outside"]))
            for part in PARTS
        }
        return Evidence(**json.loads(str(file["about"])), **rows)
