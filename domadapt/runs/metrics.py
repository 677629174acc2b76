"""Run folders on disk: found, read, and refused by name when they are broken."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any

Metrics = dict[str, Any]
FORMAT = 1  # of metrics.json, as domadapt.train writes it
NEEDED: dict[str, type | UnionType] = {
    "source": str,
    "target": str,
    "task": str,
    "headline": str,
    "method": str,
    "role": str,
    "seed": int,
    "source_dev": dict,
    "target_test": dict | None,
    "curve": list,
    "config": dict,
}


@dataclass(frozen=True, slots=True)
class RunSet:
    """What was found.

    Attributes:
        runs: what each readable ``metrics.json`` says, and its ``folder``; oldest first.
        skipped: one message for each file that could not be read.
    """

    runs: tuple[Metrics, ...]
    skipped: tuple[str, ...] = ()


def read_runs(paths: str | Path | Iterable[str | Path]) -> RunSet:
    """Read every ``metrics.json`` at or below the given paths.

    Args:
        paths: a folder or ``metrics.json``, or several.

    Returns:
        The runs. Unreadable files among readable ones are left out, each with its reason in ``skipped``.

    Raises:
        ValueError: a path does not exist, nothing was found, or nothing of what was found is readable.
    """
    chosen = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    files = sorted({file.resolve() for path in chosen for file in _metrics_files(path)})
    if not files:
        raise ValueError(
            f"runs={[str(path) for path in chosen]}: no metrics.json there; "
            f"expected folders that `domadapt train` or `domadapt benchmark` has written"
        )
    runs, skipped = list[Metrics](), list[str]()
    for file in files:
        try:
            runs.append(read_metrics(file))
        except ValueError as error:
            skipped.append(str(error))
    if not runs:
        raise ValueError(skipped[0] if len(skipped) == 1 else f"{skipped[0]} ({len(skipped)} files are unreadable)")
    runs.sort(key=lambda run: (Path(run["folder"], "metrics.json").stat().st_mtime_ns, run["folder"]))
    return RunSet(tuple(runs), tuple(skipped))


def read_metrics(path: Path) -> Metrics:
    """One ``metrics.json``, and under ``folder`` where it lies.

    Args:
        path: of the file.

    Raises:
        ValueError: it is unreadable, half written, of another format, or lacks what a report needs; names the file.
    """
    again = "run that cell again, or leave its folder out of `runs`"
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: unreadable ({error}); {again}") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not whole JSON ({error}); {again}") from error
    found = metrics.get("format") if isinstance(metrics, dict) else type(metrics).__name__
    if found != FORMAT:
        raise ValueError(f"{path}: format {found!r}, expected {FORMAT}: another version of domadapt wrote it; {again}")
    missing = [name for name, kind in NEEDED.items() if name not in metrics or not isinstance(metrics[name], kind)]
    if missing:
        raise ValueError(f"{path}: lacks {', '.join(missing)}, or has something else in that place; {again}")
    return {**metrics, "folder": str(path.parent)}


def _metrics_files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ValueError(f"runs={path}: no such folder; expected one that `domadapt benchmark` has written")
    return path.rglob("metrics.json")
