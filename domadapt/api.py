"""The verbs as Python functions."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from domadapt.config.compose import compose
from domadapt.config.compose import settings as asked
from domadapt.config.overrides import file_names, positional, quote, quoted
from domadapt.inference.description import model_as_backbone


def train(overrides: Sequence[str] = (), source: Any = None, target: Any = None, **settings: Any) -> dict[str, Any]:
    """Run one cell: ``train(["injection=lisa"], seed=2)``; gives the content of ``metrics.json``.

    See :func:`domadapt.training.cell.train`.

    Args:
        source, target: the labelled data and the target's texts, held by the program: a path, a list of texts, of
            (text, label) or (text, spans) pairs or of dicts, a DataFrame, or a dataset of `datasets`. What is no file
            is written to one, below ``paths.cache``. ``source.text=review`` and the like name columns, as for files.
            A labelled pair of texts is ((text, other), label); beside a list of these, the target's are (text, other).
        settings: as overrides; ``model="runs/mine"`` goes on from a saved model's encoder and head.
    """
    from domadapt.data.files import errors_naming, has_pairs, save_data
    from domadapt.training.build import run_config
    from domadapt.training.cell import train as run
    from domadapt.training.options import check_data

    given = model_as_backbone([*overrides, *_words(settings)])
    sides = {side: data for side, data in (("source", source), ("target", target)) if data is not None}
    paths: dict[str, str | Path] = {}
    if sides:
        given = ["data=my_files", *given]
        folder = Path(compose("train", given).paths.cache, "data")
        pairs = False
        for side, data in sides.items():
            try:
                paths[side] = data if isinstance(data, str | Path) else save_data(data, folder, pairs)
            except ValueError as error:
                raise ValueError(f"{side}: {error}") from None
            given.append(quote(f"input={paths[side]}").replace("input=", f"data.{side}.path=", 1))
            pairs = paths[side] is not data and has_pairs(Path(paths[side]))
    written = {side: path for side, path in paths.items() if path is not sides[side]}
    with errors_naming({path: f"{side}={type(sides[side]).__name__}" for side, path in reversed(written.items())}):
        cfg = compose("train", given)
        check_data(cfg.data)  # a file that is missing, before a folder that another run has
        return run(run_config(cfg))


def adapt(source: Any, target: Any, overrides: Sequence[str] = (), **settings: Any) -> dict[str, Any]:
    """The recipe on your own data: ``adapt("labelled.csv", "new_domain.txt", seed=2)`` is ``domadapt adapt``.

    As of :func:`train`; beside a target file its folder is made, ``new_domain_adapted``.
    """
    given = [*overrides, *_words(settings)]
    named = {word.partition("=")[0] for word in given} & {"paths.run", "paths.runs"}
    if isinstance(target, str | Path) and not named:
        given.insert(0, f"paths.run={quoted(str(Path(target).with_suffix('')) + '_adapted')}")
    if isinstance(source, str | Path) and isinstance(target, str | Path):
        given = [*(f"data.{side}.name={name}" for side, name in file_names(str(source), str(target)).items()), *given]
    return train(["adaptation=recipe", *given], source, target)


def _words(settings: dict[str, Any]) -> Iterator[str]:
    """Keyword arguments as overrides; ``model=None`` goes on from none."""
    for name, value in settings.items():
        if (name, value) != ("model", None):
            yield f"{name}={'null' if value is None else value}"


def benchmark(overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run an experiment's cells one after the other; returns the metrics of each that succeeded."""
    from domadapt.benchmarking.loop import benchmark as run

    return run(asked(compose("benchmark", overrides), "benchmark"), overrides)


def audit(overrides: Sequence[str] = ()) -> Any:
    """Look for what is wrong with corpora: ``audit(["labelled.csv", "new_domain.txt"])``, or settings of other data.

    Gives the :class:`~domadapt.auditing.audit.Audit`; no file is written unless ``output=`` is given.
    """
    from domadapt.cli.verbs import run_audit

    given = overrides if isinstance(overrides, str) else positional("audit", [*map(str, overrides)])  # one is refused
    return run_audit(asked(compose("audit", given), "audit"))


def parse(
    texts: Iterable[str], parser: str = "shipped", cache: str | Path | None = None, processes: int = 1
) -> Iterator[Any]:
    """Parse a stream of texts, through a cache if a folder is given: one :class:`~domadapt.syntax.parser.Parse` each.

    The parser is ``shipped``, or the name of an installed spaCy pipeline.

    >>> [parse.relations for parse in parse(["It works."])][0][0]
    'nsubj'
    """
    from domadapt.data.domains import unlabelled
    from domadapt.syntax.cache import ParseCache
    from domadapt.syntax.parser import Parser, SpacyParser

    source: Parser = SpacyParser(parser)
    if cache is not None:
        source = ParseCache(source, cache)
    return source.parse(unlabelled(texts), processes)


def predict(model: str | Path, texts: Iterable[str]) -> list[Any]:
    """Label texts with the model of a run's folder, in order: one :class:`~domadapt.tasks.task.Prediction` each.

    :func:`domadapt.load` keeps it in memory for more calls.
    """
    from domadapt.inference.model import load

    return load(model).predict(texts)


def guide(model: str | Path, to: str | Path, **settings: Any) -> Any:
    """Write a span model that decodes by guidelines, and load it; settings are those of ``domadapt guide``.

    ``guide("new_domain_adapted", "guided", types=["aspect"], terms=["they"], degree_words="english")``.
    """
    from domadapt.cli.verbs import guide as run
    from domadapt.inference.model import load

    given = compose("guide")
    if wrong := settings.keys() - given.keys():
        raise ValueError(f"{', '.join(sorted(wrong))}: there is no such setting; expected some of {', '.join(given)}")
    given.merge_with({"model": str(model), "to": str(to), **settings})
    run(asked(given, "guide"))
    return load(to)
