"""A report from run folders: one HTML file, the same as Markdown, and its numbers as CSV and parquet."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from domadapt.reporting.audits import read_audits
from domadapt.reporting.blocks import counted
from domadapt.reporting.contents import contents
from domadapt.reporting.exports import INSTALL, method_records, run_records, write_csv, write_parquet
from domadapt.reporting.markdown import markdown
from domadapt.reporting.page import page
from domadapt.reporting.paths import given, named_file
from domadapt.runs.groups import GROUPS_ROLES as ROLES
from domadapt.runs.groups import group, read_runs, reselect
from domadapt.statistics.compare import compare
from domadapt.syntax.parser import SpacyParser
from domadapt.utils.files import files_read, refuse_overwriting, write_atomic

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
    for name, table in records.items():
        if "csv" in formats:
            write_csv(table, output.with_suffix(f".{name}.csv"))
        if "parquet" in formats and with_parquet:
            write_parquet(table, output.with_suffix(f".{name}.parquet"))
    if "parquet" in formats and not with_parquet:
        print(f"no parquet was written: it needs pyarrow ({INSTALL}); or leave it out of formats", file=sys.stderr)
    return output


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module that was put aside
        return False
