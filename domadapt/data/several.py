"""Several labelled sources in one problem."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from domadapt.data.domains import Ceiling, Domains, SealedTest
from domadapt.data.normal import identity
from domadapt.data.records import Record

Records = tuple[Record, ...]
IN_TEST = "source text that is in the target's test too, kept"
IN_TRAIN = "dev text of one source that another source trains on, kept"


def several(problems: dict[str, Domains]) -> Domains:
    """The first problem, with the source records of all.

    Each record keeps its domain. The other problems' target text, test and ceiling are not used.

    Args:
        problems: with the same target, by names that only tell them apart.

    Returns:
        Sources' names joined by ``+``. Its warnings count dev texts that another source trains on, and, once the final
        evaluation has opened the test, source texts that are in it.

    Raises:
        ValueError: there are none, or one has another target.
    """
    if not problems:
        raise ValueError("data.problems is empty: give problems with the same target, as conf/data/several.yaml shows")
    first, *others = problems.values()
    for name, problem in problems.items():
        if problem.target != first.target:
            raise ValueError(
                f"data.problems.{name}: its target is {problem.target!r}, the first problem's is {first.target!r}; "
                f"expected one target, whose text and test are the first problem's"
            )
    parts = [(p.source_train, p.source_dev, p.source_test) for p in problems.values()]
    prefixes = marks([(*train, *dev, *test) for train, dev, test in parts])
    train, dev, test = (joined(same, prefixes) for same in zip(*parts, strict=True))
    warnings = first.warnings  # the same counter: what the first problem reads later is counted in it
    for problem in others:
        warnings.update(problem.warnings)
    if twice := sum(_in_others(parts, place) for place in range(len(parts))):
        warnings[IN_TRAIN] += twice

    def opened(sealed: SealedTest) -> Records:
        records = sealed.open()
        tested = {identity(record.text) for record in records}
        if found := sum(identity(record.text) in tested for record in train):
            warnings[IN_TEST] += found
        return records

    def ceiling(load: Callable[[], Ceiling]) -> Ceiling:
        labelled = load()  # trains on no source, so its test need not be compared with any
        return labelled if labelled.test else labelled._replace(test=first.test)

    sealed, load = first.test, first.ceiling
    return replace(
        first,
        source="+".join(problem.source for problem in problems.values()),
        source_train=train,
        source_dev=dev,
        source_test=test,
        test=SealedTest(first.target, lambda: opened(sealed)) if sealed else None,
        ceiling=(lambda: ceiling(load)) if load else None,
    )


def marks(parts: Sequence[Records]) -> list[str]:
    """What to put before the ids of each part, so that no two parts share one: nothing if they don't anyway.

    >>> a, b = (Record("1", "camera", "Sharp."),), (Record("1", "laptop", "Fast."),)
    >>> marks([a, b]), marks([a, ()])
    (['1/', '2/'], ['', ''])
    """
    ids = Counter(name for part in parts for name in {record.id for record in part})
    shared = max(ids.values(), default=1) > 1
    return [f"{number}/" if shared else "" for number in range(1, len(parts) + 1)]


def joined(parts: Sequence[Records], prefixes: Sequence[str]) -> Records:
    """The parts' records one after the other, their ids with the part's prefix."""
    return tuple(
        replace(record, id=prefix + record.id) if prefix else record
        for part, prefix in zip(parts, prefixes, strict=True)
        for record in part
    )


def _in_others(parts: Sequence[tuple[Records, Records, Records]], place: int) -> int:
    trained = {identity(r.text) for i, (train, *_) in enumerate(parts) if i != place for r in train}
    return sum(identity(record.text) in trained for record in parts[place][1])
