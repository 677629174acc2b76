"""Weights over validators, learnt where target labels are known and used where they are not (after Chen and Ritter
2021, https://arxiv.org/abs/2010.06127).

In each run, a validator's values over the epochs are put on one scale; a ridge regression without negative weights
tells each epoch's target score, less the run's mean, from all of them. The epoch with the largest sum is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from domadapt.statistics.choices import Choices
from domadapt.statistics.selection_study import held_out_units, mean_regret

SHRINK = 1.0


@dataclass(frozen=True, slots=True)
class Learnt:
    """A choice by weighted validators.

    Attributes:
        weights: validator → its share, learnt on everything: those for the next corpus.
        regrets: held-out corpus or pair → mean regret there with weights that were learnt elsewhere; empty where for
            one of them nothing is left to learn on.
    """

    weights: Mapping[str, float]
    regrets: Mapping[str, float]

    @property
    def mean(self) -> float | None:
        """Over what was held out."""
        return fmean(self.regrets.values()) if self.regrets else None


def learnt_choice(runs: Sequence[Choices], validators: Sequence[str]) -> Learnt | None:
    """Learn weights, and try them where they were not learnt.

    Args:
        runs: of one task.
        validators: that scored all of them.

    Returns:
        None where a run keeps no target score of every epoch.

    >>> def run(source, target):
    ...     values = {"good": (0.1, 0.3, 0.2), "bad": (3.0, 2.0, 1.0)}
    ...     return Choices("c", source, target, "t", "m", 1, "", {"oracle": 0.7}, {}, values, (0.5, 0.7, 0.6))
    >>> learnt_choice([run("a", "b"), run("b", "a")], ["good", "bad"])
    Learnt(weights={'good': 1.0, 'bad': 0.0}, regrets={'a → b': 0.0, 'b → a': 0.0})
    """
    if not runs or any(len(run.values.get(name, ())) != len(run.curve) for run in runs for name in validators):
        return None
    regrets: dict[str, float] = {}
    for unit, own, rest in held_out_units(runs):
        if not rest:
            regrets = {}
            break
        weights = _learn(rest, validators)
        regrets[unit] = mean_regret(own, lambda run, weights=weights: _regret(run, validators, weights))  # type: ignore[misc]
    weights = _learn(runs, validators)
    total = float(weights.sum()) or 1.0
    shares = {name: round(float(w) / total, 6) for name, w in zip(validators, weights, strict=True)}
    return Learnt(shares, regrets)


def _learn(runs: Sequence[Choices], validators: Sequence[str]) -> NDArray[np.float64]:
    values = np.concatenate([_scaled(run, validators) for run in runs])
    scores = np.concatenate([np.subtract(run.curve, np.mean(run.curve)) for run in runs])
    found: NDArray[np.float64] = Ridge(alpha=SHRINK, fit_intercept=False, positive=True).fit(values, scores).coef_
    return found


def _regret(run: Choices, validators: Sequence[str], weights: NDArray[np.float64]) -> float:
    return max(run.curve) - run.curve[int((_scaled(run, validators) @ weights).argmax())]


def _scaled(run: Choices, validators: Sequence[str]) -> NDArray[np.float64]:
    """(epochs, validators) with mean 0 and spread 1 over the epochs; 0 where a validator has no number."""
    values = np.array([run.values[name] for name in validators], dtype=float).T
    known = np.where(np.isfinite(values), values, np.nan)
    missing = np.isnan(known).all(0)
    known[:, missing] = 0.0
    centred = known - np.nanmean(known, 0)
    spread = np.nanstd(known, 0)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 1e-12)
    result: NDArray[np.float64] = np.nan_to_num(scaled)
    return result
