"""Sentences that adaptation fixed, and those that it broke: two models' predictions side by side."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from domadapt.reporting.rows import scores
from domadapt.runs.groups import Method, Pair, reference

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

    method: Method
    seeds: tuple[int, ...]
    total: int
    fixed: tuple[Example, ...]
    broken: tuple[Example, ...]


def best_adapted(pair: Pair) -> Method | None:
    """The adapted method with the best mean score on source dev: chosen without a look at target labels."""
    return found[0][1] if (found := best_overall([pair])) else None


def best_overall(pairs: Sequence[Pair]) -> list[tuple[Pair, Method]]:
    """The same over pairs: the best mean of those methods that were run on the most pairs, with these pairs.

    One that was given target labels is named only where no other was run.
    """
    adapted = [(pair, method) for pair in pairs for method in pair.methods if method.role == "adapted"]
    blind = [one for one in adapted if not one[1].config.get("target_labels")]
    by_name: dict[str, list[tuple[Pair, Method]]] = {}
    for pair, method in blind or adapted:
        by_name.setdefault(method.name, []).append((pair, method))

    def rank(some: list[tuple[Pair, Method]]) -> tuple[int, float]:
        return len(some), sum(_source_dev(*one) for one in some) / len(some)

    return max(by_name.values(), key=rank, default=[])


def compare(pair: Pair) -> Comparison | str:
    """Compare a pair's best adapted method with source_only, text by text.

    Args:
        pair: with the run folders' names in its metrics.

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


def _predictions(method: Method, seed: int) -> Path:
    return Path(next(run.folder for run in method.runs if run.seed == seed), "predictions.jsonl")


def _source_dev(pair: Pair, method: Method) -> float:
    values = scores(method, lambda run: run.source_dev.get(pair.headline))
    return sum(values) / len(values) if values else 0.0
