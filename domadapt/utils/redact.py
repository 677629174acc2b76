"""Keys and passwords stay out of everything that is written or printed."""

import logging
import os
import re
import shlex
from collections.abc import Sequence
from typing import Any

HIDDEN = "[hidden]"
SHORTEST = 8  # characters of a secret: a shorter value, such as `true`, would be struck out wherever it occurs
# api_key, WANDB_API_KEY, token, db.password, DB_PASS, GITHUB_PAT, AUTH; not tokenizer, keyboard, bypass, path, PWD.
WORD = (
    "(?:secret|passw|passphrase|credential|authoriz|bearer|(?:keys?|token)(?![a-z])"
    "|(?:(?<!by)(?<!com)pass|auth|(?<![a-z])pat|(?<=[._-])pwd)(?![a-z_]))"
)
# Of a value that a message quotes: a word of prose, or a dotted name of a setting.
PROSE = re.compile(r"""['"]?(?:[a-z_-]+(?:\.[a-z_-]+)*|[A-Z_]+|<[^<>]*>)[.:;,]?['"]?""")
NAME = re.compile(WORD, re.IGNORECASE)
# As people write them: name=value, --name=value, --name value, {name: value}. A reference to the environment is none.
GIVEN = re.compile(
    rf"""(?<![\w.+/@-]) (?P<name> [\w.+/@-]*? {WORD} [\w.+/@-]* ) (?P<sign> ['"]?[ ]*:[ ]* | = | [ ](?!-) )
    (?P<value> '[^']*' | "[^"]*" | [\[{{][^\[\]{{}}]*[\]}}] | [^\s,;'"]+?(?=[\]}}]*(?:[\s,;'"]|$)) )""",
    re.VERBOSE | re.IGNORECASE,
)
_settings: set[str] = set()  # secrets that configurations of this process were found to hold
LOGIN = re.compile(r"""(?<=://)[^\s/'"]+(?=@)""")  # user:password in the address of a server


def is_secret(name: str) -> bool:
    """Whether a setting or an environment variable of this name holds a secret.

    >>> [is_secret(name) for name in ("WANDB_API_KEY", "hub.token", "tokenizer", "max_tokens", "keyboard")]
    [True, True, False, False, False]
    """
    return NAME.search(name) is not None


def redact(text: str) -> str:
    """A message without the secrets of the environment and of settings, and without values given to secret names.

    Words of the message stay, though they follow a name: a secret that looks like one is known by its value.

    >>> redact("--token ab12cd34; Key 'seeds' is not in struct; full_key: benchmark.seeds")
    "--token [hidden]; Key 'seeds' is not in struct; full_key: benchmark.seeds"
    """
    return LOGIN.sub(HIDDEN, GIVEN.sub(lambda match: match[0] if _prose(match) else _hidden(match), strike(text)))


def strike(text: str) -> str:
    """A text without the values of secrets in the environment and in settings."""
    for value in sorted(_environment() | _settings, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def struck(value: Any) -> Any:
    """Nested dicts and lists whose texts, names included, hold no secret."""
    if isinstance(value, dict):
        return {struck(name): struck(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [struck(inner) for inner in value]
    return strike(value) if isinstance(value, str) else value


def remember(config: Any) -> None:
    """Strike the secrets that a configuration holds out of whatever this process tells from now on."""
    redacted(config)


def command_line(arguments: Sequence[str]) -> str:
    """A command as a shell takes it, without secrets.

    >>> command_line(["domadapt", "train", "+hub={token: 'a secret'}", "tracking.uri=https://me:pw@host"])
    "domadapt train '+hub={token: [hidden]}' 'tracking.uri=https://[hidden]@host'"
    """
    # Each by itself, too: quotes of the shell hide those of an argument.
    return without_given(shlex.join(map(without_given, arguments)))


def without_given(text: str) -> str:
    """A command or an override without any value that is given to a secret name, though it look like a word.

    >>> without_given("train +tracking.api_key=swordfish seed=1")
    'train +tracking.api_key=[hidden] seed=1'
    """
    return LOGIN.sub(HIDDEN, GIVEN.sub(_hidden, strike(text)))


def redacted(config: Any, secret: bool = False) -> Any:
    """A configuration without secrets.

    >>> redacted({"tracking": {"api_key": "0123456789", "project": "mine"}, "seed": 1})
    {'tracking': {'api_key': '[hidden]', 'project': 'mine'}, 'seed': 1}
    """
    if isinstance(config, dict):
        return {name: redacted(value, secret or is_secret(str(name))) for name, value in config.items()}
    if isinstance(config, list | tuple):
        return [redacted(value, secret) for value in config]
    if secret and config is not None and not isinstance(config, bool):
        if isinstance(config, str) and len(config) >= SHORTEST and config != HIDDEN and not PROSE.fullmatch(config):
            _settings.add(config)  # no plain word, which may stand anywhere
        return HIDDEN
    return redact(config) if isinstance(config, str) else config


def hidden(arguments: Sequence[str]) -> list[str]:
    """Overrides with their secrets moved into the environment, where other processes of a sweep find them, too.

    Hydra writes and prints overrides as they stand, long before a configuration could be redacted.

    >>> hidden(["seed=1", "+tracking.api_key=0123456789"])
    ['seed=1', '+tracking.api_key=${oc.env:DOMADAPT_SECRET_TRACKING_API_KEY}']
    >>> os.environ.pop("DOMADAPT_SECRET_TRACKING_API_KEY")
    '0123456789'
    """
    return [_moved(argument) for argument in arguments]


class Redacting(logging.Filter):
    """For a log handler: records lose their secrets, tracebacks included; none is dropped."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True


def guard_logs() -> None:
    """Warnings go to the log, and nothing that this process logs holds a secret."""
    logging.captureWarnings(True)
    for handler in logging.getLogger().handlers:
        if not any(isinstance(known, Redacting) for known in handler.filters):  # a worker takes several jobs
            handler.addFilter(Redacting())


def _environment() -> set[str]:
    """Values of secret names; a path, such as SSH_AUTH_SOCK's, only leads to a secret."""
    named = {value for name, value in os.environ.items() if len(value) >= SHORTEST and is_secret(name)}
    return {value for value in named if not (value.startswith("/") and os.path.exists(value))}  # noqa: PTH110 - of any text


def _prose(match: re.Match[str]) -> bool:
    """Does a message go on in words, rather than quote a value?"""
    weak = re.search(r"(?:^|[^a-z])(?:full_)?keys?$", match["name"], re.IGNORECASE)
    return (match["sign"] != "=" or weak is not None) and PROSE.fullmatch(match["value"]) is not None


def _hidden(match: re.Match[str]) -> str:
    name, sign, value = match["name"], match["sign"], match["value"]
    flag = name.startswith("--") or sign != " "
    plain = len(value) >= SHORTEST and value != HIDDEN and not value.strip("'\"").startswith("${")
    return f"{name}{sign}{HIDDEN}" if flag and plain else match[0]


def _moved(argument: str) -> str:
    name, sign, value = argument.partition("=")
    several = value.startswith(("[", "{"))
    movable = len(value) >= SHORTEST and "${" not in value
    if sign and movable and (is_secret(name) or (LOGIN.search(value) and not several)):
        return f"{name}={_reference(name, value)}"
    return f"{name}={GIVEN.sub(lambda item: _moved_item(name, item), value)}" if several else argument


def _moved_item(name: str, item: re.Match[str]) -> str:
    """Of a dict; its place is part of the variable's name, since a list may hold several of one name."""
    value = item["value"]
    if len(value) < SHORTEST or "${" in value:
        return item[0]
    variable = f"{name}_{item.start()}_{item['name']}"
    return f"{item['name']}{item['sign']}{_reference(variable, value)}"


def _reference(name: str, value: str) -> str:
    """Move a value into the environment, and return what stands for it."""
    variable = "DOMADAPT_SECRET_" + re.sub(r"\W+", "_", name.strip("+~-")).upper()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    os.environ[variable] = value[1:-1] if quoted else value
    reference = f"${{oc.env:{variable}}}"
    return f"'${{oc.decode:{reference}}}'" if value[0] in "[{" else reference  # quoted: for Hydra's grammar
