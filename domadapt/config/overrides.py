"""Overrides as users type them, what a mistyped word was meant to be, and settings that are out of their range."""

import csv
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.resources import files
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path

FLAGS = ("--config-dir", "-cd")
_exists = os.path.exists  # False of what is longer than a name can be, as a list may be
FREE_TEXT = ("input", "model", "other", "baseline", "examples", "output", "text", "to")  # a path or a sentence
# A path below the home folder; shells see to it where the name is a word without dots, if at all.
PATH_OF = r"\w*path|runs?|cache|root|" + "|".join(name for name in FREE_TEXT if name != "text")
HOME_PATH = re.compile(rf"^(\+*(?:[\w.]+\.)?(?:{PATH_OF})=)~(?=/)")
WITH_NONE = ("adaptation", "control", "injection", "rule_baseline", "tracking")  # groups with an option none
CORPUS = re.compile(r"\+*data\.(?:\w+\.)*(?:root|(?:dev_|test_|train_)?path)")
# As :func:`quoted` has it, or a user; more values may follow, for `train -m`.
QUOTED = re.compile(r"""(['"])(\\.|(?!\1)[^\\])*\1(\s*,.*)?""", re.DOTALL)
NOT_PLAIN = re.compile(r"[^\t -~]|[!#&;<>^`]")  # Hydra reads them in quotes alone: it knows ASCII and few signs
ONE_PATH = re.compile(r"\+*(paths\.(runs?|cache)|output|audit)")  # of one path each, which may be called 2026 or true
NO_NAME = re.compile(r"(^|[\[,])\s*(null|true|false|[-+]?\d[\d.]*)\s*([,\]]|$)")  # Hydra takes no number for a choice
# Flags of Hydra that people may give, and those that take a value.
SWITCHES = ("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m")
WITH_VALUE = (
    *("--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd"),
    *("--experimental-rerun", "--info", "-i"),
)
SHOWN_CONFIGS = ("job", "hydra", "all")  # what --cfg can show
SEEDS, NONE = 2**32 - 1, float("inf")  # the last seed that NumPy takes; no upper end
LARGEST = 2**31 - 1  # of what counts something


def config_dirs(arguments: Sequence[str]) -> list[Path]:
    """Folders that a command line names.

    >>> config_dirs(["--config-dir=/a", "seed=1", "-cd", "/b"])
    [PosixPath('/a'), PosixPath('/b')]
    """
    named = ((*word.partition("="), following) for word, following in pairwise([*arguments, ""]))
    return [Path(value if sign else following).absolute() for name, sign, value, following in named if name in FLAGS]


def import_from(arguments: Sequence[str]) -> None:
    """Put the folders of ``--config-dir`` on Python's path: last, where they hide no library."""
    sys.path += [folder for folder in map(str, config_dirs(arguments)) if folder not in sys.path]


def quote(argument: str) -> str:
    r"""Quote a path or a sentence, so that neither Hydra nor OmegaConf sees anything in it. A list is one of paths.

    >>> quote("text=It's small, (very) small"), quote("model=runs/seed=1"), quote("input=[a.txt,it's.txt]")
    ("text='It\\'s small, (very) small'", "model='runs/seed=1'", "input=['a.txt','it\\'s.txt']")
    >>> quote("text=[a]"), quote("text=null"), quote("input=null"), quote("text=cost: ${x}")
    ("text='[a]'", "text='null'", 'input=null', "text='${plain:x636f73743a20247b787d}'")
    """
    name, sign, value = argument.partition("=")
    setting = name.lstrip("+")  # ++text=... sets it, too
    if setting not in FREE_TEXT:
        return readable(argument)
    if not value or (value == "null" and setting != "text"):
        return argument
    return name + sign + (_list(value) if setting == "input" and _is_list(value) else quoted(value))


def lengthen(argument: str) -> str:
    """`source.path=a.csv` is short for `data.source.path=a.csv`, and so with the target. Paths of corpora are quoted.

    >>> lengthen("source.path=a, b.csv"), lengthen("target.path=[a.csv,b.csv]"), lengthen("seed=1")
    ("data.source.path='a, b.csv'", "data.target.path=['a.csv','b.csv']", 'seed=1')
    >>> lengthen("injection=null"), lengthen("injection=[]"), lengthen("++source.text=review")
    ('injection=none', 'injection=none', '++data.source.text=review')
    >>> lengthen(f"source.path=[{','.join(['a.csv'] * 99)}]").count("'a.csv'")
    99
    >>> lengthen("data.source.path=${oc.env:HOME}/a.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: data.source.path=${oc.env:HOME}/a.csv: a path is used unchanged, and '${' can't be in it; rename...
    """
    name, sign, value = re.sub(r"^(\+*)(source|target)\.", r"\1data.\2.", argument).partition("=")
    if name in WITH_NONE and value in ("null", "[]"):
        return f"{name}=none"
    if not CORPUS.fullmatch(name):
        return readable(name + sign + value)
    if "${" in value:  # OmegaConf would evaluate it, now or when it reads the run's settings again
        fix = "rename the file, or let the shell fill in what stands for it"
        raise ValueError(f"{name}={value}: a path is used unchanged, and '${{' can't be in it; {fix}")
    # Several values for `train -m` are parted by commas, without a space, which people's sweeps don't have.
    sweep = "," in value and " " not in value and not _is_list(value) and not _exists(value)
    if value in ("", "null") or value[:2] in ("['", '["') or QUOTED.fullmatch(value) or sweep:
        return name + sign + value  # quoted before: a benchmark composes its cells from the user's overrides
    return name + sign + (_list(value) if _is_list(value) else quoted(value))


def readable(argument: str) -> str:
    """Quote a value, or the items of a list, that Hydra could not read: a column's name in French, words in Russian.

    >>> readable("source.label=Qualité"), readable("terms=[größe, it]"), readable("paths.run='é'"), readable("seed=1")
    ("source.label='Qualité'", "terms=['größe','it']", "paths.run='é'", 'seed=1')
    >>> readable("paths.run=data (2)/it's"), readable("paths.run=2026"), readable("threshold={so, so: 0.5}")
    ("paths.run='data (2)/it\\\\'s'", "paths.run='2026'", "threshold='{so, so: 0.5}'")
    """
    name, sign, value = argument.partition("=")
    if NO_NAME.search(value) and (files("domadapt.conf") / name.lstrip("+")).is_dir():
        raise ValueError(f"{argument}: expected the name of a choice; domadapt VERB --help lists them")
    path = ONE_PATH.fullmatch(name) and value not in ("", "null")
    whole = path or (name == "threshold" and value[:1] == "{")
    if "${" in value or QUOTED.fullmatch(value) or not (whole or NOT_PLAIN.search(value)):
        return argument
    if whole or not re.search(r"""[][{}'",]""", value):
        return name + sign + quoted(value)
    nested = re.search(r"""[][{}'"]""", value[1:-1])
    return argument if nested or not _is_list(value) else name + sign + _list(value)


def _is_list(value: str) -> bool:
    return value[:1] == "[" and value[-1] == "]" and not _exists(value)


def _list(value: str) -> str:
    """A list of paths, each plain, or in quotes as Hydra's grammar has them."""
    quotation = '"' if '"' in value else "'"
    items = next(csv.reader([value[1:-1]], quotechar=quotation, skipinitialspace=True), [])
    return f"[{','.join(map(quoted, items))}]"


def quoted(value: str) -> str:
    """A text as Hydra takes it: nothing in it is evaluated."""
    if "${" in value or value == "???":  # to OmegaConf a reference and a value that is missing, quoted or not
        value = f"${{plain:x{value.encode('utf-8').hex()}}}"
    # Backslashes count in Hydra only before a quote, and the end of the value is one.
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"


def check_utf8(arguments: Sequence[str]) -> None:
    r"""Refuse what can't be written into results and logs: bytes of a file's name that are not UTF-8.

    >>> check_utf8(["seed=1", "input=caf\udce9.txt"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: argument 'input=caf\udce9.txt': holds bytes that are not UTF-8; rename the file or folder, or...
    """
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            fix = "rename the file or folder, or re-encode the text"
            raise ValueError(f"argument {argument!r}: holds bytes that are not UTF-8; {fix}") from None


def several_trackers(arguments: Sequence[str]) -> list[str]:
    """`tracking=[a,b]` as Hydra can have it: each in a place of its own, since both have a ``_target_``.

    >>> several_trackers(["seed=1", "tracking=[csv,tensorboard]"])
    ['seed=1', 'tracking=none', '+tracking@tracking.csv=csv', '+tracking@tracking.tensorboard=tensorboard']
    """
    result = list[str]()
    for argument in arguments:
        if several := re.fullmatch(r"tracking=\[([\w, ]+)\]", argument):
            names = [name.strip() for name in several[1].split(",")]
            result += ["tracking=none", *(f"+tracking@tracking.{name}={name}" for name in names)]
        else:
            result.append(argument)
    return result


def split_paths(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Paths, and overrides with flags. What exists on disk is a path, whatever equals signs and dashes are in it.

    >>> split_paths(["runs/x", "output=a.html", "-c", "job"])
    (['runs/x'], ['output=a.html', '-c', 'job'])
    """
    rest, paths = list[str](), list[str]()
    for previous, argument in zip(("", *arguments), arguments, strict=False):
        value = previous in WITH_VALUE or previous.startswith("--")  # of a flag
        path = not value and (_exists(argument) or not re.match("[-+~].|.*=", argument, re.DOTALL))
        (paths if path else rest).append(argument)
    return paths, rest


def positional(verb: str, arguments: Sequence[str]) -> list[str]:
    """`report runs/x` is short for `report runs=runs/x`, `compare a b` for `model=a other=b`; `audit a b` takes files.

    >>> positional("report", ["runs/x", "output=a.html"]), positional("compare", ["a", "b"])
    (["runs=['runs/x']", 'output=a.html'], ['model=a', 'other=b'])
    """
    if verb not in ("report", "compare", "audit"):
        return list(arguments)
    paths, rest = split_paths(arguments)
    if verb == "audit":
        if len(paths) not in (0, 2):
            raise ValueError(f"expected two files, got {len(paths)}: domadapt audit LABELLED NEW_TEXTS [settings]")
        return [*(my_files(*paths) if paths else []), *rest]
    if verb == "report":
        return [*([f"runs=[{','.join(map(quoted, paths))}]"] if paths else []), *rest]
    if len(paths) not in (0, 2):
        raise ValueError(f"expected two models, got {len(paths)}: domadapt compare RUN/source_only RUN input=FILE")
    return [*(f"{name}={path}" for name, path in zip(("model", "other"), paths, strict=False)), *rest]


def my_files(source: str, target: str) -> list[str]:
    """Settings of a labelled file and one of new texts."""
    given = ["data=my_files", f"source.path={source}", f"target.path={target}"]
    return given + [f"{side}.name={name}" for side, name in file_names(source, target).items()]


def file_names(source: str, target: str) -> dict[str, str]:
    """What two domains are called that nobody named: as their files, where these tell them apart.

    >>> file_names("x/laptops.csv", "my-cameras.txt.gz"), file_names("a/all.csv", "b/all.txt")
    ({'source': 'laptops', 'target': 'my-cameras'}, {})
    """
    names = {"source": Path(source).name.partition(".")[0], "target": Path(target).name.partition(".")[0]}
    usable = all(re.fullmatch(r"[A-Za-z][\w-]*", name) for name in names.values())
    return names if usable and len({*names.values()}) == 2 else {}


def train_arguments(arguments: Sequence[str]) -> list[str]:
    """`adapt labelled.csv new.txt [settings]` as arguments of `train`: the recipe, beside the texts; settings win."""
    paths, rest = split_paths(arguments)
    if {"-m", "--multirun"} & {*rest}:
        sweep = "domadapt train -m data=my_files adaptation=recipe source.path=..."
        raise ValueError(f"adapt is one run; a sweep is {sweep}")
    if len(paths) != 2:
        usage = "domadapt adapt LABELLED NEW_TEXTS [settings], such as domadapt adapt labelled.csv new_domain.txt"
        several = f"; several labelled files are one pattern, such as '*{Path(paths[0]).suffix}'" if paths[2:] else ""
        raise ValueError(f"expected two files, got {len(paths) or 'none'}: {usage}{several}")
    source, target = paths
    set_already = {word.partition("=")[0].lstrip("+").removeprefix("data.") for word in rest}
    given = [*my_files(source, target), "adaptation=recipe"]
    if not {"paths.run", "paths.runs"} & set_already:
        beside = "new_texts" if target == "-" else str(Path(target).with_suffix(""))
        given.append(f"paths.run={quoted(f'{beside}_adapted')}")
    return [word for word in given if word.partition("=")[0] not in set_already] + rest


def check_words(verb: str, arguments: Sequence[str]) -> None:
    """Refuse what is neither a setting nor a flag, and say what to write instead.

    >>> check_words("train", ["--seed=3"])
    Traceback (most recent call last):
    ValueError: --seed=3: settings are written without dashes: seed=3
    >>> check_words("train", ["-m", "seed=1,2", "--cfg", "job"])
    """
    previous = ""
    for word, following in pairwise([*arguments, ""]):
        if word in ("-c", "--cfg") and following not in SHOWN_CONFIGS:
            raise ValueError(f"{word} {following}: expected one of {', '.join(SHOWN_CONFIGS)}, such as {word} job")
        flag = word.partition("=")[0] in (*SWITCHES, *WITH_VALUE)
        override = not word.startswith("-") and ("=" in word or word.startswith("~"))
        fits, previous = flag or override or previous in WITH_VALUE, word
        if fits:
            continue
        if word.startswith("-"):
            name, sign, value = word.lstrip("-").partition("=")
            if not sign and following and not following.startswith("-") and "=" not in following:
                value = following
            near = get_close_matches(word.partition("=")[0], [*SWITCHES, *WITH_VALUE], n=1, cutoff=0.8)
            hint = f"; or did you mean {near[0]}?" if near else ""
            raise ValueError(f"{word}: settings are written without dashes: {name}={value or 'VALUE'}{hint}")
        fix = f"expected settings as NAME=VALUE, such as seed=1; domadapt {verb} --help lists them"
        if verb == "predict" and not _exists(word):
            fix = f'a text to label is written text="{word}", a file of texts input=FILE'
        elif verb in ("predict", "parse", "score", "compare", "sample"):
            model = verb != "parse" and os.path.isdir(word)  # noqa: PTH112 - of any length
            fix = f"a model is written model={word}" if model else f"a file of texts is written input={word}"
        raise ValueError(f"{word!r}: {fix}")


def in_range(name: str, value: float, low: float, high: float = NONE, more: str = "", whole: bool = False) -> None:
    """Refuse a setting out of its range, ends included; a whole ``low`` without ``high`` asks for a ``whole`` number.

    ``more`` is said behind what was expected.

    >>> in_range("gnn.depth", 2, 1)
    >>> in_range("gnn.depth", 0, 1)
    Traceback (most recent call last):
    ValueError: gnn.depth=0: expected a whole number from 1
    >>> in_range("gnn.depth", 10**20, 1)
    Traceback (most recent call last):
    ValueError: gnn.depth=100000000000000000000: expected a whole number from 1 to 2147483647
    """
    whole = whole or (isinstance(low, int) and high == NONE)
    number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)  # NumPy's are, too
    if number and whole and high == NONE and value > LARGEST:
        high = LARGEST
    if not number or not low <= value <= high:
        expected = f"a{' whole' * whole} number from {low}{'' if high == NONE else f' to {high}'}"
        raise ValueError(f"{name}={value!r}: expected {expected}{more}")


def one_of(name: str, value: object, *choices: object) -> None:
    """Refuse a setting that is none of the choices.

    >>> one_of("coral.means", 1, True, False)
    Traceback (most recent call last):
    ValueError: coral.means=1: expected true or false
    """
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        *others, last = ("null" if choice is None else str(choice).lower() for choice in choices)
        raise ValueError(f"{name}={value!r}: expected {', '.join(others)} or {last}")
