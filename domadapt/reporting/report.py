"""The report: contents, how to reproduce it, and the files that it is written to."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from domadapt.reporting.blocks import Block, Figure, Folded, Listing, Section, Table, Text, collapsed, counted, page
from domadapt.reporting.cards import Audits, data, expected, fixed_and_broken, read_audits, unlabelled
from domadapt.reporting.cost import cost, seconds
from domadapt.reporting.examples import calibration, mistakes
from domadapt.reporting.labels import target_label_sections, target_labels
from domadapt.reporting.markdown import markdown
from domadapt.reporting.plots import curve_svg, dots_svg, heatmap, panels
from domadapt.reporting.rows import Row, given, named_file, rows, scores
from domadapt.reporting.svg import palette
from domadapt.reporting.tables import regret, table
from domadapt.reporting.words import overview, significance, summary, verdict_card
from domadapt.runs.groups import ROLES, MethodRuns, Pair, RunSet, flat, group, read_runs, reselect, settings
from domadapt.runs.metrics import Metrics
from domadapt.statistics.compare import compare
from domadapt.statistics.results import Difference, Interval, Share, Statistics
from domadapt.syntax.parser import Parser, SpacyParser
from domadapt.utils.files import files_read, refuse_overwriting, replace_atomic, write_atomic
from domadapt.utils.redact import without_given
from domadapt.utils.text import visible


@dataclass(frozen=True, slots=True)
class Ran:
    """One method's runs.

    Attributes:
        name: of the method.
        differences: settings that not all runs of the report share.
        seconds: mean of each stage, and their sum as ``total``.
        truncated: texts and words cut off, in all runs.
        warnings: messages and how often.
    """

    name: str
    differences: dict[str, str]
    seconds: dict[str, float]
    truncated: tuple[int, int]
    warnings: dict[str, int]


def shared_settings(runs: Sequence[Metrics]) -> dict[str, str]:
    """Settings that all runs have in common.

    >>> shared_settings([Metrics(config={"a": 1, "b": 2}), Metrics(config={"a": 1, "b": 3})])
    {'a': '1'}
    """
    every = [settings(run.config) for run in runs]
    return {k: v for k, v in every[0].items() if all(other.get(k) == v for other in every)} if every else {}


def ran(method: MethodRuns, shared: dict[str, str]) -> Ran:
    """What is to be told of a method's runs."""
    own = {k: v for k, v in settings(method.runs[0].config).items() if shared.get(k) != v}
    stages: dict[str, list[float]] = {}
    for run in method.runs:
        for stage, value in {**run.seconds, "total": sum(run.seconds.values())}.items():
            stages.setdefault(stage, []).append(value)
    cut = [part for run in method.runs for part in run.counts.truncated.values()]
    warnings = sum((Counter(run.counts.warnings) for run in method.runs), Counter[str]())
    return Ran(
        method.name,
        own,
        {stage: sum(values) / len(values) for stage, values in stages.items()},
        (sum(part.texts for part in cut), sum(part.words for part in cut)),
        dict(sorted(warnings.items())),
    )


def counts_of(runs: Sequence[Metrics], name: str) -> list[tuple[str, int]]:
    """What runs say under ``versions`` or ``hardware``, and how many say so; the most frequent first.

    >>> counts_of([Metrics(versions={"torch": "2"}), Metrics(versions={"torch": "2"})], "versions")
    [('torch 2', 2)]
    """
    said = Counter(", ".join(f"{k} {v}" for k, v in flat(getattr(run, name)).items()).strip() for run in runs)
    return said.most_common()


def reproduce(found: RunSet, pairs: Sequence[Pair]) -> Section:
    """Everything that somebody needs to repeat these runs."""
    shared = shared_settings(found.runs)
    blocks: list[Block] = [
        Text(
            "Each line is one run: its command, and its key, the fingerprint of settings, data and code that its "
            "folder is named after. The same command with the same versions on the same hardware gives the same "
            "numbers."
        )
    ]
    for pair in pairs:
        lines = [line for method in pair.methods for line in _commands(method)]
        blocks.append(Listing(f"{pair.name}: {counted(len(lines), 'command')}", tuple(lines), code=True))
    table = Table(
        "What happened on the way, by method",
        ["method", "runs", "seconds a run", "starts", "cut texts", "cut words", "warnings"],
        [_happened(pair, method, shared) for pair in pairs for method in pair.methods],
        ["starts: how often the runs were started in all, more than runs where some were resumed"],
    )
    blocks.append(table)
    for pair in pairs:
        lines = [line for method in pair.methods for line in _differences(method, shared)]
        if lines:
            blocks.append(Listing(f"{pair.name}: settings that not all runs share, and warnings", tuple(lines)))
    settings = tuple(without_given(f"{name}={value}") for name, value in shared.items())
    blocks.append(Listing(f"{counted(len(settings), 'setting')} shared by all runs", settings, code=True))
    for name, title in (("versions", "Versions"), ("hardware", "Hardware")):
        lines = [
            f"{counted(n, 'run')}: {without_given(text) or 'not recorded'}" for text, n in counts_of(found.runs, name)
        ]
        blocks += [Text(f"{title}. {line}") for line in lines[:3]]
        if len(lines) > 3:
            blocks.append(Listing(f"{title}: {len(lines) - 3} more", tuple(lines[3:])))
    return Section("How to reproduce", tuple(blocks))


def _commands(method: MethodRuns) -> list[str]:
    return [
        f"{without_given(run.command or 'not recorded')}  "
        f"# {method.name}, seed {run.seed}, key {run.key or 'not recorded'}"
        for run in method.runs
    ]


def _happened(pair: Pair, method: MethodRuns, shared: dict[str, str]) -> list[str]:
    found = ran(method, shared)
    starts = sum(run.attempts or 1 for run in method.runs)
    return [
        f"{pair.name}: {method.name}",
        str(len(method.runs)),
        f"{found.seconds['total']:.1f}",
        str(starts),
        str(found.truncated[0]),
        str(found.truncated[1]),
        str(sum(found.warnings.values())),
    ]


def _differences(method: MethodRuns, shared: dict[str, str]) -> list[str]:
    found = ran(method, shared)
    own = ", ".join(without_given(f"{name}={value}") for name, value in found.differences.items())
    warnings = [f"{method.name}: {counted(number, 'time')}: {message}" for message, number in found.warnings.items()]
    return [*([f"{method.name}: {own}"] if own else []), *warnings]


EXAMPLES = 10  # of each kind and pair
CARDS = 80  # in the whole report: each is 10 kB with both drawings
FEW = 2  # warnings that are not folded away
LONG = 12  # rows of a table that is, where it only tells how things went
DETAILED = 24  # pairs with curves, calibration and examples


def contents(
    found: RunSet,
    pairs: Sequence[Pair],
    statistics: Statistics,
    audits: Audits,
    parser: Parser,
    attention: bool,
) -> list[Section]:
    """All sections."""
    opening: list[Block] = [verdict_card(pairs, statistics)]
    skipped = [f"Unreadable, so left out: {message}" for message in found.skipped]
    warnings = tuple(Text(message, "warning") for message in (*skipped, *statistics.messages))
    opening += warnings if len(warnings) <= FEW else [Folded(counted(len(warnings), "warning"), warnings)]
    opening.append(
        Text("Scores are percent. An interval holds 95 times in 100; each table says what it is over.", "soft")
    )
    opening.append(Folded("In words", tuple(Text(text) for text in overview(pairs, statistics))))
    sections = [Section("Summary", tuple(opening))]
    colors = palette(pairs)
    if scored := any(run.target_test for pair in pairs for method in pair.methods for run in method.runs):
        sections += _scores(pairs, statistics, colors)
        sections += [*target_label_sections(pairs, statistics, colors), *_compared(pairs, statistics, colors)]
    else:
        sections.append(Section("On the target", ()))
        for pair in pairs:
            own = _pair(pair, statistics)
            unseen = Text("No scores are drawn: the target test has no labels.")
            sections += unlabelled(pair) or [replace(own, blocks=(*own.blocks, unseen))]
    sections += details(pairs, parser, attention, colors)
    sections += [_long_folded(section) for section in (data(pairs, audits), reproduce(found, pairs))]
    return [replace(one, blocks=_collapsed(one.blocks)) for one in (_gathered(sections) if scored else sections)]


LEGEND = (
    "Dots are means over seeds, lines through them and shades their 95 % intervals. Every method has one colour "
    "throughout; a control has its method's, lighter. The ceiling was trained on target labels."
)


def _scores(pairs: Sequence[Pair], statistics: Statistics, colors: Mapping[str, str]) -> list[Section]:
    """One figure and one table over pairs; what is said of each pair is folded where there are several."""
    bars = {
        f"{pair.name}: {row.method.name}" if len(pairs) > 1 else row.method.name: row.target.mean
        for pair in pairs
        for row in rows(pair, statistics)
        if row.target
    }
    alt = "Scores on the target test: " + ", ".join(f"{name} {100 * mean:.1f}" for name, mean in bars.items())
    text = tuple((name, mean, f"{100 * mean:.1f}") for name, mean in bars.items())
    blocks: list[Block] = [Figure(dots_svg(pairs, statistics, colors, alt), LEGEND, text)]
    if len(pairs) == 1:
        return [Section("Scores", (*blocks, *_pair(pairs[0], statistics).blocks))]
    blocks += heatmap(pairs, statistics)
    return [Section("Scores", tuple(blocks)), *(replace(_pair(pair, statistics), folded=True) for pair in pairs)]


def _pair(pair: Pair, statistics: Statistics) -> Section:
    return Section(pair.name, (Text(summary(pair, statistics)), table(pair, statistics)), 3)


def _compared(pairs: Sequence[Pair], statistics: Statistics, colors: Mapping[str, str]) -> list[Section]:
    """What target scores allow to be said of methods, validators, expectations and costs."""
    return [significance(pairs, statistics), regret(pairs), expected(pairs), cost(pairs, colors)]


def _tables_folded(blocks: Sequence[Block]) -> tuple[Block, ...]:
    tables = tuple(block for block in blocks if isinstance(block, Table) or _is_aside(block))
    others = tuple(block for block in blocks if block not in tables)
    return (*others, Folded("The numbers", tables)) if tables else others


def _is_aside(block: Block) -> bool:
    return isinstance(block, Text) and block.kind == "soft"


def _gathered(sections: Sequence[Section]) -> list[Section]:
    """Parts that say in one line that they have nothing to show, put together at the end."""
    empty = [s for s in sections if s.level == 2 and len(s.blocks) == 1 and isinstance(s.blocks[0], Text)]
    empty = [section for section in empty if section.title in OPTIONAL]
    if not empty:
        return list(sections)
    told = [Text(f"{s.title}: {s.blocks[0].text}", "soft") for s in empty if isinstance(s.blocks[0], Text)]
    return [*(section for section in sections if section not in empty), Section("Not in this report", tuple(told))]


def _long_folded(section: Section) -> Section:
    return replace(
        section,
        blocks=tuple(
            Folded(block.title, (block,)) if isinstance(block, Table) and len(block.rows) > LONG else block
            for block in section.blocks
        ),
    )


OPTIONAL = ("Selection regret", "Expected without labels")


def _collapsed(blocks: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(
        collapsed(block)
        if isinstance(block, Table)
        else replace(block, blocks=_collapsed(block.blocks))
        if isinstance(block, Folded)
        else block
        for block in blocks
    )


def details(pairs: Sequence[Pair], parser: Parser, attention: bool, colors: Mapping[str, str]) -> list[Section]:
    """Curves, calibration, errors and examples of each pair; of the first :data:`DETAILED` in a large report."""
    shown = pairs[:DETAILED]
    most = min(EXAMPLES, max(1, CARDS // (2 * len(shown))))
    intro: list[Block] = []
    if len(pairs) > len(shown):
        left = (
            f"{len(pairs) - len(shown)} of {counted(len(pairs), 'pair')} have no details, so that the file stays small"
        )
        intro.append(Text(f"{left}: report on their folders alone to see them.", "warning"))
    if most < EXAMPLES:
        intro.append(
            Text(f"At most {counted(most, 'example')} of each kind and pair, so that the file stays small.", "soft")
        )
    if len(shown) == 1:  # its name would be that of the only part
        return [Section("Pair by pair", tuple(intro)), *_details(shown[0], parser, most, attention, colors)]
    sections = [Section("Pair by pair", tuple(intro))]
    for pair in shown:
        parts = _details(pair, parser, most, attention, colors)
        blocks = [block for part in parts for block in (Text(part.title.partition(": ")[2], "lead"), *part.blocks)]
        sections.append(Section(pair.name, tuple(blocks), 3, folded=True))
    return sections


def _details(pair: Pair, parser: Parser, most: int, attention: bool, colors: Mapping[str, str]) -> list[Section]:
    parts = [("learning curves", _learning(pair, colors))]
    if any(run.target_test for method in pair.methods for run in method.runs):
        fixed = fixed_and_broken(pair, parser, most, attention)
        parts += [("calibration", list(_tables_folded(calibration(pair, colors))))]
        parts += [("kinds of errors", _errors(pair)), ("what adaptation fixed, and what it broke", fixed)]
    return [Section(f"{pair.name}: {title}", tuple(part), 3, title == "calibration") for title, part in parts if part]


def _learning(pair: Pair, colors: Mapping[str, str]) -> list[Block]:
    front, others = panels(pair)
    if not front:
        return [Text("No run has a curve.")]
    names = ", ".join(method.name for method in pair.methods)
    caption = (
        "By epoch, mean over seeds. Dev score and losses are of the source domain; in_domain's are of the target, "
        "which is its training domain."
    )
    blocks: list[Block] = [
        Figure(curve_svg(pair, front, colors, f"Learning curves by epoch, {pair.name}: {names}"), caption)
    ]
    if others:
        alt = f"Curves of other losses by epoch, {pair.name}: {', '.join(others)}"
        figure = Figure(curve_svg(pair, others, colors, alt), "")
        blocks.append(Folded(counted(len(others), "other loss", "other losses"), (figure,)))
    return blocks


def _errors(pair: Pair) -> list[Block]:
    try:
        found = mistakes(pair)
    except ValueError as error:  # damaged predictions spoil this table, not the report
        return [Text(f"Not counted: {error}.", "soft")]
    return [found] if found else []


Value = str | int | float | None
Record = dict[str, Value]
FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the beginning of a formula
INSTALL = "pip install 'domadapt[report]'"


def run_records(pairs: Sequence[Pair]) -> list[Record]:
    """One record a run: names, scores as shares, seconds, selection."""
    return [_run(pair, method, run) for pair in pairs for method in pair.methods for run in method.runs]


def method_records(pairs: Sequence[Pair], statistics: Statistics) -> list[Record]:
    """One record a pair and method: means, intervals, differences, p-values, gap closed."""
    return [_method(pair, row, statistics) for pair in pairs for row in rows(pair, statistics)]


def write_csv(records: Sequence[Record], path: Path) -> None:
    """Write records; strings that a spreadsheet would run as formulas get an apostrophe in front."""
    file = io.StringIO()
    columns = _columns(records)
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writerow({name: inert(name) for name in columns})
    writer.writerows({k: inert(v) if isinstance(v, str) else v for k, v in record.items()} for record in records)
    write_atomic(path, file.getvalue())


def write_parquet(records: Sequence[Record], path: Path) -> None:
    """Write records with a type for each column.

    Raises:
        ValueError: pyarrow is not installed; says how to install it.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"{path}: parquet needs pyarrow: {INSTALL}") from error
    columns = {name: [_clean(record.get(name)) for record in records] for name in _columns(records)}
    table = pa.table({visible(name): pa.array(_same(values)) for name, values in columns.items()})
    replace_atomic(path, lambda part: pq.write_table(table, part))


def inert(text: str) -> str:
    """A string that no spreadsheet runs, without control characters.

    >>> inert("=cmd()"), inert("lisa"), inert("\\t=1")
    ("'=cmd()", 'lisa', "' =1")
    """
    shown = visible(text)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) else shown


def _columns(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _same(values: list[Value]) -> list[Value]:
    """Numbers where all are numbers, else strings: metrics of strangers may mix them."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float}:
        return [float(v) if float in kinds and v is not None else v for v in values]
    return [None if v is None else str(v) for v in values]


def _clean(value: Value) -> Value:
    return visible(value) if isinstance(value, str) else value


def _run(pair: Pair, method: MethodRuns, run: Metrics) -> Record:
    record: Record = {
        "pair": pair.name,
        "source": run.source,
        "target": run.target,
        "task": run.task,
        "method": method.name,
        "role": method.role,
        "seed": run.seed,
        "target_labels": run.counts.target_labels,
        "key": run.key,
        "headline": pair.headline,
        "score": run.score(),
        "score_clean": (run.target_test_clean or {}).get(pair.headline),
        "selection_validator": run.selection.validator,
        "selection_epoch": run.selection.epoch,
        "selection_gap": run.selection.gap,
        "calibration_error": run.calibration.error,
        "parameters": run.counts.parameters,
        "attempts": run.attempts,
        "seconds": sum(run.seconds.values()) if run.seconds else None,
        "folder": run.folder or None,
    }
    record |= {f"seconds_{stage}": value for stage, value in run.seconds.items()}
    for part in ("source_dev", "source_test", "target_test", "target_test_clean"):
        record |= {f"{part}_{name}": value for name, value in (getattr(run, part) or {}).items()}
    for name, choice in run.selection.choices.items():
        record[f"epoch_by_{name}"] = choice.epoch
        record[f"score_by_{name}"] = (choice.target_test or {}).get(pair.headline)
    return {name: value for name, value in record.items() if isinstance(value, str | int | float | None)}


def _method(pair: Pair, row: Row, statistics: Statistics) -> Record:
    cell = statistics.cell(pair.name, row.method.name)
    parameters = scores(row.method, lambda run: run.counts.parameters)
    return {
        "pair": pair.name,
        "method": row.method.name,
        "role": row.method.role,
        "headline": pair.headline,
        "seeds": len(row.method.seeds),
        "target_labels": target_labels(row.method),
        **_ends("score", row.target),
        "score_clean": row.clean.mean if row.clean else None,
        **row.details,
        "source_score": row.source,
        **{key: value for part in cell.shares for key, value in _share(pair, part).items()},
        "selection_gap": row.regret,
        **_difference("baseline", cell.baseline),
        **{k: v for i, part in enumerate(cell.controls, 1) for k, v in _difference(_nth("control", i), part).items()},
        "seconds": seconds(row.method),
        "parameters": sum(parameters) / len(parameters) if parameters else None,
    }


def _share(pair: Pair, found: Share) -> Record:
    name = "gap_closed" if found.score == pair.headline else f"gap_closed_{found.score}"
    ends = {key: value for key, value in _ends(name, found.value).items() if not key.endswith("_over")}
    return {**ends, f"{name}_reason": found.reason or None, **_ends(name.replace("closed", "points"), found.gap)}


def _nth(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"


def _ends(name: str, value: Interval | None) -> Record:
    low, high, over = (value.low, value.high, value.over) if value else (None, None, None)
    return {name: value.mean if value else None, f"{name}_low": low, f"{name}_high": high, f"{name}_over": over}


def _difference(name: str, found: Difference) -> Record:
    return {
        name: found.other or None,
        **_ends(f"{name}_difference", found.interval),
        f"{name}_p_seeds": found.again.p,
        f"{name}_p_seeds_holm": found.again.p_holm,
        f"{name}_p_items": found.elsewhere.p,
        f"{name}_p_items_holm": found.elsewhere.p_holm,
    }


RECORDS = ("runs", "methods")
FORMATS = ("html", "markdown", "csv", "parquet")


def report(
    runs: str | Path | Iterable[str | Path],
    output: str | Path,
    formats: Sequence[str] | None = ("html",),
    audit: str | Path | None = None,
    attention: bool = True,
    baseline: str = "source_only",
    selection: str | None = None,
) -> Path:
    """Write a report.

    Args:
        runs: folders, or ``metrics.json`` files, of finished runs.
        output: the HTML file to write; the other formats go beside it under its name. Replaced if they exist.
        formats: of :data:`FORMATS`; None takes all that this installation can write. Parquet that is asked for is left
            out with a notice where pyarrow is missing.
        audit: an ``audit.json``, or a folder of them; None takes those that lie below ``runs``.
        attention: draw the attention of adapted models whose folders are there.
        baseline: role or name of the method that the others are compared with.
        selection: show the checkpoints that this validator would have chosen; None shows those that were kept.

    Returns:
        ``output``.

    Raises:
        ValueError: there are no readable runs, ``output`` is no HTML file, or a format, ``baseline`` or
            ``selection`` is unknown; names it and the fix.
    """
    if not isinstance(attention, bool):
        raise ValueError(f"attention={attention!r}: expected true or false")
    output = named_file(output, "report", (".html", ".htm"))
    runs = given(runs)
    with_parquet = _installed("pyarrow")
    if formats is None:
        formats = [name for name in FORMATS if name != "parquet" or with_parquet]
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise ValueError(f"formats={unknown or list(formats)}: expected some of {', '.join(FORMATS)}")
    chosen = [Path(runs)] if isinstance(runs, str | Path) else [Path(path) for path in runs]
    with files_read() as read:
        found = read_runs(chosen)
    read |= {path.with_name("predictions.jsonl") for path in read if path.name == "metrics.json"}
    for suffix in (output.suffix, ".md", *(f".{name}.{kind}" for name in RECORDS for kind in ("csv", "parquet"))):
        refuse_overwriting(output.with_suffix(suffix), read)
    words: tuple[str, ...] = ()
    if selection is not None:
        shown, words = reselect(found.runs, selection)
        found = replace(found, runs=shown)
    pairs = group(found.runs)
    there = {method.name for pair in pairs for method in pair.methods}
    if baseline not in {*ROLES, *there}:
        raise ValueError(f"baseline={baseline!r}: no such role or method; expected one of {', '.join(sorted(there))}")
    statistics = compare(pairs, baseline)
    statistics = replace(statistics, messages=(*words, *statistics.messages))
    if {"html", "markdown"} & set(formats):
        with files_read() as read:
            sections = contents(found, pairs, statistics, read_audits(chosen, audit), SpacyParser(), attention)
        refuse_overwriting(output, read)
        runs_read = sum(len(method.runs) for pair in pairs for method in pair.methods)
        title = f"Domain adaptation: {counted(runs_read, 'run')} on {counted(len(pairs), 'pair')}"
        if "html" in formats:
            write_atomic(output, page(title, sections))
        if "markdown" in formats:
            write_atomic(output.with_suffix(".md"), markdown(title, sections))
    records = dict(zip(RECORDS, (run_records(pairs), method_records(pairs, statistics)), strict=True))
    for name, lines in records.items():
        if "csv" in formats:
            write_csv(lines, output.with_suffix(f".{name}.csv"))
        if "parquet" in formats and with_parquet:
            write_parquet(lines, output.with_suffix(f".{name}.parquet"))
    if "parquet" in formats and not with_parquet:
        print(f"no parquet was written: it needs pyarrow ({INSTALL}); or leave it out of formats", file=sys.stderr)
    return output


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module that was put aside
        return False
