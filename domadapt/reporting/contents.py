"""The report's sections, in their order."""

from collections.abc import Sequence

from domadapt.reporting.audits import Audits, data
from domadapt.reporting.blocks import Block, Figure, Section, Text, counted
from domadapt.reporting.calibration import calibration
from domadapt.reporting.cards import fixed_and_broken
from domadapt.reporting.cost import cost
from domadapt.reporting.curves import curve_svg
from domadapt.reporting.expected import expected
from domadapt.reporting.figures import bar_svg
from domadapt.reporting.figures import scored as with_scores
from domadapt.reporting.heatmap import heatmap
from domadapt.reporting.regret import regret
from domadapt.reporting.reproduce import reproduce
from domadapt.reporting.significance import significance
from domadapt.reporting.study import study_section
from domadapt.reporting.summary import overview, summary
from domadapt.reporting.tables import table
from domadapt.reporting.unlabelled import unlabelled
from domadapt.runs.groups import Pair
from domadapt.runs.metrics import RunSet
from domadapt.statistics.results import Statistics
from domadapt.syntax.parser import Parser

EXAMPLES = 10  # of each kind and pair
CARDS = 80  # in the whole report: each is 10 kB with both drawings
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
    opening: list[Block] = [Text(text) for text in overview(pairs, statistics)]
    skipped = [f"Unreadable, so left out: {message}" for message in found.skipped]
    opening += [Text(message, "warning") for message in (*skipped, *statistics.messages)]
    opening.append(
        Text("Scores are percent. An interval holds 95 times in 100; each table says what it is over.", "soft")
    )
    sections = [Section("Summary", tuple(opening))]
    scored = any(run.target_test for pair in pairs for method in pair.methods for run in method.runs)
    sections.append(Section("Scores", (Text(BARS, "soft"),)) if scored else Section("On the target", ()))
    for pair in pairs:
        sections += unlabelled(pair) or [_scores(pair, statistics)]
    if scored:
        sections += _compared(pairs, statistics)
    sections += details(pairs, parser, attention)
    sections += [data(pairs, audits), reproduce(found, pairs)]
    return sections


BARS = (
    "Bars are means over seeds, lines their 95 % intervals. Gray: trained from scratch. Blue: source labels only. "
    "Orange: adapted. Purple: a control of an adapted method. Green: the ceiling, trained on target labels."
)


def _compared(pairs: Sequence[Pair], statistics: Statistics) -> list[Section]:
    """What target scores allow to be said of methods, validators, expectations and costs."""
    sections = [heatmap(pairs, statistics), significance(pairs, statistics), regret(pairs), study_section(pairs)]
    return [*sections, expected(pairs), cost(pairs)]


def _scores(pair: Pair, statistics: Statistics) -> Section:
    bars = with_scores(pair, statistics)
    blocks: list[Block] = [Text(summary(pair, statistics))]
    if bars:
        alt = f"Bars of {pair.headline}, {pair.name}: " + ", ".join(
            f"{row.method.name} {100 * score.mean:.1f}" for row, score in bars
        )
        text = tuple((row.method.name, score.mean, f"{100 * score.mean:.1f}") for row, score in bars)
        blocks.append(Figure(bar_svg(pair, alt, statistics), "", text))
    else:
        blocks.append(Text("No bars: the target test has no labels."))
    blocks.append(table(pair, statistics))
    return Section(pair.name, tuple(blocks), 3)


def details(pairs: Sequence[Pair], parser: Parser, attention: bool) -> list[Section]:
    """Learning curves, calibration and examples of each pair; of the first :data:`DETAILED` in a large report.

    Args:
        pairs: of the report.
        parser: whose parses are drawn.
        attention: draw the attention of the adapted models.
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
    sections = [Section("Pair by pair", tuple(intro))]
    for pair in shown:
        names = ", ".join(method.name for method in pair.methods)
        curves = curve_svg(pair, f"Learning curves by epoch, {pair.name}: {names}")
        caption = (
            "By epoch, mean over seeds. Dev score and losses are of the source domain; in_domain's are of the target, "
            "which is its training domain."
        )
        blocks: list[Block] = [Figure(curves, caption) if curves else Text("No run has a curve.")]
        parts = [("learning curves", blocks)]
        if any(run.target_test for method in pair.methods for run in method.runs):
            fixed = fixed_and_broken(pair, parser, most, attention)
            parts += [("calibration", calibration(pair)), ("what adaptation fixed, and what it broke", fixed)]
        sections += [Section(f"{pair.name}: {title}", tuple(part), 3) for title, part in parts]
    return sections
