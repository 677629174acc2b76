"""What choosing a checkpoint without target labels costs: every validator's choice beside the oracle's."""

from collections.abc import Sequence

from domadapt.reporting.blocks import Folded, Section, Table, Text
from domadapt.reporting.rows import scores
from domadapt.runs.groups import Method, Pair

BOUND = "oracle"  # chooses by target test labels: a bound, never a choice


def regret(pairs: Sequence[Pair]) -> Section:
    """One table a pair: mean target score of the checkpoint that each validator would have chosen.

    Args:
        pairs: of the report.
    """
    tables = [table for pair in pairs if (table := regret_table(pair)) is not None]
    about = (
        "A validator chooses which epoch's model is kept. The oracle looks at target test labels, so it is only a "
        "bound; the difference to it is what choosing without them costs. In brackets: the mean epoch chosen. "
        "The validator that each run really used is marked *."
    )
    if not tables:
        none = "No run recorded what other validators would have chosen with their scores on the target test."
        return Section("Selection regret", (Text(none),))
    if len(tables) > 1:
        return Section("Selection regret", (Text(about, "soft"), Folded("Pair by pair", tuple(tables))))
    return Section("Selection regret", (Text(about, "soft"), *tables))


def regret_table(pair: Pair) -> Table | None:
    """A pair's validators, by method; None where no run recorded scores of their choices."""
    choices = {method.name: mean_choices(method, pair.headline) for method in pair.methods}
    names = list(dict.fromkeys(name for found in choices.values() for name in found))
    if not names:
        return None
    order = [*(name for name in names if name != BOUND), *([BOUND] if BOUND in names else [])]
    used = {m.name: {run.selection.validator for run in m.runs} for m in pair.methods}
    table = Table(
        f"{pair.name}: {pair.headline} on the target test by validator, percent",
        ["method", *(f"{name} (a bound)" if name == BOUND else name for name in order), "regret"],
        [],
    )
    for method, found in choices.items():
        if not found:
            continue
        cells = []
        for name in order:
            mark = "*" if name in used[method] else ""
            cells.append(f"{100 * found[name][0]:.1f} ({found[name][1]:.1f}){mark}" if name in found else "")
        gaps = scores(_of(pair, method), lambda run: run.selection.gap)
        table.rows.append([method, *cells, f"{100 * sum(gaps) / len(gaps):.1f}" if gaps else "-"])
    table.notes.append("regret: mean over seeds of the oracle's score less the chosen checkpoint's, in points")
    return table


def mean_choices(method: Method, headline: str) -> dict[str, tuple[float, float]]:
    """Validator → (mean target score, mean epoch) of its choices over seeds.

    >>> from domadapt.runs.metrics import Choice, Metrics, Selection
    >>> run = Metrics(selection=Selection(choices={"entropy": Choice(2, {"span_f1": 0.5})}))
    >>> mean_choices(Method("a", "adapted", (run,)), "span_f1")
    {'entropy': (0.5, 2.0)}
    """
    found: dict[str, list[tuple[float, int]]] = {}
    for run in method.runs:
        for name, choice in run.selection.choices.items():
            value = (choice.target_test or {}).get(headline)
            if value is not None:
                found.setdefault(name, []).append((value, choice.epoch))
    return {
        name: (sum(v for v, _ in pairs) / len(pairs), sum(e for _, e in pairs) / len(pairs))
        for name, pairs in found.items()
    }


def _of(pair: Pair, name: str) -> Method:
    return next(method for method in pair.methods if method.name == name)
