"""Cells of a benchmark: what there is, what is finished, what is left."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from domadapt.config.compose import compose, to_builtin, user_error
from domadapt.config.overrides import lengthen, quoted
from domadapt.config.resolvers import with_labels
from domadapt.runs.groups import read_metrics
from domadapt.runs.key import cell_key, folder_of, run_folder
from domadapt.runs.status import read_results, read_status
from domadapt.training.build import check_parts
from domadapt.utils.text import duration

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
        """``SOURCE_to_TARGET``."""
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
        """``finished``, ``started`` (to be resumed, if nobody is at it now) or ``waiting``."""
        if self.metrics() is not None:
            return FINISHED
        return STARTED if read_status(self.folder).get("key") == self.key else WAITING


def cells(cfg: DictConfig, overrides: Sequence[str]) -> list[PlannedCell]:
    """Every cell of a composed ``benchmark.yaml``, seed by seed; the user's overrides hold for every one."""
    common = [o for o in overrides if not o.lstrip("+~").startswith(("experiment=", "benchmark.", "seed="))]
    common += [o for o in overrides if o.lstrip("+").startswith("benchmark.pairs=")]  # cells of several share networks
    if any(o.lstrip("+").startswith("seed=") for o in overrides):
        raise ValueError("seed is one of the matrix's axes: write benchmark.seeds=[1] in place of seed=1")
    for name in ("pairs", "only", "seeds"):
        value = cfg.benchmark.get(name)
        if value is not None and not isinstance(value, ListConfig):
            raise ValueError(f"benchmark.{name}={value}: expected a list: benchmark.{name}=[{value}]")
    for name in ("experiment", "seeds", "methods"):
        if name not in cfg.benchmark:
            chosen = next((o for o in overrides if o.startswith("experiment=")), "this experiment")
            other = "take one that has, such as experiment=hotel_laptop or experiment=my_matrix"
            fix = f"{other}, or run it alone: domadapt train {chosen}"
            raise ValueError(f"{chosen}: has no benchmark.{name}, so there is no matrix to run; {fix}")
    if not cfg.benchmark.seeds:
        raise ValueError(f"benchmark.seeds={cfg.benchmark.seeds}: expected a list of seeds, such as [1,2,3]")
    methods = dict(cfg.benchmark.methods)
    only = cfg.benchmark.get("only") or list(methods)
    if unknown := [name for name in only if name not in methods]:
        raise ValueError(f"benchmark.only={unknown}: no such method in the matrix; expected some of {[*methods]}")
    composed = []
    for pair in cfg.benchmark.get("pairs") or [None]:
        for method in only:
            regret = "trainer.regret=true"  # the report has a table of it
            given = [lengthen(override) for override in ([pair] if isinstance(pair, str) else pair or [])]
            added = [lengthen(override) for override in methods[method]]
            own = (f"experiment={cfg.benchmark.experiment}", regret, *given, *added, *common)
            config = compose("train", [*own, f"seed={cfg.benchmark.seeds[0]}"])
            composed.append((str(method), *_called(str(method), own, to_builtin(config))))
    every = [(seed, *one) for seed in cfg.benchmark.seeds for one in composed]  # stopped early, it has some of each
    return one_each(
        [PlannedCell(m, seed, (*own, f"seed={seed}"), config | {"seed": seed}) for seed, m, own, config in every]
    )


def _called(name: str, own: tuple[str, ...], config: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """A cell under its name in the matrix, in tables and folders too; what it says of target labels stays.

    Unless the matrix, or the user, names it by ``method=``.
    """
    labelled = with_labels(name, config["target_labels"])
    name = name if name.endswith(labelled.removeprefix(name)) else labelled
    if config["method"] == name or any(override.startswith("method=") for override in own):
        return own, config
    return (*own, f"method={quoted(name)}"), config | {"method": name}


def one_each(todo: list[PlannedCell]) -> list[PlannedCell]:
    """The cells, if no two of them are one."""
    runs = Counter(cell.key for cell in todo)
    if twice := [cell.folder for cell in todo if runs[cell.key] > 1]:
        names = ", ".join(cell.name for cell in todo if runs[cell.key] > 1)
        raise ValueError(f"{names} are one and the same run ({twice[0]}); drop one, or change its settings")
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
    at_once_words = f"{at_once} at once" if at_once else "as many at once as there is room for"
    lines = [
        f"{len(todo)} cells: {sizes[0]} pairs × {sizes[1]} methods × {sizes[2]} seeds; launcher {launcher}, "
        f"{at_once_words}"
    ]
    words = {
        FINISHED: "finished: not run again (to force one, delete its folder)",
        STARTED: "started: go on from their last checkpoint",
        WAITING: "to run",
    }
    lines += [f"  {count[state]} {told}" for state, told in words.items() if count[state]]
    seconds = estimate(todo)
    unknown = len(todo) - count[FINISHED] - len(seconds)
    if seconds:
        rest = f", and {unknown} whose like has not been run yet" if unknown else ""
        serial = "" if at_once else ", one after the other"
        lines.append(f"  about {duration(sum(seconds) / (at_once or 1))} for {len(seconds)} of them{serial}{rest}")
    elif unknown:
        lines.append("  no estimate: nothing like them is finished yet")
    return "\n".join([*lines, f"  shared: {shared(folder_of(todo[0].config, 'cache'))}"])


def shared(cache: Path) -> str:
    """What the cache folder holds for cells to share."""
    kinds = {
        "parses of {} parsers": "*.sqlite",
        "{} post-trained encoders": "masked-lm-*.safetensors",
        "{} ceilings": "ceiling-*.json",
        "{} source networks": "network-*-epoch=1.safetensors",
    }
    found = [words.format(len(list(cache.glob(pattern)))) for words, pattern in kinds.items()]
    size = sum(path.stat().st_size for path in cache.glob("*") if path.is_file())
    return f"{', '.join(found)}, {size / 1e6:.0f} MB in {cache}"


def check(todo: Sequence[PlannedCell]) -> None:
    """Make of each kind of cell what is made quickly; refuse them if all fail of one and the same thing."""
    kinds = {(cell.pair, cell.method): cell.config for cell in todo if cell.state() != FINISHED}
    said = set[str]()
    for config in kinds.values():
        try:
            check_parts(OmegaConf.create(config))
            return
        except Exception as error:
            told = user_error(error, "train")
            if told is None:
                return  # running it shows where
            said.add(told)
    if len(said) == 1:
        raise ValueError(said.pop())
