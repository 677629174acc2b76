"""Validators, found by glob: each prefers what its paper says, and none is upset by a model that finds nothing."""

from dataclasses import replace
from math import isfinite, isnan, log
from pathlib import Path

import numpy as np
import pytest

from domadapt.selection import validators
from domadapt.selection.validators import Evidence, Validator, best_epoch, ensemble
from domadapt.tasks.rows import ARRAYS, Predicted
from tests.support import VALIDATORS, trained

BLIND = [name for name, validator in VALIDATORS.items() if not validator.uses_target_labels]
BY_TARGET = [name for name in BLIND if name not in ("source_dev", "last", "ensemble")]
CENTRES = 3 * np.eye(5)
SURE, EVEN, ONE_CLASS = np.eye(2), np.full((2, 2), 0.5), np.array([[1.0, 0.0], [1.0, 0.0]])


def test_every_yaml_names_a_validator_and_every_validator_has_one() -> None:
    assert {name: validator.name for name, validator in VALIDATORS.items()} == {name: name for name in validators.NAMES}
    with pytest.raises(ValueError, match=r"selection.name='entropie': expected bnm, corr_c, .*, source_dev"):
        Validator("entropie")


@pytest.mark.parametrize(
    ("name", "sure", "even", "one_class"),
    [
        ("entropy", 0.0, -log(2), 0.0),
        ("infomax", log(2), 0.0, 0.0),
        ("bnm", 1.0, 0.5, 0.5**0.5),  # singular values 1 and 1; 1; √2; of 2 at most
        ("corr_c", 1.0, 0.5**0.5, 0.5**0.5),  # trace over norm of diag(1, 1), of all ones / 2, of diag(2, 0)
        ("mano", 0.5**0.25, 0.5, 0.5**0.25),  # too sure for logits: the mean of 1⁴ and 0⁴, of 0.5⁴
    ],
)
def test_worked_by_hand(name: str, sure: float, even: float, one_class: float) -> None:
    for target, value in ((SURE, sure), (EVEN, even), (ONE_CLASS, one_class)):
        none = np.zeros(2, np.int64)
        rows = Predicted(target.astype(np.float32), none.astype(np.float16), none, none, none)
        assert VALIDATORS[name](Evidence({}, "", rows, rows, rows, 1)) == pytest.approx(value, abs=1e-6)


def rows(kind: str, size: int, seed: int, right: float, classes: int = 3) -> Predicted:
    """States around a centre a class, and predictions that name it with probability ``right``, sure in proportion."""
    random = np.random.default_rng(seed)
    truth = random.integers(classes, size=size)
    labels = np.where(random.random(size) < right, truth, random.integers(classes, size=size))
    logits = 3.5 * right * np.eye(classes)[labels] + random.normal(0, 0.1, (size, classes))
    sure = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    features = CENTRES[truth] + random.normal(0, 0.3, (size, 5))
    places = np.arange(size) // 4, np.arange(size) % 4 * 2
    o_class = 0 if kind == "token" else -1
    return Predicted(sure.astype(np.float32), features.astype(np.float16), *places, truth, o_class)


def evidence(kind: str, right: float, epoch: int = 1) -> Evidence:
    """A checkpoint that is as good on the target as on source dev."""
    target = replace(rows(kind, 400, 1, right), classes=np.full(400, -1))
    return Evidence({"score": right}, "score", rows(kind, 200, 2, right), target, rows(kind, 200, 3, right), epoch)


@pytest.mark.parametrize("kind", ["token", "sequence"])
@pytest.mark.parametrize("name", BY_TARGET)
def test_the_better_checkpoint_is_preferred(name: str, kind: str) -> None:
    # Where predictions are vague, too, everything is everything's neighbour.
    good, poor = (VALIDATORS[name](evidence(kind, right)) for right in (0.95, 0.6 if name == "snd" else 0.3))
    assert isfinite(good) and isfinite(poor) and good > poor


def test_a_flag_of_finite_products_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(validators.OF_TARGET, "snd", lambda _: float((np.array([np.inf]) * 0).size))
    assert VALIDATORS["snd"](evidence("token", 0.5)) == 1


@pytest.mark.parametrize("name", BLIND)
def test_words_that_are_plainly_nothing_have_no_say(name: str) -> None:
    """A model that finds nothing, and a sea of O around the candidates."""
    nothing = rows("token", 40, 1, 1.0)
    nothing = replace(nothing, probabilities=np.tile(np.array([1, 0, 0], np.float32), (40, 1)))
    value = VALIDATORS[name](Evidence({"score": 0.0}, "score", nothing, nothing, nothing, 1))
    assert isnan(value) or isfinite(value)
    dry = evidence("token", 0.8)
    sure = np.array([0.99, 0.006, 0.004], np.float32)

    def wet(part: Predicted) -> Predicted:
        features = np.random.default_rng(9).normal(0, 9, (1000, 5)).astype(np.float16)
        places, none = np.arange(1000), np.full(1000, -1 if part is dry.target else 0)
        sea = Predicted(np.tile(sure, (1000, 1)), features, places % 7, 100 + places, none, 0)
        both = {name: np.concatenate([getattr(part, name), getattr(sea, name)]) for name in ARRAYS}
        return Predicted(**both, o_class=0)

    flooded = replace(dry, source=wet(dry.source), target=wet(dry.target), train=wet(dry.train))
    assert VALIDATORS[name](flooded) == pytest.approx(VALIDATORS[name](dry), nan_ok=True)


@pytest.mark.parametrize("name", ["reverse", "importance_weighted"])
def test_a_term_that_is_surely_missed_counts(name: str) -> None:
    good = evidence("token", 0.95)
    missed, states = np.full(100, 2), CENTRES[np.zeros(100, int)].astype(np.float16)  # which look as nothing does
    sure = np.tile(np.array([0.99, 0.006, 0.004], np.float32), (100, 1))
    more = Predicted(sure, states, missed, np.arange(100), missed, 0)
    both = {array: np.concatenate([getattr(good.source, array), getattr(more, array)]) for array in ARRAYS}
    assert VALIDATORS[name](replace(good, source=Predicted(**both, o_class=0))) < VALIDATORS[name](good) - 0.05


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_the_ensemble_avoids_the_worst(kind: str) -> None:
    """Three that err apart, and one that is wrong half of the time."""
    truth, epochs = rows(kind, 400, 1, 1.0), []
    for seed, wrong in enumerate((0.1, 0.1, 0.1, 0.5)):
        random = np.random.default_rng(seed)
        labels = np.where(random.random(400) < wrong, random.integers(3, size=400), truth.classes)
        epochs.append(replace(truth, probabilities=(0.1 + 0.7 * np.eye(3)[labels]).astype(np.float32)))
    values = ensemble(epochs)
    assert best_epoch([-value for value in values]) == 4
    assert min(values[:3]) > values[3] + 0.05


def test_a_run_chosen_by_comparison(tmp_path: Path) -> None:
    metrics = trained(tmp_path, "run", "selection=ensemble", "trainer.epochs=3")
    values = [line["validators"]["ensemble"] for line in metrics["curve"]]
    assert metrics["selection"]["epoch"] == best_epoch(values)
    assert [line["selection"] for line in metrics["curve"]] == values
    assert metrics["expected"]["low"] <= metrics["expected"]["score"] <= metrics["expected"]["high"]
