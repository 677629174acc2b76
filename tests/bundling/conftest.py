"""A machine as bare as a bundle may meet: an environment of torch, transformers and what these need, nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from domadapt.bundling.libraries import MACHINE, needed_by


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its Python: no spaCy, no wandb, no Lightning, no hydra, no domadapt."""
    venv = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    [site] = (venv / "lib").glob("python*/site-packages")
    for library in needed_by(MACHINE).values():
        for top in {file.parts[0] for file in library.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(library.locate_file(top))))
    return venv / "bin" / "python"
