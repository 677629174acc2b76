"""Folders that a user names: where the model is, where an export goes."""

from pathlib import Path

from domadapt.inference.description import NAME

FORMATS = ("hf", "onnx", "onnx-int8")  # of exported folders


def model_folder(folder: str | Path) -> Path:
    """The model's own folder, from a run's folder or itself; what is in neither is told by who reads it."""
    inner = Path(folder, "model")
    return inner if (inner / NAME).is_file() else Path(folder)


def free_folder(to: Path) -> None:
    """Refuse to write over somebody's files.

    Raises:
        ValueError: the folder holds something.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f"to={to}: there is something in it; give a folder that is new, or empty")
