"""The card of a run without target labels: for a terminal, for `card.md`, and in the report."""

import shlex
from collections.abc import Iterator
from textwrap import wrap

from domadapt.reporting.blocks import Block, Listing, Marked, Samples, Section, Table, Text, counted, in_line
from domadapt.reporting.markdown import markdown
from domadapt.reporting.tables import as_text
from domadapt.runs.target_card import Kind, Sample, TargetCard
from domadapt.utils.text import visible

WIDTH = 110
SHOWN = 6  # words of a kind on a terminal
LEFT = frozenset((0, 4))


def as_lines(card: TargetCard, width: int = WIDTH) -> str:
    """The card for a terminal; every character of it harmless.

    Args:
        card: of the run.
        width: of a line, in characters.
    """
    lines = [title(card), "", *(f"  {line}" for line in _facts(card)), "", as_text(kinds_table(card, SHOWN)), ""]
    if card.samples:
        lines.append(f"{_of_them(card)}:")
        for sample in card.samples:
            lines += wrap(in_line(marked(sample)), width, initial_indent="  · ", subsequent_indent="    ")
        lines.append("")
    if card.warnings:
        lines.append(f"{counted(len(card.warnings), 'warning')}:")
        for warning in card.warnings:
            lines += wrap(warning, width, initial_indent="  ! ", subsequent_indent="    ")
        lines.append("")
    lines += [f"  {name:<12} {value}" for name, value in _places(card)]
    return "\n".join(visible(line) for text in lines for line in text.split("\n"))


def as_markdown(card: TargetCard) -> str:
    """The card as a file of its own."""
    return markdown(title(card), [Section("On the target", tuple(blocks(card)))])


def blocks(card: TargetCard) -> Iterator[Block]:
    """The card as a part of a report."""
    for line in _facts(card):
        yield Text(line)
    for warning in card.warnings:
        yield Text(warning, "warning")
    yield kinds_table(card)
    if card.samples:
        yield Samples(_of_them(card), tuple(map(marked, card.samples)))
    yield Listing("Where the model is, and how to use it", tuple(value for _, value in _places(card)), code=True)


def title(card: TargetCard) -> str:
    """What was run, in a line."""
    return f"{card.source} → {card.target}: {card.task} by {card.method} on {card.backbone}, seed {card.seed}"


def kinds_table(card: TargetCard, words: int = 10) -> Table:
    """What is predicted of the target, how often, and on which words.

    Args:
        card: of the run.
        words: shown of each kind.
    """
    spans = card.task == "extraction"
    total = sum(kind.count for kind in card.kinds) or 1
    source = sum(kind.source for kind in card.kinds) or 1

    def row(kind: Kind) -> list[str]:
        if spans:
            often = [f"{kind.count / max(1, card.texts):.2f}", f"{kind.source / max(1, card.source_texts):.2f}"]
            found = [f"{word} ({count})" for word, count in kind.words[:words]]
        else:
            often = [f"{100 * kind.count / total:.0f} %", f"{100 * kind.source / source:.0f} %"]
            found = [word for word, _ in kind.words[:words]]
        return [kind.name, f"{kind.count:,}", *often, ", ".join(found) or "-"]

    heading = ["type", "spans", "a text", "a source text", "found most"]
    if not spans:
        heading = ["label", "texts", "share", "share in source", "words that set them apart"]
    about = f"Predicted of {counted(card.texts, 'target text')}"
    if spans:
        about += f", {card.empty} of them without a span"
    return Table(about, heading, [row(kind) for kind in card.kinds], left=LEFT)


def marked(sample: Sample) -> Marked:
    """A sample with its spans marked, or its label before it.

    >>> marked(Sample("The fan whines.", spans=((4, 7, "aspect"),))).pieces
    (('The ', ''), ('fan', 'aspect'), (' whines.', ''))
    """
    pieces, end = list[tuple[str, str]](), 0
    for start, stop, kind in sorted(sample.spans):
        if start >= end:
            pieces += [(sample.text[end:start], ""), (sample.text[start:stop], kind)]
            end = stop
    pieces.append((sample.text[end:], ""))
    lead = "" if sample.label is None else f"{sample.label} {sample.confidence:.2f}"
    return Marked(lead, tuple(piece for piece in pieces if piece[0]), sample.left_out)


def _facts(card: TargetCard) -> Iterator[str]:
    headline = card.headline.replace("_", " ").replace("f1", "F1")
    yield (
        f"{headline} {100 * card.source_dev:.1f} on {counted(card.dev_texts, 'held-out text')} of the source, after "
        f"{card.steps:,} steps on {counted(card.source_texts, 'text')}."
    )
    if card.expected is not None:
        one, error = card.expected, card.expected.usual_error
        off = "" if error is None else f"; such estimates are usually off by {100 * error:.1f}"
        yield (
            f"Expected on the target, without a label of it: {headline} {100 * one.score:.1f} ({100 * one.low:.1f} to "
            f"{100 * one.high:.1f}, nine times in ten{off})."
        )
    if card.confidence is not None:
        what = "its labels" if card.task == "classification" else "the words in spans"
        yield (
            f"Confidence on the target: {100 * card.confidence:.0f} % in the mean of {what}; {100 * card.unsure:.0f} % "
            f"of them are below one half."
        )


def _of_them(card: TargetCard) -> str:
    return f"{len(card.samples)} predictions, drawn at random"


def _places(card: TargetCard) -> Iterator[tuple[str, str]]:
    yield "predictions", f"{card.folder}/predictions.jsonl"
    yield "model", card.model
    yield "use it", f'domadapt predict model={shlex.quote(card.model)} text="Type a sentence here."'
    yield "in Python", f'domadapt.load("{card.model}").predict(["Type a sentence here."])'
