"""The verbs as Python functions."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from domadapt.redact import hidden
from domadapt.resolvers import register


@contextmanager
def initialized() -> Iterator[None]:
    """Hydra, ready to compose: inside a verb as it is, with the user's --config-dir, else set up for this block."""
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    register()
    if GlobalHydra.instance().is_initialized():
        yield
    else:
        with hydra.initialize_config_module("domadapt.conf", version_base="1.3"):
            yield


def compose(config: str = "train", overrides: Sequence[str] = (), with_hydra: bool = False) -> DictConfig:
    """Compose a configuration outside the command line.

    Args:
        config: name of a top-level yaml: train, benchmark, predict, parse, audit, report.
        overrides: as on the command line.
        with_hydra: keep Hydra's own settings, under ``hydra``.

    Raises:
        ValueError: an override that the configuration does not know.

    >>> compose("train", ["seed=7"]).seed
    7
    """
    import hydra
    from hydra.errors import HydraException

    from domadapt.messages import user_error

    with initialized():
        try:
            return hydra.compose(config, hidden(overrides), return_hydra_config=with_hydra)
        except HydraException as problem:
            raise ValueError(user_error(problem, config) or str(problem)) from problem


def train(overrides: Sequence[str] = (), **settings: Any) -> dict[str, Any]:
    """Run one cell: ``train(["injection=lisa"], seed=2)``; see :func:`domadapt.training.train`.

    Args:
        overrides: as on the command line.
        settings: top-level settings by name, as a convenience.

    Returns:
        The content of ``metrics.json``.
    """
    from domadapt.training import train as run

    return run(compose("train", [*overrides, *(f"{k}={v}" for k, v in settings.items())]))


def benchmark(overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run an experiment's cells one after the other; returns the metrics of each that succeeded."""
    from domadapt.benchmarking.loop import benchmark as run

    return run(compose("benchmark", overrides), overrides)


def audit(overrides: Sequence[str] = ()) -> Any:
    """Look for what is wrong with corpora: ``audit(["data=aspect_opinion", "data.pair=laptops_to_device"])``.

    Args:
        overrides: as on the command line.

    Returns:
        The :class:`~domadapt.auditing.audit.Audit`; no file is written unless ``output=`` is given.
    """
    from domadapt.auditing.verb import run

    return run(compose("audit", ["output=null", *overrides]))


def parse(
    texts: Iterable[str], parser: str = "shipped", cache: str | Path | None = None, processes: int = 1
) -> Iterator[Any]:
    """Parse a stream of texts, through a cache if a folder is given.

    Args:
        texts: one string each.
        parser: ``shipped``, or the name of an installed spaCy pipeline.
        cache: folder of the cache.
        processes: worker processes.

    Returns:
        One :class:`~domadapt.syntax.parser.Parse` a text, in order.

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
    """Label texts with a trained model; :func:`domadapt.load` keeps it in memory for more calls.

    Args:
        model: a run's ``model/`` folder.
        texts: one string each.

    Returns:
        One :class:`~domadapt.tasks.task.Prediction` a text, in order.
    """
    from domadapt.prediction import load

    return load(model).predict(texts)
