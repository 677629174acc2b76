"""Findings, and the parts of a problem that checks read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from domadapt.data.domains import Domains
from domadapt.data.records import Record
from domadapt.data.texts import copy_key, words
from domadapt.utils.text import percent, shortened

SEVERITIES: Final = ("severe", "warning", "note")  # scores can't be believed · need a companion · good to know
EXAMPLES: Final = 3
TRAIN, DEV, SOURCE_TEST = "source train", "source dev", "source test"
UNLABELLED, TEST, TARGET_TRAIN = "target unlabelled", "target test", "target train"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found."""

    kind: str
    severity: str  #: ``severe`` (a score can't be believed), ``warning`` (it needs a companion) or ``note``
    weight: float  #: 0 to 1, orders findings of one severity: the share of texts, or the size of the effect
    text: str  #: what was found, and what to do about it
    numbers: Mapping[str, float] = field(default_factory=dict)
    examples: tuple[str, ...] = ()  #: short, with control characters written out


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), -f.weight, f.kind, f.text))


def item_list(items: Sequence[str], width: int = 30) -> str:
    """Items of strangers in a sentence."""
    return ", ".join(shortened(item, width) for item in items) or "none"


@dataclass(frozen=True)
class Part:
    """Texts with one role, by its name; ``target train`` is labelled, for the in-domain ceiling."""

    name: str
    records: tuple[Record, ...]

    @property
    def side(self) -> str:
        return self.name.split()[0]

    def finding(
        self, kind: str, severity: str, count: int, text: str, examples: Iterable[str] = (), **more: float
    ) -> Finding:
        """What is true of so many of its texts; it weighs as much as their share."""
        total = len(self.records)
        sentence = f"{count} of {total} texts of the {self.name} ({percent(count / total)}) {text}."
        return Finding(kind, severity, count / total, sentence, {"texts": count, "of": total, **more}, tuple(examples))

    @cached_property
    def keys(self) -> list[str]:
        """Per text, what two copies of it share."""
        return [copy_key(record.text) for record in self.records]

    @cached_property
    def words(self) -> list[list[str]]:
        """Per text, its lower-case words."""
        return [words(record.text) for record in self.records]


@dataclass(frozen=True)
class Parts:
    """All parts of a problem."""

    domains: dict[str, str]  #: by side, its domain's name, harmless to show
    texts: tuple[Part, ...]  #: those not empty, each text in one of them only as often as the corpora hold it
    labelled: dict[str, tuple[Part, ...]]  #: per side, with labels or spans; may repeat unlabelled ``texts``

    def couples(self, *names: tuple[str, str]) -> Iterator[tuple[Part, Part]]:
        """Those of the pairs that are there; the test stands for the target only where it has no unlabelled text."""
        known = {part.name: part for part in self.texts}
        for first, second in names:
            if first in known and second in known and not ((first, second) == (TRAIN, TEST) and UNLABELLED in known):
                yield known[first], known[second]

    def records(self, side: str) -> list[Record]:
        """All labelled records of one domain."""
        return [record for part in self.labelled[side] for record in part.records]


def gather(domains: Domains) -> Parts:
    """Open everything, sealed test and ceiling's labels included: an audit trains no model that is delivered."""
    unlabelled = tuple(Record(t.id, t.domain, t.text, t.words) for t in domains.unlabelled.texts)
    test = domains.test.open() if domains.test is not None else ()
    train = list(domains.target_records)
    if domains.ceiling is not None:
        train_records, dev_records, own_test, *_ = domains.ceiling()
        split = test if own_test is not None else ()  # of a corpus so small that the ceiling learns from a part of it
        tested = {(record.id, record.text) for record in split}
        train = [r for r in (*train_records, *dev_records) if (r.id, r.text) not in tested]
    source_records = domains.source_records if domains.target_records else domains.source_train
    source = _nonempty({TRAIN: source_records, DEV: domains.source_dev, SOURCE_TEST: domains.source_test})
    # Research corpora give the same texts twice: without labels to adapt with, with labels for the ceiling. Those that
    # are in the test, too, are told of both.
    known = {record.text for record in unlabelled} - {record.text for record in test}
    apart = [record for record in train if record.text not in known]
    return Parts(
        {"source": shortened(domains.source), "target": shortened(domains.target)},
        (*source, *_nonempty({UNLABELLED: unlabelled, TARGET_TRAIN: apart, TEST: test})),
        {"source": _annotated(source), "target": _annotated(_nonempty({TARGET_TRAIN: train, TEST: test}))},
    )


def _nonempty(parts: dict[str, Iterable[Record]]) -> tuple[Part, ...]:
    made = (Part(name, tuple(records)) for name, records in parts.items())
    return tuple(part for part in made if part.records)


def _annotated(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(p for p in parts if any(r.label is not None or r.spans is not None for r in p.records))
