"""Overrides as people write them."""

import re
from collections.abc import Sequence
from pathlib import Path

FREE_TEXT = ("input", "model", "output", "text", "to")  # settings of some verbs that hold a path or a sentence


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


def several_trackers(arguments: Sequence[str]) -> list[str]:
    """`tracking=[a,b]` as Hydra can have it: each in a place of its own, since both have a ``_target_``.

    >>> several_trackers(["seed=1", "tracking=[csv,tensorboard]"])
    ['seed=1', 'tracking=none', '+tracking@tracking.csv=csv', '+tracking@tracking.tensorboard=tensorboard']
    """
    found = list[str]()
    for argument in arguments:
        if several := re.fullmatch(r"tracking=\[([\w, ]+)\]", argument):
            names = [name.strip() for name in several[1].split(",")]
            found += ["tracking=none", *(f"+tracking@tracking.{name}={name}" for name in names)]
        else:
            found.append(argument)
    return found


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
