"""A plain loop over cells: every pair × method × seed of an experiment."""

import logging
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig

from domadapt.api import compose
from domadapt.benchmarking.cells import cell_key, run_folder
from domadapt.messages import lengthen
from domadapt.progress import progress
from domadapt.reporting.tables import text_table
from domadapt.training import train

log = logging.getLogger(__name__)


def cells(cfg: DictConfig, overrides: Sequence[str]) -> list[tuple[str, DictConfig]]:
    """Name and configuration of every cell.

    Args:
        cfg: a composed ``benchmark.yaml``.
        overrides: what the user gave on the command line; they hold for every cell.
    """
    common = [o for o in overrides if not o.lstrip("+~").startswith(("experiment=", "benchmark.", "seed="))]
    if any(o.lstrip("+").startswith("seed=") for o in overrides):
        raise ValueError("seed is one of the matrix's axes: write benchmark.seeds=[1] in place of seed=1")
    pairs = cfg.benchmark.get("pairs") or [None]
    result = []
    for pair in pairs:
        own_pair = [lengthen(o) for o in ([pair] if isinstance(pair, str) else pair or [])]  # one override, or a list
        for name, added in cfg.benchmark.methods.items():
            for seed in cfg.benchmark.seeds:
                own = [f"experiment={cfg.benchmark.experiment}", *own_pair, *added, f"seed={seed}"]
                cell = compose("train", [*own, *common])
                result.append((f"{cell.pair} {name} seed {seed}", cell))
    return result


def benchmark(cfg: DictConfig, overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run every cell that is not finished, then print the table. One that fails does not stop the rest.

    Args:
        cfg: a composed ``benchmark.yaml``.
        overrides: the user's own.

    Returns:
        Metrics of the cells that succeeded.

    Raises:
        RuntimeError: some cells failed; says which and why.
    """
    todo = cells(cfg, overrides)
    finished = sum((run_folder(cell) / "metrics.json").is_file() for _, cell in todo)
    log.info("%d cells, %d of them finished", len(todo), finished)
    done, failed = [], []
    for name, cell in progress(todo, "benchmark", len(todo), "cell"):
        try:
            metrics = train(cell)
            score = (metrics["target_test"] or {}).get(metrics["headline"])
            log.info(
                "%s: %s %s, %.0f s",
                name,
                metrics["headline"],
                "-" if score is None else f"{100 * score:.1f}",
                sum(metrics["seconds"].values()),
            )
            done.append(metrics)
        except Exception as error:  # reported at the end; the other cells go on
            log.log(logging.ERROR, "%s failed: %s", name, error, exc_info=not isinstance(error, ValueError))
            failed.append(f"{name} [{cell_key(cell)}]: {type(error).__name__}: {error}")
    print(text_table(done))
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(todo)} cells failed:\n" + "\n".join(failed))
    return done
