"""Dependency paths from opinions to aspects: what the target shares with the source when it shares no terms.

Klein et al. (2022), Opinion-based Relational Pivoting for Cross-domain Aspect Term Extraction: few aspect terms are
shared between domains, nearly all paths are: between devices, laptops and restaurants 87 to 97 % of occurrences.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from domadapt.auditing.finding import Finding, percent, shown
from domadapt.auditing.parts import SIDES, Parts
from domadapt.data.records import Record, Span
from domadapt.syntax.parser import Parse, Parser
from domadapt.syntax.trees import path
from domadapt.utils.progress import progress

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
