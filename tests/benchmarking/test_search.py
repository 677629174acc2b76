"""A search is led by the chosen validator, never by a target label."""

import pytest
from hydra.core.hydra_config import HydraConfig

from domadapt.benchmarking.launching import check_search
from domadapt.config.compose import compose


class Bound:
    """A validator that is marked as reading target labels."""

    name = "a_bound"
    uses_target_labels = True


def searching(monkeypatch: pytest.MonkeyPatch, sweeper: str) -> None:
    """As in a job of `-m` with this sweeper."""
    settings = compose("train", with_hydra=True).hydra
    settings.mode = "MULTIRUN"
    settings.runtime.choices["hydra/sweeper"] = sweeper
    monkeypatch.setattr(HydraConfig, "get", staticmethod(lambda: settings))


def test_a_search_by_target_labels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = compose("train")
    cfg.selection = {"_target_": f"{__name__}.Bound"}
    searching(monkeypatch, "basic")
    check_search(cfg, "train")  # a sweep over seeds may print the bound
    searching(monkeypatch, "optuna")
    with pytest.raises(ValueError, match="selection=a_bound: reads target labels"):
        check_search(cfg, "train")
    check_search(compose("train"), "train")


def test_a_search_needs_a_verb_with_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    searching(monkeypatch, "optuna")
    with pytest.raises(ValueError, match="parse has no value to search by"):
        check_search(compose("parse"), "parse")
