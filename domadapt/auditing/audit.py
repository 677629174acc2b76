"""The audit: all checks, worst finding first, as text and as audit.json."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

from domadapt.auditing.copies import annotation, conflicts, duplicates, near_duplicates, spelling
from domadapt.auditing.finding import EXAMPLES, SEVERITIES, Finding, Part, Parts, gather, worst_first
from domadapt.auditing.shift import gap, shift, vocabulary
from domadapt.auditing.surface import artefacts, encoding, one_text, preparation, surface
from domadapt.data.domains import Domains
from domadapt.data.records import learnt
from domadapt.runs.key import installed
from domadapt.utils.files import write_atomic
from domadapt.utils.text import counted, escape_controls, percent, shortened, warning_lines
from domadapt.utils.work import progress

FORMAT, FILE = 1, "audit.json"
FAST = (duplicates, conflicts, spelling, shift, encoding, preparation, vocabulary, annotation)
TITLES = {
    "severe": "Severe: a score can't be believed as it stands",
    "warning": "Warnings: read scores with these in mind",
    "note": "Notes",
}


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    source: str
    target: str
    parts: dict[str, int]  #: number of texts of each part
    surfaces: dict[str, dict[str, float]]  #: share of cased and of tokenised texts of each part
    findings: tuple[Finding, ...]
    mended: dict[str, int] = field(default_factory=dict)  #: what the readers mended or left out, counted
    verdict: str = ""  #: in words: severe findings and warnings, worst first
    seconds: float = field(default=0.0, compare=False)


def audit(domains: Domains, kind: str | None = None, seed: int = 1, fast: bool = False) -> Audit:
    """Look for everything that makes a score on these corpora mean something else than it seems to.

    The audit opens the sealed test and the ceiling's target labels. It may: it trains no model that anybody is given,
    and nothing that it computes reaches training or selection. It looks at spans alone for a ``token`` task, at labels
    for a ``sequence`` one, else at both; ``fast`` leaves out near duplicates and classifiers.
    """
    started = time.perf_counter()
    parts = gather(domains)
    if kind is not None:
        read = {
            side: tuple(Part(p.name, tuple(learnt(r, kind) for r in p.records)) for p in labelled)
            for side, labelled in parts.labelled.items()
        }
        parts = replace(parts, labelled=read)
    parts, blank = drop_unlabelled(parts)
    checks: list[Callable[[], Iterator[Finding]]] = [partial(check, parts) for check in FAST]
    if not fast:
        checks += [partial(near_duplicates, parts), partial(artefacts, parts, seed), partial(one_text, parts, seed)]
        checks += [partial(gap, parts, seed)]
    unordered = (finding for check in progress(checks, "audit", len(checks), "check") for finding in check())
    findings = worst_first([*blank, *unordered])
    sizes = {part.name: len(part.records) for part in parts.texts}
    surfaces = {part.name: surface(part) for part in parts.texts}
    mended = {shortened(what, 200): count for what, count in sorted(domains.warnings.items())}
    source, target = parts.domains.values()
    result = Audit(source, target, sizes, surfaces, tuple(findings), mended, seconds=time.perf_counter() - started)
    message = " ".join([headline(result), *(f.text for f in findings if f.severity != "note")])
    return replace(result, verdict=message)


def drop_unlabelled(parts: Parts) -> tuple[Parts, list[Finding]]:
    """The parts without texts that lack a label among texts that have one, as training leaves them; and how many."""
    findings, lacking = list[Finding](), set[tuple[str, str]]()  # names of parts, and ids in them
    for part in (part for side in parts.labelled.values() for part in side):
        blank = [r for r in part.records if r.label is None and r.spans is None]
        if blank and len(blank) < len(part.records):
            where = [str(record.where) for record in blank[:EXAMPLES] if record.where]
            findings.append(part.finding("labels", "warning", len(blank), "have no label, and are left out", where))
            lacking |= {(part.name, record.id) for record in blank}

    def keep_labelled(group: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(replace(p, records=tuple(r for r in p.records if (p.name, r.id) not in lacking)) for p in group)

    if not lacking:
        return parts, []
    labelled = {side: keep_labelled(group) for side, group in parts.labelled.items()}
    return replace(parts, texts=keep_labelled(parts.texts), labelled=labelled), findings


def headline(result: Audit) -> str:
    """How many findings of what severity, in a sentence."""
    severe, warnings = (sum(f.severity == severity for f in result.findings) for severity in SEVERITIES[:2])
    message = "no problem was found that would distort a score"
    if severe or warnings:
        message = "scores may mislead" if severe else "read scores with its findings in mind"
        message += f" (severe findings: {severe}, warnings: {warnings})"
    return f"{result.source} → {result.target}: {message}."


def text_audit(result: Audit, width: int = 110) -> str:
    """The audit in words, worst first, in lines of at most ``width`` characters; all of it harmless."""
    lines = [*wrap(headline(result), width), ""]
    for name, texts in result.parts.items():
        shares = result.surfaces.get(name)
        written = f", {percent(shares['cased'])} cased, {percent(shares['tokenised'])} tokenised" if shares else ""
        lines.append(f"  {name:<19}{counted(texts, 'text')}{written}")
    numbered = [*enumerate(result.findings, start=1)]
    for severity, title in TITLES.items():
        matching = [(number, f) for number, f in numbered if f.severity == severity]
        lines += ["", f"{title} ({len(matching)})"] if matching else []
        for number, f in matching:
            lines += wrap(f"{number}. [{f.kind}] {f.text}", width, initial_indent="  ", subsequent_indent="     ")
            lines += [f"       · {example}" for example in f.examples]
    if result.mended:
        lines += ["", "Corrected by the readers, or left out"]
        lines += [f"  {line}" for line in warning_lines(result.mended)]
    return "\n".join(escape_controls(line) for line in lines)


def write_audit(audit: Audit, path: Path | str, config: dict[str, Any] | None = None) -> None:
    """Write ``audit.json``, in ASCII: no character in it can steer a terminal."""
    content = {"format": FORMAT, "version": installed("domadapt"), **asdict(audit), "config": config or {}}
    write_atomic(Path(path), json.dumps(content, indent=1) + "\n")


def read_audit(path: Path | str) -> Audit:
    from pydantic import TypeAdapter, ValidationError  # 0.1 s that only a reader pays

    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}, expected {FORMAT}")
        result = TypeAdapter(Audit).validate_python(content)
        if unknown := {finding.severity for finding in result.findings}.difference(SEVERITIES):
            raise ValueError(f"severity {min(unknown)!r}, expected one of {', '.join(SEVERITIES)}")
        return result
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}; write one: `domadapt audit data=... output=audit.json`") from None
    except (ValueError, KeyError, TypeError) as error:
        why = ", ".join(str(e["loc"][0]) for e in error.errors()) if isinstance(error, ValidationError) else str(error)
        raise ValueError(f"{file}: no audit ({why}); write one: `domadapt audit data=... output=audit.json`") from None
