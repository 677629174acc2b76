"""One thing that an audit found: how bad, in words, in numbers, with examples that can be shown."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from domadapt.utils.text import shortened

SEVERITIES: Final = ("severe", "warning", "note")  # scores can't be believed · need a companion · good to know
EXAMPLES: Final = 3
EXAMPLE_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        kind: what it is about, by the name of the file that looks for it.
        severity: ``severe`` (a score can't be believed as it stands), ``warning`` (it needs a companion: a clean score,
            a macro F1, a lower-cased run) or ``note``.
        weight: 0 to 1, orders findings of one severity: the share of texts, or the size of the effect.
        text: what was found, and what to do about it.
        numbers: the same for programs.
        examples: short, with control and direction-changing characters written out.
    """

    kind: str
    severity: str
    weight: float
    text: str
    numbers: dict[str, float] = field(default_factory=dict)
    examples: tuple[str, ...] = ()


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first.

    >>> found = [Finding("a", "note", 1.0, ""), Finding("b", "severe", 0.1, ""), Finding("c", "severe", 0.9, "")]
    >>> [finding.kind for finding in ordered(found)]
    ['c', 'b', 'a']
    """
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), -f.weight, f.kind, f.text))


def shown(text: str, width: int = EXAMPLE_WIDTH) -> str:
    """Text of strangers, harmless and short.

    >>> shown("a" * 200, 5), shown("\\x1b[2Jx")
    ('aaaaa…', '⟨U+001B⟩[2Jx')
    """
    return shortened(text, width)


def percent(share: float) -> str:
    """A share as people read it.

    >>> percent(0.0312), percent(0.5), percent(0.0004), percent(0.0)
    ('3.1 %', '50 %', '0.04 %', '0 %')
    """
    value = 100 * share
    digits = 0 if value >= 10 or value == 0 else 1 if value >= 0.1 else 2
    return f"{value:.{digits}f} %"
