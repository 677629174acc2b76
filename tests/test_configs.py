"""Every yaml: explained above its keys, composes, and names only what exists."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import get_object
from omegaconf import OmegaConf

from domadapt.config.compose import compose, groups

CONF = Path(__file__).parents[1] / "conf"
FILES = sorted(CONF.rglob("*.yaml"))
NAMES = [str(path.relative_to(CONF)) for path in FILES]
OPTIONS = [(path.parent.name, path.stem) for path in FILES if path.parent != CONF]
KEY = re.compile(r"( *)([\w+]+):")
SPEAK_FOR_THEMSELVES = {"_target_", "defaults", "hydra"}
TOGETHER = 3  # keys that one comment may explain, where they follow each other


def unexplained(text: str) -> list[str]:
    """Keys without a comment above them. One comment may speak for a few keys in a row, or for a block's first.

    A name that was explained once means the same in the rest of the file.
    """
    found, run, known = [], TOGETHER, set(SPEAK_FOR_THEMSELVES)
    inside: str | None = None  # a block whose keys are Hydra's own, or name themselves
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("- "):
            continue
        if line.lstrip().startswith("#"):
            run = 0
            continue
        match = KEY.match(line)
        if match is None:
            continue
        indent, key = match.groups()
        if inside is not None and len(indent) > len(inside):
            continue
        inside = indent if key in ("defaults", "hydra") else None
        if key in known:
            continue
        run += 1
        if run > TOGETHER:
            found.append(key)
        else:
            known.add(key)
    return found


def targets(config: Any) -> Iterator[str]:
    """Every ``_target_`` in a configuration."""
    if isinstance(config, dict):
        yield from (value for key, value in config.items() if key == "_target_")
        config = list(config.values())
    for value in config if isinstance(config, list) else ():
        yield from targets(value)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_comment_stands_above_every_key(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# "), f"{path}: the first line says what the file is for"
    if path.parent.name not in ("experiment", "debug"):  # they set what is explained elsewhere
        assert unexplained(text) == []


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_target_exists(path: Path) -> None:
    for target in targets(OmegaConf.to_container(OmegaConf.load(path), resolve=False)):
        assert callable(get_object(target)), target


@pytest.mark.parametrize("verb", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_every_verb_composes(verb: str) -> None:
    assert OmegaConf.to_container(compose(verb), resolve=True)


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes_into_a_run(group: str, option: str) -> None:
    added = "" if group in dict(groups("train")) else "+"  # debug, say, is no part of a usual run
    if option == "ray" and find_spec("ray") is None:  # no part of the extra `dev`: it is large
        with pytest.raises(ValueError, match=r"launcher=ray is an extra: pip install 'domadapt\[ray\]'"):
            compose("train", [f"{added}{group}={option}"])
        return
    config = compose("train", [f"{added}{group}={option}"])
    OmegaConf.to_container(config, resolve=True)
    assert config.pair
    assert config.method
