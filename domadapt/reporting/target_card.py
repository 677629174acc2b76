"""What a run's model says of a target without labels: lines of a terminal, a file, sections of the report."""

import shlex
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from domadapt.reporting.blocks import (
    Block,
    Facts,
    Figure,
    Listing,
    Marked,
    Prose,
    Samples,
    Section,
    Table,
    for_each,
    tabled,
)
from domadapt.reporting.formats import counted, number, percent
from domadapt.reporting.render import as_text, in_line, markdown
from domadapt.runs.groups import Pair
from domadapt.runs.metrics import Expected
from domadapt.runs.target_card import ShownText, TargetCard, read_card
from domadapt.utils.text import visible

WIDTH = 110
SHOWN = 6  # words of a kind on a terminal
CHANGES = 8  # words that are shown of each kind of change
SOURCE_ONLY = "source_only"
MOST = 6  # models of a pair that are shown in full, one seed of each method


def as_lines(card: TargetCard, width: int = WIDTH) -> str:
    """The card for a terminal, in lines of so many characters; every one of them harmless."""
    lines = [title(card), "", *(f"  {line}" for line in _facts(card)), "", as_text(kinds_table(card, SHOWN)), ""]
    samples = [in_line(marked(sample)) for sample in card.samples]
    heads = f"{_of_them(card)}:", f"{counted(len(card.warnings), 'warning')}:"
    for head, mark, texts in ((heads[0], "·", samples), (heads[1], "!", card.warnings)):
        if texts:
            wrapped = (wrap(text, width, initial_indent=f"  {mark} ", subsequent_indent="    ") for text in texts)
            lines += [head, *(line for some in wrapped for line in some), ""]
    lines += [f"  {name:<12} {value}" for name, value in _places(card)]
    return "\n".join(visible(line) for text in lines for line in text.split("\n"))


def as_markdown(card: TargetCard) -> str:
    """The card as a file of its own."""
    return markdown(title(card), [Section("On the target", tuple(blocks(card)))])


def blocks(card: TargetCard) -> Iterator[Block]:
    """The card as a part of a report."""
    yield from map(Prose, _facts(card))
    yield from (Prose(warning, "warning") for warning in card.warnings)
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
        words: shown of each kind.
    """
    total = sum(kind.count for kind in card.kinds) or 1
    source = sum(kind.source for kind in card.kinds) or 1
    about = f"Predicted of {counted(card.texts, 'target text')}"
    if card.task == "extraction":
        about += f", {card.empty} of them without a span"
        columns = [
            ("type", lambda kind: kind.name),
            ("spans", lambda kind: f"{kind.count:,}"),
            ("a text", lambda kind: f"{kind.count / max(1, card.texts):.2f}"),
            ("a source text", lambda kind: f"{kind.source / max(1, card.source_texts):.2f}"),
            ("found most", lambda kind: ", ".join(f"{word} ({n})" for word, n in kind.words[:words]) or "-"),
        ]
    else:
        columns = [
            ("label", lambda kind: kind.name),
            ("texts", lambda kind: f"{kind.count:,}"),
            ("share", lambda kind: f"{100 * kind.count / total:.0f} %"),
            ("share in source", lambda kind: f"{100 * kind.source / source:.0f} %"),
            ("words that set them apart", lambda kind: ", ".join(word for word, _ in kind.words[:words]) or "-"),
        ]
    return tabled(about, card.kinds, columns, left=(0, 4))


def marked(sample: ShownText) -> Marked:
    """A sample with its spans marked, or its label before it.

    >>> marked(ShownText("The fan whines.", spans=((4, 7, "aspect"),))).pieces
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
    # What adapting has changed, so that nobody is harmed in silence.
    if card.relabelled is not None:
        yield f"{card.relabelled:,} of {counted(card.texts, 'text')} have another label than by the source-only model."
    for start, changes in (
        ("Found by the source-only model, hardly by this one", [c for c in card.changes if c.before > c.now]),
        ("Found by this model, hardly by the source-only one", [c for c in card.changes if c.before < c.now]),
    ):
        if changes:
            words = ", ".join(f"{c.words} ({c.before} → {c.now})" for c in changes[:CHANGES])
            yield f"{start}: {words}{f', and {len(changes) - CHANGES} others' if len(changes) > CHANGES else ''}."


def _of_them(card: TargetCard) -> str:
    return f"{len(card.samples)} predictions, drawn at random"


def _places(card: TargetCard) -> Iterator[tuple[str, str]]:
    yield "predictions", f"{card.folder}/predictions.jsonl"
    yield "model", card.model
    if card.changes or card.relabelled is not None:
        yield "source-only", f"{card.folder}/source_only/model"
    if card.to_label:
        model, file = shlex.quote(card.model), shlex.quote(f"{card.folder}/{card.to_label}")
        yield "a score", f"label some texts of {file}, then domadapt score model={model} input={file}"
    yield "use it", f'domadapt predict model={shlex.quote(card.model)} text="Type a sentence here."'
    yield "in Python", f'domadapt.load("{card.model}").predict(["Type a sentence here."])'


def _cards(pair: Pair) -> list[TargetCard]:
    runs = [run for method in pair.methods for run in method.runs]
    if any(run.target_test for run in runs):
        return []
    return [card for run in runs if run.folder and (card := read_card(run.folder, run.key)) is not None]


def expectation(pairs: Sequence[Pair]) -> Facts | None:
    """The expected score with its range, and six facts, of the first adapted model; None where nothing is expected."""
    cards = [card for pair in pairs for card in _cards(pair) if card.expected is not None]
    if not cards:
        return None
    card = next((card for card in cards if card.method != SOURCE_ONLY), cards[0])
    before = next((one for one in cards if one.method == SOURCE_ONLY and one is not card), None)
    one, places = card.expected, dict(_places(card))
    assert one is not None
    items = []
    if before is not None and (was := before.expected) is not None:
        apart = was.high < one.low or one.high < was.low
        said = "The ranges do not overlap." if apart else "The ranges overlap: this does not show that adapting helped."
        items.append(("Before adapting", f"{_range(was)}. {said}"))
    error = "" if one.usual_error is None else f"Usually off by {100 * one.usual_error:.1f} points. "
    items += [
        ("For a score", places.get("a score", "give labelled texts: target.test_path=FILE")),
        ("Such estimates", f"{error}They are good for a level, not for choosing a model."),
        ("On held-out texts of the source", f"{100 * card.source_dev:.1f} of {counted(card.dev_texts, 'text')}"),
        ("The model, and how to use it", places["use it"]),
        ("Before you believe it", card.warnings[0] if card.warnings else "No warnings."),
    ]
    name = card.headline.replace("_", " ").replace("f1", "F1")
    sentence = (
        f"Expect a {name} of about {100 * one.score:.0f} on {card.target}; nine times in ten it lies between "
        f"{100 * one.low:.0f} and {100 * one.high:.0f}."
    )
    return Facts(sentence, tuple(items))


def _range(expected: Expected) -> str:
    return f"{100 * expected.score:.0f} ({100 * expected.low:.0f} to {100 * expected.high:.0f})"


def estimates(pairs: Sequence[Pair]) -> list[Block]:
    """One row a model: a hollow diamond on its range is an estimate, a tick what source dev measures."""
    cards = [card for pair in pairs for card in _cards(pair) if card.expected is not None][:MOST]
    if not cards:
        return []

    from domadapt.reporting.svg import ADAPTED, INK, STANDING, drawn, plain, wrapped  # loads matplotlib

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        plain(axes, "x")
        for row, card in enumerate(cards):
            color = STANDING.get(card.method, ADAPTED[0])
            one = card.expected
            assert one is not None
            axes.barh(row, 100 * (one.high - one.low), 0.5, 100 * one.low, color=color, alpha=0.25)
            axes.plot(100 * one.score, row, marker="D", markersize=8, markeredgecolor=color, color="none", mew=2)
            axes.plot([100 * card.source_dev] * 2, [row - 0.35, row + 0.35], color=INK)
        axes.set(xlim=(0, 100), ylim=(len(cards) - 0.5, -0.5), yticks=range(len(cards)))
        axes.set_yticklabels([wrapped(f"{card.target}: {card.method}", 34) for card in cards])

    rows = [f"{card.method} {_range(card.expected)}" for card in cards if card.expected is not None]
    caption = "Expected score, %. Diamond: estimate. Shade: nine in ten scores lie in it. Line: held-out source texts."
    return [Figure(drawn(f"Expected scores: {', '.join(rows)}", 0.5 + 0.4 * len(cards), draw), caption)]


def unlabelled(pair: Pair) -> list[Section]:
    """Sections of a pair without target labels; none where it has some, or no run has left its card."""
    cards = _cards(pair)
    if not cards:
        return []
    why = f"{cards[0].target} has no labelled test, so no score is known. What can be said of the models without one:"
    opening: list[Block] = [Prose(why), *([comparison(cards)] if len(cards) > 1 else [])]
    first = list({card.method: card for card in reversed(cards)}.values())[::-1]
    if len(first) > MOST:
        opening.append(Prose(f"In full: {MOST} of {counted(len(first), 'method')}.", "soft"))
    adapted = any(card.method != SOURCE_ONLY for card in first)
    first.sort(key=lambda card: card.method == SOURCE_ONLY)
    full = [
        Section(title(card), tuple(blocks(card)), 3, folded=adapted and card.method == SOURCE_ONLY)
        for card in first[:MOST]
    ]
    return [Section(pair.name, tuple(opening), 3), *full]


def comparison(cards: Sequence[TargetCard]) -> Table:
    """Models side by side: what they reach on source dev, how sure they are of the target, and what they find there."""
    kinds = dict.fromkeys(kind.name for card in cards for kind in card.kinds)
    spans = cards[0].task == "extraction"

    def often(card: TargetCard, name: str) -> str:
        share = sum(kind.count for kind in card.kinds if kind.name == name) / max(1, card.texts)
        return f"{share:.2f}" if spans else f"{100 * share:.0f} %"

    about = "spans a target text" if spans else "share of target texts"
    return tabled(
        f"Source dev and expected target score in percent, confidence on the target, {about}",
        cards,
        [
            ("model", lambda card: f"{card.method}, seed {card.seed}"),
            ("source dev", lambda card: percent(card.source_dev)),
            ("expected", lambda card: percent(card.expected.score if card.expected else None)),
            ("confidence", lambda card: number(card.confidence, ".0%").replace("%", " %")),
            *for_each([*kinds], often),
            ("warnings", lambda card: str(len(card.warnings))),
        ],
        narrow=True,
    )
