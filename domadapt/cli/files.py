"""Two verbs of the command line that work on a user's own files: label them, parse them."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, tee
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from domadapt.cli.outputs import check_trees, predictions
from domadapt.config.compose import make
from domadapt.data.domains import UnlabelledText
from domadapt.data.streams import STDIN, open_texts
from domadapt.inference.description import read_description
from domadapt.inference.model import model_folder
from domadapt.runs.key import folder_of
from domadapt.utils.files import refuse_overwriting, replace_atomic
from domadapt.utils.runtime import progress

CHUNK = 16  # batches labelled together: wide enough to sort by length, small enough to hold


def predict_file(cfg: DictConfig) -> None:
    """Label a file, or one text, and write a JSON object a line, or a table.

    Args:
        cfg: a composed ``predict.yaml``.

    Raises:
        ValueError: neither or both of ``input`` and ``text`` are given, or the model or the file can't be read.
    """
    if (cfg.input is None) == (cfg.text is None):
        raise ValueError('give either input=FILE or text="One text."; got neither or both')
    if not isinstance(cfg.batch_size, int) or cfg.batch_size < 1:
        raise ValueError(f"batch_size={cfg.batch_size}: expected 1 or more texts")
    written = predictions(cfg.output)
    folder = model_folder(str(cfg.model))
    if cfg.output is not None:
        refuse_overwriting(Path(str(cfg.output)), [_file(cfg.input), *folder.rglob("*")])
    warnings = Counter[str]()
    total: int | None = 1
    if cfg.text is None:
        total, texts = open_texts(str(cfg.input), cfg.format, warnings, column(cfg))
    else:
        if not str(cfg.text).strip():
            raise ValueError(f"text={str(cfg.text)!r}: blank; expected a text to label")
        texts = iter([UnlabelledText("text", "input", str(cfg.text))])
    read_description(folder)
    from domadapt.inference.model import (
        load,  # seconds, and what could go wrong before has not
        row,
    )

    model = load(folder, cfg.device, str(cfg.precision), cfg.trust_code)
    done = truncated = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal done, truncated
        stream = iter(progress(texts, "predict", total, "text"))
        while chunk := list(islice(stream, cfg.batch_size * CHUNK)):
            for text, prediction in zip(chunk, model.predict_texts(chunk, cfg.batch_size), strict=True):
                yield row(text, prediction, model.setting.task.kind)
            done, truncated = done + len(chunk), truncated + model.truncated

    _write(cfg.output, written(rows()))
    _warn(warnings + model.setting.warnings)
    if truncated:
        limit = model.setting.max_pieces
        cut = f"{truncated} of {done} texts are longer than the {limit} pieces that the model reads"
        print(f"warning: {cut}: nothing beyond is labelled; split them, or train with max_pieces", file=sys.stderr)


def parse_files(cfg: DictConfig) -> None:
    """Parse files into the cache, and into a CoNLL-U file if one is asked for; prints what was done.

    Args:
        cfg: a composed ``parse.yaml``.

    Raises:
        ValueError: a file can't be read, or there is no such parser.
    """
    if not isinstance(cfg.processes, int) or cfg.processes < 1:
        raise ValueError(f"processes={cfg.processes}: expected 1 or more")
    check_trees(cfg.output)
    paths = list(cfg.input) if isinstance(cfg.input, ListConfig) else [cfg.input]
    warnings = Counter[str]()
    if sum(str(path) == STDIN for path in paths) > 1:
        raise ValueError(f"input={paths}: expected {STDIN} once: standard input can be read only once")
    if cfg.output is not None:
        known = [_file(path) for path in (*paths, OmegaConf.select(cfg, "parser.path"))]
        refuse_overwriting(Path(str(cfg.output)), known)
    files = [open_texts(str(path), cfg.format, warnings, column(cfg)) for path in paths]
    counts = [count for count, _ in files]
    total = None if None in counts else sum(filter(None, counts))  # how many come through a pipe nobody knows
    from domadapt.syntax.cache import ParseCache
    from domadapt.syntax.conllu import conllu
    from domadapt.syntax.parser import count_doubts

    cache = ParseCache(make(cfg.parser), folder_of(cfg, "cache"))
    started = time.perf_counter()
    texts, copies = tee(text for _, stream in files for text in stream)
    count = words = 0

    def blocks() -> Iterator[str]:
        nonlocal count, words
        trees = progress(cache.parse(texts, cfg.processes), "parse", total, "text")
        for text, tree in zip(copies, trees, strict=True):
            count, words = count + 1, words + len(tree.heads)
            count_doubts([text.text], [tree], cache.name, warnings)
            yield conllu(text, tree) if cfg.output else ""

    _write(cfg.output, blocks())  # without an output there is nothing to print: the blocks are empty
    seconds = time.perf_counter() - started
    cache.close()
    _warn(warnings)
    origin = f"{cache.parsed} parsed, {count - cache.parsed} from cache, {cache.damaged} damaged entries"
    told = f"{count} texts: {origin}, {words} words, {words / seconds:.0f} words a second; cache {cache.path}"
    print(told, file=sys.stderr if cfg.output == STDIN else None)


def column(cfg: DictConfig) -> str | None:
    """The column that holds the text, if one is named; a header that is a number comes as one."""
    return None if cfg.column is None else str(cfg.column)


def _file(given: Any) -> Path:
    """What is read; of standard input, the file that the shell has put there."""
    return Path("/dev/stdin" if str(given) == STDIN else str(given or ""))


def _write(output: str | None, lines: Iterable[str]) -> None:
    """Lines to a file that appears when all of it is written, or to standard output as they come."""
    if output in (None, STDIN):
        sys.stdout.writelines(lines)
        return

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)

    replace_atomic(Path(str(output)), write)


def _warn(warnings: Counter[str]) -> None:
    for message, count in sorted(warnings.items()):
        print(f"warning: {message} ({count} times)", file=sys.stderr)
