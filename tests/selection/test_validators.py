"""Validators, found by glob: each prefers what its paper says, and none is upset by a model that finds nothing."""

from dataclasses import replace
from math import isfinite, isnan
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

import domadapt
from domadapt.config.compose import make
from domadapt.selection.validators import (
    Comparing,
    Evidence,
    Validator,
    agreement,
    best_epoch,
    load_evidence,
    save_evidence,
)
from domadapt.tasks.task import ARRAYS, Rows
from tests.support import CONF, corpora

VALIDATORS: dict[str, Validator] = {
    path.stem: make(OmegaConf.create(path.read_text(encoding="utf-8")))
    for path in sorted((CONF / "selection").glob("*.yaml"))
}
BLIND = [name for name, validator in VALIDATORS.items() if not validator.bound]
BY_TARGET = [name for name in BLIND if name not in ("source_dev", "last", "ensemble")]
CENTRES = 3 * np.eye(5)


def rows(kind: str, size: int, seed: int, right: float, classes: int = 3) -> Rows:
    """States around a centre a class, and predictions that name it with probability ``right``, sure in proportion."""
    dice = np.random.default_rng(seed)
    truth = dice.integers(classes, size=size)
    said = np.where(dice.random(size) < right, truth, dice.integers(classes, size=size))
    logits = 3.5 * right * np.eye(classes)[said] + dice.normal(0, 0.1, (size, classes))
    sure = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    features = CENTRES[truth] + dice.normal(0, 0.3, (size, 5))
    outside = 0 if kind == "token" else -1
    places = np.arange(size) // 4, np.arange(size) % 4 * 2
    return Rows(sure.astype(np.float32), features.astype(np.float16), *places, truth, outside)


def evidence(kind: str, right: float, epoch: int = 1) -> Evidence:
    """A checkpoint that is as good on the target as on source dev."""
    target = replace(rows(kind, 400, 1, right), classes=np.full(400, -1))
    dev, train = rows(kind, 200, 2, right), rows(kind, 200, 3, right)
    return Evidence({"score": right}, "score", dev, target, train, epoch)


@pytest.mark.parametrize("kind", ["token", "sequence"])
@pytest.mark.parametrize("name", BY_TARGET)
def test_the_better_checkpoint_is_preferred(name: str, kind: str) -> None:
    good, poor = (VALIDATORS[name](evidence(kind, right)) for right in (0.95, 0.3))
    assert isfinite(good)
    assert isfinite(poor)
    if name == "snd":  # where predictions are vague, too, everything is everything's neighbour
        poor = VALIDATORS[name](evidence(kind, 0.6))
    assert good > poor


@pytest.mark.parametrize("name", BLIND)
def test_a_model_that_finds_nothing_upsets_no_validator(name: str) -> None:
    nothing = rows("token", 40, 1, 1.0)
    nothing = replace(nothing, probabilities=np.tile(np.array([1, 0, 0], np.float32), (40, 1)))
    value = VALIDATORS[name](Evidence({"score": 0.0}, "score", nothing, nothing, nothing, 1))
    assert isnan(value) or isfinite(value)


@pytest.mark.parametrize("name", BLIND)
def test_words_that_are_plainly_nothing_have_no_say(name: str) -> None:
    """A sea of O around the words that could be something, on every side."""
    dry = evidence("token", 0.8)
    sure = np.array([0.99, 0.006, 0.004], np.float32)

    def wet(part: Rows) -> Rows:
        features = np.random.default_rng(9).normal(0, 9, (1000, 5)).astype(np.float16)
        places, none = np.arange(1000), np.full(1000, -1 if part is dry.target else 0)
        sea = Rows(np.tile(sure, (1000, 1)), features, places % 7, 100 + places, none, 0)
        return Rows(**{name: np.concatenate([getattr(part, name), getattr(sea, name)]) for name in ARRAYS}, outside=0)

    flooded = replace(dry, source=wet(dry.source), target=wet(dry.target), train=wet(dry.train))
    assert VALIDATORS[name](flooded) == pytest.approx(VALIDATORS[name](dry), nan_ok=True)


@pytest.mark.parametrize("name", BLIND)
def test_evidence_that_was_kept_gives_the_same_value(name: str, tmp_path: Path) -> None:
    fresh = evidence("token", 0.7)
    save_evidence(fresh, tmp_path / "evidence.npz")
    kept = VALIDATORS[name](load_evidence(tmp_path / "evidence.npz"))
    assert kept == pytest.approx(VALIDATORS[name](fresh), nan_ok=True)


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_the_ensemble_avoids_the_worst(kind: str) -> None:
    """Three that err apart, and one that is wrong half of the time."""
    truth = rows(kind, 400, 1, 1.0)
    found = []
    for seed, wrong in enumerate((0.1, 0.1, 0.1, 0.5)):
        dice = np.random.default_rng(seed)
        said = np.where(dice.random(400) < wrong, dice.integers(3, size=400), truth.classes)
        found.append(replace(truth, probabilities=(0.1 + 0.7 * np.eye(3)[said]).astype(np.float32)))
    values = agreement(found)
    assert best_epoch([-value for value in values]) == 4
    assert min(values[:3]) > values[3] + 0.05


def test_a_run_chosen_by_comparison(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "selection=ensemble", "trainer.epochs=3"]
    metrics = domadapt.train([*overrides, f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    values = [line["validators"]["ensemble"] for line in metrics["curve"]]
    assert isinstance(VALIDATORS["ensemble"], Comparing)
    assert metrics["selection"]["epoch"] == best_epoch(values)
    assert [line["selection"] for line in metrics["curve"]] == values
    assert metrics["expected"]["low"] <= metrics["expected"]["score"] <= metrics["expected"]["high"]
