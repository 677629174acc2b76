"""An audit for a terminal or a text file."""

from collections.abc import Iterator
from textwrap import wrap

from domadapt.auditing.audit import Audit, headline
from domadapt.auditing.finding import SEVERITIES, percent
from domadapt.utils.text import visible

WIDTH = 110
TITLES = {
    "severe": "Severe: a score can't be believed as it stands",
    "warning": "Warnings: a score needs a companion",
    "note": "Notes",
}


def text_audit(audit: Audit, width: int = WIDTH) -> str:
    """The audit in words, worst first; every character of it harmless.

    Args:
        audit: what was found.
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
