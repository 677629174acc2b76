"""What a sweeper that searches, such as Optuna's, gets to see of a run: the chosen validator's value, nothing else."""

from omegaconf import DictConfig

from domadapt.runs.metrics import Metrics


def objective(metrics: Metrics) -> float | None:
    """The chosen validator's value at the epoch it chose; None of the oracle, by whose value nobody may search.

    >>> from domadapt.runs.metrics import Epoch, Selection
    >>> curve = Epoch(1, selection=0.2), Epoch(2, selection=0.7)
    >>> objective(Metrics(selection=Selection("source_dev", 2), curve=curve))
    0.7
    """
    return next(point.selection for point in metrics.curve if point.epoch == metrics.selection.epoch)


def check_search(cfg: DictConfig, verb: str) -> None:
    """Refuse a search that target labels would lead, and one over what has no value.

    Args:
        cfg: the job's configuration.
        verb: the job's.

    Raises:
        ValueError: with the fix. Nothing is refused outside of a search.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    settings = HydraConfig.get()
    if settings.mode != RunMode.MULTIRUN or settings.runtime.choices["hydra/sweeper"] == "basic":
        return
    if verb != "train":
        raise ValueError(f"sweeper: {verb} has no value to search by; search with domadapt train")
    from domadapt.config.instantiate import make

    validator = make(cfg.selection)
    if getattr(validator, "bound", False):
        raise ValueError(
            f"selection={validator.name}: reads target labels, which no search may; "
            f"choose a validator that does not, such as selection=source_dev"
        )
