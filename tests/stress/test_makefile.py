"""`make setup` takes the Python that will do, whatever it is called, and says what it found where none will."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
SHIM = """#!{real} -E
import ensurepip, pkgutil, sys, venv  # before they could wonder where they are
from types import SimpleNamespace
sys.version_info, sys.maxsize = {version}, {maxsize}
sys.implementation = SimpleNamespace(name={kind!r})
modules = [] if {without_venv} else [(None, "ensurepip", True)]
pkgutil.iter_modules = lambda: modules
if not modules:
    sys.modules["ensurepip"] = None
assert sys.argv[1] == "-c", "only asked about, never run"
exec(sys.argv[2])
"""

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")


def shim(
    folder: Path, name: str, version: tuple[int, ...], kind: str = "cpython", bits: int = 64, venv: bool = True
) -> None:
    """A Python that says it is another one."""
    settings = {"version": version, "maxsize": 2 ** (bits - 1) - 1, "kind": kind, "without_venv": not venv}
    path = folder / name
    path.write_text(SHIM.format(real=sys.executable, **settings), encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder to search for programs in, with a shell, make and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "make", "test"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    return folder


def make(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What `make setup` would do in an empty folder; nothing is run but questions to each Python."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAKE"))}
    given = ["--dry-run", "--file", str(MAKEFILE), f"VENV={path}/venv", "setup", *arguments]
    cwd = path.parent
    for needed in ("pyproject.toml", "constraints.txt"):
        (cwd / needed).touch()
    return subprocess.run(
        [path / "make", *given], capture_output=True, text=True, cwd=cwd, env=env | {"PATH": str(path)}
    )


def taken(told: subprocess.CompletedProcess[str]) -> str:
    """The command that makes the environment."""
    assert told.returncode == 0, told.stderr
    [line] = [line for line in told.stdout.splitlines() if "-m venv" in line]
    return line.split("|| ")[1].split(" -m")[0]


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_any_python_that_torch_has_wheels_for_will_do(path: Path, minor: int) -> None:
    shim(path, f"python3.{minor}", (3, minor, 2))
    assert taken(make(path)) == f"python3.{minor}"


@pytest.mark.parametrize("name", ["python3", "python"])
def test_a_python_without_a_number_in_its_name(path: Path, name: str) -> None:
    shim(path, name, (3, 12, 0))
    assert taken(make(path)) == name


def test_the_first_that_runs_and_fits_is_taken(path: Path) -> None:
    (path / "python3.11").write_text("#!/bin/sh\nexit 127\n")  # as a version manager's, where it is not installed
    (path / "python3.11").chmod(0o755)
    shim(path, "python3.12", (3, 12, 4), venv=False)  # as Debian's without python3-venv
    shim(path, "python3.13", (3, 13, 1), kind="pypy")
    shim(path, "python3", (3, 14, 0))
    shim(path, "python", (3, 12, 0))
    assert taken(make(path)) == "python3"


def test_the_users_choice_wins(path: Path) -> None:
    shim(path, "python3.11", (3, 11, 7))
    assert taken(make(path, "PYTHON=/opt/mine/python")) == "/opt/mine/python"


def test_where_none_will_do_one_line_says_what_was_found(path: Path) -> None:
    shim(path, "python3", (3, 9, 2))
    shim(path, "python3.14", (3, 14, 0), bits=32)
    shim(path, "python", (2, 7, 18, "final", 0))
    told = make(path)
    assert told.returncode == 2
    [line] = told.stderr.splitlines()
    assert "needs CPython 3.11 to 3.14, 64 bit, with venv; found " in line
    assert (
        "; found python3.14 (cpython 3.14.0 32 bit) python3 (cpython 3.9.2 64 bit) python (cpython 2.7.18 64 bit); "
        in line
    )
    assert "install one, or make PYTHON=FILE" in line
    assert not (path / "venv").exists()


def test_one_without_venv_is_told_so(path: Path) -> None:
    shim(path, "python3", (3, 12, 3), venv=False)
    assert "; found python3 (cpython 3.12.3 64 bit without venv); install one" in make(path).stderr


def test_too_new_is_told_too(path: Path) -> None:
    shim(path, "python3", (3, 15, 0))
    assert "; found python3 (cpython 3.15.0 64 bit); install one" in make(path).stderr


def test_where_there_is_no_python_at_all(path: Path) -> None:
    assert "; found no Python; install one" in make(path).stderr


def test_an_environment_that_is_there_needs_no_python(path: Path) -> None:
    (path / "venv" / "bin").mkdir(parents=True)
    (path / "venv" / "bin" / "python").touch()
    assert make(path).returncode == 0
