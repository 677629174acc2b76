"""What kinds of errors a method makes on the target test: where spans differ, which label is taken for which."""

from collections import Counter
from pathlib import Path

from domadapt.reporting.blocks import Table
from domadapt.reporting.examples import Labels, opinions
from domadapt.reporting.rows import rows
from domadapt.runs.groups import Method, Pair

KINDS = ("right", "boundary", "type", "boundary and type", "missed", "invented")
MOST = 8  # confusions of labels that have a column


def mistakes(pair: Pair) -> Table | None:
    """Errors by kind, one line a method; None where no run kept its predictions beside gold labels.

    Args:
        pair: whose runs.

    Raises:
        ValueError: a ``predictions.jsonl`` is damaged; names it.
    """
    counts = {row.method.name: found for row in rows(pair) if (found := _counted(row.method, pair.task))}
    if not counts:
        return None
    if pair.task == "extraction":
        names, notes = list(KINDS), [
            "boundary: overlaps an annotated span of its type; type: the span, another type; missed and invented: "
            "overlaps nothing on the other side"
        ]  # fmt: skip
    else:
        common = sum(counts.values(), Counter[str]())
        names = ["right", *(name for name, _ in common.most_common() if name != "right")][: MOST + 1]
        notes = ["a → b: annotated as a, predicted as b"]
        if len(common) > len(names):
            notes.append(f"the {MOST} most frequent of {len(common) - ('right' in common)} confusions")
    what = "spans" if pair.task == "extraction" else "texts"
    seeds = {row.method.name: len(row.method.runs) for row in rows(pair)}
    lines = [[method, *(f"{found[name] / seeds[method]:.0f}" for name in names)] for method, found in counts.items()]
    return Table(f"{pair.name}: {what} of the target test by kind of error, mean over seeds", ["method", *names], lines,
                 notes, narrow=True)  # fmt: skip


def kinds(gold: Labels, predicted: Labels) -> Counter[str]:
    """Kinds of a text's predicted spans, and of annotated ones that are missed.

    An annotated span that is found right, or of which one prediction has the wrong type or boundary, is not missed.

    >>> gold = Labels(None, frozenset({(0, 4, "aspect"), (9, 12, "opinion")}))
    >>> kinds(gold, Labels(None, frozenset({(0, 6, "aspect"), (20, 22, "opinion")})))
    Counter({'boundary': 1, 'invented': 1, 'missed': 1})
    """
    found = Counter[str]()
    for start, end, kind in sorted(predicted.spans):
        touched = [span for span in gold.spans if span[0] < end and start < span[1]]
        if (start, end, kind) in gold.spans:
            found["right"] += 1
        elif any(span[2] == kind for span in touched):
            found["boundary"] += 1
        elif any(span[:2] == (start, end) for span in touched):
            found["type"] += 1
        else:
            found["boundary and type" if touched else "invented"] += 1
    found["missed"] += sum(
        not any(s < end and start < e for s, e, _ in predicted.spans) for start, end, _ in gold.spans
    )
    return +found


def _counted(method: Method, task: str) -> Counter[str] | None:
    files = [Path(run.folder, "predictions.jsonl") for run in method.runs]
    if not all(run.folder and run.target_test and file.is_file() for run, file in zip(method.runs, files, strict=True)):
        return None
    found = Counter[str]()
    for file in files:
        for gold, predicted in opinions(file):
            if task == "extraction":
                found += kinds(gold, predicted)
            else:
                found["right" if gold.label == predicted.label else f"{gold.label} → {predicted.label}"] += 1
    return found
