"""What methods are worth with settings that were chosen on other pairs, in a section of its own."""

from collections.abc import Sequence

from domadapt.reporting.blocks import Block, Section, Table, Text, listed
from domadapt.reporting.exports import Record
from domadapt.runs.groups import Pair
from domadapt.statistics.tuning import Setting, Tuned, tuned

ABOUT = (
    "Each pair gets the setting with the best mean score on those pairs that share neither its sources nor its target "
    "(of several corpora, on the other corpora's): no setting has seen the test that it is scored on. Best: the "
    "setting that the pair's own test labels would choose, which nobody may. Of settings that are equal elsewhere, the "
    "mean."
)


def tuned_sections(pairs: Sequence[Pair], methods: Sequence[str] | None = None) -> list[Section]:
    """A section, where a method was run with several settings; else none.

    Args:
        pairs: of the report.
        methods: names of those to take; None takes source-only and adapted ones, without controls.
    """
    found, messages = tuned(pairs, methods)
    blocks: list[Block] = [Text(f"{message}.", "warning") for message in messages]
    for kind in dict.fromkeys((one.task, one.headline) for one in found):
        own = [one for one in found if (one.task, one.headline) == kind]
        blocks += [Text(_said(own)), Text(ABOUT, "soft"), _table(own), _by_pair(own)]
    return [Section("Settings chosen on other pairs", tuple(blocks))] if blocks else []


def tuned_records(pairs: Sequence[Pair], methods: Sequence[str] | None = None) -> list[Record]:
    """One record a method and pair.

    Args:
        pairs: grouped runs.
        methods: as above.
    """
    return [
        {"task": one.task, "pair": choice.pair, "method": one.method, "headline": one.headline,
         "settings": len(one.settings), "setting": in_words(*choice.chosen), "score": choice.score, "best": choice.best}
        for one in tuned(pairs, methods)[0] for choice in one.choices
    ]  # fmt: skip


def in_words(*chosen: Setting) -> str:
    """Settings as on a command line.

    >>> in_words((("injection.gnn.depth", "2"), ("trainer.epochs", None)))
    'injection.gnn.depth=2, trainer.epochs not set'
    """
    told = [", ".join(f"{n} not set" if value is None else f"{n}={value}" for n, value in one) for one in chosen]
    return " or ".join(told) or "-"


def _said(found: Sequence[Tuned]) -> str:
    start = f"{found[0].task.capitalize()}, mean {found[0].headline} in percent, settings chosen on other pairs: "
    scores = [f"{one.method} has {_percent(one.score)} ({_percent(one.best)} at best)" for one in found]
    text = f"{start}{listed(scores)}."
    if len({len(one.settings) for one in found}) > 1:
        text += " They were not tried with as many settings each, so their budgets are not the same."
    if len({frozenset(choice.pair for choice in one.choices) for one in found}) > 1:
        text += " They were not run on the same pairs, so these means do not compare."
    return text


def _table(found: Sequence[Tuned]) -> Table:
    lines = [[one.method, str(len(one.settings)), _percent(one.score), _percent(one.best)] for one in found]
    header = ["method", "settings", "chosen elsewhere", "best (a bound)"]
    return Table(f"{_of(found)}, mean over the pairs, percent", header, lines)


def _by_pair(found: Sequence[Tuned]) -> Table:
    lines, notes = [], dict[str, None]()
    for one in found:
        short = _short([name for name, _ in one.settings[0]])
        notes |= {f"{own}: {name}": None for name, own in short.items() if own != name}
        for own in one.choices:
            chosen = in_words(*(tuple((short[name], value) for name, value in setting) for setting in own.chosen))
            lines.append([f"{one.method}, {own.pair}", _percent(own.score), _percent(own.best), chosen])
    header = ["method and pair", "chosen elsewhere", "best (a bound)", "chosen"]
    return Table(f"{_of(found)} by pair, percent", header, lines, [*notes], left=frozenset((0, 3)))


def _short(names: Sequence[str]) -> dict[str, str]:
    """Settings by their last part, where that names one of them.

    >>> _short(["injection.gnn.depth", "injection.lisa.layer", "injection.gnn.layer"])["injection.gnn.depth"]
    'depth'
    """
    last = {name: name.rpartition(".")[2] for name in names}
    return {name: own if [*last.values()].count(own) == 1 else name for name, own in last.items()}


def _of(found: Sequence[Tuned]) -> str:
    return f"{found[0].task}: {found[0].headline}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
