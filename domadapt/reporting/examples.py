"""Texts that adaptation fixed and broke, drawn with their trees, and kinds of mistakes."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from domadapt.analysis.attention import LEAST, Attention, as_parse, attention
from domadapt.reporting.blocks import Block, Card, Cards, Folded, Prose, Table, for_each, tabled
from domadapt.reporting.formats import counted
from domadapt.reporting.frames import best_adapted, rows
from domadapt.reporting.trees import Lane, tree_svg
from domadapt.runs.groups import MethodRuns, Pair, reference
from domadapt.runs.metrics import Metrics
from domadapt.statistics.items import read_answers
from domadapt.syntax.parser import Parse, Parser
from domadapt.utils.text import cut, shortened


@dataclass(frozen=True, slots=True)
class ChangedText:
    """One text of ``predictions.jsonl``, and the annotator's, source_only's and the adapted model's labels.

    Attributes:
        change: errors that adaptation added (negative: removed), mean over the seeds that both were run with.
        errors: of source_only and of the adapted model, at ``seed``, where adaptation changed most.
    """

    text: str
    words: tuple[tuple[int, int], ...] | None
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
    """A pair's best adapted method against source_only, text by text; or why there is no comparison.

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
            texts.setdefault(index, []).append(ChangedText(old.text, old.words, *labels, change, wrong, seed))
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
    """Errors by kind, one line a method; None where no run kept its predictions beside gold labels.

    Raises:
        ValueError: a ``predictions.jsonl`` is damaged; names it.
    """
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
UNPAIRED = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a text that is shown, as the parser wants it."""

    text: str
    words: tuple[tuple[int, int], ...] | None
    left_out: int


def fixed_and_broken(pair: Pair, parser: Parser, most: int, with_attention: bool) -> list[Block]:
    """A pair's examples, at most so many of each kind."""
    try:
        compared = compare(pair)
    except ValueError as error:  # damaged predictions spoil the examples, not the report
        compared = str(error)
    if not isinstance(compared, Comparison):
        return [Prose(f"Nothing to compare: {compared}.")]
    every = {"Fixed": compared.fixed, "Broke": compared.broken}
    texts = [excerpt(example) for examples in every.values() for example in examples[:most]]
    parses = list(parser.parse(texts))
    seen: Attention | str = "no text changed" if with_attention else "left out, as attention=false asked"
    if with_attention and texts:
        # One model for all texts: loading one a seed would cost more than the rest of the report.
        model = Path(compared.method.runs[0].folder) / "model"
        seen = attention(model, [text.text for text in texts], parses)
    blocks: list[Block] = [Prose(_about(pair, compared)), Prose(_explained(pair, seen), "soft")]
    done = 0
    for kind, examples in every.items():
        shown, number = examples[:most], len(examples)
        of = "" if not number else "; all of them" if number == len(shown) else f"; {len(shown)} of them"
        has = counted(number, "text has", "texts have")
        blocks.append(Prose(f"{kind}: {has} {'fewer' if kind == 'Fixed' else 'more'} errors{of}", "lead"))
        places = range(done, done + len(shown))
        cards = [_card(pair, e, texts[i], parses[i], seen, i) for i, e in zip(places, shown, strict=True)]
        if cards:
            blocks.append(Cards(tuple(cards[:FRONT])))
        if len(cards) > FRONT:
            blocks.append(Folded(f"{kind}: {len(cards) - FRONT} more", (Cards(tuple(cards[FRONT:])),)))
        done += len(shown)
    return blocks


def excerpt(example: ChangedText) -> Excerpt:
    """The beginning of a text, and of the owner's words those that lie in it whole."""
    text, left_out = cut(example.text, LONGEST_TEXT)
    text = UNPAIRED.sub("\ufffd", text)  # half a character: spaCy refuses it
    words = example.words
    return Excerpt(text, words if words is None else tuple(w for w in words if w[1] <= len(text)), left_out)


def _about(pair: Pair, compared: Comparison) -> str:
    error = "a span missed or invented" if pair.task == "extraction" else "a wrong label"
    return (
        f"{compared.method.name} against source_only at the same seeds ({', '.join(map(str, compared.seeds))}), on "
        f"{compared.total} target test texts; the adapted method with the best score on source dev, not on the target. "
        f"An error is {error}. Texts left free of errors, or broken that had none, come first."
    )


def _explained(pair: Pair, seen: Attention | str) -> str:
    spans = "Below the words: spans of annotators (gold), source_only (before), the adapted model (after). "
    text = f"Drawn at the seed that changed most. {spans if pair.task == 'extraction' else ''}Above the words: the "
    text += "shipped parser's relations; arrows with a name come from a word in the line above (↑) or below (↓). "
    if isinstance(seen, str):
        return f"{text}No attention is drawn: {seen}."
    return (
        f"{text}The second drawing is the adapted model's attention in layer {seen.layer + 1}, head {seen.head + 1} of "
        f"{seen.heads}, which attends most to syntactic heads: an arrow comes from the word that its word looks at "
        f"most, with the percentage where that is {100 * LEAST:.0f} or more."
    )


def _card(pair: Pair, example: ChangedText, text: Excerpt, parse: Parse, seen: Attention | str, index: int) -> Card:
    three = {"gold": example.gold, "before": example.before, "after": example.after}
    if pair.task == "classification":
        labels = ", ".join(f"{name} {label}" for name, one in three.items() for label in one)
        remark, lanes, words = f"{labels}; seed {example.seed}", list[Lane](), tuple[str, ...]()
    else:
        before, after = example.errors
        remark = f"errors: {before} before, {after} after; seed {example.seed}"
        lanes = [Lane(name, tuple(sorted(one))) for name, one in three.items()]
        words = tuple(f"{name}: {_spans(example.text, one)}" for name, one in three.items())
    drawings = [("", tree_svg(text.text, parse, lanes, "Dependency parse and spans of the sentence above"))]
    if isinstance(seen, Attention) and len(parse.words):
        looks, agree, of = as_parse(seen.weights[index], parse)
        above = f"Attention: {agree} of {counted(of, 'word')} with a syntactic head look most at it."
        drawings.append((above, tree_svg(text.text, looks, [], "Attention between the words of the sentence above")))
    return Card(text.text, text.left_out, (remark,), tuple(drawings), words)


def _spans(text: str, labels: set[Any]) -> str:
    spans = [f"{shortened(text[s:e], 40)} ({shortened(kind, 20)})" for s, e, kind in sorted(labels)]
    return (", ".join(spans[:8]) or "nothing") + (f" and {len(spans) - 8} more" if len(spans) > 8 else "")
