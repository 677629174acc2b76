"""What a run's model says of a target without labels: lines of a terminal, a file, sections of the report."""

import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from domadapt.inference.thresholds import SHOWN_THRESHOLDS, rates, source_dev
from domadapt.reporting import blocks
from domadapt.reporting.blocks import Block, Fact, Facts, Marked, Prose, Section, Table, columns_for, make_table
from domadapt.reporting.render import as_line, as_text, markdown, score_name
from domadapt.runs.groups import Pair
from domadapt.runs.metrics import Expected
from domadapt.runs.target_card import CardWarning, Kind, ShownText, TargetCard, read_card
from domadapt.utils.text import counted, escape_controls, listed, shortened

WIDTH = 110
SHOWN_SPANS, LONGEST_SPAN = 6, 40  # spans or words of a kind on a terminal; their characters anywhere
SHOWN_TEXTS = 3  # texts below a heading on a terminal
FEW_DEV = 30  # held-out texts below which thresholds tell nothing
CHANGES = 8  # words that are shown of each kind of change
SOURCE_ONLY = "source_only"
OF_DATA = ("domadapt adapt ", "domadapt audit ", "domadapt train ")  # commands that name the files of the data
QUESTIONS_TITLE = "Only you can tell how the target is to be annotated; no training is needed for your answers"
USE_OF_EXPECTED = "They show whether a model works, not which of two models is better."  # expected scores
MOST_MODELS = 6  # models of a pair that are shown in full, one seed of each method


def as_lines(card: TargetCard, width: int = WIDTH) -> str:
    """The card for a terminal, in lines of so many characters; every one of them harmless."""
    task = "spans" if card.task == "extraction" else "whole texts"
    lines = [f"{card.source} → {card.target}     {task}: {listed([kind.name for kind in card.kinds])}", ""]

    def add(text: str, first: str = "  ", then: str = "  ") -> None:
        lines.extend(wrap(text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False))

    for fact in _facts(card):
        add(fact)
    for table in (kinds_table(card, SHOWN_SPANS), *threshold_table(card)):
        lines.extend(["", *(f"  {line}" for line in as_text(table).split("\n"))])
    for head, texts in _texts(card, SHOWN_TEXTS):
        lines.extend(["", f"  {head}:"])
        for text in texts:
            add(as_line(text), "  · ", "    ")
    if card.warnings:
        ranked = ", the most important first" if len(card.warnings) > 1 else ""
        lines.extend(["", f"  {counted(len(card.warnings), 'warning')}{ranked}:"])
    for rank, warning in enumerate(card.warnings, 1):
        add(warning.text, f"  {rank} ", "    ")
        lines.extend([f"      {command}"] if (command := _command(card, warning.command)) else [])
    if card.questions:
        lines.extend(["", f"  {QUESTIONS_TITLE}:"])
        for rank, question in enumerate(card.questions, 1):
            add(question, f"  {rank} ", "    ")
        lines.append(f"      {_command(card, card.answer)}")
    lines.extend(["", *(f"  {name:<12} {value}" for name, value in _places(card))])
    return "\n".join(escape_controls(line) for line in lines)


def as_markdown(card: TargetCard) -> str:
    return markdown(title(card), [Section("On the target", tuple(as_blocks(card)))])


def as_blocks(card: TargetCard) -> Iterator[Block]:
    yield from map(Prose, _facts(card))
    for rank, one in enumerate(card.warnings, 1):
        yield Prose(f"{rank}. {_sentence(one.text)}", "warning", _command(card, one.command))
    if card.questions:
        yield Prose(f"{QUESTIONS_TITLE}:", "lead")
        yield from (Prose(f"{rank}. {_sentence(one)}") for rank, one in enumerate(card.questions, 1))
        yield Prose("Your answers:", command=_command(card, card.answer))
    yield from (kinds_table(card), *threshold_table(card))
    yield from (blocks.Samples(head, tuple(texts)) for head, texts in _texts(card))
    yield blocks.Listing("Where the model is, and how to use it", tuple(value for _, value in _places(card)), code=True)


def _command(card: TargetCard, command: str) -> str:
    if "{source_only}" in command and not Path(card.before, "model").is_dir():  # deleted since
        return ""
    folder, home = card.folder, os.path.normpath(Path(card.folder, card.made_in))
    moved = card.made_in and Path(home).resolve() != Path.cwd() and command.startswith(OF_DATA)
    if moved:  # the files of the data are named as seen from there
        command, folder = f"(cd {shlex.quote(home)} && {command})", os.path.relpath(folder, home)
    return command.replace("{run}", shlex.quote(folder)).replace("{source_only}", shlex.quote(card.before))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}{'' if text.endswith('?') else '.'}"


def _before(card: TargetCard) -> TargetCard | None:
    """What the source-only model, where it was trained along, says of the same target."""
    return None if card.method == SOURCE_ONLY else read_card(card.before)


def title(card: TargetCard) -> str:
    return f"{card.source} → {card.target}: {card.task} by {card.method} on {card.backbone}, seed {card.seed}"


def kinds_table(card: TargetCard, words: int = 10) -> Table:
    """What is predicted of the target, how often, and on which words; beside it the source, and before adapting."""
    spans, before = card.task == "extraction", _before(card)
    was = {kind.name: kind.count for kind in before.kinds} if before else {}
    about = f"Predicted of {counted(card.texts, 'target text')}"
    if spans:
        about += f", {card.empty} of them without a span; spans per text"

    def often(count: int, texts: int) -> str:
        return f"{count / max(1, texts):.2f}" if spans else f"{100 * count / max(1, texts):.0f} %"

    def typical(kind: Kind) -> str:
        common = ((shortened(word, LONGEST_SPAN), n) for word, n in kind.words[:words])
        return ", ".join(f"{word} ({n})" if spans else word for word, n in common) or "-"

    columns: list[tuple[str, Callable[[Kind], str]]] = [
        ("type" if spans else "label", lambda kind: kind.name),
        ("your labels", lambda kind: often(kind.source, card.source_texts)),
        *([("before", lambda kind: often(was.get(kind.name, 0), card.texts))] if before else []),
        ("now", lambda kind: often(kind.count, card.texts)),
        ("count", lambda kind: f"{kind.count:,}"),
        ("found most" if spans else "words that set them apart", typical),
    ]
    return make_table(about, card.kinds, columns, left=(0, len(columns) - 1))


def threshold_table(card: TargetCard) -> Iterator[Table]:
    """What held-out texts of the source show from a confidence on, where the model has kept it."""
    about = source_dev(Path(card.model))
    if about and about["texts"] >= FEW_DEV:
        title = f"Precision, recall on {counted(about['texts'], 'held-out text')} of {card.source}, by threshold="
        limits = {limit: f"{limit:g}" for limit in SHOWN_THRESHOLDS}
        names: blocks.Column = ("type" if card.task == "extraction" else "label", lambda item: item[0])
        columns = columns_for(limits, lambda item, limit: ", ".join(rates(item[1], limit)))
        yield make_table(title, about["kinds"].items(), [names, *columns])


def marked(sample: ShownText) -> Marked:
    """A sample with its spans marked, or its label before it."""
    pieces, end = list[tuple[str, str]](), 0
    for start, stop, kind in sorted(sample.spans):
        if start >= end:
            pieces += [(sample.text[end:start], ""), (sample.text[start:stop], kind)]
            end = stop
    pieces.append((sample.text[end:], ""))
    lead = "" if sample.label is None else f"{sample.label} {sample.confidence:.2f}"
    return Marked(lead, tuple(piece for piece in pieces if piece[0]), sample.left_out)


def _expect(card: TargetCard, expected: Expected) -> str:
    ends = f"nine times in ten it lies between {100 * expected.low:.0f} and {100 * expected.high:.0f}"
    return f"Expect a {score_name(card.headline)} of about {100 * expected.score:.0f} on {card.target}; {ends}."


def _and_before(was: Expected, now: Expected) -> str:
    apart = was.high < now.low or now.high < was.low
    verdict = "The ranges do not overlap." if apart else "The ranges overlap: this does not show that adapting helped."
    return f"{_range(was)}. {verdict}"


def _facts(card: TargetCard) -> Iterator[str]:
    before = _before(card)
    if (one := card.expected) is not None:
        yield _expect(card, one)
        if before is not None and before.expected is not None:
            yield f"Before adapting: {_and_before(before.expected, one)}"
        error = "" if one.usual_error is None else f" and are off by {100 * one.usual_error:.1f} points on average"
        yield f"Such estimates use no target label{error}. {USE_OF_EXPECTED}"
    texts = counted(card.source_texts, "text")
    if card.target_labels:
        texts += f" and {card.target_labels:,} labelled of {card.target}"
    run = f"seed {card.seed}, {counted(card.steps, 'step')} on {texts}"
    score = f"{score_name(card.headline)} {100 * card.source_dev:.1f} by {card.method} on {card.backbone}"
    yield f"On {counted(card.dev_texts, 'held-out text')} of {card.source}: {score}, {run}."
    if card.relabelled is not None:  # what adapting has changed, so that nobody is harmed in silence
        yield f"{card.relabelled:,} of {counted(card.texts, 'text')} have another label than before adapting."


def _texts(card: TargetCard, most: int = CHANGES) -> Iterator[tuple[str, list[Marked]]]:
    """Headings with texts below them: words that adapting has lost and won, with a text of each; predictions."""
    for head, changes in (
        ("Found before adapting, hardly now", [c for c in card.changes if c.before > c.now]),
        ("Found now, hardly before adapting", [c for c in card.changes if c.before < c.now]),
    ):
        if changes:
            rest = f" (and {counted(len(changes) - most, 'other')})" if len(changes) > most else ""
            texts = [(change, marked(change.text) if change.text else Marked("", ())) for change in changes[:most]]
            leads = (f"{shortened(c.words, LONGEST_SPAN)} {c.before} → {c.now}" for c, _ in texts)
            yield f"{head}{rest}", [replace(text, lead=lead) for (_, text), lead in zip(texts, leads, strict=True)]
    if card.samples:
        shown = card.samples[:most] if most < CHANGES else card.samples
        yield f"{len(shown)} predictions, drawn at random", [*map(marked, shown)]


def _places(card: TargetCard) -> Iterator[tuple[str, str]]:
    run = shlex.quote(card.folder)
    if gone := not Path(card.model).is_dir():
        yield "the model", f"{card.model} is gone: move {run} away, and the same command trains it again"
    if card.to_label and not gone:
        file = shlex.quote(f"{card.folder}/{card.to_label}")
        yield "a score", f"domadapt score model={run} input={file}  # once labelled"
        if not card.target_labels:
            settings = f"target.train_path={file} target_labels=all paths.run={shlex.quote(f'{card.folder}_labelled')}"
            yield "or learn it", f"the same command with {settings}"
    other, texts = "", '"Type a sentence here."'
    if card.pairs:
        other, texts = ' text_pair="And the other here."', f'({texts}, "And the other here.")'
    if not gone:
        yield "use it", f'domadapt predict model={shlex.quote(card.model)} text="Type a sentence here."{other}'
        yield "in Python", f"domadapt.load({json.dumps(card.model, ensure_ascii=False)}).predict([{texts}])"
    if Path(card.folder, "predictions.jsonl").exists():
        yield "predictions", f"{card.folder}/predictions.jsonl"
    yield "report", f"domadapt report {run}"
    if _before(card) is not None:
        yield "source-only", f"{card.before}/model"


def _cards(pair: Pair) -> list[TargetCard]:
    if any(run.target_test for run in pair.runs):
        return []
    return [card for run in pair.runs if run.folder and (card := read_card(run.folder, run.key)) is not None]


def expectation(pairs: Sequence[Pair]) -> Facts | None:
    """The expected score with its range, and six facts, of the first adapted model; None where nothing is expected."""
    cards = [(card, expected) for pair in pairs for card in _cards(pair) if (expected := card.expected)]
    if not cards:
        return None
    card, expected = next((item for item in cards if item[0].method != SOURCE_ONLY), cards[0])
    unadapted = [c for c, _ in cards if c.method == SOURCE_ONLY != card.method]
    before = _before(card) or next((c for c in unadapted if (c.source, c.target) == (card.source, card.target)), None)
    places = dict(_places(card))
    score, first = places.get("a score", ""), (card.warnings or [CardWarning("no warnings", "")])[0]
    items = list[Fact]()
    if before is not None and (was := before.expected) is not None:
        items.append(Fact("Before adapting", _and_before(was, expected)))
    error = "" if expected.usual_error is None else f"Off by {100 * expected.usual_error:.1f} points on average. "
    items += [
        Fact("For a score", "" if score else "give labelled texts: target.test_path=FILE", score),
        Fact("Such estimates", f"{error}{USE_OF_EXPECTED}"),
        Fact("On held-out texts of the source", f"{100 * card.source_dev:.1f} on {counted(card.dev_texts, 'text')}"),
        Fact("The model, and how to use it", places.get("the model", ""), places.get("use it", "")),
        Fact("Before you believe it", _sentence(first.text), _command(card, first.command)),
    ]
    others = sum(c.method != SOURCE_ONLY for c, _ in cards) - 1
    note = f" This is {card.method}; {counted(others, 'other adapted model')} below." if others > 0 else ""
    return Facts(f"{_expect(card, expected)}{note}", tuple(items))


def _range(expected: Expected) -> str:
    return f"{100 * expected.score:.0f} ({100 * expected.low:.0f} to {100 * expected.high:.0f})"


def estimates(pairs: Sequence[Pair]) -> list[Block]:
    """One row a method, its first seed: a hollow diamond on a range is an estimate, a tick what source dev measures."""
    every = [(card, expected) for pair in pairs for card in _cards(pair) if (expected := card.expected)]
    first = {(card.source, card.target, card.method): (card, expected) for card, expected in reversed(every)}
    cards = [*reversed(first.values())][:MOST_MODELS]
    if not cards:
        return []

    from domadapt.reporting.plots import ADAPTED_COLORS, COLORS, INK, draw_svg, style_axes, wrap_name  # matplotlib

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        style_axes(axes, "x")
        for row, (card, expected) in enumerate(cards):
            color = COLORS.get(card.method, ADAPTED_COLORS[0])
            axes.barh(row, 100 * (expected.high - expected.low), 0.5, 100 * expected.low, color=color, alpha=0.25)
            axes.plot(100 * expected.score, row, marker="D", markersize=8, markeredgecolor=color, color="none", mew=2)
            axes.plot([100 * card.source_dev] * 2, [row - 0.35, row + 0.35], color=INK)
        axes.set(xlim=(0, 100), ylim=(len(cards) - 0.5, -0.5), yticks=range(len(cards)))
        axes.set_yticklabels([wrap_name(f"{card.target}: {card.method}", 34) for card, _ in cards])

    rows = [f"{card.method} {_range(expected)}" for card, expected in cards]
    caption = "Expected score, %. Diamond: estimate. Shade: nine in ten scores lie in it. Line: held-out source texts."
    if len(cards) < len(every):
        caption += f" Shown: {len(cards)} of {len(every)} models, one seed of each method."
    return [blocks.Figure(draw_svg(f"Expected scores: {', '.join(rows)}", 0.5 + 0.4 * len(cards), draw), caption)]


def unlabelled_sections(pair: Pair) -> list[Section]:
    """Sections of a pair without target labels; none where it has some, or no run has left its card."""
    cards = _cards(pair)
    if not cards:
        return []
    why = f"{cards[0].target} has no labelled test, so no score is known. What can be said of the models without one:"
    opening: list[Block] = [Prose(why)]
    first = list({card.method: card for card in reversed(cards)}.values())[::-1]
    if len(first) > MOST_MODELS:
        opening.append(Prose(f"In full: {MOST_MODELS} of {counted(len(first), 'method')}.", "soft"))
    adapted = any(card.method != SOURCE_ONLY for card in first)
    first.sort(key=lambda card: card.method == SOURCE_ONLY)
    shown = [(card, adapted and card.method == SOURCE_ONLY) for card in first[:MOST_MODELS]]
    full = [Section(title(card), tuple(as_blocks(card)), 3, folded) for card, folded in shown]
    return [Section(pair.name, tuple(opening), 3), *full]
