"""The wheel, from which most users run: all that is needed is in it, and it works from any folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]


def test_the_oldest_python_can_install_what_is_pinned() -> None:
    """A pin that it can't, as of a package that leaves 3.11.2 behind, sends an old pip on an endless search.

    What is pinned for docs/ alone is not installed here: ``make constraints`` asks again where it is.
    """
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    oldest = f"{oldest.removeprefix('>=').partition(',')[0]}.0"
    about = [one.metadata.json for one in distributions()]
    needed = {str(one["name"]): str(one.get("requires_python", "")) for one in about}
    assert {name: python for name, python in needed.items() if oldest not in SpecifierSet(python)} == {}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools would otherwise pack what an old build/ still holds."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    for name in ("domadapt", "conf", "data"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--wheel-dir", folder, copy], check=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a fresh environment that holds the wheel, and sees this one's dependencies."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True)
    [site] = (venv / "lib").glob("python*/site-packages")
    # A plain path: the .pth file of an editable install that lies there is not obeyed, so the wheel is what's imported.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


def run(program: Path, *arguments: str, folder: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=folder, env=env, check=True)
    return done.stdout


def shipped() -> Iterator[tuple[str, str]]:
    """Every file of the checkout that must travel, and where it goes."""
    for folder, home in (("domadapt", "domadapt"), ("conf", "domadapt/conf"), ("data", "domadapt/shipped")):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(ROOT)), f"{home}/{path.relative_to(ROOT / folder)}"


def test_all_that_is_needed_travels(wheel: Path) -> None:
    inside = set(ZipFile(wheel).namelist())
    assert [path for path, home in shipped() if home not in inside] == []
    licenses = {Path(name).name for name in inside if ".dist-info/licenses/" in name}
    assert licenses == {"LICENSE", "NOTICE"}


def test_nothing_else_travels(wheel: Path) -> None:
    homes = {home for _, home in shipped()}
    rest = [name for name in ZipFile(wheel).namelist() if name not in homes and ".dist-info/" not in name]
    assert rest == []


def test_it_runs_from_another_folder(installed: Path, tmp_path: Path) -> None:
    assert "domadapt VERB" in run(installed / "domadapt", "--help", folder=tmp_path)
    assert "seed: 1" in run(installed / "domadapt", "train", "--cfg", "job", folder=tmp_path)
    where = run(installed / "python", "-c", "import domadapt; print(domadapt.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert list(tmp_path.iterdir()) == []  # nothing is left behind in the user's folder


def test_the_shipped_parser_loads_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import domadapt; print(next(domadapt.parse(['It works.'])).relations[0])"
    assert run(installed / "python", "-c", code, folder=tmp_path).strip() == "nsubj"
