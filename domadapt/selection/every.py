"""Every validator that the package has a yaml of."""

from collections.abc import Iterator
from importlib.resources import files

from omegaconf import OmegaConf

from domadapt.config.instantiate import make
from domadapt.selection.validator import Validator


def every_validator() -> Iterator[Validator]:
    """In the order of their files' names, the bound among them.

    >>> sorted(validator.name for validator in every_validator())[:3]
    ['bnm', 'corr_c', 'ensemble']
    """
    for path in sorted((files("domadapt.conf") / "selection").iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            validator: Validator = make(OmegaConf.create(path.read_text(encoding="utf-8")))
            yield validator
