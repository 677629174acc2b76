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
        name, most = told.most_common(1)[0]
        if len(held) > 1 and most >= ONE_CLASS * len(records):
            yield f"one class predicted: {most} of {len(records)} texts of the target test are called {name!r}"
    elif not any(prediction.spans for prediction in predictions):
        yield f"no span is found in any of the target test's {len(records)} texts"
