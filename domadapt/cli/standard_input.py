"""A corpus that comes through a pipe: `cat *.txt | domadapt train source.path=a.csv target.path=-`.

Training reads a corpus more than once, and may be resumed or done again: so the bytes are kept, under their own hash,
and the run reads that file. Its command, as the results quote it, names the file and works without the pipe.
"""

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from domadapt.utils.files import replace_atomic

CORPUS = re.compile(r"(\+*(?:data\.)?(?:source|target)\.(?:\w+_)?path)=-")
COLUMN = re.compile(r"\+*(?:data\.)?(?:source|target)\.text=")


def kept(arguments: Sequence[str]) -> list[str]:
    """Arguments with the name of a file in place of standard input, whose bytes are in it.

    Raises:
        ValueError: standard input is asked for twice, is a terminal, or holds nothing.

    >>> kept(["seed=1", "target.path=b.txt"])
    ['seed=1', 'target.path=b.txt']
    """
    names = [match[1] for argument in arguments if (match := CORPUS.fullmatch(argument))]
    if not names:
        return list(arguments)
    if len(names) > 1:
        raise ValueError(f"{names[0]}=- and {names[1]}=-: standard input can be read once; save one of them as a file")
    if sys.stdin is None or sys.stdin.isatty():
        raise ValueError(f"{names[0]}=-: standard input is a terminal; pipe a file in: cat texts.txt | domadapt ...")
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise ValueError(f"{names[0]}=-: standard input holds nothing; expected texts")
    # The content tells most formats; where it does not, it is lines of text, or with columns a table.
    name = "stdin.csv" if any(COLUMN.match(argument) for argument in arguments) else "stdin.txt"
    path = _cache(arguments) / "stdin" / hashlib.sha256(content).hexdigest()[:16] / name
    if not path.is_file() or path.read_bytes() != content:
        replace_atomic(path, lambda part: part.write_bytes(content))
    return [CORPUS.sub(lambda match: f"{match[1]}={path}", argument) for argument in arguments]


def _cache(arguments: Sequence[str]) -> Path:
    """As `paths.cache` says, here or by default; nothing is composed yet."""
    given = [value for name, _, value in (argument.partition("=") for argument in arguments) if name == "paths.cache"]
    return Path(
        given[-1] if given else os.environ.get("DOMADAPT_CACHE") or Path.home() / ".cache" / "domadapt"
    ).absolute()
