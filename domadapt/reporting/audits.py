"""What is known of the data: test sets as published and clean, and the findings of audits that lie with the runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from domadapt.reporting.blocks import Block, Listing, Section, Table, Text, counted
from domadapt.reporting.rows import rows
from domadapt.runs.groups import Pair

if TYPE_CHECKING:
    from domadapt.auditing.audit import Audit


@dataclass(frozen=True, slots=True)
class Audits:
    """Audits that were found.

    Attributes:
        audits: what each says.
        skipped: one message for each file that could not be read.
    """

    audits: tuple["Audit", ...] = ()
    skipped: tuple[str, ...] = ()


def read_audits(runs: Iterable[str | Path], given: str | Path | None) -> Audits:
    """Audits below the folders of the runs, or those given.

    Args:
        runs: folders of runs, or files in them.
        given: an ``audit.json``, or a folder that is searched for them; None searches ``runs``.

    Raises:
        ValueError: ``given`` holds no readable audit.
    """
    places = [Path(given)] if given is not None else [Path(path) for path in runs]
    if given is not None and not places[0].exists():
        raise ValueError(f"audit={given}: there is no such file; write one with `domadapt audit data=...`")
    files = sorted({f.resolve() for place in places for f in ([place] if place.is_file() else place.rglob("audit.json"))
                    if given is not None or f.name == "audit.json"})  # fmt: skip
    if given is not None and not files:
        raise ValueError(f"audit={given}: no audit.json in that folder; write one with `domadapt audit data=...`")
    if not files:
        return Audits()
    from domadapt.auditing.audit import read_audit

    audits, skipped = list["Audit"](), list[str]()
    for file in files:
        try:
            audits.append(read_audit(file))
        except ValueError as error:
            if given is not None and len(files) == 1:
                raise
            skipped.append(str(error))
    return Audits(tuple(audits), tuple(skipped))


def data(pairs: Sequence[Pair], audits: Audits) -> Section:
    """As published and clean side by side, and the audits.

    Args:
        pairs: of the report.
        audits: that were found.
    """
    blocks: list[Block] = [published_and_clean(pairs)]
    blocks += [Text(f"An audit was left out: {message}", "warning") for message in audits.skipped]
    for audit in audits.audits:
        blocks.append(Text(f"Audit of {audit.source} → {audit.target}", "lead"))
        severe = [f for f in audit.findings if f.severity != "note"]
        blocks.append(Text(audit.verdict if not severe else _head(audit)))
        if audit.findings:
            findings = [[f.severity, f.kind, f.text] for f in audit.findings]
            blocks.append(Table("Findings, worst first", ["severity", "about", "finding"], findings, left=ALL))
        examples = [f"{f.kind}: {example}" for f in audit.findings for example in f.examples]
        if examples:
            blocks.append(Listing(f"Examples of the findings in {audit.source} → {audit.target}", tuple(examples)))
        if audit.mended:
            mended = tuple(f"{what} ({counted(number, 'time')})" for what, number in audit.mended.items())
            blocks.append(Listing("Mended by the readers, or left out", mended))
    if not audits.audits:
        none = "No audit lies with these runs: `domadapt audit data=...` writes audit.json, audit=PATH shows it here."
        blocks.append(Text(none))
    return Section("Data", tuple(blocks))


ALL = frozenset((0, 1, 2))


def published_and_clean(pairs: Sequence[Pair]) -> Table | Text:
    """Every method's score on all of the target test, and on the texts that occur nowhere in training."""
    table = Table(
        "Target test as published and clean: mean scores, percent",
        ["method", "texts", "clean texts", "as published", "clean", "difference"],
        [],
        ["clean: without test texts that are copies of training or unlabelled texts"],
    )
    same = []
    for pair in pairs:
        for row in rows(pair):
            sizes = row.method.runs[0].target_test_sizes
            if row.target is None or row.clean is None:
                continue
            table.rows.append(
                [
                    f"{pair.name}: {row.method.name}",
                    str(sizes.all if sizes else "-"),
                    str(sizes.clean if sizes else "-"),
                    f"{100 * row.target.mean:.1f}",
                    f"{100 * row.clean.mean:.1f}",
                    f"{100 * (row.clean.mean - row.target.mean):+.1f}",
                ]
            )
        if not any(row.clean for row in rows(pair)):
            same.append(pair.name)
    if same:
        table.notes.append(f"as published and clean are the same, or were not recorded apart: {', '.join(same)}")
    return table if table.rows else Text(f"As published and clean are the same, or no run recorded them apart: "
                                         f"{', '.join(same)}.")  # fmt: skip


def _head(audit: "Audit") -> str:
    counts = {s: sum(f.severity == s for f in audit.findings) for s in ("severe", "warning", "note")}
    stand = "Scores can't be taken as they stand" if counts["severe"] else "Scores need companions"
    told = [f"{counts['severe']} severe", counted(counts["warning"], "warning"), counted(counts["note"], "note")]
    return f"{stand}: {', '.join(told)}."
