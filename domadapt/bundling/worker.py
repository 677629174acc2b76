"""Runs the cells of an unpacked bundle that it is told on standard input, one number a line."""

import gc
import json
import logging
import os
import shlex
import sys
import traceback
from pathlib import Path
from typing import Any

from domadapt.runs.reading import typed
from domadapt.utils.redact import guard_logs, redact


def main() -> None:
    """Answer each number with one line of JSON: the cell's score, or its error. The working folder is the bundle's."""
    # Answers have standard output for themselves; whatever else is printed goes to the log.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    guard_logs()
    content: dict[str, Any] = json.loads(Path("cells.json").read_text(encoding="utf-8"))
    runs = sys.argv[1]
    sys.argv = shlex.split(content["command"])  # what metrics.json quotes
    for line in sys.stdin:
        cell = content["cells"][int(line)]
        logging.info("--- %s", cell["name"])
        answers.write(json.dumps(answer(cell["config"], runs)) + "\n")
        answers.flush()


def answer(config: dict[str, Any], runs: str) -> dict[str, Any]:
    """Run one cell.

    Args:
        config: its resolved configuration.
        runs: where its run folder is made.

    Returns:
        ``headline``, ``score``, ``seconds`` and ``hardware``; or ``error``.
    """
    try:
        metrics = typed(_train(config, runs))
    except Exception as error:  # the others go on
        print(redact(traceback.format_exc()), file=sys.stderr)
        return {"error": redact(f"{type(error).__name__}: {error}")}
    score = metrics.score()
    return {
        "headline": metrics.headline,
        "score": score,
        "seconds": sum(metrics.seconds.values()),
        "hardware": metrics.hardware["name"],
    }


def _train(config: dict[str, Any], runs: str) -> dict[str, Any]:
    import torch
    from omegaconf import OmegaConf

    from domadapt.training.run import train

    cfg = OmegaConf.create(config)
    cfg.paths.runs = runs
    try:
        return train(cfg)
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # the other cells share the GPU


if __name__ == "__main__":
    main()
