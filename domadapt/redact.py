"""Keys and passwords stay out of everything that is written or printed."""

import logging
import os
import re
from collections.abc import Sequence
from typing import Any

HIDDEN = "[hidden]"
SHORTEST = 8  # characters of a secret: a shorter value, such as `true`, would be struck out wherever it occurs
# api_key, WANDB_API_KEY, token, db.password; not tokenizer, max_tokens, keyboard.
NAME = re.compile(r"secret|passw|credential|(?:keys?|token)(?![a-z])", re.IGNORECASE)
# As people write them: name=value, --name=value, --name value. What refers to the environment holds no secret.
VALUE = r"""(?P<value> '[^']*' | "[^"]*" | [^\s,;'"]+ )"""
GIVEN = re.compile(r"(?P<name> -{0,2} [\w.+/@-]+ ) (?P<sign> = | [ ](?!-) ) " + VALUE, re.VERBOSE)


def is_secret(name: str) -> bool:
    """Whether a setting or an environment variable of this name holds a secret.

    >>> [is_secret(name) for name in ("WANDB_API_KEY", "hub.token", "tokenizer", "max_tokens", "keyboard")]
    [True, True, False, False, False]
    """
    return NAME.search(name) is not None


def redact(text: str) -> str:
    """A text without the secrets of the environment, and without values that are given to secret names.

    >>> redact("domadapt train +tracking.api_key=0123456789 seed=1 --token abcdefgh")
    'domadapt train +tracking.api_key=[hidden] seed=1 --token [hidden]'
    """
    for value in sorted(_environment(), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return GIVEN.sub(_hidden, text)


def redacted(config: Any, secret: bool = False) -> Any:
    """A configuration without secrets.

    Args:
        config: plain dicts, lists and values.
        secret: all of it is one.

    >>> redacted({"tracking": {"api_key": "0123456789", "project": "mine"}, "seed": 1})
    {'tracking': {'api_key': '[hidden]', 'project': 'mine'}, 'seed': 1}
    """
    if isinstance(config, dict):
        return {name: redacted(value, secret or is_secret(str(name))) for name, value in config.items()}
    if isinstance(config, list | tuple):
        return [redacted(value, secret) for value in config]
    if secret and config is not None and not isinstance(config, bool):
        return HIDDEN
    return redact(config) if isinstance(config, str) else config


def hidden(arguments: Sequence[str]) -> list[str]:
    """Overrides with their secrets moved into the environment, where other processes of a sweep find them, too.

    Hydra writes and prints overrides as they stand, long before a configuration could be redacted.

    Args:
        arguments: of the command line.

    >>> hidden(["seed=1", "+tracking.api_key=0123456789"])
    ['seed=1', '+tracking.api_key=${oc.env:DOMADAPT_SECRET_TRACKING_API_KEY}']
    >>> os.environ.pop("DOMADAPT_SECRET_TRACKING_API_KEY")
    '0123456789'
    """
    return [_moved(argument) for argument in arguments]


class Redacting(logging.Filter):
    """For a log handler: records lose their secrets, tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; none is dropped."""
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True


def guard_logs() -> None:
    """Warnings go to the log, and nothing that this process logs holds a secret."""
    logging.captureWarnings(True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Redacting())


def _environment() -> set[str]:
    return {value for name, value in os.environ.items() if len(value) >= SHORTEST and is_secret(name)}


def _hidden(match: re.Match[str]) -> str:
    name, sign, value = match["name"], match["sign"], match["value"]
    flag = name.startswith("--") or sign == "="
    plain = len(value) >= SHORTEST and value != HIDDEN and not value.startswith("${")
    return f"{name}{sign}{HIDDEN}" if flag and plain and is_secret(name) else match[0]


def _moved(argument: str) -> str:
    name, sign, value = argument.partition("=")
    if not sign or len(value) < SHORTEST or "${" in value or not is_secret(name):
        return argument
    variable = "DOMADAPT_SECRET_" + re.sub(r"\W+", "_", name.strip("+~-")).upper()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    os.environ[variable] = value[1:-1] if quoted else value
    return f"{name}=${{oc.env:{variable}}}"
