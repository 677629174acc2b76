"""The report: what is on the page, and the files that it is written to."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from domadapt.auditing.audit import Audit
from domadapt.inference.description import RUN_FILES
from domadapt.reporting import sections
from domadapt.reporting.blocks import Block, Facts, Figure, Folded, Prose, Section, Table
from domadapt.reporting.frames import best_adapted, html_file, method_record, rows, run_record, write_csv
from domadapt.reporting.plots import Colors, dots_svg, palette
from domadapt.reporting.render import drop_empty_columns, markdown, page
from domadapt.reporting.tables import heatmap, regret, table, target_label_sections
from domadapt.reporting.target_card import estimates, expectation, unlabelled_sections
from domadapt.reporting.words import fixed_and_broken, mistakes, verdict, verdict_card
from domadapt.runs.groups import ROLES, Pair, RunSet, group, read_runs
from domadapt.statistics.compare import Statistics, compare
from domadapt.utils.files import refuse_overwriting, write_atomic
from domadapt.utils.text import counted

# What tells files that may be replaced: in a page, and where a text for a pull request ends.
GENERATOR, END = '<meta name="generator" content="domadapt">', "<!-- domadapt report -->\n"

OPEN_WARNINGS = 2  # warnings that are not folded away
LONG_TABLE = 12  # rows of a table that is, where it only tells how things went
DETAILED_PAIRS = 24  # pairs with curves, calibration and examples
OPTIONAL = ("Selection regret", "Expected without labels")
LEGEND = (
    "Dots are means over seeds, lines through them and shades their 95 % intervals. Every method has one colour; a "
    "control has its method's, lighter."
)
FORMATS = {"html": ".html", "markdown": ".md", "csv": ".runs.csv"}


@dataclass(frozen=True, slots=True)
class Finished:
    """All that the page is made from."""

    runs: RunSet
    pairs: Sequence[Pair]
    statistics: Statistics
    audits: tuple[Sequence[Audit], Sequence[str]]  #: and a message for each that is unreadable
    colors: Colors

    @property
    def has_scores(self) -> bool:
        return any(run.target_test for run in self.runs.runs)


def answer(finished: Finished) -> Facts:
    """What the page is called, and the facts beside it: without target labels what is expected, with its range."""
    facts = None if finished.has_scores else expectation(finished.pairs)
    return facts or verdict_card(finished.pairs, finished.statistics)


def opening(finished: Finished) -> list[Section]:
    """Facts, warnings, and what was shown in words."""
    statistics = finished.statistics
    messages = [f"Unreadable, so left out: {message}" for message in finished.runs.skipped]
    if unfinished := finished.runs.unfinished:
        several = f"{counted(len(unfinished), 'run')} failed or {'are' if len(unfinished) > 1 else 'is'} not finished"
        messages.append(f"{several}, so left out; the same command goes on with them: {', '.join(unfinished)}")
    messages += statistics.messages
    warnings = tuple(Prose(message, "warning") for message in messages)
    blocks: list[Block] = [] if finished.has_scores else estimates(finished.pairs)
    blocks.append(answer(finished))
    blocks += warnings if len(warnings) <= OPEN_WARNINGS else [Folded(counted(len(warnings), "warning"), warnings)]
    return [Section("Summary", tuple(blocks))]


def scores(finished: Finished) -> list[Section]:
    """One figure and one table over pairs; what is said of each pair is folded where there are several."""
    pairs, statistics = finished.pairs, finished.statistics
    bars = {
        f"{pair.name}: {row.name}" if len(pairs) > 1 else row.name: row.target.mean
        for pair in pairs
        for row in rows(pair, statistics)
        if row.target
    }
    ceiling = any(method.role == "in_domain" for pair in pairs for method in pair.methods)
    legend = f"{LEGEND} The ceiling was trained on target labels." if ceiling else LEGEND
    alt = "Scores on the target test: " + ", ".join(f"{name} {100 * mean:.1f}" for name, mean in bars.items())
    blocks: list[Block] = [Figure(dots_svg(pairs, statistics, finished.colors, alt), legend)]
    if len(pairs) == 1:  # the page's title says what came out
        return [Section("Scores", (*blocks, table(pairs[0], statistics)))]
    by_pair = [Section(pair.name, _pair(pair, statistics), 3, folded=True) for pair in pairs]
    return [Section("Scores", (*blocks, *heatmap(pairs, statistics))), *by_pair]


def _pair(pair: Pair, statistics: Statistics) -> tuple[Block, ...]:
    best = best_adapted(pair)
    sentence = verdict([pair], statistics.cell(pair.name, best.name) if best else None)
    return Prose(sentence), table(pair, statistics)


def on_the_target(finished: Finished) -> list[Section]:
    """What is known of models where the target test has no labels."""
    pairs = [pair for pair in finished.pairs if not any(run.target_test for run in pair.runs)]
    result = [Section("On the target", ())] if pairs else []
    unseen = Prose("No scores are drawn: the target test has no labels.")
    for pair in pairs:
        result += unlabelled_sections(pair) or [Section(pair.name, (*_pair(pair, finished.statistics), unseen), 3)]
    return result


def details(finished: Finished) -> list[Section]:
    """Curves, calibration, errors and examples of each pair; of the first :data:`DETAILED_PAIRS` in a large report."""
    shown, count = finished.pairs[:DETAILED_PAIRS], len(finished.pairs)
    intro: list[Block] = []
    if count > len(shown):
        left = f"{count - len(shown)} of {counted(count, 'pair')} have no details, so that the file stays small"
        intro.append(Prose(f"{left}: report on their folders alone to see them.", "warning"))
    result = [Section("Pair by pair", tuple(intro))]
    for pair in shown:
        parts = [("learning curves", sections.learning_curves(pair, finished.colors))]
        if any(run.target_test for run in pair.runs):
            sure = sections.calibration(pair, finished.colors)
            sure = [sure[0], Folded("The numbers", tuple(sure[1:]))] if len(sure) > 1 else sure
            parts += [("calibration", sure), ("kinds of errors", mistakes(pair))]
            parts += [("what adaptation fixed, and what it broke", fixed_and_broken(pair))]
        parts = [(title, blocks) for title, blocks in parts if blocks]
        if len(shown) == 1:  # its name would be that of the only part
            result += [Section(f"{pair.name}: {t}", tuple(b), 3, t == "calibration") for t, b in parts]
        else:
            every = [block for title, blocks in parts for block in (Prose(title, "lead"), *blocks)]
            result.append(Section(pair.name, tuple(every), 3, folded=True))
    return result


def provenance(finished: Finished) -> list[Section]:
    """Of data and runs; long tables folded away."""

    def folded(block: Block) -> Block:
        return Folded(block.title, (block,)) if isinstance(block, Table) and len(block.rows) > LONG_TABLE else block

    parts = sections.data(*finished.audits), sections.reproduce(finished.runs.runs, finished.pairs)
    return [replace(section, blocks=tuple(map(folded, section.blocks))) for section in parts]


Part = Callable[[Finished], list[Section]]
PAGE: tuple[Part, ...] = (
    opening,
    scores,
    lambda runs: target_label_sections(runs.pairs, runs.statistics),
    lambda runs: [sections.significance(runs.pairs, runs.statistics)],
    lambda runs: [regret(runs.pairs), sections.expected(runs.pairs), sections.cost(runs.pairs)],
    on_the_target,
    details,
    provenance,
)
UNLABELLED_PAGE: tuple[Part, ...] = (opening, on_the_target, details, provenance)


def contents(finished: Finished) -> list[Section]:
    """All sections; those that have nothing to show but a line are put together at the end."""
    every = [section for part in (PAGE if finished.has_scores else UNLABELLED_PAGE) for section in part(finished)]
    every = [replace(section, blocks=tuple(map(drop_empty_columns, section.blocks))) for section in every]
    empty = [s for s in every if s.title in OPTIONAL and s.level == 2 and len(s.blocks) == 1]
    lines = [Prose(f"{s.title}: {b.text}", "soft") for s in empty for b in s.blocks if isinstance(b, Prose)]
    full = [section for section in every if section not in empty]
    return [*full, *([Section("Not in this report", tuple(lines))] if lines else [])]


def report(
    runs: str | Path | Iterable[str | Path],
    output: str | Path,
    formats: Sequence[str] | None = ("html",),
    audit: str | Path | None = None,
    baseline: str = "source_only",
) -> Path:
    """Write a report; returns its path, or without HTML that of the first other file.

    Args:
        runs: folders, or ``metrics.json`` files, of finished runs.
        output: the HTML file to write; the other formats go beside it under its name. Replaced if they exist.
        formats: of :data:`FORMATS`; None takes all.
        audit: an ``audit.json``, or a folder of them; None takes those that lie below ``runs``.
        baseline: role or name of the method that the others are compared with.
    """
    output = html_file(output, "report")
    chosen: list[Any] = [*runs] if isinstance(runs, Iterable) and not isinstance(runs, str) else [runs]
    if not chosen or not all(isinstance(folder, str | Path) and str(folder) for folder in chosen):
        raise ValueError(f"runs={'null' if runs is None else runs}: expected a folder of runs, or some: runs=runs/mine")
    formats = [*FORMATS] if formats is None else formats
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise ValueError(f"formats={unknown or list(formats)}: expected some of {', '.join(FORMATS)}")
    beside = [output.with_suffix(".methods.csv")] if "csv" in formats else []
    for path in (*(output.with_suffix(FORMATS[name]) for name in formats), *beside):
        refuse_foreign(path)
    run_set = read_runs(chosen)
    pairs = group(run_set.runs)
    names = {method.name for pair in pairs for method in pair.methods}
    if baseline not in {*ROLES, *names}:
        raise ValueError(f"baseline={baseline!r}: no such role or method; expected one of {', '.join(sorted(names))}")
    statistics = compare(pairs, baseline)
    if {"html", "markdown"} & set(formats):
        finished = Finished(run_set, pairs, statistics, sections.read_audits(chosen, audit), palette(pairs))
        every, title = contents(finished), answer(finished).sentence
        if "html" in formats:
            write_atomic(output, page(title, every))
        if "markdown" in formats:
            write_atomic(output.with_suffix(".md"), markdown(title, every) + END)
    if "csv" in formats:
        of_runs = [run_record(pair, method, run) for pair in pairs for method in pair.methods for run in method.runs]
        of_methods = [method_record(pair, row, statistics) for pair in pairs for row in rows(pair, statistics)]
        write_csv(of_runs, output.with_suffix(".runs.csv"))
        write_csv(of_methods, output.with_suffix(".methods.csv"))
    return output.with_suffix(next(suffix for name, suffix in FORMATS.items() if name in formats))


def refuse_foreign(path: Path) -> None:
    """Refuse to replace a file that no report, or analysis, has written."""
    if path.name in RUN_FILES:
        raise ValueError(f"output: would replace {path}, a run's own file; choose another output=NAME.html")
    table, analysis = r"pair,(source,target,task,)?method,role,", r'\{\n "format": \d+,\n "model": '
    refuse_overwriting(path, (), mark={".csv": table, ".json": analysis, ".md": END}.get(path.suffix, GENERATOR))
