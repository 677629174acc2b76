"""Texts that were fixed and broken, kinds of mistakes, calibration."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from domadapt.reporting.blocks import Block, Figure, Table, Text
from domadapt.reporting.rows import rows, scores
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.runs.groups import MethodRuns, Pair, reference
from domadapt.utils.text import visible

Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Labels:
    """What somebody, or some model, says of a text: a class, or spans."""

    label: str | None
    spans: frozenset[Span]


@dataclass(frozen=True, slots=True)
class Example:
    """One text and three opinions of it.

    Attributes:
        text, words: as in ``predictions.jsonl``.
        gold, before, after: the annotator's, source_only's and the adapted model's labels, at ``seed``.
        change: errors that adaptation added (negative: removed), mean over the seeds that both were run with.
        errors: of source_only and of the adapted model, at ``seed``.
        seed: the one at which adaptation changed most.
    """

    text: str
    words: tuple[tuple[int, int], ...] | None
    gold: Labels
    before: Labels
    after: Labels
    change: float
    errors: tuple[int, int]
    seed: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """An adapted method against source_only.

    Attributes:
        method: the adapted one.
        seeds: that both were run with.
        total: texts compared.
        fixed, broken: texts with fewer, with more errors; the clearest first.
    """

    method: MethodRuns
    seeds: tuple[int, ...]
    total: int
    fixed: tuple[Example, ...]
    broken: tuple[Example, ...]


def best_adapted(pair: Pair) -> MethodRuns | None:
    """The adapted method with the best mean score on source dev: chosen without a look at target labels."""
    return found[0][1] if (found := best_overall([pair])) else None


def best_overall(pairs: Sequence[Pair]) -> list[tuple[Pair, MethodRuns]]:
    """The same over pairs: the best mean of those methods that were run on the most pairs, with these pairs.

    One that was given target labels is named only where no other was run.
    """
    adapted = [(pair, method) for pair in pairs for method in pair.methods if method.role == "adapted"]
    blind = [one for one in adapted if not one[1].config.get("target_labels")]
    by_name: dict[str, list[tuple[Pair, MethodRuns]]] = {}
    for pair, method in blind or adapted:
        by_name.setdefault(method.name, []).append((pair, method))

    def rank(some: list[tuple[Pair, MethodRuns]]) -> tuple[int, float]:
        return len(some), sum(_source_dev(*one) for one in some) / len(some)

    return max(by_name.values(), key=rank, default=[])


def compare(pair: Pair) -> Comparison | str:
    """Compare a pair's best adapted method with source_only, text by text.

    Returns:
        The comparison, or why there is none.

    Raises:
        ValueError: a ``predictions.jsonl`` is damaged, or two of them are of different texts.
    """
    method = best_adapted(pair)
    if method is None:
        return "no adapted method was run"
    base = reference(pair, method, "source_only")
    if base is None:
        return "no comparable run of source_only"
    seeds = tuple(seed for seed in method.seeds if seed in base.seeds)
    if not seeds:
        return f"source_only was run with seeds {base.seeds}, the adapted method with {method.seeds}: none in common"
    texts: dict[int, list[Example]] = {}
    for seed in seeds:
        before, after = _predictions(base, seed), _predictions(method, seed)
        absent = [str(file) for file in (before, after) if not file.is_file()]
        if absent:
            return f"no {absent[0]} (written only where the target test has labels)"
        for index, example in enumerate(_paired(before, after, pair.task, seed)):
            texts.setdefault(index, []).append(example)
    changes = [_over_seeds(same) for same in texts.values()]
    fixed = sorted((e for e in changes if e.change < 0), key=lambda e: (e.errors[1] > 0, e.change))
    broken = sorted((e for e in changes if e.change > 0), key=lambda e: (e.errors[0] > 0, -e.change))
    return Comparison(method, seeds, len(changes), tuple(fixed), tuple(broken))


def errors(gold: Labels, predicted: Labels, task: str) -> int:
    """Wrong label, or spans missed and invented.

    >>> gold = Labels(None, frozenset({(0, 4, "aspect")}))
    >>> errors(gold, Labels(None, frozenset({(0, 3, "aspect")})), "extraction")
    2
    """
    return int(gold.label != predicted.label) if task == "classification" else len(gold.spans ^ predicted.spans)


def opinions(path: Path) -> Iterator[tuple[Labels, Labels]]:
    """Gold and predicted labels of each text of a ``predictions.jsonl``.

    Raises:
        ValueError: it is damaged; names it.
    """
    try:
        for row in _rows(path):
            yield _labels(row["gold"]), _labels(row["predicted"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: a row without {error}; run that cell again") from error


def _paired(before: Path, after: Path, task: str, seed: int) -> Iterator[Example]:
    try:
        for old, new in zip_longest(_rows(before), _rows(after)):
            if old is None or new is None:
                raise ValueError(f"{before} and {after}: different numbers of texts; run those cells again")
            if old["text"] != new["text"]:
                raise ValueError(f"{after}: text {new['id']!r} is not the one of {before}")
            gold, first, last = _labels(old["gold"]), _labels(old["predicted"]), _labels(new["predicted"])
            wrong = errors(gold, first, task), errors(gold, last, task)
            words = None if old.get("words") is None else tuple((int(s), int(e)) for s, e in old["words"])
            yield Example(old["text"], words, gold, first, last, float(wrong[1] - wrong[0]), wrong, seed)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{before} or {after}: a row without {error}; run those cells again") from error


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: not whole JSON ({error}); run that cell again") from error


def _labels(value: dict[str, Any]) -> Labels:
    spans = ((int(s["start"]), int(s["end"]), str(s["type"])) for s in value["spans"])
    return Labels(value["label"], frozenset(spans))


def _over_seeds(same: list[Example]) -> Example:
    change = sum(e.change for e in same) / len(same)
    shown = min(same, key=lambda e: e.change) if change < 0 else max(same, key=lambda e: e.change)
    return Example(shown.text, shown.words, shown.gold, shown.before, shown.after, change, shown.errors, shown.seed)


def _predictions(method: MethodRuns, seed: int) -> Path:
    return Path(next(run.folder for run in method.runs if run.seed == seed), "predictions.jsonl")


def _source_dev(pair: Pair, method: MethodRuns) -> float:
    values = scores(method, lambda run: run.source_dev.get(pair.headline))
    return sum(values) / len(values) if values else 0.0


KINDS = ("right", "boundary", "type", "boundary and type", "missed", "invented")
MOST = 8  # confusions of labels that have a column


def mistakes(pair: Pair) -> Table | None:
    """Errors by kind, one line a method; None where no run kept its predictions beside gold labels.

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


def _counted(method: MethodRuns, task: str) -> Counter[str] | None:
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


BINS = 10
Point = tuple[float, float, int]  # mean confidence, share right, how many


def calibration(pair: Pair, colors: Mapping[str, str]) -> list[Block]:
    """A diagram of the bars that stand and the best adapted method, and every method's error."""
    methods = [row.method for row in rows(pair)]
    known = {m.name: points for m in methods if (points := pooled(m))}
    if not known:
        return [Text("No run recorded how sure it was of its predictions on the target test.")]
    best = best_adapted(pair)
    drawn = [
        m
        for m in methods
        if m.name in known and (m.role not in ("adapted", "control") or (best and m.name == best.name))
    ]
    unit = "words" if pair.task == "extraction" else "texts"
    errors = Table(
        "Expected calibration error, points, mean over seeds, before and after temperature scaling on source dev",
        ["method", "test", "test, scaled", "source dev", "source dev, scaled", "temperature", unit],
        [[m.name, *_errors(m), f"{sum(p[2] for p in known[m.name]):,}"] for m in methods if m.name in known],
        [
            f"{unit}: predictions on the target test that were binned, all seeds together",
            "temperature: above 1 where the model is too sure on source dev; of the ceiling, dev is of the target",
        ],
    )
    alt = f"Share of right {unit} against confidence, {visible(pair.name)}: {', '.join(m.name for m in drawn)}"
    with drawing():
        svg = element(_diagram([(m, known[m.name]) for m in drawn], colors), alt)
    caption = (
        f"Share of {unit} that are right, against the model's confidence, target test, seeds pooled. On the dotted "
        f"line a model is as sure as it should be; below it, too sure. Larger dots hold more {unit}."
    )
    return [Figure(svg, caption), errors]


def pooled(method: MethodRuns) -> list[Point]:
    """Ten bins by confidence, the seeds' bins put together by their counts.

    >>> from domadapt.runs.metrics import Bin, Calibration, Metrics
    >>> bins = Bin(0.95, 0.5, 2), Bin(0.99, 1.0, 2)
    >>> pooled(MethodRuns("a", "adapted", (Metrics(calibration=Calibration(bins=bins)),)))
    [(0.97, 0.75, 4)]
    """
    sums: dict[int, list[float]] = {}
    for run in method.runs:
        for part in run.calibration.bins:
            if count := part.count:
                total = sums.setdefault(min(int(part.confidence * BINS), BINS - 1), [0.0, 0.0, 0.0])
                total[0] += count * part.confidence
                total[1] += count * part.accuracy
                total[2] += count
    return [(round(c / n, 6), round(a / n, 6), int(n)) for _, (c, a, n) in sorted(sums.items())]


def error(method: MethodRuns, of: str = "error") -> float | None:
    """Mean over seeds of a recorded expected calibration error.

    Args:
        of: name of a field of :class:`~domadapt.runs.metrics.Calibration`.
    """
    values = [v for run in method.runs if (v := getattr(run.calibration, of)) is not None]
    return sum(values) / len(values) if values else None


def _errors(method: MethodRuns) -> list[str]:
    names = ("error", "scaled_error", "source_dev_error", "source_dev_scaled_error")
    points = ["-" if (e := error(method, name)) is None else f"{100 * e:.1f}" for name in names]
    return [*points, "-" if (heat := error(method, "temperature")) is None else f"{heat:.2f}"]


def _diagram(drawn: Sequence[tuple[MethodRuns, list[Point]]], colors: Mapping[str, str]) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 3.4 + 0.17 * len(drawn)), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], color=INK, linestyle=":", linewidth=1)
    handles = []
    for method, points in drawn:
        color = colors[method.name]
        most = max(n for _, _, n in points)
        axes.plot([100 * c for c, _, _ in points], [100 * a for _, a, _ in points], color=color, linewidth=1.2)
        sizes = [6 + 50 * n / most for _, _, n in points]
        axes.scatter(
            [100 * c for c, _, _ in points], [100 * a for _, a, _ in points], s=sizes, color=color, clip_on=False
        )
        handles.append(Line2D([], [], color=color, label=f" {wrapped(method.name, 40, 1)}"))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.set_xlabel("confidence, %")
    axes.set_ylabel("right, %")
    plain(axes, INK, "both")
    figure.legend(handles=handles, loc="outside lower left", frameon=False, labelcolor=INK, fontsize=8)
    return figure
