"""Files are written as a whole or not at all, by one process at a time, and checked when they are read."""

import errno
import glob
import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from filelock import FileLock

UNFINISHED = ".part"  # ends the hidden name of what is still being written
DAY = 24 * 3600.0  # seconds without a write, after which what is unfinished is of a killed process
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CHECKSUMS = "SHA256SUMS"
CHECKSUM_LINE = re.compile(r"([0-9a-f]{64}) [ *](?!/)(.+)")
AGAIN = "copy the folder again, or train the model again"


def cache_folder() -> Path:
    """Where runs share what they have made, unless ``paths.cache`` names another folder."""
    return Path(os.environ.get("DOMADAPT_CACHE") or Path.home() / ".cache" / "domadapt")


def shipped() -> Path:
    """Where the corpora and the parser are that travel with the package."""
    return Path(str(files("domadapt.shipped")))


def below(folder: Path, name: str) -> Iterator[Path]:
    """Files of this name in a folder, at any depth; links are followed, each folder once."""
    seen = set[str]()
    for place, folders, names in os.walk(folder, followlinks=True):
        if (here := os.path.realpath(place)) in seen:
            folders.clear()
        elif name in names:
            yield Path(place, name)
        seen.add(here)


def matching(path: str) -> list[Path]:
    """The files that a pattern stands for, by name; the path itself where it is none, or none fits.

    >>> matching("a.csv")
    [PosixPath('a.csv')]
    """
    names = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) and not Path(path).exists() else []  # noqa: PTH207
    return [Path(name) for name in names if Path(name).is_file()] or [Path(path)]


@contextmanager
def _naming_if_full(path: Path) -> Iterator[None]:
    """Around what writes ``path``: if there is no room for it, the error names the file and the way out."""
    try:
        yield
    except Exception as error:  # of safetensors and shutil, which have the system's number in their text
        match = re.search(r"(?:\(os error |\[Errno )(\d+)", str(error))
        number = int(match[1]) if match else getattr(error, "errno", None)
        if number not in DISK_FULL:
            raise
        fix = "free space and run the same command again"
        raise OSError(f"{path}: could not be written ({os.strerror(number)}); {fix}") from error


def refuse_overwriting(
    output: Path | str | None, inputs: Iterable[Path], setting: str = "output", mark: str = ""
) -> None:
    """Before anything is computed: nothing that is read is replaced, nor a folder; and output can be written.

    Nor is a file without the ``mark``, a regular expression, of what the verb itself writes: it may hold labels.
    """
    if setting == "output" and output is not None and (Path(str(output)).is_dir() or str(output).endswith("/")):
        raise ValueError(f"output={output}: is a folder; name a file in it")
    for path in inputs if output is not None and Path(str(output)).is_file() else ():
        if path.is_file() and path.samefile(str(output)):
            raise ValueError(f"{setting}={output}: is {path}, which is read; it would be lost: give another file")
    if mark and output is not None and Path(str(output)).is_file():
        with Path(str(output)).open(encoding="utf-8", errors="replace") as file:
            start = file.read(2**16)
        if start and not re.search(mark, start):
            raise ValueError(f"output={output}: is there, and domadapt has not written it; give another name")
    if output is not None and not Path(str(output)).exists():
        folder = next(folder for folder in Path(str(output)).absolute().parents if folder.exists())
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def replace_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, then put it in its place by rename; its folder is made if absent.

    What a link points to is replaced; a device or a pipe is written to. Where that fails, what was there still is.
    """
    with _naming_if_full(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            write(path)
            return
        path = path.resolve() if path.is_symlink() else path
        path.parent.mkdir(parents=True, exist_ok=True)
        # In a folder of its own, because a writer may have temporary files, too.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED) as folder:
            part = Path(folder, path.name + UNFINISHED)  # not its name, by which others look for whole files
            write(part)
            _settle(part)
            part.replace(path)


def replace_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a folder beside ``path`` or what it links to, then replace it; of several, the last stays."""
    path = path.resolve() if path.is_symlink() else path
    clear_parts(path, DAY)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}{UNFINISHED}")
    try:
        with _naming_if_full(path):
            write(part)
            for file in part.rglob("*"):
                if file.is_file():
                    _settle(file)
        for left in reversed(range(5)):
            shutil.rmtree(path, ignore_errors=True)
            try:
                part.replace(path)
                break
            except OSError as error:
                if not left or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise  # else another writer has put its own there in between
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to, by device and number; None if to none."""
    with suppress(OSError):
        about = path.stat()
        return about.st_dev, about.st_ino
    return None


def clear_parts(path: Path, idle: float = 0.0) -> None:
    """Delete what killed processes have left of ``path`` half written; for the only one that may write it now.

    Others delete what nobody has written to for ``idle`` seconds.
    """
    for part in path.parent.glob(f".{path.name}.*{UNFINISHED}"):
        with suppress(FileNotFoundError):  # whose writer has finished
            if time.time() - max(file.stat().st_mtime for file in (part, *part.rglob("*"))) >= idle:
                shutil.rmtree(part, ignore_errors=True)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Of several processes that would make the same file, let one make it and the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):  # the system's: a killed process leaves none behind
        clear_parts(path)
        yield


def write_atomic(path: Path, text: str) -> None:
    """Write a text file by rename, so that nobody ever reads half of it."""
    replace_atomic(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))


def _settle(path: Path) -> None:
    """Past the system's memory, which a rename must not overtake; as readable as other files, unlike safetensors'."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)


def sha256(path: Path) -> str:
    """A file's, in hexadecimal digits."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{path}: can't be read ({error.strerror}); its owner may allow it, else {AGAIN}") from error


def write_checksums(folder: Path) -> None:
    """Write down what each file of a folder is."""
    inside = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    lines = (f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in inside)
    write_atomic(folder / CHECKSUMS, "".join(lines))


def verify_checksums(folder: Path) -> None:
    """Refuse a folder whose files are missing or were changed since they were written down; others may lie there."""
    listing = folder / CHECKSUMS
    lines = listing.read_bytes().decode("utf-8", "replace").splitlines()
    if not lines:
        raise ValueError(f"{listing}: damaged: it is empty; {AGAIN}")
    for number, line in enumerate(lines, start=1):
        match = CHECKSUM_LINE.fullmatch(line)
        if not match or ".." in Path(match[2]).parts:
            expected = "64 hexadecimal digits, two blanks and a file of this folder"
            raise ValueError(f"{listing}:{number}: damaged: {line[:80]!r}, expected {expected}; {AGAIN}")
        path = folder / match[2]
        if not path.is_file():
            raise ValueError(f"{path}: is missing, and {CHECKSUMS} names it; {AGAIN}")
        if sha256(path) != match[1]:
            fix = f"{AGAIN}; if you changed it on purpose, delete its line from {CHECKSUMS}"
            raise ValueError(f"{path}: has changed since it was saved ({CHECKSUMS}); {fix}")
