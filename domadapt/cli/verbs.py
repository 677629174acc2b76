"""What verbs read and write: files, exports, analyses."""

import csv
import io
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, tee
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from domadapt.config.compose import make, plain
from domadapt.data.domains import UnlabelledText
from domadapt.data.streams import STDIN, open_texts
from domadapt.inference.description import FORMATS, free_folder, model_folder, read_description
from domadapt.runs.key import files_named, folder_of
from domadapt.utils.files import files_read, refuse_overwriting, replace_atomic, write_atomic
from domadapt.utils.work import progress

Rows = Iterable[Mapping[str, Any]]
SPAN = ("start", "end", "type", "span", "confidence")  # columns of a span; ``span`` holds its words


def json_lines(rows: Rows) -> Iterator[str]:
    """One JSON object a line."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def delimited(rows: Rows, delimiter: str) -> Iterator[str]:
    r"""A table with a header: a text a line; where spans were found, a span a line, and an empty one for none.

    >>> list(delimited([{"id": "1", "text": "So, so.", "label": "negative", "confidence": 0.9}], ","))
    ['id,text,label,confidence\n', '1,"So, so.",negative,0.9\n']
    >>> span = {"start": 4, "end": 8, "type": "aspect", "text": "lens", "confidence": 0.8}
    >>> rows = [{"id": "1", "text": "The lens", "spans": [span]}, {"id": "2", "text": "Yes", "spans": []}]
    >>> list(delimited(rows, "\t"))
    ['id\ttext\tstart\tend\ttype\tspan\tconfidence\n', '1\tThe lens\t4\t8\taspect\tlens\t0.8\n', '2\tYes\t\t\t\t\t\n']
    """
    header: list[str] = []
    for row in rows:
        for flat in _flat(row):
            if not header:
                header = [*flat]
                yield _line(header, delimiter)
            yield _line([flat.get(name, "") for name in header], delimiter)


def predictions(output: str | None) -> Callable[[Rows], Iterator[str]]:
    """How predictions are written into a file of this name.

    Args:
        output: as given; None is standard output.

    Raises:
        ValueError: it is the name of a format that predict does not write.

    >>> predictions("out.xlsx")
    Traceback (most recent call last):
    ValueError: output=out.xlsx: predict does not write .xlsx; expected .jsonl (a JSON object a line), .csv or .tsv
    """
    ending = _ending(output)
    if ending in (".csv", ".tsv"):
        return lambda rows: delimited(rows, "," if ending == ".csv" else "\t")
    if ending not in ("", ".jsonl", ".ndjson", ".txt"):
        raise ValueError(
            f"output={output}: predict does not write {ending}; expected .jsonl (a JSON object a line), .csv or .tsv"
        )
    return json_lines


def check_trees(output: str | None) -> None:
    """Refuse a name that promises another format than the CoNLL-U that parse writes.

    Raises:
        ValueError: with a name that does.
    """
    ending = _ending(output)
    if ending not in ("", ".conllu", ".conll", ".txt"):
        raise ValueError(f"output={output}: parse does not write {ending}; expected .conllu")


def _ending(output: str | None) -> str:
    """Of the name, if it looks like a format: ``out.v2`` does, ``run.2026-11`` does not."""
    ending = Path(output or "").suffix.lower()
    return ending if ending[1:2].isalpha() else ""


def _flat(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "spans" not in row:
        yield dict(row)
        return
    text = {name: value for name, value in row.items() if name != "spans"}
    for span in row["spans"] or [{}]:
        own = {**span, "span": span.get("text", "")}
        yield {**text, **{name: own.get(name, "") for name in SPAN}}


def _line(values: Iterable[Any], delimiter: str) -> str:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(values)
    return line.getvalue()


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
                yield row(text, prediction, model.session.task.kind)
            done, truncated = done + len(chunk), truncated + model.truncated

    _write(cfg.output, written(rows()))
    _warn(warnings + model.session.warnings)
    if truncated:
        limit = model.session.max_pieces
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


def export_model(cfg: DictConfig) -> str:
    """Write the folder; returns what there is to say of it.

    Args:
        cfg: a composed ``export.yaml``.

    Raises:
        ValueError: the model, the folder or the texts will not do.
    """
    if cfg.format not in FORMATS:
        raise ValueError(f"format={cfg.format}: expected one of {', '.join(FORMATS)}")
    description = read_description(model_folder(str(cfg.model)))
    free_folder(Path(str(cfg.to)))
    from domadapt.inference.export import COMPARED, export, pipeline_call

    texts = None
    if cfg.input is not None:
        texts = [text.text for text in islice(open_texts(str(cfg.input), None, Counter())[1], COMPARED)]
    measured = export(str(cfg.model), str(cfg.to), cfg.format, texts, bool(cfg.drop_methods), cfg.trust_code)
    use = "its README.md says how to load it"
    if cfg.format == "hf":
        use = f"load it with {pipeline_call('token' if 'types' in description.task else 'sequence', str(cfg.to))}"
    return "\n".join([f"{cfg.to}: {cfg.format}; {use}", *measured])


LEAST = {"texts": 2, "scored_texts": 0, "batch_size": 1, "seed": 0}


def analyze_model(cfg: DictConfig) -> str:
    """Write the page and its numbers; returns the least of them, and where they are.

    Args:
        cfg: a composed ``analyze.yaml``.

    Raises:
        ValueError: a setting is out of range, or the model, the data or the parser will not do.
    """
    from domadapt.reporting.rows import named_file  # loads SciPy

    for name, least in LEAST.items():
        if type(cfg[name]) is not int or not least <= cfg[name] < 2**32:
            raise ValueError(f"{name}={cfg[name]!r}: expected a whole number from {least}")
    output = named_file(cfg.output, "analysis", (".html", ".htm"))
    from domadapt.analysis.subject import refuse_without_attention, subject  # seconds, and what could go wrong has not
    from domadapt.reporting.analysis_page import analyse, html, lines, numbers
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
