"""The verb that looks into a model."""

import sys
import time
from pathlib import Path

from omegaconf import DictConfig

from domadapt.config.compose import make, plain
from domadapt.inference.model import model_folder
from domadapt.reporting.paths import named_file
from domadapt.runs.key import files_named, folder_of
from domadapt.utils.files import files_read, refuse_overwriting, write_atomic

LEAST = {"texts": 2, "scored_texts": 0, "batch_size": 1, "seed": 0}


def analyze_model(cfg: DictConfig) -> str:
    """Write the page and its numbers; returns the least of them, and where they are.

    Args:
        cfg: a composed ``analyze.yaml``.

    Raises:
        ValueError: a setting is out of range, or the model, the data or the parser will not do.
    """
    for name, least in LEAST.items():
        if type(cfg[name]) is not int or not least <= cfg[name] < 2**32:
            raise ValueError(f"{name}={cfg[name]!r}: expected a whole number from {least}")
    output = named_file(cfg.output, "analysis", (".html", ".htm"))
    from domadapt.analysis.subject import refuse_without_attention, subject  # seconds, and what could go wrong has not
    from domadapt.reporting.analyses.page import analyse, html, lines, numbers
    from domadapt.syntax.cache import ParseCache

    model = str(cfg.model)
    refuse_without_attention(model)
    started = time.perf_counter()
    with files_read() as read:
        domains = make(cfg.data)
    read |= {*files_named(plain(cfg.data)), *model_folder(model).rglob("*")}
    files = output, output.with_suffix(".json")
    for file in files:
        refuse_overwriting(file, read)
    parser = ParseCache(make(cfg.parser), folder_of(cfg, "cache"))
    try:
        with files_read() as late:  # the target's test among them
            found = subject(
                *(model, domains, parser, cfg.texts, cfg.scored_texts, cfg.batch_size),
                *(cfg.device, cfg.seed, cfg.trust_code),
            )
        for file in files:
            refuse_overwriting(file, late)
        for message, count in sorted((domains.warnings + found.after.warnings).items()):
            print(f"warning: {message} ({count} times)", file=sys.stderr)
        analysis = analyse(found, score=cfg.scored_texts > 0)
    finally:
        parser.close()
    for file, content in zip(files, (html(analysis, found), numbers(analysis, found)), strict=True):
        write_atomic(file, content)
    seconds = time.perf_counter() - started
    where: list[Path | str] = [*files]
    return "\n".join([*lines(analysis, found), f"written: {' and '.join(map(str, where))}, in {seconds:.0f} seconds"])
