"""The words of the command line: overrides as people write them, a verb's help, one line for a user's error."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

FREE_TEXT = ("input", "model", "output", "text")  # settings of predict and parse that hold a path or a sentence


def quote(argument: str) -> str:
    r"""Quote a path or a sentence, so that Hydra's grammar leaves its commas, brackets and equals signs alone.

    >>> quote("text=It's small, (very) small"), quote("model=runs/seed=1"), quote("input=[a.txt,b.txt]")
    ("text='It\\'s small, (very) small'", "model='runs/seed=1'", 'input=[a.txt,b.txt]')
    """
    name, sign, value = argument.partition("=")
    if name not in FREE_TEXT or not value or value == "null" or value[0] in "'\"[":
        return argument
    # Backslashes count in Hydra only before a quote, and the end of the value is one.
    return name + sign + "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"


def lengthen(argument: str) -> str:
    """`source.path=a.csv` is short for `data.source.path=a.csv`, and so with the target.

    >>> lengthen("source.path=a.csv"), lengthen("seed=1")
    ('data.source.path=a.csv', 'seed=1')
    """
    return re.sub(r"^(source|target)\.", r"data.\1.", argument)


def positional(arguments: Sequence[str]) -> list[str]:
    """`report runs/x` is short for `report runs=runs/x`: what is no override and no flag is a path.

    A path may hold equals signs, as run folders do (``seed=1-0a1b2c3d``): what exists on disk is a path.

    >>> positional(["runs/x", "output=a.html", "--cfg", "job"])
    ["runs=['runs/x']", 'output=a.html', '--cfg', 'job']
    """
    rest, paths = list[str](), list[str]()
    for before, argument in zip(("", *arguments), arguments, strict=False):
        flag = argument.startswith(("-", "+", "~")) or before.startswith("--")
        path = not flag and ("=" not in argument or Path(argument).exists())
        (paths if path else rest).append(argument)
    quoted = [quote(f"input={path}").removeprefix("input=") for path in paths]
    return [*([f"runs=[{','.join(quoted)}]"] if paths else []), *rest]


def verb_help(verb: str, arguments: Sequence[str], usage: str) -> str:
    """Settings and choices of a verb, with the comments of their yaml; or one choice's settings.

    Args:
        verb: name of a top-level yaml.
        arguments: ``GROUP=OPTION`` asks for the settings of that option alone.
        usage: text whose line about the verb comes first.

    >>> print(verb_help("train", ["injection=lisa"], ""))  # doctest: +ELLIPSIS
    # One attention head learns...
    """
    conf = files("domadapt.conf")
    asked = [conf / f"{a.replace('=', '/', 1)}.yaml" for a in arguments if "=" in a]
    if found := [path.read_text(encoding="utf-8").rstrip() for path in asked if path.is_file()]:
        return "\n\n".join(found)
    about = next((line.split(maxsplit=1)[1] for line in usage.splitlines() if line.split()[:1] == [verb]), "")
    lines = [f"domadapt {verb} [overrides]      {about}", "", *_settings(verb)]
    groups = dict(_groups(verb))
    if groups:
        lines += ["", f"Choices (`domadapt {verb} GROUP=OPTION --help` shows the settings of one; * is the default):"]
    for group, default in groups.items():
        lines += ["", f"{group}="]
        for path in sorted((p for p in (conf / group).iterdir() if p.name.endswith(".yaml")), key=lambda p: p.name):
            name = path.name.removesuffix(".yaml")
            comments = (line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#")
            title = next((c for c in comments if not c.startswith("@package")), "")
            lines.append(f"  {'*' if name == default else ' '} {name:<24} {title}")
    return "\n".join(
        [*lines, "", "Sweeps, completion and the rest of Hydra: --hydra-help. Your own yaml: --config-dir."]
    )


def _settings(verb: str) -> Iterator[str]:
    """A verb's yaml without the two blocks that set nothing of it."""
    wanted = True
    for line in (files("domadapt.conf") / f"{verb}.yaml").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith(" "):
            wanted = not line.startswith(("defaults:", "hydra:"))
        if wanted and line.strip():
            yield line


def _groups(verb: str) -> Iterator[tuple[str, str | None]]:
    """Groups in a verb's defaults, and the option taken by default."""
    from omegaconf import DictConfig, OmegaConf

    config: Any = OmegaConf.create((files("domadapt.conf") / f"{verb}.yaml").read_text(encoding="utf-8"))
    for entry in config.get("defaults", []):
        if isinstance(entry, DictConfig):
            for group, default in entry.items():
                yield str(group).split()[-1].lstrip("/"), default
        elif entry != "_self_":
            yield from _groups(entry)


def user_error(error: BaseException, verb: str) -> str | None:
    """What to tell the user of an error that is theirs; None for one of ours, which deserves its traceback.

    Args:
        error: anything that a verb or Hydra raised.
        verb: whose configuration was composed.

    >>> user_error(ValueError("seed=x: expected a number"), "train")
    'seed=x: expected a number'
    >>> user_error(KeyError("x"), "train") is None
    True
    """
    from hydra.errors import HydraException, InstantiationException, MissingConfigException, OverrideParseException
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    ours = (ValueError, RuntimeError, OSError)
    while isinstance(error, InstantiationException) and isinstance(error.__cause__, (*ours, InstantiationException)):
        error = error.__cause__  # what the constructor said, not who called it
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} is not set: give {error.full_key}=VALUE; domadapt {verb} --help says what it is"
    if isinstance(error, MissingConfigException) and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        extra = option.partition("_")[0]
        if group.startswith("hydra/") and extra in (metadata("domadapt").get_all("Provides-Extra") or ()):
            return f"{group.removeprefix('hydra/')}={option} is an extra: pip install 'domadapt[{extra}]'"
        return f"{group}={option}: there is no such option; expected one of {', '.join(error.options)}"
    if isinstance(error, OverrideParseException):
        hint = "put a value with special characters into quotes: \"setting='a=b, c'\""
        return f"{error.override}: {_flat(error)}; {hint}"
    if isinstance(error, HydraException) and isinstance(error.__cause__, OmegaConfBaseException):
        return _unknown_key(str(error.__cause__.full_key), verb) or f"{_flat(error)}: {_flat(error.__cause__)}"
    if isinstance(error, InstantiationException):
        return f"{_flat(error)} (DOMADAPT_TRACEBACK=1 shows where)"
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _flat(error)
    return str(error) if isinstance(error, ours) else None


def _flat(error: BaseException) -> str:
    """A message of several paragraphs on one line, less what only Hydra's developers need."""
    lines = [line.strip() for line in str(error).split("Config search path:")[0].splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith(("See https://", "object_type=")))


def _unknown_key(key: str, verb: str) -> str | None:
    """A setting that is not there, and the one it is likeliest to be."""
    from domadapt.api import compose

    config = compose(verb)
    known = {*_keys(config), *(group for group, _ in _groups(verb))}
    if key in known:
        return None  # it is its value that is wrong
    close = get_close_matches(key, known, n=1)
    fix = f"did you mean {close[0]}?" if close else f"domadapt {verb} --cfg job shows all (+{key}=VALUE adds one)"
    return f"{key}: there is no such setting; {fix}"


def _keys(config: Any, prefix: str = "") -> Iterator[str]:
    for name, value in config.items_ex(resolve=False) if hasattr(config, "items_ex") else ():
        yield f"{prefix}{name}"
        yield from _keys(value, f"{prefix}{name}.")
