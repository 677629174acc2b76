"""The command domadapt VERB [overrides]. Heavy imports stay inside the verbs."""

import io
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

FLAGS = ("-sc", "--shell-completion")


def complete(arguments: Sequence[str], verbs: Iterable[str]) -> None:
    """Print what a shell asks for: a script to install, or the words that may come next.

    Args:
        arguments: ``-sc install=bash``, or ``-sc query=bash`` with the line so far in ``COMP_LINE``.
    """
    import hydra

    from domadapt.config.resolvers import register

    words = os.environ.get("COMP_LINE", "").split(" ")
    verb = "train"
    if any("query=" in argument for argument in arguments):
        if len(words) < 3 or words[1] not in verbs:
            typed = words[1] if len(words) == 2 else ""
            print("\n".join(name for name in verbs if name.startswith(typed)))
            return
        verb = "train" if words[1] == "adapt" else words[1]
        os.environ["COMP_LINE"] = " ".join([words[0], *words[2:]])  # Hydra knows of no verbs
    register()
    sys.argv[1:] = arguments
    hydra.main(version_base="1.3", config_path="pkg://domadapt.conf", config_name=verb)(lambda cfg: None)()


USAGE = """\
domadapt VERB [overrides]      label one domain, work in another

  adapt       your labelled file, your new texts, the recipe: domadapt adapt labelled.csv new_domain.txt
  train       one run: fit on the source, adapt to the target, select, test
  benchmark   every pair, method and seed of an experiment, then the table
  predict     label your own text with a trained model
  score       a trained model on labelled texts, with intervals
  compare     what two models label differently in the same texts
  serve       a small page that labels what you type, on this machine
  export      a trained model as a folder that works without domadapt
  parse       fill the parse cache
  audit       what is wrong with the corpora, before you believe a score
  analyze     what a model's heads and layers know, before and after fine-tuning
  report      one HTML file from run folders: domadapt report runs/mine

Overrides are Hydra's: domadapt train data=my_files source.path=a.csv target.path=b.txt injection=[lisa,gnn]
  domadapt VERB --help      the verb's settings and what can be chosen
  domadapt VERB --cfg job   the configuration as composed
  domadapt train -m seed=1,2,3      a sweep
"""


def train(cfg: Any, overrides: list[str]) -> float | None:
    """One run; prints its scores, or without target labels its card; returns what a sweeper may search by."""
    from domadapt.training.options import check

    check(cfg)  # before what takes seconds to import
    from domadapt.benchmarking.launching import objective, searching, trial
    from domadapt.reporting.cards import as_lines
    from domadapt.reporting.tables import text_table
    from domadapt.runs.groups import typed
    from domadapt.runs.key import run_folder
    from domadapt.runs.target_card import read_card
    from domadapt.training.run import train as run

    metrics = run(cfg)
    if searching():  # a target score on the screen would lead the next choice of settings
        print(trial(typed(metrics), overrides, sys.argv[1:]), flush=True)
    else:
        card = read_card(run_folder(cfg), metrics["key"]) if metrics["target_test"] is None else None
        print(text_table([metrics]) if card is None else as_lines(card), flush=True)
    return objective(typed(metrics))


def benchmark(cfg: Any, overrides: list[str]) -> None:
    """All cells of an experiment; prints the table."""
    from domadapt.benchmarking.loop import benchmark as run

    run(cfg, overrides)


def predict(cfg: Any, overrides: list[str]) -> None:
    """Label a file."""
    from domadapt.cli.verbs import predict_file

    predict_file(cfg)


def score(cfg: Any, overrides: list[str]) -> None:
    """Score a model on a labelled file."""
    from domadapt.cli.scoring import score_file

    print(score_file(cfg))


def compare(cfg: Any, overrides: list[str]) -> None:
    """Two models on the same texts."""
    from domadapt.cli.scoring import compare_models

    print(compare_models(cfg))


def serve(cfg: Any, overrides: list[str]) -> None:
    """Answer on a port until Ctrl-C."""
    from domadapt.inference.description import model_folder, read_description

    read_description(model_folder(str(cfg.model)))  # before the seconds that a network's libraries take to load
    from domadapt.serving.serve import serve as run

    run(cfg)


def export(cfg: Any, overrides: list[str]) -> None:
    """Hand a model over; prints how far it agrees with its original."""
    from domadapt.cli.verbs import export_model

    print(export_model(cfg))


def parse(cfg: Any, overrides: list[str]) -> None:
    """Fill the cache."""
    from domadapt.cli.verbs import parse_files

    parse_files(cfg)


def audit(cfg: Any, overrides: list[str]) -> None:
    """Audit corpora; prints the findings, worst first."""
    from domadapt.auditing.audit import audit_corpora

    print(audit_corpora(cfg))


def analyze(cfg: Any, overrides: list[str]) -> None:
    """Write analysis.html and analysis.json; prints where, and the least of what is in them."""
    from domadapt.cli.verbs import analyze_model

    print(analyze_model(cfg))


def report(cfg: Any, overrides: list[str]) -> None:
    """Write report.html, and what goes beside it."""
    from domadapt.config.compose import make
    from domadapt.reporting.report import report as run

    selection = make(cfg.selection).name if cfg.selection else None
    formats = [cfg.formats] if isinstance(cfg.formats, str | int | float) else cfg.formats
    asked: Any = [*formats] if formats else None
    print(run(cfg.runs, cfg.output, asked, cfg.audit, bool(cfg.attention), cfg.baseline, selection))


VERBS: dict[str, Callable[[Any, list[str]], object]] = {
    "adapt": train,
    "train": train,
    "benchmark": benchmark,
    "predict": predict,
    "score": score,
    "compare": compare,
    "serve": serve,
    "export": export,
    "parse": parse,
    "audit": audit,
    "analyze": analyze,
    "report": report,
}
PLAIN = ("predict", "score", "compare", "parse", "serve", "export")  # verbs whose paths and texts nothing evaluates


def main() -> None:
    """Entry point of the `domadapt` command. Exits with 2 after a user's error, told in one line."""
    try:
        _main()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def _main() -> None:

    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return
    verb = arguments[0]
    if verb == "--version":
        from domadapt.runs.key import installed

        print(installed("domadapt"))
        return
    if verb in FLAGS or set(FLAGS) & set(arguments[1:]):
        complete(arguments[verb in VERBS :], VERBS)
        return
    if verb not in VERBS:
        print(f"domadapt: no verb {verb!r}; there are {', '.join(VERBS)}", file=sys.stderr)
        raise SystemExit(2)
    take_any_character(verb in ("predict", "parse"))
    if {"-h", "--help"} & set(arguments):
        from domadapt.config.compose import verb_help

        print(verb_help(verb, arguments[1:], USAGE))
        return
    try:
        with _one_line(verb):
            _run(verb, _without_secrets(verb, arguments))
    except KeyboardInterrupt:
        print(f"domadapt {verb}: stopped", file=sys.stderr)
        raise SystemExit(130) from None


def take_any_character(data: bool) -> None:
    """Let no character end a verb, whatever encoding standard output has.

    Args:
        data: what is printed are JSON or CoNLL-U, which are UTF-8 wherever they go; else it is for people, and what
            their terminal has no letter for is escaped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8" if data else None, errors="backslashreplace")


def _without_secrets(verb: str, arguments: list[str]) -> list[str]:
    from domadapt.config.overrides import check_utf8, free_text
    from domadapt.utils.redact import hidden

    check_utf8(arguments)
    return [word for one in arguments for word in ([one] if verb in PLAIN and free_text(one) else hidden([one]))]


def _run(verb: str, arguments: list[str]) -> None:
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from domadapt.benchmarking.launching import check_search, portable
    from domadapt.benchmarking.sweep import Sweep, Swept
    from domadapt.cli.standard_input import kept
    from domadapt.config.overrides import (
        adapting,
        check_words,
        import_from,
        lengthen,
        positional,
        quote,
        several_trackers,
    )
    from domadapt.config.resolvers import register
    from domadapt.utils.redact import guard_logs

    def job(cfg: Any) -> object:
        register()  # again: a launcher may run this in a process of its own
        import_from(arguments)
        guard_logs()
        sys.argv[1:] = arguments  # what metrics.json quotes
        settings = HydraConfig.get()
        overrides = list(settings.overrides.task)
        if settings.mode == RunMode.MULTIRUN:
            try:
                check_search(cfg, verb)
                return VERBS[verb](cfg, overrides)
            except Exception as error:  # one failed job must not end the sweep, whose sweeper tells the first alone
                logging.getLogger(__name__).error("%s: %s: %s", shlex.join(overrides), type(error).__name__, error)
                raise portable(error) from None
        with _one_line(verb):
            return VERBS[verb](cfg, overrides)

    if verb == "adapt":
        verb, arguments = "train", ["train", *adapting(arguments[1:])]
    register()
    import_from(arguments)
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra shall raise its errors, not print them: we do
    if "" in arguments:
        raise ValueError("one argument is empty: a variable of the shell that is not set?")
    tidy = quote if verb in PLAIN else lengthen
    if verb in ("train", "benchmark", "audit"):
        arguments = [verb, *kept(arguments[1:])]
    words = positional(verb, arguments[1:])
    check_words(verb, words)
    given = [tidy(argument) for argument in several_trackers(words)]
    # Flags first: argparse takes the overrides in one run, so that no flag may stand between them.
    given.sort(key=lambda argument: not argument.startswith("-") and ("=" in argument or argument[0] == "~"))
    # Hydra's other way of logging opens a file in the working folder, whatever else it is told.
    sys.argv[1:] = [*given, "hydra/job_logging=stdout", "hydra.job.name=domadapt"]
    Sweep.command = tuple(arguments)
    try:
        hydra.main(version_base="1.3", config_path="pkg://domadapt.conf", config_name=verb)(job)()
    except Swept as end:
        if end.error:
            raise end.error from None


@contextmanager
def _one_line(verb: str) -> Iterator[None]:
    """A user's error becomes one line and exit code 2; an error of ours keeps its traceback."""
    try:
        yield
    except BrokenPipeError:  # `| head` has seen enough; as an error Hydra would tell of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        from domadapt.config.compose import user_error
        from domadapt.utils.redact import redact

        line = None if "DOMADAPT_TRACEBACK" in os.environ else user_error(error, verb)
        if line is None:
            raise
        print(f"domadapt {verb}: {redact(line)}", file=sys.stderr)
        raise SystemExit(2) from None
