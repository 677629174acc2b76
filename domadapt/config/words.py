"""What people write where an override belongs: told what to write, before Hydra's parsers tell of their grammar."""

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise

# Flags of Hydra that people may give, and those that take a value.
SWITCHES = ("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m")
VALUED = (
    *("--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd"),
    *("--shell-completion", "-sc", "--experimental-rerun", "--info", "-i"),
)
SHOWN = ("job", "hydra", "all")  # what --cfg can show


def check_words(verb: str, arguments: Sequence[str]) -> None:
    """Refuse what is neither a setting nor a flag.

    Args:
        verb: of the command.
        arguments: after it.

    Raises:
        ValueError: with what to write instead.

    >>> check_words("train", ["--seed=3"])
    Traceback (most recent call last):
    ValueError: --seed=3: settings are written without dashes: seed=3
    >>> check_words("train", ["-m", "seed=1,2", "--cfg", "job"])
    """
    for word, following in pairwise([*arguments, ""]):
        if word in ("-c", "--cfg") and following not in SHOWN:
            raise ValueError(f"{word} {following}: expected one of {', '.join(SHOWN)}, such as {word} job")
    for word, following in _loose(arguments):
        if word.startswith("-"):
            name, sign, value = word.lstrip("-").partition("=")
            if not sign and following and not following.startswith("-") and "=" not in following:
                value = following
            near = get_close_matches(word.partition("=")[0], [*SWITCHES, *VALUED], n=1, cutoff=0.8)
            hint = f"; or did you mean {near[0]}?" if near else ""
            raise ValueError(f"{word}: settings are written without dashes: {name}={value or 'VALUE'}{hint}")
        raise ValueError(f"{word!r}: {_fix(verb, word)}")


def _loose(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Words that are no override, no flag and no flag's value, with the word that follows."""
    before = ""
    for word, following in pairwise([*arguments, ""]):
        flag = word.partition("=")[0] in (*SWITCHES, *VALUED)
        override = not word.startswith("-") and ("=" in word or word.startswith("~"))
        if not (flag or override or before in VALUED):
            yield word, following
        before = word


def _fix(verb: str, word: str) -> str:
    if verb == "predict" and not os.path.exists(word):  # noqa: PTH110 - of any length
        return f'a text to label is written text="{word}", a file input=FILE'
    if verb in ("predict", "parse"):
        return f"a file is written input={word}"
    return f"expected settings as NAME=VALUE, such as seed=1; domadapt {verb} --help lists them"
