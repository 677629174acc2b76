"""What verbs do with a composed configuration. Each imports what takes seconds after it has refused what it can."""

import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domadapt.config.compose import Settings, make
from domadapt.config.overrides import SEEDS, in_range
from domadapt.config.resolvers import AUTO
from domadapt.data.domains import UnlabelledText
from domadapt.data.readers import SPAN
from domadapt.data.streams import STDIN, open_texts
from domadapt.inference.description import FORMATS, files_of, model_folder, read_description, refuse_occupied
from domadapt.inference.light import MANY_TEXTS, Exported, is_exported, light_model
from domadapt.inference.thresholds import apply_limits, rate_sentences, read_limits
from domadapt.runs.groups import load, refuse_missing
from domadapt.runs.key import cell_key, files_named, folder_of, run_folder
from domadapt.runs.metrics import objective
from domadapt.tasks.task import row
from domadapt.training.options import CHUNK, check_choices, check_data, read_options
from domadapt.training.problem import read_problem
from domadapt.utils.files import DAY, clear_parts, matching, refuse_overwriting, replace_atomic, write_atomic
from domadapt.utils.pairs import paired, text_fields
from domadapt.utils.text import counted, csv_lines, json_lines, warning_lines
from domadapt.utils.work import progress

if TYPE_CHECKING:
    from domadapt.auditing.audit import Audit
    from domadapt.inference.model import Model

LEAST_OF = {"texts": 2, "scored_texts": 0, "batch_size": 1, "seed": 0}  # of analyze's settings
BY_CONTENT = "[0-9a-f]" * 16  # a file that is named by its hash
CACHED = {  # a kind of what is cached: a pattern of its files or folders, which no others fit, and what they are
    "parses": ("parses-*", "of texts, by parser"),
    "masked-lm": ("masked-lm-*", "encoders after masked language modelling"),
    "networks": ("network-*", "weights of epochs that several runs would train alike"),
    "ceilings": ("ceiling-*", "scores of runs on target labels"),
    "data": (f"data/{BY_CONTENT}.jsonl", "corpora that came from Python"),
    "pipes": (f"stdin/{BY_CONTENT}", "corpora that came through a pipe"),
    "backbones": ("backbones/multilingual-*", "models unpacked from packages"),
}
# In a file of predictions: a confidence, or no span at all.
PREDICTED = r'"confidence": |[,\t]confidence[,\t]|\A(?!(?s:.*)"spans": \[\{)(?s:.*)"spans": \[\]'
JSON_LINES = ".jsonl (a JSON object a line)", ".ndjson .json .txt"  # what file_ending tells of, and what it allows


def train(cfg: Mapping[str, Any], overrides: list[str]) -> float | None:
    """One run; prints its scores, or without target labels its card; returns what a sweeper may search by."""
    read_options(cfg)  # it and the next two tell what they can before anything heavy is imported
    check_choices(cfg["trainer"], "trainer.")
    check_data(cfg["data"], lambda: read_problem(cfg))
    from domadapt.benchmarking.launching import is_searching, trial_line
    from domadapt.reporting.target_card import SOURCE_ONLY, as_lines
    from domadapt.runs.status import finished
    from domadapt.runs.target_card import read_card

    folder = run_folder(cfg)
    if (metrics := finished(folder, cell_key(cfg))) is None:
        from domadapt.methods.method import make_methods

        make_methods(cfg)  # what is wrong with their settings, before transformers is loaded
        from domadapt.training.build import run_config
        from domadapt.training.cell import train as run

        metrics = run(run_config(cfg))
    if is_searching():  # a target score on the screen would lead the next choice of settings
        print(trial_line(metrics, overrides, sys.argv[1:]), flush=True)
    elif metrics["target_test"] is None and (card := read_card(folder, metrics["key"])) is not None:
        print(as_lines(card), flush=True)
    else:
        from domadapt.reporting.tables import text_table  # loads SciPy

        beside = folder / SOURCE_ONLY  # of adapt
        source_only = [(beside, load(beside / "metrics.json"))] if (beside / "metrics.json").is_file() else []
        print(text_table([{**run, "folder": str(at)} for at, run in [*source_only, (folder, metrics)]]), flush=True)
    return objective(metrics)


def predict(cfg: Settings) -> None:
    """Label a file, or one text, and write a JSON object a line, or a table."""
    if (cfg.input is None) == (cfg.text is None):
        given = "neither" if cfg.text is None else "both"
        raise ValueError(f'expected a file of texts, input=FILE, or one text, text="One text."; got {given}')
    if cfg.input is not None and cfg.text_pair is not None:
        raise ValueError(f"text_pair={cfg.text_pair}: goes with text=; of input= two columns are column=[ONE,OTHER]")
    id = None if cfg.id is None else str(cfg.id)
    for name, of_files in (("column", cfg.column), ("id", id), ("format", cfg.format)):
        if cfg.text is not None and of_files is not None:
            raise ValueError(f"{name}={of_files}: goes with input=FILE; text= is one text")
    in_range("batch_size", cfg.batch_size, 1)
    ending = file_ending(cfg.output, "predict", ".jsonl (a JSON object a line), .csv or .tsv", ".ndjson .txt")
    folder = model_folder(str(cfg.model))
    refuse_overwriting(cfg.output, [input_file(cfg.input), *files_of(folder)], mark=PREDICTED)
    warnings = Counter[str]()
    total: int | None = 1
    if cfg.text is None:
        total, texts = open_texts(str(cfg.input), cfg.format, warnings, column(cfg), id)
    elif not str(cfg.text).strip():
        raise ValueError(f"text={str(cfg.text)!r}: blank; expected a text to label")
    else:
        given = str(cfg.text) if cfg.text_pair is None else paired(str(cfg.text), str(cfg.text_pair))
        texts = iter([UnlabelledText("text", "input", given)])
    names = Exported(folder).task.names if is_exported(folder) else read_description(folder).names
    limits = read_limits(cfg.threshold, names)
    head = list(islice(texts, MANY_TEXTS))
    model = labeller(cfg, folder, head)
    texts = chain(head, texts)
    done = truncated = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal done, truncated
        stream = iter(progress(texts, "predict", total, "text"))
        while chunk := list(islice(stream, cfg.batch_size * CHUNK)):
            for text, prediction in zip(chunk, model.predict_texts(chunk, cfg.batch_size), strict=True):
                yield row(text, apply_limits(prediction, limits), model.task.kind) | text_fields(text.text)
            done, truncated = done + len(chunk), truncated + model.truncated

    tables = {".csv": ",", ".tsv": "\t"}
    _write(cfg.output, delimited(rows(), tables[ending]) if ending in tables else json_lines(rows()))
    _warn(warnings + model.warnings)
    for line in rate_sentences(folder, limits):
        print(line, file=sys.stderr)
    if truncated:
        cut = f"{truncated} of {done} texts are longer than the {model.longest} subwords that the model reads"
        print(f"warning: {cut}: nothing beyond is labelled; split them, or train with max_length", file=sys.stderr)


def parse(cfg: Settings) -> None:
    """Parse files into the cache, and into a CoNLL-U file if one is asked for; prints what was done."""
    in_range("processes", cfg.processes, 1)
    file_ending(cfg.output, "parse", ".conllu", ".conll .txt")
    paths = cfg.input if isinstance(cfg.input, list) else [cfg.input]
    warnings = Counter[str]()
    if sum(str(path) == STDIN for path in paths) > 1:
        raise ValueError(f"input={paths}: expected {STDIN} once: standard input can be read only once")
    refuse_overwriting(cfg.output, [*map(input_file, paths), Path(str(cfg.parser.get("path") or ""))])
    files = [open_texts(str(path), cfg.format, warnings, column(cfg)) for path in paths]
    counts = [count for count, _ in files]
    total = None if None in counts else sum(filter(None, counts))  # how many come through a pipe nobody knows
    from domadapt.syntax.cache import ParseCache
    from domadapt.syntax.conllu import conllu
    from domadapt.syntax.controls import one_parser
    from domadapt.syntax.parser import warn_of_parses

    parses = ParseCache(make(one_parser(cfg.parser)), folder_of(vars(cfg), "cache"))
    started = time.perf_counter()
    texts, copies = tee(text for _, stream in files for text in stream)
    count = words = 0

    def blocks() -> Iterator[str]:
        nonlocal count, words
        trees = progress(parses.parse(texts, cfg.processes), "parse", total, "text")
        for text, tree in zip(copies, trees, strict=True):
            count, words = count + 1, words + len(tree.heads)
            warn_of_parses([text.text], [tree], parses.name, warnings)
            yield conllu(text.id, text.text, tree) if cfg.output else ""

    _write(cfg.output, blocks())  # without an output there is nothing to print: the blocks are empty
    seconds = time.perf_counter() - started
    parses.close()
    _warn(warnings)
    origin = f"{parses.parsed} parsed, {count - parses.parsed} from cache, {parses.damaged} damaged files"
    speed = f"{words} words, {words / seconds:.0f} words a second"
    message = f"{counted(count, 'text')}: {origin}, {speed}; cache {parses.path}"
    print(message, file=sys.stderr if cfg.output == STDIN else None)


def serve(cfg: Settings) -> None:
    folder = model_folder(str(cfg.model))
    read_limits(cfg.threshold, read_description(folder).names)
    in_range("port", cfg.port, 0, 2**16 - 1, " (0 for any that is free)", whole=True)
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise ValueError(f"serve needs {' and '.join(missing)}: pip install 'domadapt[serve]'")
    from domadapt.serving.serve import serve as run

    run(folder, str(cfg.host), cfg.port, cfg.threshold, cfg.trust_code)


def export(cfg: Settings) -> str:
    if cfg.format not in FORMATS:
        raise ValueError(f"format={cfg.format}: expected one of {', '.join(FORMATS)}")
    description = read_description(folder := model_folder(str(cfg.model)))
    refuse_occupied(Path(str(cfg.to)), folder)
    input_file(cfg.input)  # refused before torch is loaded
    from domadapt.inference.export import COMPARED
    from domadapt.inference.export import export as run
    from domadapt.inference.model_card import pipeline_call

    texts, smaller = None, {name: getattr(cfg, name) for name in ("layers", "distil_epochs")}
    if cfg.input is not None:
        most = None if cfg.vocabulary == "corpus" or cfg.layers else COMPARED
        stream = open_texts(str(cfg.input), None, warnings := Counter[str](), column(cfg))[1]
        texts = [text.text for text in islice(stream, most)]
        _warn(warnings)
    given = (cfg.format, texts, cfg.drop_methods, cfg.trust_code, str(cfg.vocabulary))
    measured = run(str(cfg.model), str(cfg.to), *given, **smaller)
    use = "its README.md says how to load it"
    if cfg.format == "hf":
        use = f"load it with {pipeline_call('token' if 'types' in description.task else 'sequence', str(cfg.to))}"
    return "\n".join([f"{cfg.to}: {cfg.format}; {use}", *measured])


def guide(cfg: Settings) -> str:
    """Write a copy of a span model that decodes by the target's guidelines, as a person states them."""
    folder, to = model_folder(str(cfg.model)), Path(str(cfg.to))
    known = read_description(folder).task.get("types")
    refuse_occupied(to, folder)
    if not known:
        raise ValueError(f"model={cfg.model}: it labels whole texts; guidelines are for spans")
    types = known if cfg.types is None else cfg.types if isinstance(cfg.types, list) else [cfg.types]
    if not types or any(kind not in known for kind in types):
        raise ValueError(f"types={list(types)}: expected some of {', '.join(known)}")
    settings = {name: value for name, value in vars(cfg).items() if name not in ("model", "to", "types")}
    if not any(value for name, value in settings.items() if name != "degree_words_in_opinion"):
        raise ValueError("no guideline: give terms, not_terms, degree_words or terms_need_opinion")
    if (cfg.degree_words or cfg.terms_need_opinion) and len(types) == len(known):
        raise ValueError(f"types={list(types)}: expected fewer: which of {', '.join(known)} are terms, not opinions?")
    from domadapt.inference.model import GUIDELINES, write_guided

    write_guided(folder, to, {"_target_": GUIDELINES, **settings}, types)
    model, shown = (shlex.quote(str(path)) for path in (cfg.model, to))
    message = f"{to}: a model as {cfg.model}, with guidelines"
    return f"{message}; what they change: domadapt compare {model} {shown} input=FILE"


def audit(cfg: Settings) -> str:
    check_data(cfg.data)
    from domadapt.auditing.audit import text_audit

    text = text_audit(run_audit(cfg))
    return text if cfg.output is None else f"{text}\n\nwritten to {cfg.output}"


def run_audit(cfg: Settings) -> "Audit":
    """Audit the corpora of a configuration, and write ``audit.json`` if a file is named."""
    from domadapt.auditing.audit import audit, write_audit

    in_range("seed", cfg.seed, 0, SEEDS, whole=True)
    file_ending(cfg.output, "audit", ".json", "")
    domains = make(cfg.data)
    refuse_overwriting(cfg.output, files_named(cfg.data))
    task = getattr(cfg, "task", None)  # auto: look at whatever is annotated
    result = audit(domains, None if task is None or task.get("_target_") == AUTO else make(task).kind, cfg.seed)
    if cfg.output is not None:
        write_audit(result, str(cfg.output), vars(cfg))
    return result


def analyze(cfg: Settings) -> str:
    """Write analysis.html and analysis.json; returns the least of what is in them, and where they are."""
    model = str(cfg.model)
    if str(read_description(model_folder(model)).backbone.get("_target_", "")).endswith("BiLSTM"):
        raise ValueError(f"model={model}: a BiLSTM, which has no attention to look at; give a model of backbone=minilm")
    check_data(cfg.data)
    from domadapt.reporting.frames import html_file  # loads SciPy

    for name, from_ in LEAST_OF.items():
        in_range(name, getattr(cfg, name), from_, SEEDS, whole=True)
    output = html_file(cfg.output, "analysis")
    from domadapt.analysis.subject import subject
    from domadapt.reporting.analysis_page import analyse, as_json, html, lines
    from domadapt.reporting.report import refuse_foreign
    from domadapt.syntax.controls import make_parser

    started = time.perf_counter()
    domains = make(cfg.data)
    read = [*files_named(cfg.data), *files_of(model_folder(model))]
    files = output, output.with_suffix(".json")
    for file in files:
        refuse_overwriting(file, read)
        refuse_foreign(file)
    parser = make_parser(cfg.parser, domains, folder_of(vars(cfg), "cache"))
    sizes = cfg.texts, cfg.scored_texts, cfg.batch_size
    studied = subject(model, domains, parser, *sizes, cfg.device, cfg.seed, cfg.trust_code)
    _warn(domains.warnings + studied.after.domains.warnings)
    analysis = analyse(studied, score=cfg.scored_texts > 0)
    for file, content in zip(files, (html(analysis, studied), as_json(analysis, studied)), strict=True):
        write_atomic(file, content)
    where = f"written: {' and '.join(map(str, files))}, in {time.perf_counter() - started:.0f} seconds"
    return "\n".join([*lines(analysis, studied), where])


def report(cfg: Settings) -> str:
    """Write report.html, and what goes beside it; returns the path of the first of them."""
    given = cfg.runs if isinstance(cfg.runs, list) else [cfg.runs]
    refuse_missing(Path(path) for path in given if isinstance(path, str))
    from domadapt.reporting.report import report as run

    formats = [cfg.formats] if isinstance(cfg.formats, str | int | float) else cfg.formats
    return str(run(cfg.runs, cfg.output, [*formats] if formats else None, cfg.audit, str(cfg.baseline)))


def cache(cfg: Settings) -> str:
    """A line a kind of what is cached, with its size; kinds named by ``clear`` are removed."""
    folder, named = folder_of(vars(cfg), "cache"), cfg.clear
    clear = [*CACHED] if named == "all" else named if isinstance(named, list) else [] if named is None else [named]
    if unknown := [kind for kind in clear if kind not in [*CACHED]]:
        raise ValueError(f"clear={unknown}: expected all, or some of {', '.join(CACHED)}")
    lines, total = [f"{folder}:"], 0
    for kind, (pattern, about) in CACHED.items():
        home, name = (folder / pattern).parent, Path(pattern).name
        entries = [*home.glob(name), *home.glob(f".{name.rstrip('*')}*")]  # locks, and what was left half written
        files = [file for entry in entries for file in (entry, *entry.rglob("*")) if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        for entry in entries if kind in clear else ():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        if kind in clear and home != folder:
            with suppress(OSError):  # of one that holds something, or is not there
                home.rmdir()
        state = "removed" if kind in clear else about
        lines.append(f"  {kind:10} {len(files):6} files {size / 1e6:9.1f} MB  {state}")
        total += 0 if kind in clear else size
    return "\n".join([*lines, f"  {'left':10} {'':12} {total / 1e6:9.1f} MB"])


def labeller(cfg: Settings, folder: Path, texts: Sequence[UnlabelledText], exact: bool = False) -> "Model | Exported":
    """What labels these texts: the model of a folder whose description has been read, or an exported one. Unless
    ``exact``, a few texts are labelled in float32 where the precision is ``auto``."""
    check_choices(vars(cfg))
    if is_exported(folder):
        if cfg.device == "cuda":
            raise ValueError(f"device=cuda: {folder} is an exported model, which is run on the CPU; leave device out")
        if str(cfg.precision) == "bf16-mixed":
            raise ValueError(f"precision=bf16-mixed: {folder} is an exported model; leave precision out")
        return Exported(folder)
    light = cfg.device != "cuda" and str(cfg.precision) in (("32",) if exact else ("32", "auto"))
    if light and (model := light_model(folder, read_description(folder), texts)) is not None:
        return model
    from domadapt.inference.model import load

    return load(folder, cfg.device, str(cfg.precision), cfg.trust_code)


def column(cfg: Settings) -> tuple[str, ...]:
    """The column that holds the text, or the two of a pair, if any is named; a header that is a number comes as one."""
    given = cfg.column if isinstance(cfg.column, list) else [] if cfg.column is None else [cfg.column]
    if len(given) > 2:
        raise ValueError(f"column={given}: expected one, or the two that hold a pair of texts")
    return tuple(map(str, given))


def file_ending(output: str | None, verb: str, expected: str, others: str) -> str:
    """A file's ending, if it looks like a format: that of ``out.v2`` does, of ``run.2026-11`` does not."""
    ending = Path(output or "").suffix.lower()
    if not ending[1:2].isalpha():
        return ""
    if ending not in expected.replace(",", "").split() + others.split():
        raise ValueError(f"output={output}: {verb} does not write {ending}; expected {expected}")
    return ending


def delimited(rows: Iterable[Mapping[str, Any]], delimiter: str) -> Iterator[str]:
    r"""A table with a header: a text a line; where spans were found, a span a line, and an empty one for none.

    >>> list(delimited([{"id": "1", "text": "So, so.", "label": "negative", "confidence": 0.9}], ","))
    ['id,text,label,confidence,truncated\n', '1,"So, so.",negative,0.9,\n']
    >>> span = {"start": 4, "end": 8, "type": "aspect", "text": "lens", "confidence": 0.8}
    >>> rows = [{"id": "1", "text": "The lens", "spans": [span]}, {"id": "2", "text": "Yes", "spans": []}]
    >>> list(delimited(rows, ";"))[1:]
    ['1;The lens;4;8;aspect;lens;0.8;\n', '2;Yes;;;;;;\n']
    """
    header: list[str] = []
    for labelled in rows:
        text = {name: value for name, value in labelled.items() if name not in ("spans", "truncated")}
        lines = [text]
        if "spans" in labelled:
            spans = [{**span, "span": span.get("text", "")} for span in labelled["spans"] or [{}]]
            lines = [{**text, **{name: span.get(name, "") for name in SPAN}} for span in spans]
        for line in lines:
            if not header:
                header = [*line, "truncated"]
                yield from csv_lines([header], delimiter)
            yield from csv_lines([[{**labelled, **line}.get(name, "") for name in header]], delimiter)


def input_file(given: Any) -> Path:
    """What is read, one file; of standard input, the file that the shell has put there."""
    name = str(given or "")
    if isinstance(given, list) or matching(name) != [Path(name)]:
        raise ValueError(f"input={given}: expected one file; of several, run the command on each")
    return Path("/dev/stdin" if name == STDIN else name)


def _write(output: str | None, lines: Iterable[str]) -> None:
    """Lines to a file that appears when all of it is written, or to standard output as they come."""
    if output in (None, STDIN):
        for line in lines:
            print(line, end="")  # which is silent where standard output is closed
        return

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)

    clear_parts(Path(str(output)), DAY)
    replace_atomic(Path(str(output)), write)


def _warn(warnings: Counter[str]) -> None:
    for line in warning_lines(warnings):
        print(f"warning: {line}", file=sys.stderr)
