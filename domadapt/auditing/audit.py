"""The audit: all checks, worst finding first, as text and as audit.json."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from omegaconf import DictConfig, OmegaConf

from domadapt.auditing.artefacts import annotation, artefacts
from domadapt.auditing.copies import conflicts, duplicates, near_duplicates
from domadapt.auditing.finding import SEVERITIES, Finding, Part, Parts, gather, ordered, paths, percent, shown
from domadapt.auditing.gap import gap
from domadapt.auditing.shift import encoding, preparation, shift, surfaces, vocabulary
from domadapt.config.compose import make, plain
from domadapt.config.resolvers import AUTO
from domadapt.data.domains import Domains
from domadapt.runs.key import files_named, folder_of, installed
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import Parser
from domadapt.utils.files import files_read, refuse_overwriting, write_atomic
from domadapt.utils.text import visible
from domadapt.utils.work import progress

SLOW = ("near duplicates", "artefacts", "gap")
KINDS = ("token", "sequence")  # of tasks, as tasks call them


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    Attributes:
        source, target: names of the domains, harmless to show.
        parts: number of texts of each part.
        surfaces: share of cased and of tokenised texts of each part.
        findings: worst first.
        mended: what the readers mended or left out, counted.
        verdict: the findings in words.
        seconds: that it took.
    """

    source: str
    target: str
    parts: dict[str, int]
    surfaces: dict[str, dict[str, float]]
    findings: tuple[Finding, ...]
    mended: dict[str, int] = field(default_factory=dict)
    verdict: str = ""
    seconds: float = 0.0


def audit(
    domains: Domains, parser: Parser | None = None, kind: str | None = None, seed: int = 1, fast: bool = False
) -> Audit:
    """Look for everything that makes a score on these corpora mean something else than it seems to.

    The audit opens the sealed test and the ceiling's target labels. It may: it trains no model that anybody is given,
    and nothing that it computes reaches training or selection.

    Args:
        domains: as training gets them; their sealed test is open afterwards.
        parser: for dependency paths; None leaves them out.
        kind: ``token`` looks at spans alone, ``sequence`` at labels alone, None at whatever is annotated.
        fast: only what takes seconds: no near duplicates, no classifiers.

    Returns:
        Findings, worst first, and the verdict.

    Raises:
        ValueError: ``kind`` is no kind of task.
    """
    if kind not in (None, *KINDS):
        raise ValueError(f"kind={kind!r}: expected one of {', '.join(KINDS)}, or None for both")
    started = time.perf_counter()
    parts = only(gather(domains), kind)
    looks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("duplicates", lambda: duplicates(parts)),
        ("near duplicates", lambda: near_duplicates(parts)),
        ("conflicts", lambda: conflicts(parts)),
        ("shift", lambda: shift(parts)),
        ("encoding", lambda: encoding(parts)),
        ("preparation", lambda: preparation(parts)),
        ("artefacts", lambda: artefacts(parts, seed)),
        ("vocabulary", lambda: vocabulary(parts)),
        ("annotation", lambda: annotation(parts)),
        ("gap", lambda: gap(parts, seed)),
    ]
    if fast:
        looks = [look for look in looks if look[0] not in SLOW]
    if parser is not None:
        looks.append(("paths", lambda: paths(parts, parser)))
    findings = ordered(f for _, look in progress(looks, "audit", len(looks), "look") for f in look())
    result = Audit(
        shown(domains.source),
        shown(domains.target),
        {part.name: len(part.records) for part in parts.texts},
        surfaces(parts),
        tuple(findings),
        {shown(what, 200): count for what, count in sorted(domains.warnings.items())},
        seconds=time.perf_counter() - started,
    )
    return replace(result, verdict=verdict(result))


def verdict(result: Audit) -> str:
    """The findings in words: how many of what severity, then each severe one and each warning, worst first.

    >>> print(verdict(Audit("camera", "laptop", {}, {}, ())))
    camera → laptop: nothing was found that would make a score mean something else than it says.
    """
    return " ".join([headline(result), *(f.text for f in result.findings if f.severity != "note")])


def headline(result: Audit) -> str:
    """The verdict in a sentence.

    >>> headline(Audit("camera", "laptop", {}, {}, (Finding("gap", "severe", 1.0, "None."),)))
    "camera → laptop: scores can't be taken as they stand (severe findings: 1, warnings: 0)."
    """
    pair = f"{result.source} → {result.target}"
    severe, warnings = (sum(f.severity == severity for f in result.findings) for severity in SEVERITIES[:2])
    if severe:
        return f"{pair}: scores can't be taken as they stand (severe findings: {severe}, warnings: {warnings})."
    if warnings:
        return f"{pair}: scores need companions (severe findings: 0, warnings: {warnings})."
    return f"{pair}: nothing was found that would make a score mean something else than it says."


def only(parts: Parts, kind: str | None) -> Parts:
    """The same parts without the annotation that a task does not read."""
    if kind is None:
        return parts

    def trimmed(part: Part) -> Part:
        if kind == "token":
            return Part(part.name, tuple(replace(r, label=None) for r in part.records))
        return Part(part.name, tuple(replace(r, spans=None) for r in part.records))

    return replace(parts, labelled={side: tuple(map(trimmed, found)) for side, found in parts.labelled.items()})


WIDTH = 110
TITLES = {
    "severe": "Severe: a score can't be believed as it stands",
    "warning": "Warnings: a score needs a companion",
    "note": "Notes",
}


def text_audit(audit: Audit, width: int = WIDTH) -> str:
    """The audit in words, worst first; every character of it harmless.

    Args:
        width: of a line, in characters.

    >>> from domadapt.auditing.finding import Finding
    >>> found = (Finding("encoding", "note", 0.1, "1 of 7 texts holds U+FFFD."),)
    >>> print(text_audit(Audit("camera", "laptop", {"target test": 7}, {}, found)))
    camera → laptop: nothing was found that would make a score mean something else than it says.
    <BLANKLINE>
      target test        7 texts
    <BLANKLINE>
    Notes (1)
      1. [encoding] 1 of 7 texts holds U+FFFD.
    """
    lines = [*wrap(headline(audit), width), "", *_parts(audit)]
    count = 0
    for severity in SEVERITIES:
        found = [f for f in audit.findings if f.severity == severity]
        if found:
            lines += ["", f"{TITLES[severity]} ({len(found)})"]
        for finding in found:
            count += 1
            lines += wrap(
                f"{count}. [{finding.kind}] {finding.text}", width, initial_indent="  ", subsequent_indent="     "
            )
            lines += [f"       · {example}" for example in finding.examples]
    if audit.mended:
        lines += ["", "Mended by the readers, or left out"]
        lines += [f"  {what} ({number} times)" for what, number in audit.mended.items()]
    return "\n".join(visible(line) for line in lines)


def _parts(audit: Audit) -> Iterator[str]:
    for name, texts in audit.parts.items():
        written = audit.surfaces.get(name)
        told = f", {percent(written['cased'])} cased, {percent(written['tokenised'])} tokenised" if written else ""
        yield f"  {name:<19}{texts} texts{told}"


FORMAT = 1


def write_audit(audit: Audit, path: Path | str, config: dict[str, Any] | None = None) -> None:
    """Write ``audit.json``, in ASCII: no character in it can steer a terminal.

    Args:
        path: the file; its folder is made if absent.
        config: the resolved configuration, kept beside the findings.
    """
    content = {"format": FORMAT, "version": installed("domadapt"), **asdict(audit), "config": config or {}}
    write_atomic(Path(path), json.dumps(content, indent=1) + "\n")


def read_audit(path: Path | str) -> Audit:
    """Read ``audit.json``.

    Raises:
        ValueError: it is missing, no audit, or of another format; names the file.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> written = Audit("camera", "laptop", {"target test": 7}, {}, (Finding("gap", "note", 0.5, "Small."),))
    >>> write_audit(written, Path(folder, "audit.json"))
    >>> read_audit(folder) == written
    True
    """
    file = Path(path) / "audit.json" if Path(path).is_dir() else Path(path)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}, expected {FORMAT}")
        findings = tuple(
            Finding(
                str(f["kind"]),
                SEVERITIES[SEVERITIES.index(f["severity"])],
                float(f["weight"]),
                str(f["text"]),
                {str(name): value for name, value in f["numbers"].items() if isinstance(value, int | float)},
                tuple(map(str, f["examples"])),
            )
            for f in content["findings"]
        )
        return Audit(
            str(content["source"]),
            str(content["target"]),
            {str(name): int(count) for name, count in content["parts"].items()},
            {str(name): {str(k): float(v) for k, v in found.items()} for name, found in content["surfaces"].items()},
            findings,
            {str(name): int(count) for name, count in content["mended"].items()},
            str(content["verdict"]),
            float(content["seconds"]),
        )
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}; write one with `domadapt audit data=...`") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: no audit ({error}); write a new one with `domadapt audit data=...`") from None


def run(cfg: DictConfig) -> Audit:
    """Audit the corpora of a configuration, and write ``audit.json`` if a file is named.

    Args:
        cfg: a composed ``audit.yaml``.

    Raises:
        ValueError: the corpora can't be read, or a setting is out of range.
    """
    if type(cfg.seed) is not int or not 0 <= cfg.seed < 2**32:
        raise ValueError(f"seed={cfg.seed!r}: expected a whole number from 0 to {2**32 - 1}")
    output = None if cfg.output is None else Path(str(cfg.output))
    with files_read() as read:
        domains: Domains = make(cfg.data)
    if output is not None:
        refuse_overwriting(output, [*read, *files_named(plain(cfg.data))])
    task = OmegaConf.select(cfg, "task")  # auto: look at whatever is annotated
    kind = None if task is None or task.get("_target_") == AUTO else make(task).kind
    parser = ParseCache(make(cfg.parser), folder_of(cfg, "cache")) if cfg.paths_overlap and kind != "sequence" else None
    try:
        with files_read() as read:  # the sealed test among them
            found = audit(domains, parser, kind, cfg.seed)
    finally:
        if parser is not None:
            parser.close()
    if output is not None:
        refuse_overwriting(output, read)
        write_audit(found, output, plain(cfg))
    return found


def audit_corpora(cfg: DictConfig) -> str:
    """The findings for a terminal, and where they were written."""
    text = text_audit(run(cfg))
    return text if cfg.output is None else f"{text}\n\nwritten to {cfg.output}"
