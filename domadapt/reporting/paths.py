"""What a report is made of and where it goes, as people give them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

Paths = str | Path | Iterable[str | Path]


def given(runs: Paths | None) -> Paths:
    """Folders of runs, if any are given.

    Raises:
        ValueError: there is none.
    """
    if isinstance(runs, Iterable) and not isinstance(runs, str):
        runs = [*runs]
    several = runs if isinstance(runs, list) else [runs]
    if runs is None or not several or not all(isinstance(one, str | Path) and str(one) for one in several):
        raise ValueError(
            f"runs={'null' if runs is None else runs}: expected a folder of runs, or several: runs=runs/mine"
        )
    return runs


def named_file(output: str | Path | None, name: str, suffixes: Sequence[str]) -> Path:
    """The file that other formats go beside, under its name with their own endings.

    Args:
        output: as it was given.
        name: of the verb.
        suffixes: that the file may have, the usual one first.

    Raises:
        ValueError: it is no file's name, or that of another format.

    >>> named_file("report.md", "report", (".html", ".htm"))
    Traceback (most recent call last):
    ValueError: output=report.md: expected a name that ends in .html or .htm, such as report.html; other formats go \
beside it
    """
    usual = f"{name}{suffixes[0]}"
    if not isinstance(output, str | Path) or not str(output):
        raise ValueError(
            f"output={'null' if output is None else output}: expected a file's name, such as output={usual}"
        )
    path = Path(output)
    if path.is_dir():
        raise ValueError(f"output={path}: is a folder; expected a file's name, such as {path / usual}")
    if path.suffix.lower() not in suffixes:
        better = path.with_suffix(suffixes[0])
        raise ValueError(
            f"output={path}: expected a name that ends in {' or '.join(suffixes)}, such as {better}; other formats go "
            f"beside it"
        )
    return path
