"""A model folder's description, read before anything heavy is imported: what is wrong with it is told at once."""

import json
from pathlib import Path
from typing import Any

FORMAT = 2  # of model folders
PARSING = ("parser", "control", "parser_name", "parses_at_prediction")
FIELDS = ("task", "backbone", "methods", "relations", "max_pieces", "source", "target", *PARSING)
FORMATS = ("hf", "onnx", "onnx-int8")  # of exported folders
AGAIN = "copy the folder again, or train the model again"


def model_folder(folder: str | Path) -> Path:
    """The model's own folder, from a run's folder or itself.

    Raises:
        ValueError: there is no model in it.
    """
    found = next((path for path in (Path(folder), Path(folder, "model")) if (path / "domadapt.json").is_file()), None)
    if found is None:
        raise ValueError(f"{folder}: not a model folder (no domadapt.json in it); give a run's folder, or its model/")
    return found


def describe(folder: Path) -> dict[str, Any]:
    """What a model folder says of itself, nothing of which is made or imported yet.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    path = folder / "domadapt.json"
    description = _read(path)
    if description.get("format") != FORMAT:
        raise ValueError(f"{path}: format {description.get('format')!r}, this version reads {FORMAT}; train it again")
    if missing := [name for name in FIELDS if name not in description]:
        raise ValueError(f"{path}: damaged: it lacks {', '.join(missing)}; {AGAIN}")
    return description


def _read(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({error}); {AGAIN}") from error
    if not isinstance(description, dict):
        raise ValueError(f"{path}: damaged: no object; {AGAIN}")
    return description


def free_folder(to: Path) -> None:
    """Refuse to write over somebody's files.

    Raises:
        ValueError: the folder holds something.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f"to={to}: there is something in it; give a folder that is new, or empty")
