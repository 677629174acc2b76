"""Files that are either whole or not there."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def replace_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, then put it in its place by rename.

    Args:
        path: the file; its folder is made if absent.
        write: called with a temporary path on the same file system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(name))
        with Path(name).open("rb") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp's files are for one user
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_atomic(path: Path, text: str) -> None:
    """Write a text file by rename, so that nobody ever reads half of it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.txt")
    >>> write_atomic(path, "whole")
    >>> path.read_text()
    'whole'
    """
    replace_atomic(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
