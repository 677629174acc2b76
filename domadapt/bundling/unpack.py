"""What `python bundle.pyz` runs: unpack the file once, then run its cells. Standard library alone."""

import hashlib
import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path
from zipfile import BadZipFile, ZipFile

USAGE = """\
python {name} [cells=N] [runs=FOLDER] [unpack=FOLDER]

  cells    how many run at once, each in a process of its own. Default: half of the processor's cores, at most 8
  runs     where run folders are written; finished cells are not run again. Default: runs
  unpack   where the content is put, in a folder named after it. Default: beside the bundle

Needs Python 3.11, torch, transformers, scikit-learn, scipy, psutil and xxhash; no network.
"""


def main() -> None:
    """Unpack and run."""
    bundle = Path(__file__).resolve().parent  # a zip file: Python runs the __main__.py in it
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(USAGE.format(name=bundle.name))
        return
    if sys.version_info < (3, 11):  # noqa: UP036 - no installer has checked it
        sys.exit(f"{bundle.name}: Python {sys.version.split()[0]} is too old; it needs 3.11")
    given = [argument for argument in sys.argv[1:] if not argument.startswith("unpack=")]
    chosen = [argument.partition("=")[2] for argument in sys.argv[1:] if argument.startswith("unpack=")]
    try:
        folder = unpacked(bundle, Path(chosen[-1]) if chosen else bundle.parent)
    except (OSError, EOFError, NotImplementedError, BadZipFile, zlib.error) as error:  # what damage can raise
        sys.exit(f"{bundle.name} can't be unpacked: {error}; copy it again, or choose a place with unpack=FOLDER")
    places = [str(folder / "site"), str(folder / "own")]
    path = os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH")])])
    # -P: whatever lies in the working folder is not imported.
    command = [sys.executable, "-P", "-m", "domadapt.bundling.run", str(folder), *given]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})


def unpacked(bundle: Path, home: Path) -> Path:
    """The folder of a bundle's content, which appears when all of it is there.

    Args:
        bundle: the file.
        home: folder to make it in.

    Raises:
        OSError: no room, or no right to write.
        BadZipFile: the file is damaged: every entry has a checksum. Damage can also raise what unpacking raises.
    """
    with bundle.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folder = home / f"{bundle.stem}-{digest[:12]}"
    if folder.is_dir():
        return folder
    home.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=home, prefix=f".{folder.name}."))
    try:
        with ZipFile(bundle) as archive:
            archive.extractall(part)  # drops leading slashes and `..`; makes no links
        part.chmod(0o755)
        part.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


if __name__ == "__main__":
    main()
