"""Finished runs, as far as the choice of a checkpoint goes: what each validator picked, and what that scored."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domadapt.runs.groups import Method, Pair
from domadapt.runs.metrics import Metrics

ORACLE = "oracle"  # picks by target test labels: a bound, never a choice
CHOOSING = (
    "source_only",
    "adapted",
)  # roles that a user would keep: no bars, which have another network or target labels


@dataclass(frozen=True, slots=True)
class Choices:
    """One run, as far as selection goes.

    Attributes:
        corpus, source, target, task: what it was run on.
        method, seed: what was run.
        evidence: validators' values of runs with the same (backbone, size of source dev) are comparable.
        scores: validator → target score of the epoch that it picks; the oracle's among them.
        picked: validator → its own value there.
        values: validator → (epochs,) its values.
        curve: (epochs,) target scores; empty where only those of picked epochs are known.
    """

    corpus: str
    source: str
    target: str
    task: str
    method: str
    seed: int
    evidence: str
    scores: Mapping[str, float]
    picked: Mapping[str, float]
    values: Mapping[str, Sequence[float]]
    curve: Sequence[float] = ()

    @property
    def pair(self) -> str:
        return f"{self.source} → {self.target}"

    def regret(self, validator: str) -> float:
        """What its pick loses against the oracle's."""
        return self.scores[ORACLE] - self.scores[validator]


def choices(pairs: Sequence[Pair], methods: Sequence[str] | None = None) -> tuple[list[Choices], list[str]]:
    """What selection had to choose from.

    Args:
        pairs: grouped runs.
        methods: names of those to take; None takes source-only and adapted ones, without controls.

    Returns:
        The runs, all scored by the same validators; and what was left out, in words.

    Raises:
        ValueError: there is no such method; names those there are.
    """
    known = list(dict.fromkeys(method.name for pair in pairs for method in pair.methods))
    if unknown := [name for name in methods or () if name not in known]:
        raise ValueError(f"methods={unknown}: no such methods among these runs; there are {', '.join(known)}")
    found, without = list[Choices](), 0
    for pair in pairs:
        for method in _wanted(pair, methods):
            for run in method.runs:
                made = _choices(pair, method, run)
                found += [made] if made else []
                without += made is None
    keep = "1 run keeps" if without == 1 else f"{without} runs keep"
    messages = [f"{keep} no target scores of validators' choices: left out"] if without else []
    counts = Counter(name for run in found for name in run.scores)
    if some := {name: len(found) - count for name, count in counts.items() if count < len(found)}:
        told = ", ".join(f"{name} (not in {number} of {len(found)} runs)" for name, number in some.items())
        messages.append(f"validators that not every run was scored by are left out: {told}")
    return found, messages


def _wanted(pair: Pair, methods: Sequence[str] | None) -> list[Method]:
    return [m for m in pair.methods if (m.role in CHOOSING if methods is None else m.name in methods)]


def _choices(pair: Pair, method: Method, run: Metrics) -> Choices | None:
    picks = run.selection.choices
    tests = {name: pick.target_test or {} for name, pick in picks.items()}
    scores = {name: test[pair.headline] for name, test in tests.items() if pair.headline in test}
    if ORACLE not in scores or len(scores) < len(picks):
        return None
    lines = {
        line.epoch: {name: value for name, value in line.validators.items() if value is not None} for line in run.curve
    }
    return Choices(
        corpus=corpus(run),
        source=run.source,
        target=run.target,
        task=pair.task,
        method=method.name,
        seed=run.seed,
        evidence=json.dumps([run.config.get("backbone"), run.counts.source_dev], sort_keys=True, default=str),
        scores=scores,
        picked={name: lines[pick.epoch][name] for name, pick in picks.items() if name in lines.get(pick.epoch, {})},
        values={name: [line[name] for line in lines.values() if name in line] for name in picks},
        curve=run.selection.target_curve,
    )


def corpus(run: Metrics) -> str:
    """What a run's data are called: a folder of research corpora, or who reads them.

    Args:
        run: of which.
    """
    data = run.config.get("data") or {}
    return str(data.get("folder") or str(data.get("_target_", "")).rpartition(".")[2])
