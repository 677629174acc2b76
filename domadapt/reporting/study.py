"""The selection study: which validator loses least, and what is left of that where the choice can't see the answer.

Settings of methods, where there are several, are chosen in the same way: :mod:`domadapt.reporting.tuned`.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from domadapt.reporting.blocks import Block, Figure, Section, Table, Text, counted, listed
from domadapt.reporting.exports import Record, write_csv
from domadapt.reporting.figures import PRINT_INK
from domadapt.reporting.markdown import markdown
from domadapt.reporting.paths import given, named_file
from domadapt.reporting.rescored import rescored
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.reporting.tables import as_text
from domadapt.reporting.tuned import tuned_records, tuned_sections
from domadapt.runs.groups import Pair, group
from domadapt.runs.reading import read_runs
from domadapt.statistics.choices import ORACLE, choices
from domadapt.statistics.learnt_choice import Learnt, learnt_choice
from domadapt.statistics.selection_study import FIRST, Fold, Regret, Study, held_out, selection_study
from domadapt.utils.files import refuse_overwriting, write_atomic
from domadapt.utils.opened import files_read
from domadapt.utils.text import visible

ELSEWHERE, LEARNT = "chosen elsewhere", "weights learnt elsewhere"
BLUE, ORANGE = "#0072b2", "#d55e00"
TICKS = (0, 1, 3, 10, 30, 100)
Studied = tuple[Study, Learnt | None]
ABOUT = (
    "Regret: points of target score that a validator's epochs lose against the best epochs by target labels, which "
    "nobody may choose by. Means give every method, pair and corpus the same weight. The validator with the least "
    "regret here was found on the very labels that it is scored by; what counts is the regret of one that was chosen "
    "without the held-out {unit}{apart}."
)
NOTHING = "no run of source-only or of an adapted method recorded what two validators and the oracle would choose"
APART = ", its source, whose networks may be the same, and its target, whose labels are"


def study(runs: str | Path | Sequence[str | Path], output: str | Path, methods: Sequence[str] | None = None) -> str:
    """Write the study of finished runs as Markdown, with its numbers as CSV and its figure as SVG beside it.

    Args:
        runs: folders, or ``metrics.json`` files.
        output: the Markdown file; replaced if it exists.
        methods: names of those to take; None takes source-only and adapted ones, without controls.

    Returns:
        The same for a terminal.

    Raises:
        ValueError: there are no readable runs, none can be studied, or a method is not among them.
    """
    output = named_file(output, "study", (".md", ".markdown"))
    with files_read() as read:
        read_back = read_runs(given(runs))
        found, lacking = rescored(read_back.runs)
    pairs = group(found)
    studies, messages = _studies(pairs, methods)
    messages = [*(f"Unreadable, so left out: {message}" for message in read_back.skipped), *messages, *lacking]
    for path in (output, output.with_suffix(".csv"), output.with_suffix(".svg")):
        refuse_overwriting(path, read)
    sections, by_setting = tuned_sections(pairs, methods), tuned_records(pairs, methods)
    if not studies and not by_setting:
        raise ValueError("; ".join((f"runs={runs}: nothing to study: {NOTHING}", *messages)))
    sections.insert(0, _section(studies, messages))
    write_atomic(output, markdown("Selection study", sections))
    by_validator = [record for one in studies for record in records(*one)]
    write_csv([*by_validator, *by_setting], output.with_suffix(".csv"))
    output.with_suffix(".svg").unlink(missing_ok=True)  # of another study
    if studies:
        with drawing():
            figure = _dots(*studies[0], PRINT_INK)
            figure.savefig(output.with_suffix(".svg"), facecolor="white", metadata={"Date": None})
    texts = [as_text(block) if isinstance(block, Table) else block.text for section in sections
             for block in section.blocks if isinstance(block, Table | Text)]  # fmt: skip
    return "\n\n".join([*texts, f"written: {output}, and the same as .csv{' and .svg' if studies else ''}"])


def study_section(pairs: Sequence[Pair], methods: Sequence[str] | None = None) -> Section:
    """The study as a section of a report.

    Args:
        pairs: of the report.
        methods: names of those to take; None takes source-only and adapted ones, without controls.
    """
    return _section(*_studies(pairs, methods))


def _section(studies: Sequence[Studied], messages: Sequence[str]) -> Section:
    blocks: list[Block] = [Text(message, "warning") for message in messages]
    if not studies:
        blocks.append(Text(f"{NOTHING.capitalize()}."))
    for one, weighted in studies:
        about = Text(ABOUT.format(unit=one.unit, apart=APART if one.unit == "pair" else ""), "soft")
        by_pair = _by_pair(one)
        blocks += [Text(verdict(one)), _figure(one, weighted), about, _table(one, weighted)]
        blocks += [by_pair] if len(by_pair.rows) > 1 else []
        blocks += [_weights(one, weighted)] if weighted else []
    return Section("Selection study", tuple(blocks))


def verdict(study: Study) -> str:
    """What the study says, in words.

    Args:
        study: of one task.
    """
    means = {one.validator: one.mean for one in study.validators}
    start = f"{study.task.capitalize()}, {counted(study.runs, 'run')} of {listed(study.methods)}: "
    same = [name for name, mean in means.items() if name not in (study.default, ORACLE)
            and round(mean - means[study.default], 9) == 0]  # fmt: skip
    least = listed([study.default, *same])
    start += f"{least} {'lose' if same else 'loses'} least, {_points(means[study.default])} points in the mean"
    if not study.folds:
        return f"{start}. Nothing is held out: for some {study.unit} no other is left to choose on."
    lost = held_out(study.folds)
    told = f"{start}. With each {study.unit} held out, the choice elsewhere falls on {_fell(study.folds)} and loses "
    told += f"{_points(lost)} points there"
    if FIRST in means:
        against = [round(fold.regrets[fold.chosen] - fold.regrets[FIRST], 9) for fold in study.folds]
        less, more = sum(value < 0 for value in against), sum(value > 0 for value in against)
        told += f", where {FIRST} throughout loses {_points(means[FIRST])}: less on {less}, more on {more}, "
        told += f"the same on {len(against) - less - more}"
        if lost >= means[FIRST]:
            told += f". So no gain over {FIRST} is seen where the choice can't see the answer"
    if study.alone:
        told += ". (With the pair alone held out, so that others share its networks or its test labels, it falls on "
        told += f"{_fell(study.alone)} and loses {_points(held_out(study.alone))})"
    return f"{told}."


def _fell(folds: Sequence[Fold]) -> str:
    counts = Counter(fold.chosen for fold in folds).most_common()
    return f"{listed([f'{name} for {count}' for name, count in counts])} of {len(folds)}"


def records(study: Study, weighted: Learnt | None) -> list[Record]:
    """One record a validator and pair, and one a validator over all.

    Args:
        study: of one task.
        weighted: weights over validators, where they could be learnt.
    """
    chosen = {fold.held_out: fold.chosen for fold in study.folds}
    found: list[Record] = []
    for one in study.validators:
        whole: Record = {"task": study.task, "corpus": "all", "pair": "all", "validator": one.validator}
        found.append(whole | {"regret": one.mean, "worst_run": one.worst, "score": one.score,
                              "correlation": one.correlation, "across_methods": one.across})  # fmt: skip
        for (corpus, pair), regret in one.by_pair.items():
            own: Record = {"task": study.task, "corpus": corpus, "pair": pair, "validator": one.validator}
            found.append(own | {"regret": regret, "chosen_elsewhere": chosen.get(_unit(study, corpus, pair))})
    if study.folds:
        found.append({"task": study.task, "corpus": "all", "pair": "all", "validator": ELSEWHERE,
                      "regret": held_out(study.folds)})  # fmt: skip
    if weighted and weighted.mean is not None:
        found.append({"task": study.task, "corpus": "all", "pair": "all", "validator": LEARNT,
                      "regret": weighted.mean})  # fmt: skip
    return found


def _studies(pairs: Sequence[Pair], methods: Sequence[str] | None) -> tuple[list[Studied], list[str]]:
    found, messages = choices(pairs, methods)
    studies: list[Studied] = []
    for one in selection_study(found):
        names = [own.validator for own in one.validators if own.validator != ORACLE]
        if len(names) > 1:
            studies.append((one, learnt_choice([run for run in found if run.task == one.task], names)))
    return studies, messages


def _table(study: Study, weighted: Learnt | None) -> Table:
    lines = [
        [_name(one), f"{100 * one.score:.1f}", _points(one.mean), _points(one.worst), _correlation(one), _across(one)]
        for one in study.validators
    ]
    if study.folds:
        lines.insert(-1, [ELSEWHERE, "-", _points(held_out(study.folds)), "-", "-", "-"])
    if weighted and weighted.mean is not None:
        lines.insert(-1, [LEARNT, "-", _points(weighted.mean), "-", "-", "-"])
    among = "across methods: regret of choosing among methods of one pair, seed and backbone by the validator's value"
    notes = ["worst: of the worst single run", among]
    if all(one.correlation is None for one in study.validators):
        notes.append("rank correlation: unknown, these runs keep no target score of every epoch")
    else:
        notes.append(
            "rank correlation: Spearman's, over a run's epochs, of the validator's value with the target score"
        )
    header = ["validator", "score", "regret", "worst", "rank correlation", "across methods"]
    return Table(f"{study.task}: mean target score in percent, regret in points", header, lines, notes)


def _by_pair(study: Study) -> Table:
    shown = [one for one in study.validators if one.validator != ORACLE]
    chosen = {fold.held_out: fold.chosen for fold in study.folds}
    corpora = len({corpus for corpus, _ in shown[0].by_pair}) > 1
    lines = []
    for corpus, pair in shown[0].by_pair:
        regrets = {one.validator: one.by_pair[corpus, pair] for one in shown}
        taken = chosen.get(_unit(study, corpus, pair))
        last = f"{_points(regrets[taken])} ({taken})" if taken else "-"
        name = f"{corpus}: {pair}" if corpora else pair
        lines.append([name, *(_points(value) for value in regrets.values()), last])
    return Table(f"{study.task}: regret by pair", ["pair", *(one.validator for one in shown), ELSEWHERE], lines)


def _weights(study: Study, weighted: Learnt) -> Table:
    """For the next corpus."""
    order = sorted(weighted.weights.items(), key=lambda item: (-item[1], item[0]))
    notes = ["learnt on all of these runs, by target score; the regret above is of weights learnt elsewhere"]
    lines = [[name, f"{100 * share:.0f}"] for name, share in order]
    return Table(f"{study.task}: weights over validators, percent", ["validator", "weight"], lines, notes)


def _unit(study: Study, corpus: str, pair: str) -> str:
    return corpus if study.unit == "corpus" else pair


def _figure(study: Study, weighted: Learnt | None) -> Figure:
    shown = [one for one in study.validators if one.validator != ORACLE]
    told = [f"{one.validator} {_points(one.mean)}, worst {_points(one.worst)}" for one in shown]
    alt = "Regret in points, mean and that of the worst run. " + "; ".join(told)
    caption = "Regret by validator, points; logarithmic above 1. Bars and numbers: means. Dots: pairs. Crosses: the "
    caption += "worst run. Shorter is better."
    with drawing():
        return Figure(element(_dots(study, weighted, INK), alt), caption)


def _dots(study: Study, weighted: Learnt | None, ink: str) -> Drawing:
    shown = [one for one in study.validators if one.validator != ORACLE]
    lines = [(one.validator, one.mean, [*one.by_pair.values()], [one.worst]) for one in shown]
    if study.folds:
        own = [fold.regrets[fold.chosen] for fold in study.folds]
        lines.append((ELSEWHERE, held_out(study.folds), own, []))
    if weighted and weighted.mean is not None:
        lines.append((LEARNT, weighted.mean, [*weighted.regrets.values()], []))
    figure = Drawing(figsize=(WIDTH, 0.26 * len(lines) + 0.7), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    for place, (_, mean, pairs, worst) in enumerate(lines):
        axes.barh(place, 100 * mean, 0.6, color=BLUE, alpha=0.45)
        axes.plot([100 * regret for regret in pairs], [place] * len(pairs), "o", color=BLUE, markersize=3.5, alpha=0.8)
        axes.plot([100 * regret for regret in worst], [place] * len(worst), "x", color=ORANGE, markersize=5)
        # Beside the axis, where no bar crosses it.
        axes.annotate(_points(mean), (1, place), xycoords=("axes fraction", "data"), xytext=(6, 0),
                      textcoords="offset points", va="center", color=ink, fontsize=8)  # fmt: skip
    # Some lose a hundred times what others do, and these are to be told apart, too.
    axes.set_xscale("symlog", linthresh=1)
    most = max(1.0, axes.get_xlim()[1])
    axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
    axes.set_xlim(0, most)
    axes.set_yticks(range(len(lines)), [wrapped(visible(name), 30, 2) for name, *_ in lines])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlabel("regret, points")
    plain(axes, ink, "x")
    return figure


def _name(one: Regret) -> str:
    return f"{one.validator} (a bound)" if one.validator == ORACLE else one.validator


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _correlation(one: Regret) -> str:
    return "-" if one.correlation is None else f"{one.correlation:.2f} ({counted(one.correlated, 'run')})"


def _across(one: Regret) -> str:
    return "-" if one.across is None else f"{_points(one.across)} ({counted(one.choices, 'choice')})"
