"""A benchmark's tables and figures as W&B shows them."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from domadapt.reporting.blocks import numbered
from domadapt.reporting.figures import save_bars
from domadapt.reporting.rows import rows
from domadapt.reporting.tables import table
from domadapt.runs.groups import Pair, group, typed
from domadapt.tracking.tracker import Content
from domadapt.utils.text import visible

COLUMNS = ["pair", "method", "role", "seeds", "score", "low", "high", "source", "gap closed"]


def show(wandb: Any, run: Any, metrics: Sequence[Content]) -> None:
    """Log every pair's result table as the report prints it, its numbers in one table for plots, and its bars.

    Args:
        wandb: the package.
        run: an open run.
        metrics: contents of ``metrics.json``.
    """
    pairs = group([typed(content) for content in metrics])
    run.log({"results": wandb.Table(columns=COLUMNS, data=[line for pair in pairs for line in numbers(pair)])})
    with tempfile.TemporaryDirectory() as folder:
        for index, pair in enumerate(pairs):
            name = re.sub(r"\W+", "_", pair.name)
            drawn = table(pair)
            run.log({f"table/{name}": wandb.Table(columns=drawn.header, data=drawn.rows)})
            if any(row.target for row in rows(pair)):
                picture = save_bars(pair, Path(folder, f"{index}.png"))
                run.log({f"bars/{name}": wandb.Image(str(picture), caption="; ".join([drawn.title, *numbered(drawn)]))})


def numbers(pair: Pair) -> list[list[Any]]:
    """A pair's rows with scores from 0 to 1, in the order of :data:`COLUMNS`."""
    found = []
    for row in rows(pair):
        ends = (row.target.mean, row.target.low, row.target.high) if row.target else (None, None, None)
        about = [visible(pair.name), visible(row.method.name), row.method.role, len(row.method.seeds)]
        found.append([*about, *ends, row.source, row.closed.value.mean if row.closed.value else None])
    return found
