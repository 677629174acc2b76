"""Finished runs: read, grouped by pair and method, shown as another validator would have chosen."""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from domadapt.config.resolvers import ORACLE
from domadapt.runs.metrics import FORMAT, Metrics, schema
from domadapt.utils.files import below

log = logging.getLogger(__name__)
# A report can do nothing without these.
NEEDED = ["source", "target", "task", "headline", "method", "role", "seed"]
NEEDED += ["source_dev", "target_test", "curve", "config"]
RUN_AGAIN = "run that cell again, or leave its folder out of `runs`"
# Of the configuration, what a report looks into; each is settings by name, or null.
SECTIONS = ("data", "task", "backbone", "trainer", "benchmark")
# In the order of the report's bars; ``control`` is a name for runs beside others, which no run gives itself.
ROLES = ("rule_baseline", "rnn_from_scratch", "source_only", "adapted", "control", "in_domain")
TASKS = ("extraction", "classification")
NAMES = ("seed", "paths", "tracking", "pair", "method", "benchmark", "data")  # say nothing of how a method is set


@dataclass(frozen=True, slots=True)
class RunSet:
    """What was found: each readable ``metrics.json``, oldest first, and a message for each that is not."""

    runs: tuple[Metrics, ...]
    skipped: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()  #: folders of runs that failed, were stopped, or are still going


def read_runs(paths: str | Path | Iterable[str | Path]) -> RunSet:
    """Read every ``metrics.json`` at or below some paths; ``skipped`` and the log say why one is left out."""
    chosen = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    refuse_missing(chosen)
    places = {file for path in chosen for file in ([path] if path.is_file() else below(path, "metrics.json"))}
    files = sorted(map(relative, {file.resolve() for file in places}))
    begun = {file.parent for path in chosen if path.is_dir() for file in below(path, "status.json")}
    unfinished = sorted(str(relative(folder)) for folder in begun if not (folder / "metrics.json").exists())
    if not files:
        expected = "expected folders that `domadapt train` or `domadapt benchmark` has written"
        expected = f"{unfinished[0]} is not finished: run its command again" if unfinished else expected
        raise ValueError(f"runs={[str(path) for path in chosen]}: no metrics.json there; {expected}")
    if unfinished:
        log.warning("left out, not finished: %s; the same command goes on with it", ", ".join(unfinished))
    runs, skipped = list[tuple[str, Metrics]](), list[str]()
    for file in files:
        try:
            run = read_metrics(file)
            runs.append((run.written or datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(), run))
        except (OSError, ValueError) as error:
            skipped.append(str(error))
    if not runs:
        raise ValueError(skipped[0] if len(skipped) == 1 else f"{skipped[0]} ({len(skipped)} files are unreadable)")
    for message in skipped:
        log.warning("left out: %s", message)
    runs.sort(key=lambda each: (each[0], each[1].folder))
    return RunSet(tuple(run for _, run in runs), tuple(skipped), tuple(unfinished))


def backbone_name(given: Mapping[str, Any]) -> str:
    """What a backbone is called; of one from scratch, ``name`` is that of its tokenizer.

    >>> backbone_name({"_target_": "domadapt.models.bilstm.BiLSTM", "name": "minilm"})
    'BiLSTM'
    """
    kind = str(given.get("_target_", "")).rpartition(".")[2]
    return kind if kind == "BiLSTM" else str(given.get("name") or kind)


def refuse_missing(paths: Iterable[Path]) -> None:
    for path in paths:
        if not path.exists() or (path.is_file() and path.suffix != ".json"):
            problem = "is a file" if path.exists() else "no such folder"
            expected = "expected a folder that `domadapt train` or `benchmark` has written"
            raise ValueError(f"runs={path}: {problem}; {expected}")


def read_metrics(path: Path) -> Metrics:
    content = load(path)
    if content.get("format") != FORMAT:
        problem = f"format {content.get('format')!r}, expected {FORMAT}: another version or program wrote it"
        raise ValueError(f"{path}: {problem}; {RUN_AGAIN}")
    try:
        return typed({**content, "folder": str(path.parent)})
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {RUN_AGAIN}") from error


def load(path: Path) -> dict[str, Any]:
    """The content of one ``metrics.json``, as it is."""

    def no_number(name: str) -> None:
        raise ValueError(f"it says {name} where a number belongs")

    if path.exists() and not path.is_file():  # a named pipe would be waited for
        raise ValueError(f"{path}: unreadable (not a file); {RUN_AGAIN}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=no_number)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: unreadable ({error}); {RUN_AGAIN}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
        raise ValueError(f"{path}: not whole JSON ({error}); {RUN_AGAIN}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: holds a {type(content).__name__}, expected an object; {RUN_AGAIN}")
    return content


def typed(content: Mapping[str, Any]) -> Metrics:
    """The record of what :func:`domadapt.train` returned, maybe with the ``folder`` that it lies in."""
    from pydantic import ValidationError

    # What a run had nothing to say of may be null.
    given = {name: value for name, value in content.items() if value is not None or name in NEEDED}
    wrong = [name for name in NEEDED if name not in given]
    try:
        metrics: Metrics = schema(Metrics).validate_json(json.dumps(given), strict=True)  # "0.5" and true are no scores
        if not wrong:
            wrong += _inconsistent(metrics)
    except ValidationError as error:
        wrong += dict.fromkeys(str(part["loc"][0]) for part in error.errors() if part["loc"])
    if wrong:
        raise ValueError(f"lacks {', '.join(wrong)}, or has something else in that place")
    return metrics


def _inconsistent(run: Metrics) -> Iterator[str]:
    """Fields of the right kind that do not go with the others."""
    if run.task not in TASKS:
        yield "task"
    if run.role not in ROLES or run.role == "control":
        yield "role"
    tests = [run.target_test, *(choice.target_test for choice in run.selection.choices.values())]
    if any(scores is not None and run.headline not in scores for scores in tests):
        yield f"headline score {run.headline!r}"
    scored = [run.source_dev, run.source_test, run.target_test_clean, *tests, *(line.source_dev for line in run.curve)]
    each = [(name, score) for scores in scored for name, score in (scores or {}).items()]
    yield from dict.fromkeys(f"score {name!r}" for name, score in each if score > 1 and not name.endswith("_support"))
    malformed = [name for name in SECTIONS if not isinstance(run.config.get(name), Mapping | None)]
    yield from (f"config.{name}" for name in malformed)
    controls = (run.config.get("benchmark") or {}).get("controls") if "benchmark" not in malformed else None
    if not isinstance(controls, Mapping | None):
        yield "config.benchmark.controls"


def relative(path: Path) -> Path:
    """As seen from here: no machine's folders stand in what is sent on."""
    return Path(os.path.relpath(path))


@dataclass(frozen=True, slots=True)
class MethodRuns:
    """One method on one pair: runs that differ in nothing but the seed."""

    name: str  #: shown; says the settings, too, where one name was run with several
    role: str  #: which bar it is; ``control`` where another method names it as its own
    runs: tuple[Metrics, ...]  #: one a seed, in the seeds' order

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.runs[0].config)

    @property
    def oracle(self) -> bool:
        """Whether target labels chose its epochs: a bound, which nothing is measured against."""
        return self.runs[0].method.endswith(ORACLE)

    @property
    def controls(self) -> tuple[str, ...]:
        """Names of the methods that are this one with what it is about taken away, as its benchmark declares them."""
        declared = _controls(self.runs[0])
        return declared.get(self.name) or declared.get(self.runs[0].method) or ()


@dataclass(frozen=True, slots=True)
class Pair:
    """One source and one target, and what was tried on them."""

    name: str  #: shown
    headline: str  #: name of the score that methods are compared by
    task: str  #: extraction or classification
    methods: tuple[MethodRuns, ...]  #: by role and name
    repeated: int = 0  #: runs left out because a later one has the same settings and seed
    outdated: int = 0  #: runs left out because files of the data have been changed since

    @property
    def runs(self) -> list[Metrics]:
        return [run for method in self.methods for run in method.runs]


def group(metrics: Sequence[Metrics]) -> list[Pair]:
    """Put runs, oldest first, together by pair, method and seed: of two with the same settings the later one counts.

    Pairs are in the order of their names, methods in that of their roles and names. Runs on different data (another
    split, say) are different pairs, and runs of one method with different settings are different methods. Runs on files
    that have been changed since the latest run are left out: they can't be compared with it.
    """
    by_pair: dict[str, list[Metrics]] = {}
    for run in metrics:
        by_pair.setdefault(_key([run.source, run.target], _problem(run)), []).append(run)
    labels = distinct([(f"{runs[0].source} → {runs[0].target}", _problem(runs[0])) for runs in by_pair.values()])
    pairs = []
    for label, runs in zip(labels, by_pair.values(), strict=True):
        current = [run for run in runs if run.data == runs[-1].data]
        if outdated := len(runs) - len(current):
            why = "files of the data have been changed since; to have them again, run the same command"
            log.warning("%s: %d of %d runs are left out: %s", label, outdated, len(runs), why)
        pairs.append(Pair(label, runs[0].headline, runs[0].task, *_methods(current), outdated))
    return sorted(pairs, key=lambda pair: pair.name)


def settings(config: Mapping[str, Any]) -> dict[str, str]:
    """A configuration as dotted names, less seed, paths, names and threads: those that a cell's key leaves out."""
    dotted = flat({name: value for name, value in config.items() if name not in NAMES})
    return {name: value for name, value in dotted.items() if name not in ("trainer.threads", "trainer.regret")}


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
    for name, chosen in named:
        others = [values for other, values in named if other == name]
        keys = {key: None for values in others for key in values}
        differing = [key for key in keys if len({values.get(key) for values in others}) > 1]
        added = ", ".join(f"{key}={chosen.get(key, 'none')}" for key in differing)
        result.append(f"{name} ({added})" if added else name)
    return result


def _methods(runs: Sequence[Metrics]) -> tuple[tuple[MethodRuns, ...], int]:
    by_method: dict[str, dict[int, Metrics]] = {}
    for run in runs:
        by_method.setdefault(_key([run.method, run.role], settings(run.config)), {})[run.seed] = run
    seeds = [[by_seed[seed] for seed in sorted(by_seed)] for by_seed in by_method.values()]
    names = distinct([(same[0].method, settings(same[0].config)) for same in seeds])
    controls = {name for run in runs for control_names in _controls(run).values() for name in control_names}
    roles = ["control" if same[0].role == "adapted" and same[0].method in controls else same[0].role for same in seeds]
    methods = (MethodRuns(*one) for one in zip(names, roles, map(tuple, seeds), strict=True))
    # by role and name, not by age: a clone writes its files in any order, and a table must not change with it
    ordered = tuple(sorted(methods, key=lambda one: (ROLES.index(one.role), one.name)))
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


def reference(pair: Pair, method: MethodRuns, role: str) -> MethodRuns | None:
    """The source_only or in_domain that a method is to be measured against.

    Of the method's own backbone, unless that is what sets it apart; of several, the one that adds nothing and shares
    its settings of backbone and trainer; None if there is not one.
    """
    candidates = [m for m in pair.methods if m.role == role and not m.oracle]
    if method.role not in ROLES[:2]:  # rules, and a network from scratch
        candidates = [m for m in candidates if _backbone(m) == _backbone(method)]
    if len(candidates) > 1:
        candidates = [m for m in candidates if m.runs[0].method == role] or candidates
    if len(candidates) > 1:
        candidates = [m for m in candidates if _training(m) == _training(method)]
    return candidates[0] if len(candidates) == 1 else None


def _backbone(method: MethodRuns) -> str:
    return Path(backbone_name(method.config.get("backbone") or {})).name  # wherever its folder lies


def _training(method: MethodRuns) -> dict[str, str]:
    """Its settings of backbone and trainer, less the epochs that an adaptation adds."""
    known = settings(method.runs[0].config)
    names = [name for name in known if name.partition(".")[0] in ("backbone", "trainer")]
    return {name: known[name] for name in names if name != "trainer.extra_epochs"}
