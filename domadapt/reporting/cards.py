"""Cards, audits, expected scores: what is said of runs without target labels."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from domadapt.analysis.attention import LEAST, Attention, as_parse, attention
from domadapt.reporting.blocks import (
    Block,
    Card,
    Cards,
    Folded,
    Listing,
    Marked,
    Samples,
    Section,
    Table,
    Text,
    counted,
    in_line,
)
from domadapt.reporting.examples import Comparison, Example, Labels, compare
from domadapt.reporting.markdown import markdown
from domadapt.reporting.rows import rows
from domadapt.reporting.tables import as_text
from domadapt.reporting.trees import Lane, tree_svg
from domadapt.runs.groups import MethodRuns, Pair
from domadapt.runs.metrics import Expected, Metrics
from domadapt.runs.target_card import Kind, ShownText, TargetCard, read_card
from domadapt.statistics.items import agreement
from domadapt.syntax.parser import Parse, Parser
from domadapt.utils.text import cut, shortened, visible

if TYPE_CHECKING:
    from domadapt.auditing.audit import Audit


@dataclass(frozen=True, slots=True)
class Audits:
    """Audits that were found.

    Attributes:
        audits: what each says.
        skipped: one message for each file that could not be read.
    """

    audits: tuple["Audit", ...] = ()
    skipped: tuple[str, ...] = ()


def read_audits(runs: Iterable[str | Path], given: str | Path | None) -> Audits:
    """Audits below the folders of the runs, or those given.

    Args:
        given: an ``audit.json``, or a folder that is searched for them; None searches ``runs``.

    Raises:
        ValueError: ``given`` holds no readable audit.
    """
    places = [Path(given)] if given is not None else [Path(path) for path in runs]
    if given is not None and not places[0].exists():
        raise ValueError(f"audit={given}: there is no such file; write one with `domadapt audit data=...`")
    files = sorted({f.resolve() for place in places for f in ([place] if place.is_file() else place.rglob("audit.json"))
                    if given is not None or f.name == "audit.json"})  # fmt: skip
    if given is not None and not files:
        raise ValueError(f"audit={given}: no audit.json in that folder; write one with `domadapt audit data=...`")
    if not files:
        return Audits()
    from domadapt.auditing.audit import read_audit

    audits, skipped = list["Audit"](), list[str]()
    for file in files:
        try:
            audits.append(read_audit(file))
        except ValueError as error:
            if given is not None and len(files) == 1:
                raise
            skipped.append(str(error))
    return Audits(tuple(audits), tuple(skipped))


def data(pairs: Sequence[Pair], audits: Audits) -> Section:
    """As published and clean side by side, and the audits."""
    blocks: list[Block] = [published_and_clean(pairs)]
    blocks += [Text(f"An audit was left out: {message}", "warning") for message in audits.skipped]
    for audit in audits.audits:
        blocks.append(Text(f"Audit of {audit.source} → {audit.target}", "lead"))
        severe = [f for f in audit.findings if f.severity != "note"]
        blocks.append(Text(audit.verdict if not severe else _head(audit)))
        if audit.findings:
            findings = [[f.severity, f.kind, f.text] for f in audit.findings]
            blocks.append(Table("Findings, worst first", ["severity", "about", "finding"], findings, left=ALL))
        examples = [f"{f.kind}: {example}" for f in audit.findings for example in f.examples]
        if examples:
            blocks.append(Listing(f"Examples of the findings in {audit.source} → {audit.target}", tuple(examples)))
        if audit.mended:
            mended = tuple(f"{what} ({counted(number, 'time')})" for what, number in audit.mended.items())
            blocks.append(Listing("Mended by the readers, or left out", mended))
    if not audits.audits:
        none = "No audit lies with these runs: `domadapt audit data=...` writes audit.json, audit=PATH shows it here."
        blocks.append(Text(none))
    return Section("Data", tuple(blocks))


ALL = frozenset((0, 1, 2))


def published_and_clean(pairs: Sequence[Pair]) -> Table | Text:
    """Every method's score on all of the target test, and on the texts that occur nowhere in training."""
    table = Table(
        "Target test as published and clean: mean scores, percent",
        ["method", "texts", "clean texts", "as published", "clean", "difference"],
        [],
        ["clean: without test texts that are copies of training or unlabelled texts"],
    )
    same = []
    for pair in pairs:
        for row in rows(pair):
            sizes = row.method.runs[0].target_test_sizes
            if row.target is None or row.clean is None:
                continue
            table.rows.append(
                [
                    f"{pair.name}: {row.method.name}",
                    str(sizes.all if sizes else "-"),
                    str(sizes.clean if sizes else "-"),
                    f"{100 * row.target.mean:.1f}",
                    f"{100 * row.clean.mean:.1f}",
                    f"{100 * (row.clean.mean - row.target.mean):+.1f}",
                ]
            )
        if not any(row.clean for row in rows(pair)):
            same.append(pair.name)
    if same:
        table.notes.append(f"as published and clean are the same, or were not recorded apart: {', '.join(same)}")
    return table if table.rows else Text(f"As published and clean are the same, or no run recorded them apart: "
                                         f"{', '.join(same)}.")  # fmt: skip


def _head(audit: "Audit") -> str:
    counts = {s: sum(f.severity == s for f in audit.findings) for s in ("severe", "warning", "note")}
    stand = "Scores can't be taken as they stand" if counts["severe"] else "Scores need companions"
    told = [f"{counts['severe']} severe", counted(counts["warning"], "warning"), counted(counts["note"], "note")]
    return f"{stand}: {', '.join(told)}."


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
    """A pair's examples.

    Args:
        most: examples of each kind that are shown.
    """
    try:
        compared = compare(pair)
    except ValueError as error:  # damaged predictions spoil the examples, not the report
        compared = str(error)
    if not isinstance(compared, Comparison):
        return [Text(f"Nothing to compare: {compared}.")]
    shown = {"Fixed": compared.fixed[:most], "Broke": compared.broken[:most]}
    texts = [excerpt(example) for examples in shown.values() for example in examples]
    parses = list(parser.parse(texts))
    seen = _attention(compared, texts, parses) if with_attention and texts else "left out, as attention=false asked"
    blocks: list[Block] = [Text(_about(pair, compared)), Text(_drawn(pair, seen), "soft")]
    done = 0
    for kind, how in (("Fixed", "fewer"), ("Broke", "more")):
        examples, number = shown[kind], len(compared.fixed if kind == "Fixed" else compared.broken)
        of = "" if not number else "; all of them" if number == len(examples) else f"; {len(examples)} of them"
        has = f"{counted(number, 'text has', 'texts have')} {how} errors{of}"
        blocks.append(Text(f"{kind}: {has}", "lead"))
        cards = [_card(pair, e, texts[done + i], parses[done + i], seen, done + i) for i, e in enumerate(examples)]
        if cards:
            blocks.append(Cards(tuple(cards[:FRONT])))
        if len(cards) > FRONT:
            blocks.append(Folded(f"{kind}: {len(cards) - FRONT} more", (Cards(tuple(cards[FRONT:])),)))
        done += len(examples)
    return blocks


def excerpt(example: Example) -> Excerpt:
    """The beginning of a text, and of the owner's words those that lie in it whole."""
    text, left_out = cut(example.text, LONGEST_TEXT)
    text = UNPAIRED.sub("\ufffd", text)  # half a character: spaCy refuses it
    words = example.words
    return Excerpt(text, words if words is None else tuple(w for w in words if w[1] <= len(text)), left_out)


def _about(pair: Pair, compared: Comparison) -> str:
    error = "a span missed or invented" if pair.task == "extraction" else "a wrong label"
    return (
        f"{compared.method.name} against source_only at the same seeds ({', '.join(map(str, compared.seeds))}), on "
        f"{compared.total} target test texts. The method is the adapted one with the best score on source dev, not on "
        f"the target. An error is {error}. Texts left free of errors, or broken that had none, come first."
    )


def _drawn(pair: Pair, seen: Attention | str) -> str:
    spans = (
        "Below the words: the annotators' spans (gold), source_only's (before), the adapted model's (after). "
        if pair.task == "extraction"
        else ""
    )
    if isinstance(seen, str):
        looks = f" No attention is drawn: {seen}."
    else:
        looks = (
            f" The second drawing is the adapted model's attention in layer {seen.layer + 1}, head {seen.head + 1} of "
            f"{seen.heads}, the head that attends most to syntactic heads in these texts: an arrow points at a word "
            f"and comes from the word that it looks at most, with the percentage of its attention "
            f"where that is {100 * LEAST:.0f} or more."
        )
    return (
        f"Each sentence is drawn at the seed that changed most. {spans}Above the words: the shipped parser's "
        f"relations; arrows with a name come from a word in the line above (↑) or below (↓). Arcs to punctuation are "
        f"left out, texts are cut after {LONGEST_TEXT} characters, and characters that draw nothing or turn the "
        f"direction are written as code points.{looks}"
    )


def _attention(compared: Comparison, texts: Sequence[Excerpt], parses: Sequence[Parse]) -> Attention | str:
    # One model for all texts: loading one a seed would cost more than the rest of the report.
    folder = Path(compared.method.runs[0].folder)
    return attention(folder / "model", [text.text for text in texts], parses)


def _card(pair: Pair, example: Example, text: Excerpt, parse: Parse, seen: Attention | str, index: int) -> Card:
    three = {"gold": example.gold, "before": example.before, "after": example.after}
    lanes = [Lane(name, tuple(sorted(labels.spans))) for name, labels in three.items()]
    if pair.task != "extraction":
        lanes = []
    tree = tree_svg(text.text, parse, lanes, "Dependency parse and spans of the sentence above")
    drawings = [("", tree)]
    if isinstance(seen, Attention) and len(parse.words):
        looks, agree, of = as_parse(seen.weights[index], parse)
        above = f"Attention: {agree} of {counted(of, 'word')} with a syntactic head look most at it."
        drawings.append((above, tree_svg(text.text, looks, [], "Attention between the words of the sentence above")))
    said: list[str] = []
    if pair.task == "classification":
        remark = f"gold {three['gold'].label}, before {three['before'].label}, after {three['after'].label}"
        remarks = [f"{remark}; seed {example.seed}"]
    else:
        remarks = [f"errors: {example.errors[0]} before, {example.errors[1]} after; seed {example.seed}"]
        said = [f"{name}: {_spans(example.text, labels)}" for name, labels in three.items()]
    return Card(text.text, text.left_out, tuple(remarks), tuple(drawings), tuple(said))


def _spans(text: str, labels: Labels) -> str:
    spans = [f"{shortened(text[s:e], 40)} ({shortened(kind, 20)})" for s, e, kind in sorted(labels.spans)]
    return ", ".join(spans[:8]) + (f" and {len(spans) - 8} more" if len(spans) > 8 else "") if spans else "nothing"


TITLE = "Expected without labels"
ABOUT = (
    "The headline score that was expected on the target before a label of it was read: from confidence, calibrated on "
    "source dev, less what such an estimate is too high elsewhere. What the target's annotators do otherwise than the "
    "source's, confidence can't tell, so the interval is wide."
)


def expected(pairs: Sequence[Pair]) -> Section:
    """Expected and true scores, run by run."""
    runs = [(pair, run) for pair in pairs for method in pair.methods for run in method.runs if run.expected]
    if not runs:
        return Section(TITLE, (Text("No run recorded what it expected to score."),))
    blocks: list[Block] = [Text(ABOUT, "soft"), *(Text(told) for told in summary(run for _, run in runs))]
    lines = [_line(pair, run, run.expected) for pair, run in runs if run.expected]
    header = ["pair", "method", "seed", "expected", "from", "to", "was", "off", "usually off"]
    notes = ["from, to: nine times in ten; usually off: mean absolute error on corpora the estimate was not fitted to"]
    blocks.append(Table("Expected and true headline score, percent", header, lines, notes))
    if agreeing := [line for pair in pairs for method in pair.methods for line in _agreeing(pair, method)]:
        notes = [
            "macro F1 of one seed's predictions against another's on the target test; too high where all err alike"
        ]
        blocks.append(Table("How far seeds agree, percent", ["pair", "method", "agreement", "was"], agreeing, notes))
    return Section(TITLE, tuple(blocks))


def _agreeing(pair: Pair, method: MethodRuns) -> list[list[str]]:
    known = [was for run in method.runs if (was := run.score()) is not None]
    if not known or (shared := agreement(method.runs)) is None:
        return []
    return [[pair.name, method.name, _percent(shared), _percent(sum(known) / len(known))]]


def summary(runs: Iterable[Metrics]) -> list[str]:
    """In words: how far off expectations were.

    Args:
        runs: with an expected score each.

    >>> known = Expected(0.612, 0.5, 0.7)
    >>> run = Metrics(headline="span_f1", target_test={"span_f1": 0.589}, expected=known)
    >>> summary([run])
    ['Expected 61.2, was 58.9: off by 2.3 points on average over 1 run; 1 within its interval.']
    """
    both = [(one, was) for run in runs if (one := run.expected) and (was := run.score()) is not None]
    if not both:
        return ["The target test has no labels: nothing shows how far off these are."]
    mean_expected, mean_was = (sum(values) / len(both) for values in zip(*((e.score, w) for e, w in both), strict=True))
    error = sum(abs(one.score - was) for one, was in both) / len(both)
    inside = sum(one.low <= was <= one.high for one, was in both)
    start = "Expected" if len(both) == 1 else "In the mean, expected"
    return [
        f"{start} {_percent(mean_expected)}, was {_percent(mean_was)}: off by {_percent(error)} points on average over "
        f"{counted(len(both), 'run')}; {inside} within {'its' if len(both) == 1 else 'their'} interval."
    ]


def _line(pair: Pair, run: Metrics, told: Expected) -> list[str]:
    was = run.score()
    return [
        pair.name,
        run.method,
        str(run.seed),
        *(_percent(value) for value in (told.score, told.low, told.high)),
        _percent(was),
        "-" if was is None else f"{100 * (told.score - was):+.1f}",
        _percent(told.usual_error),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


WIDTH = 110
SHOWN = 6  # words of a kind on a terminal
LEFT = frozenset((0, 4))
CHANGES = 8  # words that are shown of each kind of change


def as_lines(card: TargetCard, width: int = WIDTH) -> str:
    """The card for a terminal; every character of it harmless.

    Args:
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
    yield from _beside_source_only(card)


def _beside_source_only(card: TargetCard) -> Iterator[str]:
    """What adapting has changed, so that nobody is harmed in silence."""
    if card.relabelled is not None:
        yield f"{card.relabelled:,} of {counted(card.texts, 'text')} have another label than by the source-only model."
    for title, chosen in (
        ("Found by the source-only model, hardly by this one", [c for c in card.changes if c.before > c.now]),
        ("Found by this model, hardly by the source-only one", [c for c in card.changes if c.before < c.now]),
    ):
        if chosen:
            words = ", ".join(f"{c.words} ({c.before} → {c.now})" for c in chosen[:CHANGES])
            yield f"{title}: {words}{f', and {len(chosen) - CHANGES} others' if len(chosen) > CHANGES else ''}."


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


MOST = 6  # models of a pair that are shown in full, one seed of each method


def unlabelled(pair: Pair) -> list[Section]:
    """Sections of a pair without target labels; none where it has some, or no run has left its card."""
    runs = [run for method in pair.methods for run in method.runs]
    cards = (
        [] if any(run.target_test for run in runs) else [read_card(run.folder, run.key) for run in runs if run.folder]
    )
    found = [card for card in cards if card is not None]
    if not found:
        return []
    why = f"{found[0].target} has no labelled test, so no score is known. What can be said of the models without one:"
    opening: list[Block] = [Text(why)]
    if len(found) > 1:
        opening.append(comparison(found))
    first = list({card.method: card for card in reversed(found)}.values())[::-1]
    if len(first) > MOST:
        opening.append(Text(f"In full: {MOST} of {counted(len(first), 'method')}.", "soft"))
    return [
        Section(pair.name, tuple(opening), 3),
        *(Section(title(card), tuple(blocks(card)), 3) for card in first[:MOST]),
    ]


def comparison(cards: list[TargetCard]) -> Table:
    """Models side by side: what they reach on source dev, how sure they are of the target, and what they find there."""
    kinds = list(dict.fromkeys(kind.name for card in cards for kind in card.kinds))
    spans = cards[0].task == "extraction"

    def often(card: TargetCard, name: str) -> str:
        count = next((kind.count for kind in card.kinds if kind.name == name), 0)
        return f"{count / max(1, card.texts):.2f}" if spans else f"{100 * count / max(1, card.texts):.0f} %"

    rows = [
        [
            f"{card.method}, seed {card.seed}",
            f"{100 * card.source_dev:.1f}",
            "-" if card.expected is None else f"{100 * card.expected.score:.1f}",
            "-" if card.confidence is None else f"{100 * card.confidence:.0f} %",
            *(often(card, name) for name in kinds),
            str(len(card.warnings)),
        ]
        for card in cards
    ]
    about = "spans a target text" if spans else "share of target texts"
    return Table(
        f"Source dev and expected target score in percent, confidence on the target, {about}",
        ["model", "source dev", "expected", "confidence", *kinds, "warnings"],
        rows,
        narrow=True,
    )
