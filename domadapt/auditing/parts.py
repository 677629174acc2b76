"""The parts of an adaptation problem, as an audit sees them: texts, what they are compared by, and labels."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from domadapt.data.domains import Domains
from domadapt.data.normal import identity, words
from domadapt.data.records import Record

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
