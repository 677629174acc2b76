"""`domadapt VERB [hydra overrides]`. Heavy imports stay inside the verbs."""

import logging
import sys
from collections.abc import Callable
from typing import Any

USAGE = """\
domadapt VERB [overrides]      label one domain, work in another

  train       one run: fit on the source, adapt to the target, select, test
  benchmark   every pair, method and seed of an experiment, then the table
  predict     label your own text with a trained model
  parse       fill the parse cache
  report      one HTML file from run folders

Overrides are Hydra's: domadapt train data=my_files source.path=a.csv target.path=b.txt injection=[lisa,gnn]
  domadapt VERB --help      the verb's settings and what can be chosen
  domadapt VERB --cfg job   the configuration as composed
  domadapt train -m seed=1,2,3      a sweep
"""


def train(cfg: Any, overrides: list[str]) -> None:
    """One run; prints its scores."""
    from domadapt.reporting.tables import text_table
    from domadapt.train import train as run

    print(text_table([run(cfg)]))


def benchmark(cfg: Any, overrides: list[str]) -> None:
    """All cells of an experiment; prints the table."""
    from domadapt.benchmark.loop import benchmark as run

    run(cfg, overrides)


def predict(cfg: Any, overrides: list[str]) -> None:
    """Label a file."""
    from domadapt.verbs import predict_file

    predict_file(cfg)


def parse(cfg: Any, overrides: list[str]) -> None:
    """Fill the cache."""
    from domadapt.verbs import parse_files

    parse_files(cfg)


def report(cfg: Any, overrides: list[str]) -> None:
    """Write report.html."""
    from domadapt.reporting.report import report as run

    print(run(cfg.runs, cfg.output))


VERBS: dict[str, Callable[[Any, list[str]], None]] = {
    "train": train,
    "benchmark": benchmark,
    "predict": predict,
    "parse": parse,
    "report": report,
}


def main() -> None:
    """Entry point of the `domadapt` command. Exits with 2 after a user's error, told in one line."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return
    verb = arguments[0]
    if verb == "--version":
        from domadapt import __version__

        print(__version__)
        return
    if verb not in VERBS:
        print(f"domadapt: no verb {verb!r}; there are {', '.join(VERBS)}", file=sys.stderr)
        raise SystemExit(2)
    del sys.argv[1]
    _run(verb)


def _run(verb: str) -> None:
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from domadapt.resolvers import register

    register()

    def job(cfg: Any) -> None:
        logging.captureWarnings(True)
        settings = HydraConfig.get()
        try:
            VERBS[verb](cfg, list(settings.overrides.task))
        except (ValueError, RuntimeError) as error:
            if settings.mode == RunMode.MULTIRUN or "DOMADAPT_TRACEBACK" in __import__("os").environ:
                raise  # one failed job must not end the sweep
            print(f"domadapt {verb}: {error}", file=sys.stderr)
            raise SystemExit(2) from None

    sys.argv.insert(1, "hydra.job.name=domadapt")
    hydra.main(version_base="1.3", config_path="pkg://domadapt.conf", config_name=verb)(job)()
