"""Runs put together: a pair has methods, a method has seeds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domadapt.runs.metrics import Metrics

ROLES = (
    "floor",
    "rnn_from_scratch",
    "source_only",
    "adapted",
    "control",
    "in_domain",
)  # in the order of the report's bars
NAMES = ("seed", "paths", "tracking", "pair", "method", "benchmark", "data")  # say nothing of how a method is set


@dataclass(frozen=True, slots=True)
class Method:
    """One method on one pair: runs that differ in nothing but the seed.

    Attributes:
        name: shown; says the settings, too, where one name was run with several.
        role: which bar it is; ``control`` where another method names it as its own.
        runs: one a seed, in the seeds' order.
    """

    name: str
    role: str
    runs: tuple[Metrics, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.runs[0].config)

    @property
    def controls(self) -> tuple[str, ...]:
        """Names of the methods that are this one with what it is about taken away, as its benchmark declares them."""
        declared = _controls(self.runs[0])
        return declared.get(self.name) or declared.get(self.runs[0].method) or ()


@dataclass(frozen=True, slots=True)
class Pair:
    """One source and one target, and what was tried on them.

    Attributes:
        name: shown.
        headline: name of the score that methods are compared by.
        task: extraction or classification.
        methods: by role and name.
        repeated: runs left out because a later one has the same settings and seed.
    """

    name: str
    headline: str
    task: str
    methods: tuple[Method, ...]
    repeated: int = 0


def group(metrics: Sequence[Metrics]) -> list[Pair]:
    """Put runs together by pair, method and seed.

    Args:
        metrics: of runs, oldest first: of two runs with the same settings and seed the later
            one counts.

    Returns:
        Pairs in the order of their names, methods in that of their roles and names. Runs on different data
        (another split, say) are different pairs, and runs of one method with different settings are different methods:
        neither is averaged silently.
    """
    by_pair: dict[str, list[Metrics]] = {}
    for run in metrics:
        by_pair.setdefault(_key([run.source, run.target], _problem(run)), []).append(run)
    labels = distinct([(f"{runs[0].source} → {runs[0].target}", _problem(runs[0])) for runs in by_pair.values()])
    pairs = [
        Pair(label, runs[0].headline, runs[0].task, *_methods(runs))
        for label, runs in zip(labels, by_pair.values(), strict=True)
    ]
    return sorted(pairs, key=lambda pair: pair.name)


def rank(role: str) -> int:
    """Where a role stands among the others; an unknown one with source-only.

    >>> rank("adapted") < rank("in_domain")
    True
    """
    return ROLES.index(role if role in ROLES else "source_only")


def settings(config: Mapping[str, Any]) -> dict[str, str]:
    """A configuration as dotted names, less seed, paths, names and threads: those that a cell's key leaves out.

    >>> settings({"seed": 1, "trainer": {"epochs": 3}, "injection": {}})
    {'trainer.epochs': '3', 'injection': '{}'}
    """
    found = flat({name: value for name, value in config.items() if name not in NAMES})
    return {name: value for name, value in found.items() if name != "trainer.threads"}


def flat(value: Any, name: str = "") -> dict[str, str]:
    """Nested mappings as dotted names; without what is null, lest a setting that came later part runs from older ones.

    >>> flat({"a": {"b": 1, "c": "x", "d": None}})
    {'a.b': '1', 'a.c': 'x'}
    """
    if value is None:
        return {}
    if isinstance(value, Mapping) and value:
        parts = (flat(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items())
        return {key: text for part in parts for key, text in part.items()}
    return {name: value if isinstance(value, str) else json.dumps(value, default=str)}


def distinct(named: Sequence[tuple[str, dict[str, str]]]) -> list[str]:
    """Names, with the settings that differ added to those that occur more than once.

    >>> distinct([("lisa", {"layer": "1"}), ("lisa", {"layer": "2"}), ("gnn", {})])
    ['lisa (layer=1)', 'lisa (layer=2)', 'gnn']
    """
    result = []
    for name, own in named:
        others = [values for other, values in named if other == name]
        keys = {key: None for values in others for key in values}
        differing = [key for key in keys if len({values.get(key) for values in others}) > 1]
        added = ", ".join(f"{key}={own.get(key, 'none')}" for key in differing)
        result.append(f"{name} ({added})" if added else name)
    return result


def _methods(runs: Sequence[Metrics]) -> tuple[tuple[Method, ...], int]:
    by_method: dict[str, dict[int, Metrics]] = {}
    for run in runs:
        by_method.setdefault(_key([run.method, run.role], settings(run.config)), {})[run.seed] = run
    seeds = [[by_seed[seed] for seed in sorted(by_seed)] for by_seed in by_method.values()]
    names = distinct([(same[0].method, settings(same[0].config)) for same in seeds])
    controls = {name for run in runs for some in _controls(run).values() for name in some}
    methods = tuple(
        Method(
            name, "control" if same[0].role == "adapted" and same[0].method in controls else same[0].role, tuple(same)
        )
        for name, same in zip(names, seeds, strict=True)
    )
    # by role and name, not by age: a clone writes its files in any order, and a table must not change with it
    ordered = tuple(sorted(methods, key=lambda one: (rank(one.role), one.name)))
    return ordered, len(runs) - sum(len(same) for same in seeds)


def _controls(run: Metrics) -> dict[str, tuple[str, ...]]:
    """Controls of each method, from ``benchmark.controls``: a name, or several."""
    declared = (run.config.get("benchmark") or {}).get("controls") or {}
    return {str(m): (c,) if isinstance(c, str) else tuple(map(str, c)) for m, c in declared.items()}


def _problem(run: Metrics) -> dict[str, str]:
    """What tells a pair from another of the same domains."""
    data = flat(run.config.get("data", {}), "data")
    for name in [name for name in data if name.endswith(".folder")]:
        data.pop(f"{name.removesuffix('folder')}root", None)  # wherever the research corpora lie: the folder names them
    return data | {"task": run.task, "headline": run.headline}


def _key(names: Sequence[Any], values: dict[str, str]) -> str:
    return json.dumps([names, values], sort_keys=True, default=str)


def reference(pair: Pair, method: Method, role: str) -> Method | None:
    """The source_only or in_domain that a method is to be measured against.

    Where there are several, the one that adds nothing and shares the method's backbone and trainer; None if that
    leaves none or more than one.
    """
    found = [m for m in pair.methods if m.role == role]
    if len(found) > 1:
        found = [m for m in found if m.runs[0].method == role] or found
    if len(found) > 1:
        found = [m for m in found if _training(m) == _training(method)]
    return found[0] if len(found) == 1 else None


def _training(method: Method) -> dict[str, str]:
    return {k: v for k, v in settings(method.runs[0].config).items() if k.partition(".")[0] in ("backbone", "trainer")}
