"""All cells of a benchmark or of a sweep: plan, run, table. Loads no torch before there are cells to run."""

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import product
from math import prod
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import configure_log
from hydra.experimental.callback import Callback
from omegaconf import OmegaConf

from domadapt.benchmarking.launching import check_value, jobs_at_once, launch
from domadapt.config.compose import Settings, compose, to_builtin, user_error
from domadapt.config.overrides import lengthen, quoted
from domadapt.config.resolvers import with_labels_once
from domadapt.runs.groups import distinct, flat, read_metrics, settings, typed
from domadapt.runs.key import cell_key, described, folder_of, run_folder
from domadapt.runs.metrics import Metrics
from domadapt.runs.status import Busy, read_results, read_status
from domadapt.utils.redact import guard_logs, redact, redacted
from domadapt.utils.text import counted, duration
from domadapt.utils.work import Stopped, progress, with_notes

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0  # seconds between two looks at the cells
MANY_KINDS = 20  # pairs × methods, from which on composing them is told of
FINISHED, STARTED, WAITING = "finished", "started", "waiting"


@dataclass(frozen=True)
class PlannedCell:
    """One run of a benchmark or a grid."""

    method: str  # its name in the matrix, or in a grid what tells it from the others
    seed: int
    overrides: tuple[str, ...]  # of `domadapt train`
    config: dict[str, Any]  # what they compose to

    @cached_property
    def pair(self) -> str:
        return str(self.config["pair"])

    @property
    def name(self) -> str:
        return f"{self.pair} {self.method} seed {self.seed}"

    @cached_property
    def key(self) -> str:
        return cell_key(self.config)

    @cached_property
    def folder(self) -> Path:
        return run_folder(self.config)

    def metrics(self) -> dict[str, Any] | None:
        """What its ``metrics.json`` says; None if there is none, or none that is whole and this cell's."""
        try:
            return read_results(self.folder, self.key)
        except ValueError:  # running it tells, and stops no other cell
            return None

    def state(self) -> str:
        """``finished``, ``started`` (to be resumed, or tidied up, if nobody is at it now) or ``waiting``."""
        if (status := read_status(self.folder)).get("key") == self.key:
            return STARTED
        return FINISHED if not status and self.metrics() is not None else WAITING


def cells(cfg: Settings, overrides: Sequence[str]) -> list[PlannedCell]:
    """Every cell of a composed ``benchmark.yaml``, seed by seed; the user's overrides hold for every one."""
    not_common = ("experiment=", "benchmark.", "seed=")
    common = [lengthen(o) for o in overrides if not o.lstrip("+~").startswith(not_common)]  # launchers compose by Hydra
    # What a cell does with them: those of several pairs share networks, and a report reads controls in its runs.
    common += [o for o in overrides if o.lstrip("+~").startswith(("benchmark.pairs=", "benchmark.controls"))]
    if any(o.lstrip("+").startswith("seed=") for o in overrides):
        raise ValueError("seed is one of the matrix's axes: write benchmark.seeds=[1] in place of seed=1")
    matrix = cfg.benchmark
    for name in ("pairs", "only", "seeds"):
        value = matrix.get(name)
        if value is not None and not isinstance(value, list):
            raise ValueError(f"benchmark.{name}={value}: expected a list: benchmark.{name}=[{value}]")
    for name in ("experiment", "seeds", "methods"):
        if name not in matrix:
            chosen = next((o for o in overrides if o.startswith("experiment=")), "this experiment")
            other = "take one that has, such as experiment=hotel_laptop or experiment=my_matrix"
            fix = f"{other}, or run it alone: domadapt train {chosen}"
            raise ValueError(f"{chosen}: has no benchmark.{name}, so there is no matrix to run; {fix}")
    if not matrix["seeds"]:
        raise ValueError(f"benchmark.seeds={matrix['seeds']}: expected a list of seeds, such as [1,2,3]")
    if not isinstance(methods := matrix["methods"], dict):
        fix = """add one by '+benchmark.methods.mine=["injection=gnn"]'"""
        raise ValueError(f"benchmark.methods={methods}: expected names with lists of overrides; {fix}")
    only = matrix.get("only") or list(methods)
    if unknown := [name for name in only if name not in methods]:
        raise ValueError(f"benchmark.only={unknown}: no such method in the matrix; expected some of {[*methods]}")
    for name, others in (matrix.get("controls") or {}).items():
        if not isinstance(others, list):
            raise ValueError(f"benchmark.controls.{name}={others}: expected a list: [{others}]")
        if name in only and (missing := [other for other in others if other not in methods]):
            what = f"benchmark.controls.{name}={others}: no method {missing[0]!r} in the matrix"
            raise ValueError(f"{what}; expected some of {[*methods]}")
    composed = []
    kinds = [*product(matrix.get("pairs") or [None], only)]
    if len(kinds) > MANY_KINDS:
        log.info("composing %d cells, which takes some seconds", len(kinds) * len(matrix["seeds"]))
    for pair, method in progress(kinds, "plan", len(kinds), "kind of cell"):
        regret = "trainer.regret=true"  # the report has a table of it
        given = _overrides("benchmark.pairs", [pair] if isinstance(pair, str) else [] if pair is None else pair)
        added = _overrides(f"benchmark.methods.{method}", methods[method])
        words = (f"experiment={matrix['experiment']}", regret, *given, *added, *common)
        composed.append((str(method), words, compose("train", [*words, f"seed={matrix['seeds'][0]}"])))
    planned = []
    for seed, (name, words, config) in product(matrix["seeds"], composed):  # stopped early, it has some of each
        values = with_seed(words, config, [f"seed={seed}"])
        shown = with_labels_once(name, values["target_labels"])  # unless the matrix or the user gives method=
        if values["method"] != shown and not any(word.startswith("method=") for word in words):
            words, values = (*words, f"method={quoted(shown)}"), values | {"method": shown}
        planned.append(PlannedCell(name, seed, (*words, f"seed={seed}"), values))
    return unique_cells(planned)


def with_seed(words: Sequence[str], composed: Any, seed: Sequence[str]) -> dict[str, Any]:
    """What was composed of some overrides, with another seed; composed anew where a setting follows the seed."""
    if seed and "${seed}" in str(OmegaConf.to_container(composed, resolve=False)):
        return to_builtin(compose("train", [*words, *seed]))
    return to_builtin(composed) | to_builtin(OmegaConf.from_dotlist([*seed]))


def _overrides(name: str, given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(override, str) for override in given):
        raise ValueError(f"{name}: {given}: expected a list of overrides, such as ['injection=gnn']")
    return [lengthen(override) for override in given]


def unique_cells(todo: list[PlannedCell]) -> list[PlannedCell]:
    """The cells; refused if two of them are one."""
    runs = Counter(cell.key for cell in todo)
    if twice := next((cell for cell in todo if runs[cell.key] > 1), None):
        names = ", ".join(cell.name for cell in todo if cell.key == twice.key)
        fix = "drop one, or change its settings; those of the command line replace a method's own"
        raise ValueError(f"{names} are one and the same run ({twice.folder}); {fix}")
    if len(todo) > len({cell.folder for cell in todo}):
        raise ValueError(f"paths.run={todo[0].folder}: one folder for {len(todo)} runs; give paths.runs=FOLDER")
    return todo


def estimate(todo: Sequence[PlannedCell]) -> list[float]:
    """Seconds of each waiting cell that has a finished like: the median over its method and kind of data."""
    took: dict[tuple[str, str], list[float]] = {}
    for runs in {folder_of(cell.config, "runs") for cell in todo}:
        for path in runs.glob("*/*/*/metrics.json"):
            with suppress(ValueError, KeyError, TypeError):  # of another version; it is no news here
                metrics = read_metrics(path)
                kind = metrics.method, str(metrics.config["data"]["_target_"])
                took.setdefault(kind, []).append(sum(metrics.seconds.values()))
    kinds = [(c.config["method"], c.config["data"]["_target_"]) for c in todo if c.state() != FINISHED]
    return [median(took[kind]) for kind in kinds if kind in took]


def plan(todo: Sequence[PlannedCell], at_once: int | None, launcher: str) -> str:
    """The plan in words; ``at_once`` is how many cells run at a time, None if nobody knows."""
    count = Counter(cell.state() for cell in todo)
    sizes = [len({axis(cell) for cell in todo}) for axis in map(attrgetter, ("pair", "method", "seed"))]
    at_a_time = f"{at_once} at once" if at_once else "as many at once as there is room for"
    axes = ": " + " × ".join(map(counted, sizes, ("pair", "method", "seed")))
    axes = axes if prod(sizes) == len(todo) else ""  # pairs may have one name, a grid may have gaps
    lines = [f"{counted(len(todo), 'cell')}{axes}; launcher {launcher}, {at_a_time}"]
    words = {
        FINISHED: "finished: not run again (to force one, move its folder)",
        STARTED: "started or failed: go on from their last checkpoint, if there is one",
        WAITING: "to run",
    }
    lines += [f"  {count[state]} {text}" for state, text in words.items() if count[state]]
    seconds = estimate(todo)
    unknown = len(todo) - count[FINISHED] - len(seconds)
    if seconds:
        rest = f", and {unknown} whose like has not been run yet" if unknown else ""
        serial = "" if at_once else ", one after the other"
        lines.append(f"  about {duration(sum(seconds) / (at_once or 1))} for {len(seconds)} of them{serial}{rest}")
    elif unknown:
        lines.append("  no estimate: nothing like them is finished yet")
    return "\n".join(lines)


def check(todo: Sequence[PlannedCell]) -> None:
    """Make of each kind of cell what is made quickly; refuse them if all fail of one and the same thing."""
    from domadapt.training.build import check_parts

    kinds = {(cell.pair, cell.method): cell.config for cell in todo if cell.state() != FINISHED}
    messages = set[str]()
    for config in kinds.values():
        try:
            check_parts(config)
            return
        except Exception as error:
            message = user_error(error, "train")
            if message is None:
                return  # running it shows where
            messages.add(message)
    if len(messages) == 1:
        raise ValueError(messages.pop())


def benchmark(cfg: Settings, overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run every cell of a composed ``benchmark.yaml`` that is not finished; metrics of those that succeeded.

    A cell that fails stops no other; in the end a RuntimeError says which did and why.
    """
    done, failure = sweep(cells(cfg, overrides))
    if failure:
        raise failure
    for key in {metrics["training"] for metrics in done if metrics.get("training")}:
        # What cells have shared is of no use to others, and large: the weights of each network's epochs.
        for path in folder_of(vars(cfg), "cache").glob(f"network-{key}-epoch=*.safetensors"):
            path.unlink(missing_ok=True)
    return done


def sweep(todo: Sequence[PlannedCell]) -> tuple[list[dict[str, Any]], RuntimeError | None]:
    """Print the plan, run unfinished cells, print the table; metrics of those that succeeded, an error on others."""
    check(todo)
    at_once, launcher = jobs_at_once(todo[0].overrides)
    print(plan(todo, at_once, launcher), flush=True)
    with Progress(todo) as watch:
        errors = run(todo)
    finished = [(cell.folder, metrics) for cell in todo if (metrics := cell.metrics()) is not None]
    done = [metrics for _, metrics in finished]
    if done:
        from domadapt.reporting.tables import text_table  # loads SciPy

        print(text_table([{**metrics, "folder": str(folder)} for folder, metrics in finished]))
    if watch.ended:
        wall, work = time.time() - watch.started, sum(sum(metrics.seconds.values()) for metrics in watch.ended.values())
        ended = counted(len(watch.ended), "cell")
        print(f"{ended} in {duration(wall)}; their own times add up to {duration(work)}", flush=True)
    if not errors:
        return done, None
    failed = [f"{len(errors)} of {len(todo)} cells failed; the same command runs these again, and no other:"]
    same: dict[str, list[str]] = {}
    for cell, error in errors:  # one line for a user's error, the kind of it before any other
        message = redact(user_error(error, "train") or f"{type(error).__name__}: {with_notes(error)}")
        same.setdefault(message, []).append(f"{cell.name} [{cell.key}]")
    failed += [f"{', '.join(names)}: {message}" for message, names in same.items()]
    return done, Stopped("\n".join(failed))


class Progress:
    """While the block runs, tell of each cell how it ended, and how many are left; read from the cells' folders."""

    def __init__(self, todo: Sequence[PlannedCell]) -> None:
        self.todo = [cell for cell in todo if cell.metrics() is None]
        self.finished, self.total, self.started = len(todo) - len(self.todo), len(todo), time.time()
        self.ended: dict[Path, Metrics] = {}
        self.failed: set[Path] = set()
        self._stop = threading.Event()

    def __enter__(self) -> "Progress":
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> Iterator[str]:
        """A line on each cell that has ended since the last look."""
        for cell in self.todo:
            if cell.folder in self.ended:
                continue
            if (metrics := cell.metrics()) is not None:
                result = self.ended[cell.folder] = typed(metrics)
                score = "-" if (value := result.score()) is None else f"{100 * value:.1f}"
                yield f"{cell.name}: {result.headline} {score}, {duration(sum(result.seconds.values()))}"
            elif cell.folder not in self.failed:
                status = read_status(cell.folder)
                if status.get("stage") == "failed" and status["updated"] >= self.started:
                    self.failed.add(cell.folder)
                    yield f"{cell.name}: failed: {status['error']}"

    def _tell(self) -> None:
        while True:
            over = self._stop.wait(LOOK_SECONDS)
            for line in self.look():
                count, took = len(self.ended), time.time() - self.started
                left = self.total - self.finished - count
                rest = f", {duration(took / count * left)} left" if count and left else ""
                log.info("%s (%d of %d cells, %s%s)", line, self.finished + count, self.total, duration(took), rest)
            if over:
                return


def run(todo: Sequence[PlannedCell]) -> list[tuple[PlannedCell, Exception]]:
    """Run unfinished cells, last those of other processes, which are waited for; those that failed, with errors."""
    waiting = [cell for cell in todo if cell.state() != FINISHED]
    results = launch([cell.overrides for cell in waiting], wait=False)
    tell_of_other_hardware(waiting, results)
    if busy := [place for place, result in enumerate(results) if isinstance(result, Busy)]:
        log.info("%d cells are run by another process: waiting for them", len(busy))
        for place, result in zip(busy, launch([waiting[place].overrides for place in busy]), strict=True):
            results[place] = result
    failed = [(cell, e) for cell, e in zip(waiting, results, strict=True) if isinstance(e, Exception)]
    # Others were finished before their launcher stopped.
    return [(cell, e) for cell, e in failed if not isinstance(e, Stopped) or cell.metrics() is None]


def tell_of_other_hardware(cells: Sequence[PlannedCell], results: Sequence[dict[str, Any] | Exception]) -> None:
    """A launcher's machines may be others than this one: what they made has keys that this one does not look for."""
    other = [result for cell, result in zip(cells, results) if isinstance(result, dict) and result["key"] != cell.key]
    for kind in sorted({described(result["hardware"]) for result in other}):
        log.warning("cells were run on other hardware than this machine's: add 'trainer.hardware=%s' to see them", kind)


class SweepEnded(BaseException):
    """The grid has been run, or its cause ended it; Hydra makes mere warnings of Exceptions, and would run it again."""


class Sweep(Callback):
    """What Hydra calls around `domadapt train -m`; set in ``train.yaml``."""

    command: ClassVar[tuple[str, ...]] = ()

    def on_multirun_start(self, config: Any, **_: Any) -> None:
        """Run a grid with plan, a line a cell, result table and list of failures. Of a search say how long it is."""
        if config.hydra.job.config_name != "train":
            return
        sweeper = config.hydra.sweeper
        if config.hydra.runtime.choices["hydra/sweeper"] != "basic":
            try:
                check_value(config)  # once, not in every run
            except ValueError as error:
                raise SweepEnded from error
            trials = sweeper.get("n_trials")
            print(f"search: {trials or 'some'} runs, each chosen by the values of those before: no plan", flush=True)
            for name in ("alembic", "optuna", "hydra", "hydra_plugins"):  # every trial has a line of ours
                logging.getLogger(name).setLevel(logging.WARNING)
            with suppress(ImportError):  # it sets its level itself, whatever it was
                import_module("optuna.logging").set_verbosity(logging.WARNING)
        elif not sweeper.max_batch_size:  # Hydra's own way to hand a grid to the launcher bit by bit
            try:
                run_grid(config, Sweep.command)
            except Exception as error:
                raise SweepEnded from error
            raise SweepEnded

    def on_multirun_end(self, config: Any, **_: Any) -> None:
        """Of a search say where its best settings are kept."""
        best = Path(config.hydra.sweep.dir, "optimization_results.yaml")
        if config.hydra.runtime.choices["hydra/sweeper"] != "basic" and best.is_file():
            print(f"{best.read_text(encoding='utf-8').rstrip()}\nkept in {best}", flush=True)


def run_grid(config: Any, command: Sequence[str]) -> None:
    """Run all cells of a grid, a composed ``train.yaml`` with Hydra's settings; metrics.json quotes the command."""
    previous = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(config)  # where launch() looks for the verb's hydra.… settings
    try:
        configure_log(config.hydra.job_logging, config.hydra.verbose)
        guard_logs()
        sys.argv[1:] = command
        _, failure = sweep(grid(config))
    finally:
        HydraConfig.instance().cfg = previous
    if failure:
        raise failure


def grid(config: Any) -> list[PlannedCell]:
    """The cells of a grid, in the order in which Hydra would run them."""
    given = [f"{name}={value}" for name, value in (config.hydra.sweeper.params or {}).items()]
    overrides: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    (jobs,) = BasicSweeper.split_arguments(parser.parse_overrides([*given, *overrides]), max_batch_size=None)
    composed: dict[tuple[str, ...], Any] = {}
    result = []
    for job in jobs:
        seed = [override for override in job if override.startswith("seed=")]
        rest = tuple(override for override in job if override not in seed)
        if rest not in composed:  # once for all seeds: it takes its time
            composed[rest] = compose("train", rest)
        values = with_seed(rest, composed[rest], seed)
        result.append(PlannedCell(values["method"], values["seed"], tuple(job), values))
    return unique_cells(with_distinct_names(result))


def with_distinct_names(cells: list[PlannedCell]) -> list[PlannedCell]:
    """The cells, with the settings in which those of one method differ added to its name, as in the result table."""
    named = []
    for cell in cells:
        values = redacted(cell.config)
        cell_settings = settings(values) | flat(values["data"], "data")  # the pair need not tell of all its settings
        named.append((f"{cell.pair} {cell.method}", cell_settings))
    labels = [name.removeprefix(f"{cell.pair} ") for cell, name in zip(cells, distinct(named), strict=True)]
    return [replace(cell, method=label) for cell, label in zip(cells, labels, strict=True)]
