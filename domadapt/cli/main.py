"""The command domadapt VERB [overrides]: from the words that were typed to a composed configuration."""

import hashlib
import io
import logging
import os
import platform
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from domadapt.config import overrides as words
from domadapt.utils.files import cache_folder, replace_atomic
from domadapt.utils.redact import guard_logs, hide_secrets, redact

USAGE = """\
domadapt VERB [overrides]      train on labels of one domain, adapt to raw text of another, predict

  adapt       train on a labelled file, adapt to new texts: domadapt adapt labelled.csv new_domain.txt
              model=RUN continues from a saved model, for newer texts
  train       one run: train on the source, adapt to the target, choose an epoch, test
  benchmark   run every pair, method and seed of an experiment, then print the table
  predict     label your own texts with a trained model
  score       score a trained model on labelled texts, with intervals
  sample      draw texts to have labelled: a file, and a prompt for a large language model
  compare     show the texts that two models label differently
  guide       tell a span model the target's annotation guidelines, without training
  serve       open a web page on this machine that labels what you type
  export      write a trained model to a folder that works without domadapt
  parse       parse texts into the cache ahead of training
  cache       show what the cache holds, and its size; clear=all empties it
  audit       find problems in corpora, before you trust a score
  analyze     probe a model's heads and layers, before and after fine-tuning
  report      write one HTML file from run folders: domadapt report runs/mine

Overrides are NAME=VALUE: domadapt train source.path=a.csv target.path=b.txt injection=[lisa,gnn]
  domadapt VERB --help      the verb's settings and choices
  domadapt VERB --cfg job   the composed configuration
  domadapt train -m seed=1,2,3      a sweep
"""
HERE = ("adapt", "train", "predict", "guide", "serve", "export", "parse", "cache", "audit", "analyze", "report")
VERBS = {  # the module of each one's function, which is loaded when it is called
    **dict.fromkeys(HERE, "domadapt.cli.verbs"),
    **dict.fromkeys(("score", "compare", "sample"), "domadapt.cli.labelling"),
    "benchmark": "domadapt.benchmarking.loop",
}
# Verbs whose paths and texts nothing evaluates.
PLAIN = ("predict", "score", "compare", "guide", "sample", "parse", "serve", "export")
PIPED = re.compile(r"(\+*(?:data\.)?(?:source|target)\.(?:\w+_)?path)=-")
FORMAT = re.compile(r"\+*(?:data\.)?(?:source|target)\.format=")
COLUMN = re.compile(r"\+*(?:data\.)?(?:source|target)\.text=")


def main() -> None:
    """Entry point of the `domadapt` command. Exits with 2 after a user's error, told in one line."""
    if sys.argv[1:2] not in (["adapt"], ["train"], ["benchmark"]):  # which clear what is half written when they go on
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    with _one_line((sys.argv[1:2] or ["--help"])[0]):
        _main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()


def _main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return
    verb = arguments[0]
    if verb == "--version":
        from domadapt.runs.key import installed

        print(installed("domadapt"))
        if (machine := (platform.system(), platform.machine())) != ("Linux", "x86_64"):
            print(f"warning: tested on Linux x86-64 alone; this is {' '.join(machine)}", file=sys.stderr)
        return
    if verb not in VERBS:
        print(f"domadapt: no verb {verb!r}; there are {', '.join(VERBS)}", file=sys.stderr)
        raise SystemExit(2)
    try:
        Path.cwd()
    except FileNotFoundError:
        raise ValueError("the working folder was deleted; change to one that exists") from None
    take_any_character(verb in ("predict", "parse"))
    if {"-h", "--help"} & set(arguments):
        from domadapt.config.compose import verb_help

        print(verb_help(verb, arguments[1:], USAGE))
        return
    try:
        _compose_and_run(verb, arguments)
    except KeyboardInterrupt:
        saved = "; the same command goes on from finished runs and from checkpoints (trainer.checkpoint_seconds)"
        how = saved if verb in ("adapt", "train", "benchmark") else ""
        print(f"\ndomadapt {verb}: stopped{how}", file=sys.stderr)  # a bar may stand on the line
        raise SystemExit(130) from None


def _compose_and_run(verb: str, arguments: list[str]) -> None:
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from domadapt.benchmarking.launching import check_search, picklable
    from domadapt.benchmarking.loop import Sweep, SweepEnded
    from domadapt.config.resolvers import register

    called = verb
    verb, arguments, given = hydra_arguments(verb, arguments)

    def job(cfg: Any) -> object:
        register()  # again: a launcher may run this in a process of its own
        words.import_from(arguments)
        guard_logs()
        sys.argv[1:] = arguments  # what metrics.json quotes
        settings = HydraConfig.get()
        overrides = list(settings.overrides.task)
        if settings.mode == RunMode.MULTIRUN:
            try:
                check_search(cfg, verb)
                return call(verb, cfg, overrides)
            except Exception as error:  # one failed job must not end the sweep, whose sweeper tells the first alone
                logging.getLogger(__name__).error("%s: %s: %s", shlex.join(overrides), type(error).__name__, error)
                raise picklable(error) from None
        with _one_line(called):
            return call(verb, cfg, overrides)

    register()
    words.import_from(arguments)
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra shall raise its errors, not print them: we do
    # Hydra's other way of logging opens a file in the working folder, whatever else it is told.
    sys.argv[1:] = [*given, "hydra/job_logging=stdout", "hydra.job.name=domadapt"]
    Sweep.command = tuple(arguments)
    try:
        with composed_once(given):
            hydra.main(version_base="1.3", config_path="pkg://domadapt.conf", config_name=verb)(job)()
    except SweepEnded as end:
        if end.__cause__:
            raise end.__cause__ from None


@contextmanager
def composed_once(given: Sequence[str]) -> Iterator[None]:
    """Keep Hydra from composing all that is given twice, the first time for the one word ``hydra.mode``.

    That is a third of a second of every verb. A user's own yaml may set it; else -m says it, or that there is none.
    """
    from hydra._internal import hydra

    kind: Any = hydra.Hydra
    before, own = kind.get_mode, ("--config", "-c", "hydra.mode", "hydra.searchpath", "+hydra", "++hydra")
    if not any(word.startswith(own) for word in given):
        kind.get_mode = lambda *_, **__: None
    try:
        yield
    finally:
        kind.get_mode = before


def hydra_arguments(verb: str, arguments: list[str]) -> tuple[str, list[str], list[str]]:
    """The verb whose configuration is composed, the command that the results quote, and its words as Hydra has them."""
    words.check_utf8(arguments)
    free = [verb in PLAIN and word.partition("=")[0].lstrip("+") in words.FREE_TEXT for word in arguments]
    arguments = [word if as_is else hide_secrets([word])[0] for word, as_is in zip(arguments, free, strict=True)]
    if verb == "adapt":
        verb, arguments = "train", ["train", *words.train_arguments(arguments[1:])]
    if "" in arguments:
        raise ValueError("one argument is empty: a variable of the shell that is not set?")
    for blank in {f"{name}=" for name in words.FREE_TEXT if name != "text"} & {*arguments}:
        raise ValueError(f"{blank}: is empty: a variable of the shell that is not set?")
    tidy = words.quote if verb in PLAIN else words.lengthen
    if verb in ("train", "benchmark", "audit"):
        arguments = [verb, *pipe_to_file(words.positional(verb, arguments[1:]))]
    typed = words.positional(verb, arguments[1:])
    home = Path.home()
    typed = [words.HOME_PATH.sub(lambda match: f"{match[1]}{home}", word) for word in typed]  # not in what is quoted
    words.check_words(verb, typed)
    if verb == "train":
        from domadapt.inference.description import model_as_backbone

        typed = model_as_backbone(typed)
    given = [tidy(argument) for argument in words.several_trackers(typed)]
    # Flags first: argparse takes the overrides in one run, so that no flag may stand between them.
    given.sort(key=lambda argument: not argument.startswith("-") and ("=" in argument or argument[0] == "~"))
    return verb, arguments, given


def call(verb: str, cfg: Any, overrides: list[str]) -> object:
    """Run a verb's function and print the text that it returns; another result is what a sweeper searches by."""
    from domadapt.config.compose import settings

    function = getattr(import_module(VERBS[verb]), verb)
    asked = cfg if verb == "train" else settings(cfg, verb)
    result: object = function(asked, overrides) if verb in ("train", "benchmark") else function(asked)
    if not isinstance(result, str):
        return result
    print(result)
    return None


@contextmanager
def _one_line(verb: str) -> Iterator[None]:
    """A user's error becomes one line and exit code 2; an error of ours keeps its traceback."""
    try:
        yield
    except BrokenPipeError:  # a reader such as `head` that has seen enough ends the command, in silence
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        from domadapt.config.compose import user_error

        line = None if "DOMADAPT_TRACEBACK" in os.environ else user_error(error, verb)
        if line is None:
            raise
        print(f"domadapt {verb}: {redact(line)}", file=sys.stderr)
        raise SystemExit(2) from None


def take_any_character(data: bool) -> None:
    """Let no character end a verb, whatever encoding standard output has: JSON and CoNLL-U are UTF-8 wherever they go.

    What else is printed is for people, and what their terminal has no letter for is escaped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8" if data else None, errors="backslashreplace")


def pipe_to_file(arguments: Sequence[str]) -> list[str]:
    """Arguments with the name of a file in place of standard input: `cat *.txt | domadapt train ... target.path=-`.

    Training reads a corpus more than once, and may be resumed: so the bytes are saved below ``paths.cache``, under
    their hash. The command that the results quote names that file, and works without the pipe.
    """
    names = [match[1] for argument in arguments if (match := PIPED.fullmatch(argument))]
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
    if name == "stdin.txt" and not any(FORMAT.match(argument) for argument in arguments):
        from domadapt.data.streams import refuse_piped_table  # other verbs need no reader

        refuse_piped_table(content)
    given = [value for name, _, value in (argument.partition("=") for argument in arguments) if name == "paths.cache"]
    folder = Path(given[-1]) if given else cache_folder()
    path = folder.absolute() / "stdin" / hashlib.sha256(content).hexdigest()[:16] / name
    if not path.is_file() or path.read_bytes() != content:
        replace_atomic(path, lambda part: part.write_bytes(content))
    return [PIPED.sub(lambda match: f"{match[1]}={path}", argument) for argument in arguments]
