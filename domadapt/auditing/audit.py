"""The audit of one adaptation problem: everything looked for, worst first, and a verdict in words."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from domadapt.auditing.annotation import annotation
from domadapt.auditing.artefacts import artefacts
from domadapt.auditing.conflicts import conflicts
from domadapt.auditing.duplicates import duplicates
from domadapt.auditing.encoding import encoding
from domadapt.auditing.finding import SEVERITIES, Finding, ordered, shown
from domadapt.auditing.gap import gap
from domadapt.auditing.near_duplicates import near_duplicates
from domadapt.auditing.parts import Part, Parts, gather
from domadapt.auditing.paths import paths
from domadapt.auditing.shift import shift
from domadapt.auditing.surface import preparation, surfaces
from domadapt.auditing.vocabulary import vocabulary
from domadapt.data.domains import Domains
from domadapt.syntax.parser import Parser
from domadapt.utils.progress import progress

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
        seed: of samples and folds.
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
