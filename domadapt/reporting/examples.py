"""Texts that adaptation fixed and broke, and kinds of mistakes."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from domadapt.reporting.blocks import Block, Folded, Marked, Prose, Samples, Table, for_each, tabled
from domadapt.reporting.formats import counted
from domadapt.reporting.frames import best_adapted, rows
from domadapt.reporting.target_card import marked
from domadapt.runs.groups import MethodRuns, Pair, reference
from domadapt.runs.metrics import Metrics
from domadapt.runs.target_card import ShownText
from domadapt.statistics.items import read_answers
from domadapt.utils.text import cut


@dataclass(frozen=True, slots=True)
class ChangedText:
    """One text of ``predictions.jsonl``, and the annotator's, source_only's and the adapted model's labels.

    Attributes:
        change: errors that adaptation added (negative: removed), mean over the seeds that both were run with.
        errors: of source_only and of the adapted model, at ``seed``, where adaptation changed most.
    """

    text: str
    gold: set[Any]
    before: set[Any]
    after: set[Any]
    change: float
    errors: tuple[int, int]
    seed: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """An adapted method against source_only at the seeds of both: texts with fewer and more errors, clearest first."""

    method: MethodRuns
    seeds: tuple[int, ...]
    total: int
    fixed: tuple[ChangedText, ...]
    broken: tuple[ChangedText, ...]


def compare(pair: Pair) -> Comparison | str:
    """A pair's best adapted method against source_only, text by text; or why there is no comparison."""
    method = best_adapted(pair)
    if method is None:
        return "no adapted method was run"
    base = reference(pair, method, "source_only")
    if base is None:
        return "no comparable run of source_only"
    seeds = tuple(seed for seed in method.seeds if seed in base.seeds)
    if not seeds:
        return f"source_only was run with seeds {base.seeds}, the adapted method with {method.seeds}: none in common"
    texts: dict[int, list[ChangedText]] = {}
    for seed in seeds:
        one, other = (Path(_run(each, seed).folder, "predictions.jsonl") for each in (base, method))
        if absent := [str(file) for file in (one, other) if not file.is_file()]:
            return f"no {absent[0]} (written only where the target test has labels)"
        before, after = read_answers(one, pair.task), read_answers(other, pair.task)
        if len(before) != len(after):
            raise ValueError(f"{one} and {other}: different numbers of texts; run those cells again")
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if old.text != new.text:
                raise ValueError(f"{other}: text {new.name!r} is not the one of {one}")
            wrong = errors(old.gold, old.predicted, pair.task), errors(old.gold, new.predicted, pair.task)
            labels, change = (old.gold, old.predicted, new.predicted), float(wrong[1] - wrong[0])
            texts.setdefault(index, []).append(ChangedText(old.text, *labels, change, wrong, seed))
    changes = [_over_seeds(same) for same in texts.values()]
    fixed = sorted((e for e in changes if e.change < 0), key=lambda e: (e.errors[1] > 0, e.change))
    broken = sorted((e for e in changes if e.change > 0), key=lambda e: (e.errors[0] > 0, -e.change))
    return Comparison(method, seeds, len(changes), tuple(fixed), tuple(broken))


def errors(gold: set[Any], predicted: set[Any], task: str) -> int:
    """Wrong label, or spans missed and invented.

    >>> errors({(0, 4, "aspect")}, {(0, 3, "aspect")}, "extraction")
    2
    """
    return int(gold != predicted) if task == "classification" else len(gold ^ predicted)


def _run(method: MethodRuns, seed: int) -> Metrics:
    return next(run for run in method.runs if run.seed == seed)


def _over_seeds(same: list[ChangedText]) -> ChangedText:
    change = sum(e.change for e in same) / len(same)
    return replace((min if change < 0 else max)(same, key=lambda e: e.change), change=change)


KINDS = ("right", "boundary", "type", "boundary and type", "missed", "invented")
MOST = 8  # confusions of labels that have a column


def mistakes(pair: Pair) -> Table | None:
    """Errors by kind, one line a method; None where no run kept its predictions beside gold labels."""
    methods = [row.method for row in rows(pair)]
    counts = {method.name: found for method in methods if (found := _mistakes(method, pair.task))}
    if not counts:
        return None
    what, names = "spans", list(KINDS)
    notes = [
        "boundary: overlaps an annotated span of its type; type: the span, another type; missed and invented: overlaps "
        "nothing on the other side"
    ]
    if pair.task != "extraction":
        common = sum(counts.values(), Counter[str]())
        what, names = "texts", ["right", *(name for name, _ in common.most_common() if name != "right")][: MOST + 1]
        notes = ["a → b: annotated as a, predicted as b"]
        if len(common) > len(names):
            notes.append(f"the {MOST} most frequent of {len(common) - ('right' in common)} confusions")
    columns = for_each(names, lambda method, name: f"{counts[method.name][name] / len(method.runs):.0f}")
    columns = [("method", lambda method: method.name), *columns]
    title = f"{pair.name}: {what} of the target test by kind of error, mean over seeds"
    return tabled(title, [method for method in methods if method.name in counts], columns, notes, narrow=True)


def kinds(gold: set[Any], predicted: set[Any]) -> Counter[str]:
    """Kinds of a text's predicted spans, and of annotated ones that are missed.

    An annotated span that is found right, or of which one prediction has the wrong type or boundary, is not missed.

    >>> kinds({(0, 4, "aspect"), (9, 12, "opinion")}, {(0, 6, "aspect"), (20, 22, "opinion")})
    Counter({'boundary': 1, 'invented': 1, 'missed': 1})
    """
    found = Counter[str]()
    for start, end, kind in sorted(predicted):
        touched = [span for span in gold if span[0] < end and start < span[1]]
        if (start, end, kind) in gold:
            found["right"] += 1
        elif any(span[2] == kind for span in touched):
            found["boundary"] += 1
        elif any(span[:2] == (start, end) for span in touched):
            found["type"] += 1
        else:
            found["boundary and type" if touched else "invented"] += 1
    found["missed"] += sum(not any(s < end and start < e for s, e, _ in predicted) for start, end, _ in gold)
    return +found


def _mistakes(method: MethodRuns, task: str) -> Counter[str] | None:
    files = [Path(run.folder, "predictions.jsonl") for run in method.runs]
    if not all(run.folder and run.target_test and file.is_file() for run, file in zip(method.runs, files, strict=True)):
        return None
    found = Counter[str]()
    for answer in (answer for file in files for answer in read_answers(file, task)):
        if task == "extraction":
            found += kinds(answer.gold, answer.predicted)
        else:
            (gold,), (predicted,) = answer.gold, answer.predicted
            found["right" if gold == predicted else f"{gold} → {predicted}"] += 1
    return found


LONGEST_TEXT = 300  # characters of a sentence that are shown
FRONT = 4  # examples of each kind that are not folded away


def fixed_and_broken(pair: Pair, most: int) -> list[Block]:
    """A pair's examples, at most so many of each kind."""
    try:
        compared = compare(pair)
    except ValueError as error:  # damaged predictions spoil the examples, not the report
        compared = str(error)
    if not isinstance(compared, Comparison):
        return [Prose(f"Nothing to compare: {compared}.")]
    seeds = ", ".join(map(str, compared.seeds))
    wrong = "a span missed or invented" if pair.task == "extraction" else "a wrong label"
    about = (
        f"{compared.method.name} against source_only at the same seeds ({seeds}), on {compared.total} target test "
        f"texts. An error is {wrong}. Shown at the seed that changed most: gold is the annotators', before is "
        f"source_only's, after is the adapted model's."
    )
    blocks: list[Block] = [Prose(about)]
    for kind, worse, examples in (("Fixed", "fewer", compared.fixed), ("Broke", "more", compared.broken)):
        shown, number = examples[:most], len(examples)
        of = "" if not number else "; all of them" if number == len(shown) else f"; {len(shown)} of them"
        blocks.append(Prose(f"{kind}: {counted(number, 'text has', 'texts have')} {worse} errors{of}", "lead"))
        samples = [_sample(pair, example) for example in shown]
        blocks += samples[:FRONT]
        if len(samples) > FRONT:
            blocks.append(Folded(f"{kind}: {len(samples) - FRONT} more", tuple(samples[FRONT:])))
    return blocks


def _sample(pair: Pair, example: ChangedText) -> Samples:
    """One text: with its labels, or once with each side's spans."""
    text, left_out = cut(example.text if example.text.strip() else "[nothing but white space]", LONGEST_TEXT)
    three = {"gold": example.gold, "before": example.before, "after": example.after}
    if pair.task == "classification":
        labels = ", ".join(f"{name} {label}" for name, one in three.items() for label in one)
        return Samples(f"{labels}; seed {example.seed}", (Marked("", ((text, ""),), left_out),))
    before, after = example.errors
    texts = (replace(marked(ShownText(text, left_out, spans=tuple(one))), lead=name) for name, one in three.items())
    return Samples(f"errors: {before} before, {after} after; seed {example.seed}", tuple(texts))
