"""What a user should doubt of a run that has been tested; without a test the card tells as much."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from domadapt.data.records import Record
from domadapt.tasks.task import Prediction, Task

ONE_CLASS = 0.98  # share of one label from which the model is taken to know no other
FELL = 0.1  # of a score of source dev, from its best epoch to the one that is kept


def doubts(
    task: Task,
    records: Sequence[Record],
    predictions: Sequence[Prediction],
    curve: Sequence[Mapping[str, Any]],
    epoch: int,
) -> Iterator[str]:
    """One sentence each.

    Args:
        task: that was trained.
        records: of the target test.
        predictions: of these.
        curve: of training, a line an epoch.
        epoch: the one that is kept, counted from 1.
    """
    dev = {line["epoch"]: float(line["source_dev"][task.headline]) for line in curve}
    best = max(dev, key=lambda one: dev[one])
    if dev[best] - dev[epoch] >= FELL:
        yield (
            f"on source dev the kept epoch {epoch} has {100 * dev[epoch]:.1f} {task.headline} and epoch {best} had "
            f"{100 * dev[best]:.1f}: compare with selection=source_dev"
        )
    if task.kind == "sequence":
        held, told = Counter(r.label for r in records), Counter(p.label for p in predictions)
        if missing := [repr(name) for name in task.labels if not held[name]]:
            yield f"the target test has no text labelled {', '.join(missing)}: its scores tell nothing of these"
        if len(held) > 1:
            yield from one_class(told, "texts of the target test")
    elif not any(prediction.spans for prediction in predictions):
        yield f"no span is found in any of the target test's {len(records)} texts"


def one_class(told: Mapping[str | None, int], texts: str) -> Iterator[str]:
    """That one class is all that is predicted, or nearly so.

    Args:
        told: how many texts are called what.
        texts: what texts they are.

    >>> list(one_class({"good": 99, "bad": 1}, "target texts"))
    ["one class predicted: 99 of 100 target texts are called 'good'"]
    >>> list(one_class({"good": 9, "bad": 1}, "target texts"))
    []
    """
    total, name = sum(told.values()), max(told, key=lambda one: told[one])
    if told[name] >= ONE_CLASS * total:
        yield f"one class predicted: {told[name]} of {total} {texts} are called {name!r}"
