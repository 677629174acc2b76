"""Which files of a library a bundle carries, whoever installed it."""

from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from domadapt.bundling.libraries import files_of


def test_a_library_is_its_listed_files_in_its_own_folder() -> None:
    files = files_of(distribution("hydra-core"))
    assert Path("hydra/__init__.py") in files and not any(".." in file.parts for file in files)


def test_what_an_old_pip_installed_without_a_list_is_found_by_its_modules(tmp_path: Path) -> None:
    told = tmp_path / "old-1.0.egg-info"
    for path, text in {
        told / "PKG-INFO": "Metadata-Version: 1.1\nName: old\nVersion: 1.0\n",
        told / "SOURCES.txt": "src/old/__init__.py\n",  # as they lay where it was built
        told / "top_level.txt": "old\nsingle\n",
        tmp_path / "old" / "__init__.py": "",
        tmp_path / "old" / "inner" / "part.py": "",
        tmp_path / "single.py": "",
        tmp_path / "other.py": "",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    library = Distribution.at(told)
    assert {str(file) for file in files_of(library)} == {"old/__init__.py", "old/inner/part.py", "single.py"}
    (told / "top_level.txt").unlink()
    with pytest.raises(ValueError, match=r"old: installed in .* without a list .* --use-pep517 old==1.0"):
        files_of(library)
