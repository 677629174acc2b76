"""The blocks of README.md and docs/ that quote results, written from `results/`: `make tables`.

A block stands between `<!-- KIND: FOLDER -->` and `<!-- end -->`, several folders of runs in it with commas between
them; tests/test_readme.py checks that it is what this writes.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import isnan, nan
from pathlib import Path

from domadapt.reporting.blocks import Block, Table, Text, listed, numbered
from domadapt.reporting.claims import claim
from domadapt.reporting.cost import costs
from domadapt.reporting.markdown import harmless, table_lines
from domadapt.reporting.rows import Row, detail_names, rows, target_scores
from domadapt.reporting.significance import Notes
from domadapt.reporting.study import study_section
from domadapt.reporting.tables import OVER, closed, text_table
from domadapt.reporting.tuned import tuned_sections
from domadapt.runs.groups import Pair, group, rank
from domadapt.runs.reading import read_runs
from domadapt.runs.reselect import ORACLE, reselect
from domadapt.statistics.compare import compare
from domadapt.statistics.results import Interval, OverallDifference, Significance, Statistics

Folders = tuple[Path, ...]
CLAIMED = ("adapted", "control")
ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"<!-- (\w+): (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
OPEN = re.compile(r"<!-- (\w+): \S+ -->")


def written(text: str, root: Path = ROOT, page: str = "README.md") -> str:
    """A page with every block as `results/` has it now.

    Args:
        text: of the page.
        root: where the folders that it names lie.
        page: its name, for errors.

    Raises:
        ValueError: a block is of no known kind, has no end, or its folder holds no runs.
    """
    if len(OPEN.findall(text)) != len(found := BLOCK.findall(text)) or any(OPEN.search(body) for _, _, body in found):
        raise ValueError(f"{page}: a block without an end; expected <!-- end --> after each <!-- KIND: FOLDER -->")

    def block(match: re.Match[str]) -> str:
        kind, folder = match[1], match[2]
        if kind not in KINDS:
            raise ValueError(f"{page}: <!-- {kind}: {folder} -->: no such block; there are {', '.join(KINDS)}")
        folders = tuple(root / one for one in folder.split(","))
        return f"<!-- {kind}: {folder} -->\n{_quoted(kind, folders)}\n<!-- end -->"

    return BLOCK.sub(block, text)


def printed(folders: Folders) -> str:
    """What `domadapt benchmark` prints at its end."""
    files = [file for folder in folders for file in sorted(folder.rglob("metrics.json"))]
    return f"```\n{text_table([json.loads(file.read_text(encoding='utf-8')) for file in files])}\n```"


def table(folders: Folders) -> str:
    """Mean headline score of each method on each pair, and the share of the gap that it closes."""
    pairs, statistics = _read(folders)
    lines = {pair.name: {row.method.name: row for row in rows(pair, statistics)} for pair in pairs}
    roles = {name: row.method.role for found in lines.values() for name, row in found.items()}
    names = sorted(roles, key=lambda name: (rank(roles[name]), name))
    notes = Notes()
    scores = [[name, *(_score(pair, lines[pair.name].get(name), notes) for pair in pairs)] for name in names]
    header = ["method", *(pair.name for pair in pairs)]
    seeds = listed(sorted({str(len(method.seeds)) for pair in pairs for method in pair.methods}))
    headlines = listed(sorted({pair.headline for pair in pairs}))
    title = f"{headlines} on the target test, percent, mean of {seeds} seeds"
    parts = [Table(title, header, scores, notes.texts)]
    if adapted := [name for name in names if roles[name] == "adapted"]:
        shown = [[lines[pair.name].get(name) for pair in pairs] for name in adapted]
        reasons = list(dict.fromkeys(row.closed.reason for own in shown for row in own if row and row.closed.reason))
        gaps = [
            [name, *(closed(row.closed, reasons) if row else "-" for row in own)]
            for name, own in zip(adapted, shown, strict=True)
        ]
        parts.append(Table("Gap closed, percent of the way from source_only to in_domain", header, gaps, reasons))
    return _markdown(parts)


def beside_twins(folders: Folders) -> str:
    """Mean headline score of each method beside its twins (``method@control``), and its mean gain over each."""
    pairs, statistics = _read(folders)
    found = {(pair.name, row.method.name): row.target for pair in pairs for row in rows(pair, statistics)}
    scores = {key: 100 * target.mean for key, target in found.items() if target}
    controls = list(dict.fromkeys(name.split("@")[1] for _, name in sorted(scores, reverse=True) if "@" in name))
    own = sorted({name for _, name in scores if "@" not in name}, key=lambda name: (name == "in_domain", name))

    def gain(name: str, other: str) -> str:
        gains = [scores[pair.name, name] - scores.get((pair.name, other), nan) for pair in pairs]
        return "-" if name == other or isnan(sum(gains)) else f"{sum(gains) / len(gains):+.1f}"

    cells = []
    for name in own:
        names = [name, *(f"{name}@{control}" for control in controls)]
        line = [scores.get((pair.name, one)) for pair in pairs for one in names]
        others = ["source_only", *names[1:]]
        cells.append([name, *("-" if x is None else f"{x:.1f}" for x in line), *(gain(name, o) for o in others)])
    header = ["method", *(title for pair in pairs for title in (pair.name, *(f"@{control}" for control in controls)))]
    header += [f"mean over {other}" for other in ("source_only", *(f"@{control}" for control in controls))]
    seeds = listed(sorted({str(len(method.seeds)) for pair in pairs for method in pair.methods}))
    title = f"{listed(sorted({pair.headline for pair in pairs}))} on the target test, percent; seeds: {seeds}"
    return _markdown([Table(title, header, cells)])


def by_type(folders: Folders) -> str:
    """Mean F1 of each span type on each pair and over the pairs, and the mean share of the gap of each type."""
    pairs, statistics = _read(folders)
    types = sorted({name for pair in pairs for name in detail_names(pair)})
    lines = {pair.name: {row.method.name: row for row in rows(pair, statistics)} for pair in pairs}
    names = list(dict.fromkeys(name for found in lines.values() for name in found))
    gaps = {one.method: one.shares for one in statistics.overall if one.role == "adapted"}
    tables = []
    for kind in types:
        cells = []
        for name in names:
            own = [lines[pair.name].get(name) for pair in pairs]
            values = [row.details.get(kind) if row else None for row in own]
            known = [value for value in values if value is not None]
            mean = f"{100 * sum(known) / len(known):.1f}" if len(known) == len(pairs) else "-"
            share = next((replace(s, reason="") for s in gaps.get(name, ()) if s.score == kind), None)
            shown = [f"{100 * value:.1f}" if value is not None else "-" for value in values]
            cells.append([name, *shown, mean, closed(share, []) if share else "-"])
        header = ["method", *(pair.name for pair in pairs), "mean", "gap closed"]
        tables.append(Table(f"{kind} on the target test, percent", header, cells, []))
    return _markdown(tables)


def chosen(folders: Folders) -> str:
    """Which validator chose each method's checkpoints, what that lost, and what training cost."""
    pairs, _ = _read(folders)
    lines = []
    for cost in costs(pairs):
        runs = [run for pair in pairs for m in pair.methods if m.name == cost.method for run in m.runs]
        lost = [100 * run.selection.gap for run in runs if run.selection.gap is not None]
        by = listed(sorted({str(run.selection.validator) for run in runs}))
        times = "-" if cost.times is None else f"{cost.times:.1f}"
        lines.append([cost.method, by, *(f"{x:.1f}" if lost else "-" for x in _mean_and_most(lost)), times])
    header = ["method", "chosen by", "regret, mean", "regret, worst run", "training, times source_only's"]
    return _markdown(
        [Table("How checkpoints were chosen, what that lost in points, and what training cost", header, lines)]
    )


def _mean_and_most(values: Sequence[float]) -> tuple[float, float]:
    return (sum(values) / len(values), max(values)) if values else (nan, nan)


def differences(folders: Folders) -> str:
    """Every adapted method over the pairs, against source-only and against its controls, and what may be said."""
    pairs, statistics = _read(folders)
    notes = Notes()
    lines = [
        [f"{one.method} − {found.other}", *_difference(found, notes)]
        for one in statistics.overall
        for found in (one.baseline, *one.controls)
        if one.role in CLAIMED and found.other
    ]
    title = f"Mean difference over {len(pairs)} pairs, points; p-values are two-sided, of paired permutation tests"
    header = ["difference", "mean", "95 % interval", "p, some pair", "Holm", "p, other pairs", "Holm"]
    labels = (
        "p, some pair: is there a difference on at least one of these pairs? p, other pairs: would there be one on "
        "other pairs of this kind? p is uncorrected; Holm: after Holm's correction over the column's tests of "
        "what is claimed; a control's own difference is not tested"
    )
    claims = [harmless(claim(one, statistics)) for one in statistics.overall if one.role == "adapted" and one.controls]
    return "\n\n".join([_markdown([Table(title, header, lines, [*notes.texts, labels])]), *claims])


def by_validator(folders: Folders) -> str:
    """The same differences as each validator would have had them: does a gain hang on who chooses the epoch?"""
    runs = read_runs(folders).runs
    names = sorted(set.intersection(*(set(run.selection.choices) for run in runs)) - {ORACLE})
    found = {name: compare(group(reselect(runs, name)[0])).overall for name in names}
    used = {str(run.selection.validator) for run in runs}
    lines: dict[str, dict[str, str]] = {}
    for name, methods in found.items():
        for one in methods:
            for side in (one.baseline, *one.controls):
                if one.role in CLAIMED and side.other and side.interval:
                    of = f"{one.method} − {side.other}"
                    lines.setdefault(of, {})[name] = f"{100 * side.interval.mean:+.1f}"
    header = ["difference", *(f"{name} (used)" if name in used else name for name in names)]
    cells = [[of, *(own.get(name, "-") for name in names)] for of, own in lines.items()]
    return _markdown([Table("Mean difference over the pairs by validator, points", header, cells)])


def selection(folders: Folders) -> str:
    """What the selection study says, and its tables."""
    return _without_asides(study_section(_read(folders)[0]).blocks)


def settings(folders: Folders) -> str:
    """What methods are worth with settings chosen on other pairs."""
    return _without_asides([block for section in tuned_sections(_read(folders)[0]) for block in section.blocks])


def _without_asides(blocks: Sequence[Block]) -> str:
    soft = {"soft"}
    kept = [b for b in blocks if isinstance(b, Table) or (isinstance(b, Text) and b.kind not in soft)]
    return "\n\n".join(_markdown([b]) if isinstance(b, Table) else harmless(b.text) for b in kept)


KINDS: dict[str, Callable[[Folders], str]] = {
    "printed": printed, "table": table, "differences": differences, "by_validator": by_validator,
    "selection": selection, "by_type": by_type, "chosen": chosen, "beside_twins": beside_twins, "settings": settings,
}  # fmt: skip


@cache  # pages may quote the same
def _quoted(kind: str, folders: Folders) -> str:
    return KINDS[kind](folders)


@cache
def _read(folders: Folders) -> tuple[list[Pair], Statistics]:
    pairs = group(read_runs(folders).runs)
    return pairs, compare(pairs)


def _score(pair: Pair, row: Row | None, notes: Notes) -> str:
    if row is None or row.target is None:
        return "-"
    mean = f"{100 * row.target.mean:.1f}"
    if row.target.low is not None and row.target.high is not None:
        mark = notes.mark(f"in brackets: 95 % interval {OVER[row.target.over][1]}").removeprefix("- ")
        return f"{mean} ({100 * row.target.low:.1f}–{100 * row.target.high:.1f}) {mark}"
    values = target_scores(pair, row.method)
    if len(values) != 2:
        return f"{mean} {notes.mark(f'one seed: {row.target.reason}').removeprefix('- ')}"
    mark = notes.mark("in brackets: half the difference between two seeds, which allow no interval").removeprefix("- ")
    return f"{mean} ({50 * abs(values[0] - values[1]):.1f}) {mark}"


def _difference(found: OverallDifference, notes: Notes) -> list[str]:
    tests = [value for test in (found.runs, found.pairs) for value in _p(test, notes)]
    if found.interval is None:
        return [notes.mark(found.reason), "-", *tests]
    return [f"{100 * found.interval.mean:+.1f}", _ends(found.interval, notes), *tests]


def _ends(value: Interval, notes: Notes) -> str:
    if value.low is None or value.high is None:
        return notes.mark(value.reason)
    mark = notes.mark(f"interval over {value.over}, on these pairs as they are").removeprefix("- ")
    return f"{100 * value.low:+.1f} to {100 * value.high:+.1f} {mark}"


def _p(test: Significance, notes: Notes) -> list[str]:
    return [notes.mark(test.reason) if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
            for p in (test.p, test.p_holm)]  # fmt: skip


def _markdown(tables: Sequence[Table]) -> str:
    """Tables with their titles and footnotes; a mark that all cells would carry is left to the footnote."""
    parts = []
    for one in tables:
        cells = [cell for row in one.rows for cell in row[1:]]
        if len(one.notes) == 1 and all(cell.endswith(" [1]") for cell in cells):
            one = replace(one, rows=[[cell.removesuffix(" [1]") for cell in row] for row in one.rows])
        notes = [f"- {harmless(note)}" for note in numbered(one)]
        parts.append("\n".join([f"**{harmless(one.title)}**", "", *table_lines(one), *(["", *notes] if notes else [])]))
    return "\n\n".join(parts)


def main() -> None:
    """Write the pages anew."""
    for path in PAGES:
        name = str(path.relative_to(ROOT))
        before = path.read_text(encoding="utf-8")
        after = written(before, page=name)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name} is written anew", file=sys.stderr)
    print(f"{len(PAGES)} pages are as results/ has them", file=sys.stderr)


if __name__ == "__main__":
    main()
