"""What a sweeper that searches, such as Optuna's, gets to see of a run: the chosen validator's value, nothing else."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from omegaconf import DictConfig

from domadapt.config.overrides import lengthen
from domadapt.runs.metrics import Metrics


def objective(metrics: Metrics) -> float | None:
    """The chosen validator's value at the epoch it chose; None of the oracle, by whose value nobody may search.

    None of a floor, too, which has no epochs.

    >>> from domadapt.runs.metrics import Epoch, Selection
    >>> curve = Epoch(1, selection=0.2), Epoch(2, selection=0.7)
    >>> objective(Metrics(selection=Selection("source_dev", 2), curve=curve))
    0.7
    """
    return next((point.selection for point in metrics.curve if point.epoch == metrics.selection.epoch), None)


def searching() -> bool:
    """Is this process at a search, whose sweeper chooses runs by the values of those before?"""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    settings = HydraConfig.get()
    return settings.mode == RunMode.MULTIRUN and settings.runtime.choices["hydra/sweeper"] != "basic"


def trial(metrics: Metrics, overrides: Sequence[str], given: Sequence[str]) -> str:
    """A run of a search on one line: its settings, and the value that the search goes by.

    Args:
        metrics: of the run.
        overrides: of the run.
        given: on the command line; what the search has chosen is not among them.

    >>> from domadapt.runs.metrics import Epoch, Selection
    >>> run = Metrics(selection=Selection("entropy", 1), curve=(Epoch(1, selection=-0.25),))
    >>> trial(run, ["seed=1", "max_pieces=32"], ["-m", "seed=1", "max_pieces=32,64"])
    'max_pieces=32: entropy -0.2500'
    """
    value = objective(metrics)
    told = "no value" if value is None else f"{value:.4f}"
    known = {lengthen(argument) for argument in given}
    chosen = [override for override in overrides if override not in known]
    return f"{', '.join(chosen) or metrics.method}: {metrics.selection.validator} {told}"


def quiet() -> None:
    """Optuna, what it builds on and Hydra's launchers say nothing of themselves: every trial has a line of ours."""
    for name in ("alembic", "optuna", "hydra", "hydra_plugins"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with suppress(ImportError):  # it sets its level itself, whatever it was
        import_module("optuna.logging").set_verbosity(logging.WARNING)


def check_search(cfg: DictConfig, verb: str) -> None:
    """Refuse a search that target labels would lead, and one over what has no value.

    Args:
        cfg: the job's configuration.
        verb: the job's.

    Raises:
        ValueError: with the fix. Nothing is refused outside of a search.
    """
    if not searching():
        return
    if verb != "train":
        raise ValueError(f"sweeper: {verb} has no value to search by; search with domadapt train")
    from domadapt.config.compose import make

    validator = make(cfg.selection)
    if getattr(validator, "bound", False):
        raise ValueError(
            f"selection={validator.name}: reads target labels, which no search may; "
            f"choose a validator that does not, such as selection=source_dev"
        )
