"""What adaptation fixed and broke, drawn: spans, parses, and where the adapted model looks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from domadapt.analysis.subject import LEAST, Attention, as_parse, attention
from domadapt.reporting.blocks import Block, Card, Cards, Folded, Text, counted
from domadapt.reporting.examples import Comparison, Example, Labels, compare
from domadapt.reporting.trees import Lane, tree_svg
from domadapt.runs.groups import Pair
from domadapt.syntax.parser import Parse, Parser
from domadapt.utils.text import cut, shortened

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
        pair: with the run folders' names in its metrics.
        parser: whose parses are drawn.
        most: examples of each kind that are shown.
        with_attention: load the adapted model and draw its attention too.
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
    """The beginning of a text, and of the owner's words those that lie in it whole.

    Args:
        example: whose text.
    """
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
