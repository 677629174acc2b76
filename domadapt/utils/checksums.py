"""Checksums of a folder's files, in a file that ``sha256sum -c`` reads: whatever has changed since is told by name."""

import hashlib
import re
from pathlib import Path

from domadapt.utils.files import write_atomic

CHECKSUMS = "SHA256SUMS"
LINE = re.compile(r"([0-9a-f]{64}) [ *](?!/)(.+)")
AGAIN = "copy the folder again, or train the model again"


def sha256(path: Path) -> str:
    """A file's, in hexadecimal digits.

    Raises:
        ValueError: it can't be read; names it.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{path}: can't be read ({error.strerror}); its owner may allow it, else {AGAIN}") from error


def write_checksums(folder: Path) -> None:
    """Write down what each file of a folder is.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("whole")
    >>> write_checksums(folder)
    >>> verify_checksums(folder)
    >>> _ = (folder / "a.txt").write_text("whale")
    >>> verify_checksums(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ...a.txt: has changed since it was saved (SHA256SUMS); copy the folder again, ...
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    lines = (f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    write_atomic(folder / CHECKSUMS, "".join(lines))


def verify_checksums(folder: Path) -> None:
    """Compare the files of a folder with what was written down of them; others may lie beside them.

    Raises:
        ValueError: one is missing or was changed, or the list itself is damaged; names the file and the way out.
    """
    listing = folder / CHECKSUMS
    lines = listing.read_bytes().decode("utf-8", "replace").splitlines()
    if not lines:
        raise ValueError(f"{listing}: damaged: it is empty; {AGAIN}")
    for number, line in enumerate(lines, start=1):
        found = LINE.fullmatch(line)
        if not found or ".." in Path(found[2]).parts:
            raise ValueError(
                f"{listing}:{number}: damaged: {line[:80]!r}, expected 64 hexadecimal digits, two blanks and a file "
                f"of this folder; {AGAIN}"
            )
        path = folder / found[2]
        if not path.is_file():
            raise ValueError(f"{path}: is missing, and {CHECKSUMS} names it; {AGAIN}")
        if sha256(path) != found[1]:
            raise ValueError(
                f"{path}: has changed since it was saved ({CHECKSUMS}); {AGAIN}; if you changed it on purpose, delete "
                f"its line from {CHECKSUMS}"
            )
