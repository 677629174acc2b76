"""The report's sections, in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from domadapt.reporting.audits import Audits, data
from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text, collapsed, counted
from domadapt.reporting.calibration import calibration
from domadapt.reporting.cards import fixed_and_broken
from domadapt.reporting.cost import cost
from domadapt.reporting.curves import curve_svg, panels
from domadapt.reporting.dots import dots_svg
from domadapt.reporting.expected import expected
from domadapt.reporting.heatmap import heatmap
from domadapt.reporting.labels import target_label_sections
from domadapt.reporting.mistakes import mistakes
from domadapt.reporting.palette import palette
from domadapt.reporting.regret import regret
from domadapt.reporting.reproduce import reproduce
from domadapt.reporting.rows import rows
from domadapt.reporting.significance import significance
from domadapt.reporting.summary import overview, summary
from domadapt.reporting.tables import table
from domadapt.reporting.unlabelled import unlabelled
from domadapt.reporting.verdict import verdict_card
from domadapt.runs.groups import Pair, RunSet
from domadapt.statistics.results import Statistics
from domadapt.syntax.parser import Parser

EXAMPLES = 10  # of each kind and pair
CARDS = 80  # in the whole report: each is 10 kB with both drawings
FEW = 2  # warnings that are not folded away
LONG = 12  # rows of a table that is, where it only tells how things went
DETAILED = 24  # pairs with curves, calibration and examples


def contents(
    found: RunSet,
    pairs: Sequence[Pair],
    statistics: Statistics,
    audits: Audits,
    parser: Parser,
    attention: bool,
) -> list[Section]:
    """All sections.

    Args:
        found: the runs, and what was unreadable.
        pairs: the same runs, grouped.
        statistics: of these pairs.
        audits: that were found.
        parser: whose parses are drawn.
        attention: draw the attention of the adapted models.
    """
    opening: list[Block] = [verdict_card(pairs, statistics)]
    skipped = [f"Unreadable, so left out: {message}" for message in found.skipped]
    warnings = tuple(Text(message, "warning") for message in (*skipped, *statistics.messages))
    opening += warnings if len(warnings) <= FEW else [Folded(counted(len(warnings), "warning"), warnings)]
    opening.append(
        Text("Scores are percent. An interval holds 95 times in 100; each table says what it is over.", "soft")
    )
    opening.append(Folded("In words", tuple(Text(text) for text in overview(pairs, statistics))))
    sections = [Section("Summary", tuple(opening))]
    colors = palette(pairs)
    if scored := any(run.target_test for pair in pairs for method in pair.methods for run in method.runs):
        sections += _scores(pairs, statistics, colors)
        sections += [*target_label_sections(pairs, statistics, colors), *_compared(pairs, statistics, colors)]
    else:
        sections.append(Section("On the target", ()))
        for pair in pairs:
            own = _pair(pair, statistics)
            unseen = Text("No scores are drawn: the target test has no labels.")
            sections += unlabelled(pair) or [replace(own, blocks=(*own.blocks, unseen))]
    sections += details(pairs, parser, attention, colors)
    sections += [_long_folded(section) for section in (data(pairs, audits), reproduce(found, pairs))]
    return [replace(one, blocks=_collapsed(one.blocks)) for one in (_gathered(sections) if scored else sections)]


LEGEND = (
    "Dots are means over seeds, lines through them and shades their 95 % intervals. Every method has one colour "
    "throughout; a control has its method's, lighter. The ceiling was trained on target labels."
)


def _scores(pairs: Sequence[Pair], statistics: Statistics, colors: Mapping[str, str]) -> list[Section]:
    """One figure and one table over pairs; what is said of each pair is folded where there are several."""
    bars = {
        f"{pair.name}: {row.method.name}" if len(pairs) > 1 else row.method.name: row.target.mean
        for pair in pairs
        for row in rows(pair, statistics)
        if row.target
    }
    alt = "Scores on the target test: " + ", ".join(f"{name} {100 * mean:.1f}" for name, mean in bars.items())
    text = tuple((name, mean, f"{100 * mean:.1f}") for name, mean in bars.items())
    blocks: list[Block] = [Figure(dots_svg(pairs, statistics, colors, alt), LEGEND, text)]
    if len(pairs) == 1:
        return [Section("Scores", (*blocks, *_pair(pairs[0], statistics).blocks))]
    blocks += heatmap(pairs, statistics)
    return [Section("Scores", tuple(blocks)), *(replace(_pair(pair, statistics), folded=True) for pair in pairs)]


def _pair(pair: Pair, statistics: Statistics) -> Section:
    return Section(pair.name, (Text(summary(pair, statistics)), table(pair, statistics)), 3)


def _compared(pairs: Sequence[Pair], statistics: Statistics, colors: Mapping[str, str]) -> list[Section]:
    """What target scores allow to be said of methods, validators, expectations and costs."""
    return [significance(pairs, statistics), regret(pairs), expected(pairs), cost(pairs, colors)]


def _tables_folded(blocks: Sequence[Block]) -> tuple[Block, ...]:
    tables = tuple(block for block in blocks if isinstance(block, Table) or _is_aside(block))
    others = tuple(block for block in blocks if block not in tables)
    return (*others, Folded("The numbers", tables)) if tables else others


def _is_aside(block: Block) -> bool:
    return isinstance(block, Text) and block.kind == "soft"


def _gathered(sections: Sequence[Section]) -> list[Section]:
    """Parts that say in one line that they have nothing to show, put together at the end."""
    empty = [s for s in sections if s.level == 2 and len(s.blocks) == 1 and isinstance(s.blocks[0], Text)]
    empty = [section for section in empty if section.title in OPTIONAL]
    if not empty:
        return list(sections)
    told = [Text(f"{s.title}: {s.blocks[0].text}", "soft") for s in empty if isinstance(s.blocks[0], Text)]
    return [*(section for section in sections if section not in empty), Section("Not in this report", tuple(told))]


def _long_folded(section: Section) -> Section:
    return replace(
        section,
        blocks=tuple(
            Folded(block.title, (block,)) if isinstance(block, Table) and len(block.rows) > LONG else block
            for block in section.blocks
        ),
    )


OPTIONAL = ("Selection", "Expected without labels")


def _collapsed(blocks: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(
        collapsed(block)
        if isinstance(block, Table)
        else replace(block, blocks=_collapsed(block.blocks))
        if isinstance(block, Folded)
        else block
        for block in blocks
    )


def details(pairs: Sequence[Pair], parser: Parser, attention: bool, colors: Mapping[str, str]) -> list[Section]:
    """Curves, calibration, errors and examples of each pair; of the first :data:`DETAILED` in a large report.

    Args:
        pairs: of the report.
        parser: whose parses are drawn.
        attention: draw the attention of the adapted models.
        colors: by the methods' names.
    """
    shown = pairs[:DETAILED]
    most = min(EXAMPLES, max(1, CARDS // (2 * len(shown))))
    intro: list[Block] = []
    if len(pairs) > len(shown):
        left = (
            f"{len(pairs) - len(shown)} of {counted(len(pairs), 'pair')} have no details, so that the file stays small"
        )
        intro.append(Text(f"{left}: report on their folders alone to see them.", "warning"))
    if most < EXAMPLES:
        intro.append(
            Text(f"At most {counted(most, 'example')} of each kind and pair, so that the file stays small.", "soft")
        )
    if len(shown) == 1:  # its name would be that of the only part
        return [Section("Pair by pair", tuple(intro)), *_details(shown[0], parser, most, attention, colors)]
    sections = [Section("Pair by pair", tuple(intro))]
    for pair in shown:
        parts = _details(pair, parser, most, attention, colors)
        blocks = [block for part in parts for block in (Text(part.title.partition(": ")[2], "lead"), *part.blocks)]
        sections.append(Section(pair.name, tuple(blocks), 3, folded=True))
    return sections


def _details(pair: Pair, parser: Parser, most: int, attention: bool, colors: Mapping[str, str]) -> list[Section]:
    parts = [("learning curves", _learning(pair, colors))]
    if any(run.target_test for method in pair.methods for run in method.runs):
        fixed = fixed_and_broken(pair, parser, most, attention)
        parts += [("calibration", list(_tables_folded(calibration(pair, colors))))]
        parts += [("kinds of errors", _errors(pair)), ("what adaptation fixed, and what it broke", fixed)]
    return [Section(f"{pair.name}: {title}", tuple(part), 3, title == "calibration") for title, part in parts if part]


def _learning(pair: Pair, colors: Mapping[str, str]) -> list[Block]:
    front, others = panels(pair)
    if not front:
        return [Text("No run has a curve.")]
    names = ", ".join(method.name for method in pair.methods)
    caption = (
        "By epoch, mean over seeds. Dev score and losses are of the source domain; in_domain's are of the target, "
        "which is its training domain."
    )
    blocks: list[Block] = [
        Figure(curve_svg(pair, front, colors, f"Learning curves by epoch, {pair.name}: {names}"), caption)
    ]
    if others:
        alt = f"Curves of other losses by epoch, {pair.name}: {', '.join(others)}"
        figure = Figure(curve_svg(pair, others, colors, alt), "")
        blocks.append(Folded(counted(len(others), "other loss", "other losses"), (figure,)))
    return blocks


def _errors(pair: Pair) -> list[Block]:
    try:
        found = mistakes(pair)
    except ValueError as error:  # damaged predictions spoil this table, not the report
        return [Text(f"Not counted: {error}.", "soft")]
    return [found] if found else []
