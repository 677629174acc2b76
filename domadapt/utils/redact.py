"""Values of secret-looking settings and variables, and logins in addresses, are struck out of what is told."""

import logging
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

HIDDEN = "[hidden]"
SHORTEST_SECRET = 8  # characters of a secret: a shorter value, such as `true`, would be struck out wherever it occurs
# api_key, WANDB_API_KEY, token, db.password, DB_PASS, GITHUB_PAT, AUTH; not tokenizer, keyboard, bypass, path, PWD; of
# tokens a list, not a number.
SECRET_WORD = (
    r"(?:secret|passw|passphrase|credential|authoriz|bearer|(?:keys?|token)(?![a-z])|tokens(?=['\"]?\s*[=:]\s*\[)"
    "|(?:(?<!by)(?<!com)pass|auth|(?<![a-z])pat|(?<=[._-])pwd)(?![a-z_]))"
)
SECRET_NAME = re.compile(SECRET_WORD, re.IGNORECASE)
# name=value or {name: value}, the value maybe quoted, or a list.
GIVEN_SECRET = re.compile(
    rf"""(?<![\w.+/@-]) (?P<name> [\w.+/@-]*? {SECRET_WORD} [\w.+/@-]* ) (?P<sign> ['"]?[ ]*:[ ]* | = )
    (?P<value> '[^']*' | "[^"]*" | [\[{{][^\[\]{{}}]*[\]}}] | [^\s,;'"]+?(?=[\]}}]*(?:[\s,;'"]|$)) )""",
    re.VERBOSE | re.IGNORECASE,
)
# Of a value that a message quotes: a word, or a dotted name of a setting.
NO_SECRET = re.compile(r"""['"]?(?:[a-z_-]+(?:\.[a-z_-]+)*|[A-Z_]+|<[^<>]*>)[.:;,]?['"]?""")
LOGIN = re.compile(r"""(?<=://)[^\s/'"]+(?=@)""")  # user:password in the address of a server
_settings: set[str] = set()  # secrets in configurations of this process


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Whether a setting or an environment variable of this name holds a secret.

    >>> [is_secret(name) for name in ("WANDB_API_KEY", "hub.token", "tokenizer", "max_tokens", "keyboard")]
    [True, True, False, False, False]
    """
    return SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """A text without known secrets, without values given to secret names, and without logins in addresses.

    >>> redact("hub.token=ab12cd34 x.tokens=[ab12cd34,ef56] https://me:pw@host; full_key: benchmark.seeds")
    'hub.token=[hidden] x.tokens=[hidden] https://[hidden]@host; full_key: benchmark.seeds'
    """
    return LOGIN.sub(HIDDEN, GIVEN_SECRET.sub(_hidden, strike(text)))


def _hidden(match: re.Match[str]) -> str:
    name, sign, value = match["name"], match["sign"], match["value"]
    weak = sign != "=" or re.search(r"(?:^|[^a-z])keys?$", name, re.IGNORECASE)  # prose has such, too
    known = len(value) < SHORTEST_SECRET or value == HIDDEN or value.strip("'\"").startswith("${")
    return match[0] if known or (weak and NO_SECRET.fullmatch(value)) else f"{name}{sign}{HIDDEN}"


def _secrets() -> list[str]:
    """Values of secrets in the environment and in settings, the longest first."""
    named = {value for name, value in os.environ.items() if len(value) >= SHORTEST_SECRET and is_secret(name)}
    # A path, such as SSH_AUTH_SOCK's, only leads to a secret.
    known = {value for value in named if not (value.startswith("/") and os.path.exists(value))}  # noqa: PTH110
    return sorted(known | _settings, key=len, reverse=True)


def strike(text: str, secrets: Sequence[str] | None = None) -> str:
    """A text without the values of secrets, all that are known unless they are given."""
    for value in _secrets() if secrets is None else secrets:
        text = text.replace(value, HIDDEN)
    return text


def without_secrets(value: Any, secrets: Sequence[str] | None = None) -> Any:
    """Nested dicts and lists whose texts, names included, hold no known secret."""
    secrets = _secrets() if secrets is None else secrets  # looked for once, not once a text
    if isinstance(value, dict):
        return {without_secrets(name, secrets): without_secrets(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner, secrets) for inner in value]
    return strike(value, secrets) if isinstance(value, str) else value


def redacted(config: Any, secret: bool = False) -> Any:
    """A configuration without secrets, which are struck out of whatever this process tells from now on.

    >>> redacted({"tracking": {"api_key": "0123456789", "project": "mine"}, "seed": 1})
    {'tracking': {'api_key': '[hidden]', 'project': 'mine'}, 'seed': 1}
    """
    if isinstance(config, dict):
        named = {name: f"{name}=[" if isinstance(value, list | tuple) else str(name) for name, value in config.items()}
        return {name: redacted(value, secret or is_secret(named[name])) for name, value in config.items()}
    if isinstance(config, list | tuple):
        return [redacted(value, secret) for value in config]
    if secret and config is not None and not isinstance(config, bool):
        secret_text = isinstance(config, str) and config != HIDDEN and not NO_SECRET.fullmatch(config)
        if secret_text and len(config) >= SHORTEST_SECRET:
            _settings.add(config)  # no plain word, which may stand anywhere
        return HIDDEN
    return redact(config) if isinstance(config, str) else config


def hide_secrets(arguments: Sequence[str]) -> list[str]:
    """Overrides with their secrets moved into the environment, where a sweep finds them: Hydra prints overrides."""
    return [_moved(*argument.partition("=")) for argument in arguments]


def _moved(name: str, sign: str, value: str) -> str:
    nested = value[:1] in ("[", "{")
    secret = is_secret(name + sign + value[:1]) or LOGIN.search(value) or (nested and GIVEN_SECRET.search(value))
    if not sign or not secret or len(value) < SHORTEST_SECRET or "${" in value:
        return name + sign + value
    variable = "DOMADAPT_SECRET_" + re.sub(r"\W+", "_", name.strip("+~-")).upper()
    quoted = value[0] == value[-1] and value[0] in "'\""
    os.environ[variable] = value[1:-1] if quoted else value
    reference = f"${{oc.env:{variable}}}"
    return f"{name}='${{oc.decode:{reference}}}'" if nested else f"{name}={reference}"  # quoted: for Hydra's grammar


def redact_record(record: logging.LogRecord) -> bool:
    """A log handler's filter: records lose their secrets, tracebacks included; none is dropped."""
    record.msg, record.args = redact(record.getMessage()), ()
    if record.exc_info and not record.exc_text:
        record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
    return True


def guard_logs() -> None:
    """Warnings go to the log, and the log is redacted."""
    logging.captureWarnings(True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(redact_record)  # once, though a worker takes several jobs
