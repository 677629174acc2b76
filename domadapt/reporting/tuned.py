"""What methods are worth with settings that were chosen on other pairs, in a section of its own."""

from collections import Counter
from collections.abc import Sequence

from domadapt.reporting.blocks import Block, Section, Table, Text, counted, listed
from domadapt.reporting.exports import Record
from domadapt.runs.groups import Pair
from domadapt.statistics.tuning import Setting, Tuned, tuned

ABOUT = (
    "Each pair gets the setting with the best mean score on those pairs that share neither its source nor its target: "
    "no setting has seen the test that it is scored on. Best: the setting that the pair's own test labels would "
    "choose, which nobody may."
)


def tuned_sections(pairs: Sequence[Pair]) -> list[Section]:
    """A section, where a method was run with several settings on several pairs; else none.

    Args:
        pairs: of the report.
    """
    found, messages = tuned(pairs)
    blocks: list[Block] = [Text(f"{message}.", "warning") for message in messages]
    for task in dict.fromkeys(one.task for one in found):
        own = [one for one in found if one.task == task]
        blocks += [Text(_said(own)), Text(ABOUT, "soft"), _table(own), _by_pair(own)]
    return [Section("Settings chosen on other pairs", tuple(blocks))] if blocks else []


def tuned_records(pairs: Sequence[Pair]) -> list[Record]:
    """One record a method and pair.

    Args:
        pairs: grouped runs.
    """
    return [
        {"task": one.task, "method": one.method, "settings": len(one.settings), "pair": choice.pair,
         "chosen_elsewhere": in_words(choice.setting), "score": choice.score, "best": choice.best}
        for one in tuned(pairs)[0] for choice in one.choices
    ]  # fmt: skip


def in_words(setting: Setting) -> str:
    """A setting as on a command line.

    >>> in_words((("injection.gnn.depth", "2"), ("trainer.epochs", "3")))
    'injection.gnn.depth=2, trainer.epochs=3'
    """
    return ", ".join(f"{name}={value}" for name, value in setting)


def _said(found: Sequence[Tuned]) -> str:
    told = [f"{one.method} has {100 * one.score:.1f} ({100 * one.best:.1f} at best, of {len(one.settings)} settings)"
            for one in found]  # fmt: skip
    start = f"{found[0].task.capitalize()}, mean {found[0].headline} in percent, settings chosen on other pairs: "
    text = start + listed(told) + "."
    if len({len(one.settings) for one in found}) > 1:
        text += " They were not tried with as many settings each, so their budgets are not the same."
    if len({tuple(choice.pair for choice in one.choices) for one in found}) > 1:
        text += " They were not run on the same pairs, so these means do not compare."
    return text


def _table(found: Sequence[Tuned]) -> Table:
    lines = []
    for one in found:
        counts = Counter(in_words(choice.setting) for choice in one.choices).most_common()
        chosen = "; ".join(f"{name} ({counted(count, 'pair')})" for name, count in counts)
        lines.append([one.method, str(len(one.settings)), f"{100 * one.score:.1f}", f"{100 * one.best:.1f}", chosen])
    header = ["method", "settings", "chosen elsewhere", "best (a bound)", "chosen"]
    return Table(f"{found[0].task}: mean over the pairs, percent", header, lines, left=frozenset((0, 4)))


def _by_pair(found: Sequence[Tuned]) -> Table:
    lines = []
    for one in found:
        for own in one.choices:
            scores = [f"{100 * own.score:.1f}", f"{100 * own.best:.1f}"]
            lines.append([f"{one.method}, {own.pair}", *scores, in_words(own.setting)])
    header = ["method and pair", "chosen elsewhere", "best (a bound)", "chosen"]
    return Table(f"{found[0].task}: by pair, percent", header, lines, left=frozenset((0, 3)))
