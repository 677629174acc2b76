"""Findings, and the parts of a problem that checks read.

Dependency paths from opinions to aspects: what the target shares with the source when it shares no terms.

Klein et al. (2022), Opinion-based Relational Pivoting for Cross-domain Aspect Term Extraction: few aspect terms are
shared between domains, nearly all paths are: between devices, laptops and restaurants 87 to 97 % of occurrences.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from domadapt.data.domains import Domains
from domadapt.data.records import Record, Span
from domadapt.data.texts import identity, words
from domadapt.syntax.parser import Parse, Parser
from domadapt.syntax.trees import path
from domadapt.utils.text import shortened
from domadapt.utils.work import progress

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


SIDES = ("source", "target")
TRAIN, DEV, SOURCE_TEST = "source train", "source dev", "source test"
UNLABELLED, TEST, TARGET_TRAIN = "target unlabelled", "target test", "target train"


@dataclass(frozen=True)
class Part:
    """Texts with one role.

    Attributes:
        name: ``source train``, ``source dev``, ``source test``, ``target unlabelled``, ``target test``, or
            ``target train`` (labelled, for the in-domain ceiling).
        records: its texts; without labels where the part has none.
    """

    name: str
    records: tuple[Record, ...]

    @property
    def side(self) -> str:
        """``source`` or ``target``."""
        return self.name.split()[0]

    @cached_property
    def keys(self) -> list[str]:
        """Per text, what two copies of it share."""
        return [identity(record.text) for record in self.records]

    @cached_property
    def words(self) -> list[list[str]]:
        """Per text, its lower-case words."""
        return [words(record.text) for record in self.records]


@dataclass(frozen=True)
class Parts:
    """All parts of a problem.

    Attributes:
        source, target: names of the domains.
        texts: parts that are not empty, each text in one of them only as often as the corpora hold it.
        labelled: per side, parts that carry labels or spans; those of the target may repeat ``texts``' unlabelled part.
    """

    source: str
    target: str
    texts: tuple[Part, ...]
    labelled: dict[str, tuple[Part, ...]]

    def get(self, name: str) -> Part | None:
        """The part of that name, if there is one."""
        return next((part for part in self.texts if part.name == name), None)

    def side(self, side: str) -> tuple[Part, ...]:
        """The parts of one domain."""
        return tuple(part for part in self.texts if part.side == side)

    def records(self, side: str) -> list[Record]:
        """All labelled records of one domain."""
        return [record for part in self.labelled[side] for record in part.records]


def gather(domains: Domains) -> Parts:
    """Open everything, the sealed test and the ceiling's labels included: an audit trains no model that is delivered.

    Args:
        domains: as training gets them; their sealed test is open afterwards.
    """
    unlabelled = tuple(Record(t.id, t.domain, t.text, t.words) for t in domains.unlabeled.texts)
    test = domains.test.open() if domains.test is not None else ()
    train = []
    if domains.ceiling is not None:
        train_records, dev_records, *_ = domains.ceiling()
        tested = {(record.id, record.text) for record in test}  # some corpora are so small that the ceiling splits it
        train = [r for r in (*train_records, *dev_records) if (r.id, r.text) not in tested]
    source = _filled({TRAIN: domains.source_train, DEV: domains.source_dev, SOURCE_TEST: domains.source_test})
    # Research corpora give the same texts twice: without labels to adapt with, with labels for the ceiling.
    known = {record.text for record in unlabelled}
    apart = [record for record in train if record.text not in known]
    texts = (*source, *_filled({UNLABELLED: unlabelled, TARGET_TRAIN: apart, TEST: test}))
    labelled = {"source": _annotated(source), "target": _annotated(_filled({TARGET_TRAIN: train, TEST: test}))}
    return Parts(domains.source, domains.target, texts, labelled)


def _filled(parts: dict[str, Iterable[Record]]) -> tuple[Part, ...]:
    made = (Part(name, tuple(records)) for name, records in parts.items())
    return tuple(part for part in made if part.records)


def _annotated(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(p for p in parts if any(r.label is not None or r.spans is not None for r in p.records))


FROM, TO = "opinion", "aspect"
LONGEST: Final = 4  # arcs of a path; longer ones seldom relate the two
SHORT: Final = 2  # arcs of most; the published shares are of about these


def head_word(parse: Parse, span: Span) -> int | None:
    """The word of a span that the others hang on; None where the span covers no word."""
    members = range(*(parse.within(span.start, span.end) or (0, 0)))
    return next((w for w in members if int(parse.heads[w]) not in members or int(parse.heads[w]) == w), None)


def path_counts(records: Sequence[Record], parses: Iterable[Parse]) -> Counter[tuple[str, ...]]:
    """Paths from each opinion to the aspect of its text that the fewest arcs part it from, of at most four arcs."""
    counts = Counter[tuple[str, ...]]()
    for record, parse in zip(records, parses, strict=True):
        ends = [head_word(parse, s) for s in record.spans or () if s.type == TO]
        for span in record.spans or ():
            start = head_word(parse, span) if span.type == FROM else None
            if start is None:
                continue
            found = [p for end in ends if end is not None and (p := path(parse, start, end))]
            nearest = min(found, key=len, default=None)
            if nearest is not None and len(nearest) <= LONGEST:
                counts[nearest] += 1
    return counts


def paths(parts: Parts, parser: Parser) -> Iterator[Finding]:
    """Share of the target's opinion-to-aspect paths that the source has, where both annotate opinions and aspects."""
    both = [[r for r in parts.records(side) if {FROM, TO} <= {span.type for span in r.spans or ()}] for side in SIDES]
    if not all(both):
        return
    source, target = (
        path_counts(records, progress(parser.parse(records), f"parse {side}", len(records), "text"))
        for side, records in zip(SIDES, both, strict=True)
    )
    if not source or not target:
        return
    tokens = sum(count for way, count in target.items() if way in source) / target.total()
    types = sum(way in source for way in target) / len(target)
    short = Counter({way: count for way, count in target.items() if len(way) <= SHORT})
    share = sum(count for way, count in short.items() if way in source) / max(1, short.total())
    yield Finding(
        "paths",
        "note",
        1 - tokens,
        f"{percent(tokens)} of the {target.total()} dependency paths from an opinion to its nearest aspect in "
        f"{shown(parts.target)} occur in {shown(parts.source)}, {percent(share)} of the {short.total()} of at most "
        f"{SHORT} arcs ({percent(types)} of the {len(target)} different ones; at most {LONGEST} arcs; parser "
        f"{shown(parser.name)}).",
        {"tokens": tokens, "short": share, "types": types, "paths": target.total(), "different": len(target)},
        tuple(f"{count} × {shown(' '.join(way))}" for way, count in target.most_common(5)),
    )
