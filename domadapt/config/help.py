"""The words of the command line: overrides as people write them, a verb's help, one line for a user's error."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from domadapt.config.own_folder import config_dirs


def verb_help(verb: str, arguments: Sequence[str], usage: str) -> str:
    """Settings and choices of a verb, with the comments of their yaml; or one choice's settings.

    Args:
        verb: name of a top-level yaml.
        arguments: ``GROUP=OPTION`` asks for the settings of that option alone; ``--config-dir`` adds
            the options of a folder.
        usage: text whose line about the verb comes first.

    >>> print(verb_help("train", ["injection=lisa"], ""))  # doctest: +ELLIPSIS
    # One attention head...
    """
    places = [Path(str(files("domadapt.conf"))), *config_dirs(arguments)]
    names = [f"{a.replace('=', '/', 1)}.yaml" for a in arguments if "=" in a and not a.startswith("-")]
    asked = [place / name for name in names for place in places]
    if found := [path.read_text(encoding="utf-8").rstrip() for path in asked if path.is_file()]:
        return "\n\n".join(found)
    about = next((line.split(maxsplit=1)[1] for line in usage.splitlines() if line.split()[:1] == [verb]), "")
    lines = [f"domadapt {verb} [overrides]      {about}", "", *_settings(verb)]
    choices = dict(groups(verb))
    if choices:
        lines += ["", f"Choices (`domadapt {verb} GROUP=OPTION --help` shows the settings of one; * is the default):"]
    for group, default in choices.items():
        lines += ["", f"{group}="]
        options = {path.stem: path for place in reversed(places) for path in (place / group).glob("*.yaml")}
        for name, path in sorted(options.items()):
            comments = (line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#")
            title = next((c for c in comments if not c.startswith("@package")), "")
            own = "" if path.is_relative_to(places[0]) else f" ({path})"
            lines.append(f"  {'*' if name == default else ' '} {name:<24} {title}{own}")
    return "\n".join(
        [
            *lines,
            "",
            "Sweeps, completion and the rest of Hydra: --hydra-help. Your own: --config-dir=FOLDER, where "
            "FOLDER/GROUP/OPTION.yaml is found, and Python in FOLDER.",
        ]
    )


def _settings(verb: str) -> Iterator[str]:
    """A verb's yaml without the two blocks that set nothing of it."""
    wanted = True
    for line in (files("domadapt.conf") / f"{verb}.yaml").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith(" "):
            wanted = not line.startswith(("defaults:", "hydra:"))
        if wanted and line.strip():
            yield line


def groups(verb: str) -> Iterator[tuple[str, str | None]]:
    """Groups in a verb's defaults, and the option taken by default."""
    from omegaconf import DictConfig, OmegaConf

    config: Any = OmegaConf.create((files("domadapt.conf") / f"{verb}.yaml").read_text(encoding="utf-8"))
    for entry in config.get("defaults", []):
        if isinstance(entry, DictConfig):
            for group, default in entry.items():
                yield str(group).split()[-1].lstrip("/"), default
        elif entry != "_self_":
            yield from groups(entry)
