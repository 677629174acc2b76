"""A folder of one's own, given as --config-dir: Hydra finds its yaml, and Python its code."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

FLAGS = ("--config-dir", "-cd")


def config_dirs(arguments: Sequence[str]) -> list[Path]:
    """Folders that a command line names.

    >>> config_dirs(["--config-dir=/a", "seed=1", "-cd", "/b"])
    [PosixPath('/a'), PosixPath('/b')]
    """
    named = ((*word.partition("="), following) for word, following in pairwise([*arguments, ""]))
    return [Path(value if sign else following).absolute() for name, sign, value, following in named if name in FLAGS]


def import_from(arguments: Sequence[str]) -> None:
    """Put these folders on Python's path: last, where they hide no library.

    Args:
        arguments: of the command.
    """
    sys.path += [folder for folder in map(str, config_dirs(arguments)) if folder not in sys.path]
