"""Configurations: composed from yaml and overrides, made into objects."""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache
from importlib.metadata import metadata
from importlib.resources import files
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, InstantiationException, MissingConfigException, OverrideParseException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from domadapt.config.overrides import check_utf8, config_dirs, lengthen, one_of, several_trackers
from domadapt.config.resolvers import register
from domadapt.utils.files import DISK_FULL
from domadapt.utils.redact import hide_secrets
from domadapt.utils.work import Stopped, with_notes

# What torch says where there is no room for a tensor, on a GPU and on the CPU.
NO_MEMORY = re.compile(r"CUDA out of memory. Tried to allocate [\d.]+ \w+|can't allocate memory: .* \d+ bytes")
LESS_MEMORY = {"predict": "batch_size=8", "analyze": "batch_size=4"} | dict.fromkeys(
    ("adapt", "train", "benchmark"),
    "trainer.batch_size=8 trainer.target_batch_size=4, then max_length=64, then backbone.trainable=top:2",
)
SEARCHED = "its file is looked for in the folder of --config-dir and on PYTHONPATH"
COMPOSING = threading.RLock()  # Hydra's state is the process's, whichever thread asks


def make(config: Any, **extra: Any) -> Any:
    """The one place where configuration becomes objects; an error is what their constructor said, as it said it."""
    if not isinstance(config, Mapping) or not isinstance(config.get("_target_"), str):
        expected = "expected settings with a _target_ among them, the class that takes them, as in our yaml files"
        raise ValueError(f"{config!s:.80}: {expected}")
    try:
        made = instantiate(config, _convert_="all", **extra)
    except InstantiationException as error:
        cause = error.__cause__
        while isinstance(cause, InstantiationException) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, ValueError | OSError):
            raise cause from None
        if isinstance(cause, TypeError):  # a setting of the wrong type, or one that is not there
            misfit = _misfit(to_builtin(config))
            raise ValueError(f"{config.get('_target_')}: {misfit}{cause}; see the comments in its yaml") from None
        raise
    for name, kind in _annotations(config["_target_"]):
        if kind in (bool, bool | None) and name in config:  # a word would be a yes, "no", too
            one_of(name, config[name], True, False, *([] if kind is bool else [None]))
    return made


def _annotations(target: str) -> list[tuple[str, Any]]:
    with suppress(ValueError, NameError):  # of what is written in C; of types that Python 3.14 does not find
        taken = signature(get_object(target)).parameters.items()
        return [(name, Any if setting.annotation is setting.empty else setting.annotation) for name, setting in taken]
    return []


def _misfit(given: Mapping[str, Any]) -> str:
    """Of a class's settings, one that a yaml can't have for the type that the class says; empty if there is none.

    >>> _misfit({"_target_": "domadapt.methods.adaptation.averaging.Averaging", "decay": "high"})
    "decay='high': expected float | None; "
    """
    from pydantic import TypeAdapter, ValidationError

    for name, kind in _annotations(given["_target_"]):
        checked = name in given and not isinstance(given[name], Mapping)  # a group may be settings of another class
        try:  # as JSON, whose texts and lists may be paths and tuples
            TypeAdapter(kind if checked else Any).validate_json(json.dumps(given.get(name)), strict=True)
        except ValidationError:
            return f"{name}={given[name]!r}: expected {kind.__name__ if isinstance(kind, type) else kind}; "
        except Exception:  # pydantic does not know every type
            continue
    return ""


def to_builtin(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as plain dicts and lists; one that is so already as it is."""
    result: Any = OmegaConf.to_container(cfg, resolve=True) if isinstance(cfg, DictConfig) else cfg
    return {str(key): value for key, value in result.items()}


Settings = SimpleNamespace  # what a verb is asked for: attributes of its composed yaml, groups and lists as plain ones


def settings(cfg: DictConfig, verb: str) -> Settings:
    """A verb's composed configuration, resolved; refused where one is not set, or null and its default is not."""
    values: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    defaults: Any = OmegaConf.to_container(_written(verb), resolve=False)
    if verb != "benchmark":
        check_known(cfg, verb)
    for name, default in defaults.items():
        value = values.get(name, default)
        if default == "???" and value in (None, []):
            raise ValueError(not_set(name, verb))
        if default is not None and (value is None or isinstance(default, dict) > isinstance(value, dict)):
            shown = "null" if value is None else value
            raise ValueError(f"{name}={shown}: not a value that it can have; domadapt {verb} --help says which it can")
        if isinstance(default, bool):  # trust_code=no is a word, and any word would be a yes
            one_of(name, value, True, False)
    return Settings(**values)


@cache
def _written(name: str) -> Any:
    """One of our yaml files, which nobody changes: a benchmark asks for the same ones in every cell."""
    return OmegaConf.create((files("domadapt.conf") / f"{name}.yaml").read_text(encoding="utf-8"))


def check_known(cfg: Mapping[str, Any], verb: str) -> None:
    """Refuse what ``+x=1`` adds, which Hydra allows, where nothing reads it: no setting of the verb, nor its trainer's,
    and none that another one refers to."""
    beside = [*_keys(_written("trainer/default"))] if "trainer" in cfg else []
    known = {*_keys(_written(verb)), "benchmark"}
    known |= {group.partition("/")[0] for group, _ in groups(verb)} | {f"trainer.{name}" for name in beside}
    written = OmegaConf.to_yaml(cfg)
    for name in map(str, (*cfg, *(f"trainer.{name}" for name in cfg.get("trainer", ())))):
        if name not in known and f"${{{name}" not in written:
            raise ValueError(_unknown_key(name, verb, True, beside if "." in name else ()))


def not_set(name: str, verb: str) -> str:
    return f"{name} is not set: give {name}=VALUE; domadapt {verb} --help says what it is"


def verb_help(verb: str, arguments: Sequence[str], usage: str) -> str:
    """Settings and choices of a verb, with the comments of their yaml; of ``GROUP=OPTION`` alone that option's.

    ``--config-dir`` adds the options of a folder; ``usage`` has a line about the verb.

    >>> print(verb_help("train", ["injection=lisa"], ""))  # doctest: +ELLIPSIS
    # One attention head...
    """
    places = [Path(str(files("domadapt.conf"))), *config_dirs(arguments)]
    names = [f"{a.replace('=', '/', 1)}.yaml" for a in arguments if "=" in a and not a.startswith("-")]
    asked = [place / name for name in names for place in places]
    if texts := [path.read_text(encoding="utf-8").rstrip() for path in asked if path.is_file()]:
        return "\n\n".join(texts)
    about = next((line.split(maxsplit=1)[1] for line in usage.splitlines() if line.split()[:1] == [verb]), "")
    composed = "train" if verb == "adapt" else verb
    words = "LABELLED NEW_TEXTS [model=RUN] [overrides]" if verb == "adapt" else "[overrides]"
    lines = [f"domadapt {verb} {words}      {about}", "", *_settings(composed)]
    choices = dict(groups(composed)) | ({"adaptation": "recipe", "selection": "last"} if verb == "adapt" else {})
    if choices:
        lines += ["", f"Choices (`domadapt {verb} GROUP=OPTION --help` shows the settings of one; * is the default):"]
    for group, default in choices.items():
        lines += ["", f"{group}="]
        options = {path.stem: path for place in reversed(places) for path in (place / group).glob("*.yaml")}
        for name, path in sorted(options.items()):
            comments = (line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#")
            title = next((c for c in comments if not c.startswith("@package")), "").rstrip(":")
            origin = "" if path.is_relative_to(places[0]) else f" ({path})"
            lines.append(f"  {'*' if name == default else ' '} {name:<24} {title}{origin}")
    hint = "Your own: --config-dir=FOLDER, where FOLDER/GROUP/OPTION.yaml is found, and Python in FOLDER."
    return "\n".join([*lines, "", f"Sweeps and the rest of Hydra: --hydra-help. {hint}"])


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
    config = _written(verb)
    for entry in config.get("defaults", []):
        if isinstance(entry, DictConfig):
            for group, default in entry.items():
                yield str(group).split()[-1].lstrip("/"), default
        elif entry != "_self_":
            yield from groups(entry)


@contextmanager
def initialized() -> Iterator[None]:
    """Hydra, ready to compose: inside a verb as it is, with the user's --config-dir, else set up for this block."""
    register()
    with COMPOSING:
        if GlobalHydra.instance().is_initialized():
            yield
        else:
            with hydra.initialize_config_module("domadapt.conf", version_base="1.3"):
                yield


def compose(config: str = "train", overrides: Sequence[str] = (), with_hydra: bool = False) -> DictConfig:
    """Compose the configuration of a verb outside the command line."""
    check_utf8(overrides)
    known = sorted(path.name[:-5] for path in files("domadapt.conf").iterdir() if path.name.endswith(".yaml"))
    if config not in known:
        raise ValueError(f"{config!r}: there is no such verb; expected one of {', '.join(known)}{_near(config, known)}")
    if text := "".join(word for word in overrides if len(word) == 1):  # it was given in place of a list
        raise ValueError(f"overrides={text!r}: expected a list of settings, such as ['seed=1']")
    with initialized():
        try:
            written = hide_secrets([lengthen(override) for override in several_trackers(overrides)])
            return hydra.compose(config, written, return_hydra_config=with_hydra)
        except HydraException as problem:
            raise ValueError(user_error(problem, config) or str(problem)) from problem


def user_error(error: BaseException, verb: str) -> str | None:
    """What to tell the user of an error that is theirs; None for one of ours, which deserves its traceback.

    >>> user_error(ValueError("seed=x: expected a number"), "train")
    'seed=x: expected a number'
    >>> user_error(KeyError("x"), "train") is None
    True
    """
    ours = (ValueError, Stopped, OSError)
    while isinstance(error, InstantiationException) and isinstance(error.__cause__, (*ours, InstantiationException)):
        error = error.__cause__  # what the constructor said, not who called it
    if isinstance(error, MissingMandatoryValue):
        return not_set(str(error.full_key), verb)
    group, _, option = str(getattr(error, "missing_cfg_file", "")).rpartition("/")
    listed = Path(str(files("domadapt.conf")), group or "-").glob("*.yaml")  # of one in a list Hydra tells none
    if isinstance(error, MissingConfigException) and (options := error.options or sorted(p.stem for p in listed)):
        extra = option.partition("_")[0]
        if group.startswith("hydra/") and extra in (metadata("domadapt").get_all("Provides-Extra") or ()):
            return f"{group.removeprefix('hydra/')}={option} is an extra: pip install 'domadapt[{extra}]'"
        known = ", ".join(options) + _near(option, options)
        return f"{group}={option}: there is no such option; expected one of {known}"
    if isinstance(error, OverrideParseException):
        hint = "close every bracket; put text with signs, spaces or umlauts into quotes: \"setting='a=b, c'\""
        return f"{error.override}: {_flat(error)}; {hint}"
    if isinstance(error, HydraException) and isinstance(error.__cause__, OmegaConfBaseException):
        message = f"{_flat(error)}: {_flat(error.__cause__)}"
        beside = [*map(str, error.__cause__.parent_node or ())]
        return _unknown_key(str(error.__cause__.full_key), verb, "not in struct" in message, beside) or message
    if isinstance(error, InstantiationException) and str(error).startswith("Error locating target"):
        cause, (_, key, place) = error.__cause__ or error, str(error).partition("full_key: ")  # data= is made without
        return f"{_flat(cause)} ({place}{'.' * bool(key)}_target_; {SEARCHED}; DOMADAPT_TRACEBACK=1 shows more)"
    if isinstance(error, InstantiationException):
        return f"{_flat(error)} (DOMADAPT_TRACEBACK=1 shows where)"
    several = r"(?:Ambiguous value for argument|Sweep parameters) '(.*)'"
    if isinstance(error, HydraException) and (match := re.match(several, str(error))):
        hint = "One is put into quotes: \"setting='a, b'\"; a list into brackets: [a,b]"
        return f"{match[1]}: one value or a list? {hint}" + "; a run for each: domadapt train -m" * (verb == "train")
    if isinstance(error, HydraException) and (match := re.match(r"Could not override '([^']+)'", str(error))):
        return f"{match[1]}: domadapt {verb} has no such choice; leave it out (domadapt {verb} --help shows all)"
    if isinstance(error, HydraException | OmegaConfBaseException | YAMLError):  # the last of a file of --config-dir
        fewer = "; benchmark.only=[...] chooses methods" if "~benchmark.methods." in str(error) else ""
        return _flat(error).rstrip(".") + fewer
    if isinstance(error, OSError) and error.filename is not None:
        runs = "paths.cache or DOMADAPT_CACHE, paths.run or paths.runs"
        where = runs if verb in ("train", "adapt", "benchmark") else "output; DOMADAPT_CACHE for parses"
        where = "to; model is read" if verb in ("export", "guide") else where
        return f"{error.filename}: {error.strerror}; name a folder that can be read and written ({where})"
    if isinstance(error, OSError) and error.errno in DISK_FULL:  # of a file it would have a name
        return f"standard output can't be written ({error.strerror}); free space, or send it elsewhere"
    if isinstance(error, RuntimeError) and (match := NO_MEMORY.search(str(error))):
        return f"{match[0]}; try {LESS_MEMORY.get(verb, 'fewer texts at a time')}"
    return with_notes(error) if isinstance(error, ours) else None


def _near(word: str, known: Sequence[str]) -> str:
    return f"; did you mean {close[0]}?" if (close := get_close_matches(word, known, 1)) else ""


def _flat(error: BaseException) -> str:
    """A message of several paragraphs on one line, less what only Hydra's developers need."""
    lines = [line.strip() for line in str(error).split("Config search path:")[0].splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith(("See https://", "object_type=")))


def _unknown_key(key: str, verb: str, absent: bool, beside: Sequence[str]) -> str | None:
    """A setting that is not there, and what was meant; ``absent`` from what is chosen, which has those ``beside``."""
    composed, own = "train" if verb == "adapt" else verb, ["data=my_files"]
    choices = {group for group, _ in groups(composed)}
    known = {*_keys(compose(composed, own if verb == "adapt" else ())), *choices}
    if not absent or (key in known and not key.startswith("data.")):
        return None  # it is its value that is wrong
    if "data" in choices and key in {*_keys(compose(composed, own))}:
        return f"{key}: is of your own files: add {'experiment=my_matrix' if verb == 'benchmark' else 'data=my_files'}"
    where, _, name = key.rpartition(".")
    named = [setting for setting in sorted(known) if setting.endswith(f".{name}") or setting == name]
    if where:
        close = [f"{where}.{setting}" for setting in get_close_matches(name, beside, n=1)] or (named if beside else [])
    else:
        close = named or get_close_matches(key, known, n=1)
    fix = f"did you mean {' or '.join(close[:4])}?" if close else f"domadapt {verb} --cfg job shows all"
    if where and not close:
        own = [setting for setting in beside if setting != "_target_"]
        fix = f"{where} has {', '.join(own)}" if own else f"choose {where}= first; domadapt {verb} --help shows which"
    return f"{key}: there is no such setting; {fix}"


def _keys(config: Any, prefix: str = "") -> Iterator[str]:
    for name, value in config.items_ex(resolve=False) if hasattr(config, "items_ex") else ():
        yield f"{prefix}{name}"
        yield from _keys(value, f"{prefix}{name}.")
