"""Who is source, who is target, who is the test: and the lock on target labels.

Three types keep labels where they belong. Source records carry labels. Target text travels as
:class:`UnlabelledText`, a type without a label field. Test labels lie behind :class:`SealedTest`, which opens once, in
the final evaluation; that they can be read and are known to the task is checked before, and tells nothing but an error.
The in-domain ceiling is a run of its own, asked for by name and marked so. So is a run that is openly given a few
labelled target records, which travel among the source's.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from domadapt.data.records import Record, Words
from domadapt.utils.pairs import is_text, paired
from domadapt.utils.work import Stopped

TextOrPair = str | tuple[str, str]
MOST_REPEATS = 20  # times that a target record is repeated among the source's


@dataclass(frozen=True, slots=True)
class UnlabelledText:
    """A target text. There is no field that could hold a label.

    >>> UnlabelledText("1", "laptop", "Fast.").label
    Traceback (most recent call last):
    AttributeError: 'UnlabelledText' object has no attribute 'label'
    """

    id: str
    domain: str
    text: str
    words: Words | None = None


def unlabelled(texts: Iterable[TextOrPair]) -> Iterator[UnlabelledText]:
    """Wrap strings, and pairs of them, with ids from 0; half a surrogate pair is refused. Errors count texts from 1.

    >>> [text.id for text in unlabelled(["Fast.", "Slow."])]
    ['0', '1']
    """
    if isinstance(texts, str | bytes):
        raise ValueError(f"texts={texts[:40]!r}: expected a list of texts, got one; write [text]")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # its items are the names of its columns
        raise ValueError(f"texts of type {type(texts).__name__}: expected a list of texts; write table['text']")
    if not isinstance(texts, Iterable) or isinstance(texts, set | frozenset):  # which have no order
        raise ValueError(f"texts={texts!r:.80}: expected a list of texts")
    for number, given in enumerate(texts, 1):
        if not is_text(given):
            raise ValueError(f"text {number} is {given!r}; expected a text, or the two of a pair")
        try:
            text = given if isinstance(given, str) else paired(*given)
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            what = f"character {error.start} is {error.object[error.start]!r}, half a surrogate pair"
            fix = "expected whole characters; decode the text with errors='replace'"
            raise ValueError(f"text {number}: {what}; {fix}") from None
        except ValueError as error:
            raise ValueError(f"text {number}: {error}") from None
        yield UnlabelledText(str(number - 1), "", text)


@dataclass(frozen=True, slots=True)
class TargetUnlabelled:
    """All that training may see of the target."""

    domain: str
    texts: tuple[UnlabelledText, ...]

    @classmethod
    def from_records(cls, domain: str, records: tuple[Record, ...]) -> "TargetUnlabelled":
        """Keep the text, drop everything else."""
        return cls(domain, tuple(UnlabelledText(r.id, domain, r.text, r.words) for r in records))


class SealedLabels(Stopped):
    """Somebody asked for target labels a second time, or before the final evaluation."""


class SealedTest:
    """Labelled target records that open once.

    >>> test = SealedTest("laptop", lambda: ())
    >>> test.open()
    ()
    >>> test.open()
    Traceback (most recent call last):
    domadapt.data.domains.SealedLabels: the laptop test labels were opened before; they serve one final evaluation
    """

    def __init__(self, domain: str, load: Callable[[], tuple[Record, ...]]) -> None:
        self.domain = domain
        self._load: Callable[[], tuple[Record, ...]] | None = load

    def open(self) -> tuple[Record, ...]:
        if self._load is None:
            raise SealedLabels(f"the {self.domain} test labels were opened before; they serve one final evaluation")
        load, self._load = self._load, None
        return load()

    def fingerprint(self) -> str:
        """A hash of the records, which says only whether two tests are the same. It stays sealed."""
        return hashlib.sha256(repr(self._peek()).encode()).hexdigest()

    def check(self, refuse: Callable[[tuple[Record, ...]], object]) -> None:
        """Find out before training what the final evaluation could not use. It stays sealed.

        ``refuse`` raises an error if it must; what it returns is dropped. Let it be of a copy of whatever it belongs
        to, so that nothing which takes part in training has seen a label.

        >>> test = SealedTest("laptop", lambda: (Record("1", "laptop", "Fast.", label="good"),))
        >>> test.check(lambda records: records), len(test.open())
        (None, 1)
        """
        refuse(self._peek())

    def _peek(self) -> tuple[Record, ...]:
        records = self.open()
        self._load = lambda: records
        return records


class Ceiling(NamedTuple):
    """What the in-domain ceiling works with: labelled target records, and a test of its own where it needs one."""

    train: tuple[Record, ...]
    dev: tuple[Record, ...]
    test: SealedTest | None = None  #: what the others leave of the test they are taken from; None: that of every run
    dev_of_train: bool = False  #: dev was held out of the user's own training file, all of which he has labelled


@dataclass(frozen=True, slots=True)
class Domains:
    """One adaptation problem."""

    source: str
    target: str
    source_train: tuple[Record, ...]  #: labelled, as the next two are
    source_dev: tuple[Record, ...]  #: chooses the checkpoint
    source_test: tuple[Record, ...]
    unlabelled: TargetUnlabelled  #: target text
    test: SealedTest | None  #: the sealed target test; None where the user has no labels at all
    ceiling: Callable[[], Ceiling] | None = None  #: loads labelled target records; None where there are none
    warnings: Counter[str] = field(default_factory=Counter)  #: what readers mended, counted
    target_records: tuple[Record, ...] = ()  #: labelled target records that have joined ``source_train``, each once

    @property
    def target_labels(self) -> int:
        """How many target texts' labels training may read."""
        return len(self.target_records)

    @property
    def source_records(self) -> tuple[Record, ...]:
        """``source_train`` without target records that have joined it; all of it for the in-domain ceiling."""
        return tuple(record for record in self.source_train if record.domain != self.target) or self.source_train

    def labels_checksum(self, count: int) -> str:
        """A checksum of the first so many labelled target texts, in the order that they were drawn in."""
        texts = "\n".join(repr(record.text) for record in self.target_records[:count])
        return hashlib.sha256(texts.encode()).hexdigest()[:16]

    def with_target_labels(self, count: int | str, share: float, seed: int, field: str) -> "Domains":
        """The problem of a user who has labelled a few target texts: these join the source's training records.

        They are drawn from what the in-domain ceiling trains on and has the ``field``, a label or spans, never from the
        test; the same seed draws the same ones and more. So that a few are not lost among many, each is repeated, up to
        ``MOST_REPEATS`` times.
        """
        if not (count == "all" or (type(count) is int and count > 0)):
            raise ValueError(f"target_labels={count!r}: expected a whole number from 0, or all")
        if not (type(share) in (int, float) and 0 <= share < 1):
            raise ValueError(f"target_label_share={share!r}: expected a number from 0 to less than 1")
        if self.ceiling is None:
            fix = "give data.target.train_path, or leave target_labels at 0"
            raise ValueError(f"target_labels={count}: there is no labelled training data for {self.target!r}; {fix}")
        train, dev, test, dev_of_train = self.ceiling()
        offered = (*train, *dev) if count == "all" and dev_of_train else train
        known = [r for r in offered if getattr(r, field) is not None]
        if not known:
            fix = "label some of its texts"
            raise ValueError(f"target_labels={count}: no text of data.target.train_path has a label; {fix}")
        wanted = len(known) if count == "all" else int(count)
        if wanted > len(known):
            expected = "expected as many at most, or all (a part of the file is held out, as the ceiling's dev)"
            available = f"there are {len(known)} labelled training records of {self.target!r}"
            raise ValueError(f"target_labels={count}: {available}; {expected}")
        order = np.random.default_rng([seed, len(known)]).permutation(len(known))
        drawn = [known[i] for i in order[:wanted]]
        times = round(share / (1 - share) * len(self.source_train) / len(drawn))
        added = [
            replace(record, id=f"{self.target}/{record.id}#{number}")
            for number in range(min(max(1, times), MOST_REPEATS))
            for record in drawn
        ]
        joined = (*self.source_train, *added)
        return replace(self, source_train=joined, test=test or self.test, target_records=tuple(drawn))

    def in_domain(self) -> "Domains":
        """The ceiling's problem: training and selection on target labels."""
        if self.ceiling is None:
            fix = "give data.target.train_path, or leave the in-domain ceiling out"
            raise ValueError(f"train_on=target: there is no labelled training data for {self.target!r}; {fix}")
        train, dev, test, _ = self.ceiling()
        return replace(self, source_train=train, source_dev=dev, source_test=(), test=test or self.test, ceiling=None)
