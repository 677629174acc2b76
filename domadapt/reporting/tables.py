"""Tables of scores: of a pair, over pairs, by validator, as published and clean, by number of target labels."""

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from domadapt.reporting.blocks import Block, Prose, Section, Table, TableCell, columns_for, make_table, split_columns
from domadapt.reporting.frames import TableRow, best_adapted, detail_names, mean, rows, target_labels
from domadapt.reporting.render import as_text, percent, score_name
from domadapt.runs.groups import Pair, distinct, group, reference, settings, typed
from domadapt.runs.metrics import Metrics
from domadapt.statistics.compare import Cell, Share, Statistics, compare
from domadapt.statistics.resampling import Interval
from domadapt.utils.text import counted

OVER = {
    "seeds and test items": ("s, t", "over seeds and test texts"),
    "seeds": ("s", "over seeds"),
    "test items": ("t", "over test texts, of these trained models and not of training again"),
}
CEILING = "ceiling: trained on target labels"
COPIES = "copies of training, dev or unlabelled texts"


def text_table(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Aligned tables for a terminal, from contents of ``metrics.json``: one a pair, then the gap closed over pairs."""
    pairs = group([typed(content) for content in metrics])
    stored = all(run.folder for pair in pairs for run in pair.runs)  # where predictions are
    roles = {method.role for pair in pairs for method in pair.methods}
    shared = {"source_only", "adapted", "in_domain"} <= roles
    statistics = compare(pairs, predictions=stored) if stored or shared else None
    tables = [table(pair, statistics if stored else None) for pair in pairs]
    if statistics and shared and (shares := shares_table(statistics.overall)):
        tables.append(shares)
    messages = statistics.messages if statistics and stored else ()
    return "\n\n".join([*map(as_text, tables), *messages]) or "no finished runs"


def table(pair: Pair, statistics: Statistics | None = None) -> Table:
    """A pair's table with its footnotes; intervals are over seeds alone without statistics."""
    lines = rows(pair, statistics)
    clean = [row.clean for row in lines if row.clean]
    columns = [
        ("method", lambda row: row.name + (f" ({CEILING})" if row.method.role == "in_domain" else "")),
        ("score", lambda row: percent(row.target.mean if row.target else None)),
        ("interval", lambda row: _interval(row.target)),
        *([("clean", lambda row: percent(row.clean.mean if row.clean else None))] if clean else []),
        *([("clean interval", lambda row: _interval(row.clean))] if any(c.low is not None for c in clean) else []),
        *columns_for({n: score_name(n) for n in detail_names(pair)}, lambda row, name: percent(row.details.get(name))),
        ("source", lambda row: percent(row.source)),
        ("gap closed", lambda row: share_cell(row.gap_closed)),
        *([("regret", lambda row: percent(row.regret))] if any(row.regret is not None for row in lines) else []),
        ("seeds", lambda row: str(len(row.method.seeds))),
    ]
    title = f"{pair.name}: {pair.headline} on the target test, percent"
    return make_table(title, lines, columns, _remarks(pair, lines))


def share_cell(share: Share) -> TableCell:
    """A share of the gap in percent with its interval, and why there is none."""
    if share.value is None:
        return TableCell("-", share.reason)
    low, high = share.value.low, share.value.high
    ends = "" if low is None or high is None or low == high else f" ({100 * low:.0f} to {100 * high:.0f})"
    return TableCell(f"{100 * share.value.mean:.0f} %{ends}", share.reason)


def gap_words(gap: Interval) -> str:
    """The paired difference that a share is of."""
    ends = "no interval"
    if gap.low is not None and gap.high is not None:
        ends = f"{100 * gap.low:.1f} to {100 * gap.high:.1f}, 95 % interval over {gap.units}"
    return f"in_domain − source_only is {100 * gap.mean:.1f} points ({ends})"


def shares_table(overall: Sequence[Cell]) -> Table | None:
    """Adapted methods' shares of the gap over pairs, by each score; None where nothing is known of them."""
    lines = [line for line in overall if line.role == "adapted" and any(share.value for share in line.shares)]
    if not lines:
        return None
    gaps = {s.score: s.gap for line in reversed(lines) for s in line.shares if s.gap}

    def most(line: Cell) -> int:
        return max(share.pairs for share in line.shares)

    def cell(line: Cell, name: str) -> str | TableCell:
        if (share := next((one for one in line.shares if one.score == name), None)) is None:
            return ""
        told = share_cell(share)
        fewer = f" (of {counted(share.pairs, 'pair')})" if share.value and share.pairs < most(line) else ""
        return told._replace(text=told.text + fewer)

    return make_table(
        "Gap closed by each score, percent: mean gain over mean gap of the pairs, with 95 % intervals",
        lines,
        [
            ("method", lambda line: line.method),
            *columns_for({share.score: score_name(share.score) for line in lines for share in line.shares}, cell),
            ("pairs", lambda line: str(most(line))),
        ],
        [f"{score_name(name)}: {gap_words(gap)}" for name, gap in gaps.items()],
    )


def _remarks(pair: Pair, lines: Sequence[TableRow]) -> list[str]:
    over = {e.units for row in lines for e in (row.target, row.clean) if e}
    remarks = [f"({mark}): 95 % interval {words}" for kind, (mark, words) in OVER.items() if kind in over]
    shares = [row.gap_closed for row in lines if row.method.role == "in_domain"]
    if gap := next((share.gap for share in shares if share.value), None):
        remarks.append(f"the gap: {gap_words(gap)}")
    sizes = [s for row in lines for run in row.method.runs if (s := run.target_test_sizes) and s.clean < s.all]
    if counts := sorted({size.clean for size in sizes if size.clean}):
        clean = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        remarks.append(f"clean: on {clean} of {sizes[0].all} texts, without test texts that are {COPIES}")
    if not all(size.clean for size in sizes):
        remarks.append(f"no clean score (-): all test texts are {COPIES}")
    if any(row.source is not None and not row.method.runs[0].source_test for row in lines):
        remarks.append("source: the score on the source's dev part if there is no source test")
    if any(row.regret is not None for row in lines):
        remarks.append("regret: points lost against the best checkpoint in hindsight, by target labels")
    if len({row.method.seeds for row in lines}) > 1:
        remarks.append("the methods were not all run with the same seeds")
    if pair.repeated:
        remarks.append(f"{counted(pair.repeated, 'run')} left out: a later run has the same settings and seed")
    if pair.outdated:
        remarks.append(f"{counted(pair.outdated, 'run')} left out: files of the data have been changed since")
    return remarks


def _interval(value: Interval | None) -> str | TableCell:
    if value is None:
        return "-"
    if value.low is None or value.high is None:
        return TableCell("-", value.reason)
    return f"{100 * value.low:.1f}–{100 * value.high:.1f} ({OVER[value.units][0]})"


COLUMNS = 8  # of a table that fits a printed page


def heatmap(pairs: Sequence[Pair], statistics: Statistics) -> list[Block]:
    """Two tables: target score, and gap closed with colours; a mean of each where a method was run on all pairs."""
    by_pair = {pair.name: {row.name: row for row in rows(pair, statistics)} for pair in pairs}
    longest = sorted(by_pair.values(), key=len, reverse=True)
    roles = {name: row.method.role for by_name in longest for name, row in by_name.items()}
    methods = sorted(roles, key=lambda name: roles[name] == "in_domain")
    overall = {line.method: line for line in statistics.overall if len(line.pairs) == len(pairs)}
    comparable = len({pair.headline for pair in pairs}) == 1

    def score(name: str, pair: str) -> str:
        row = by_pair[pair].get(name)
        return percent(row.target.mean) if row and row.target else ""

    def gap(name: str, pair: str) -> str | TableCell:
        if (row := by_pair[pair].get(name)) is None:
            return ""
        if row.gap_closed.value is None:
            return TableCell("-", row.gap_closed.reason)
        share = row.gap_closed.value.mean
        return TableCell(f"{100 * share:.0f}", row.gap_closed.reason, min(max(share, -1.0), 1.0))

    mean_scores = {name: percent(line.score.mean) for name, line in overall.items() if line.score}
    mean_gaps = dict[str, str]()
    for name, line in overall.items():
        if (known := line.shares[0]).value:
            of = f" (of {counted(known.pairs, 'pair')})" if known.pairs < len(pairs) else ""
            mean_gaps[name] = f"{100 * known.value.mean:.0f}{of}"

    def part(title: str, names: Sequence[str], cell: Any, means: Any, notes: Sequence[str] = ()) -> list[Table]:
        columns = columns_for(["mean"] * comparable, lambda name, _: means.get(name, ""))
        columns += columns_for([*by_pair], cell)
        return split_columns(make_table(title, names, [("method", str), *columns], notes, narrow=True), COLUMNS)

    adapted = [name for name in methods if roles[name] == "adapted"]
    notes = ["mean: mean gain over mean gap, of methods that were run on all pairs"] if comparable else []
    legend = "100 is the ceiling, 0 is source_only, green above it. A colour is no test: the next section has tests."
    scores = part("Headline score on the target test, percent", methods, score, mean_scores)
    if not adapted or "in_domain" not in roles.values():  # no gap is known
        return [*scores]
    return [
        *scores,
        Prose(legend, "soft"),
        *part("Gap closed, percent of the way from source_only to in_domain", adapted, gap, mean_gaps, notes),
    ]


ORACLE = "oracle"  # chooses by target test labels: a bound, never a choice
REGRET = (
    "What each validator's checkpoint scores, and in brackets the mean epoch it chose; * marks the one that was used. "
    "The oracle looks at target test labels: a bound, and the difference to it is what choosing without them costs."
)


def regret(pairs: Sequence[Pair]) -> Section:
    """Mean target score of the checkpoint that each validator would have chosen, one line a method."""
    chosen: dict[tuple[str, str], list[tuple[float, int]]] = {}  # by method and validator: scores and epochs
    runs: dict[str, list[Metrics]] = {}
    for method, run, headline in ((m, run, pair.headline) for pair in pairs for m in pair.methods for run in m.runs):
        known = {name: (choice.target_test or {}).get(headline) for name, choice in run.selection.choices.items()}
        for name, score in known.items():
            if score is not None:
                chosen.setdefault((method.name, name), []).append((score, run.selection.choices[name].epoch))
        if any(score is not None for score in known.values()):
            runs.setdefault(method.name, []).append(run)
    names = sorted(dict.fromkeys(name for _, name in chosen), key=lambda name: name == ORACLE)
    if len({method for method, _ in chosen}) == len(chosen):
        none = "No run recorded what other validators would have chosen; trainer.regret=true does, and a benchmark."
        return Section("Selection regret", (Prose(none),))

    def of_some(text: str, known: int, method: str) -> str | TableCell:
        every = len(runs[method])
        return text if known in (0, every) else TableCell(text, f"of {known} of {every} runs, not to be compared")

    def cell(method: str, name: str) -> str | TableCell:
        if not (choices := chosen.get((method, name))):
            return ""
        used = "*" if name in {run.selection.validator for run in runs[method]} else ""
        means = fmean(s for s, _ in choices), fmean(e for _, e in choices)
        return of_some(f"{percent(means[0])} ({means[1]:.1f}){used}", len(choices), method)

    def gap(method: str) -> str | TableCell:
        gaps = [run.selection.gap for run in runs[method] if run.selection.gap is not None]
        return of_some(percent(mean(gaps)), len(gaps), method)

    columns = columns_for({name: f"{name} (a bound)" if name == ORACLE else name for name in names}, cell)
    note = "regret: mean of the oracle's score less the chosen checkpoint's, in points"
    title = "Target test by validator, percent, mean over runs"
    table = make_table(title, runs, [("method", str), *columns, ("regret", gap)], [note])
    return Section("Selection regret", (Prose(REGRET, "soft"), table))


LabelCurve = dict[int, TableRow]  # of methods that differ in their number of target labels alone: a row by that number


def label_curves(pair: Pair, statistics: Statistics | None = None) -> dict[str, LabelCurve]:
    """Curves of several numbers of target labels, and beside them the one that the report calls the best.

    One has runs of the same settings, whatever they are called; its name is that of the run with the fewest labels.
    """
    by_settings: dict[str, tuple[str, dict[str, str], LabelCurve]] = {}
    numbered = [(number, row) for row in rows(pair, statistics) if (number := target_labels(row.method)) is not None]
    for number, row in sorted(numbered, key=lambda one: one[0]):
        if row.target is None or row.method.role == "in_domain":  # which has no source labels
            continue
        others = {k: value for k, value in settings(row.method.config).items() if k != "target_labels"}
        name = row.method.runs[0].method.replace(f"+{row.method.config.get('target_labels')}_labels", "", 1)
        called, _, curve = by_settings.setdefault(json.dumps(others), (name, others, {}))
        if number not in curve or name == called:  # else it was run under another name, too
            curve[number] = row
    names = distinct([(name, others) for name, others, _ in by_settings.values()])
    curves = {name: dict(sorted(curve.items())) for name, (*_, curve) in zip(names, by_settings.values(), strict=True)}
    if not any(len(curve) > 1 for curve in curves.values()):
        return {}
    best = best_adapted(pair)
    return {n: curve for n, curve in curves.items() if len(curve) > 1 or (0 in curve and curve[0].method is best)}


def labels_to_reach(scores: Mapping[int, float], score: float) -> str:
    """With how many labels, of those that were tried, a score is first reached.

    >>> curve = {0: 0.4, 8: 0.5, 32: 0.6}
    >>> [labels_to_reach(curve, score) for score in (0.3, 0.45, 0.5, 0.55, 0.65)]
    ['no labels', 'fewer than 8 labels', '8 labels', 'between 8 and 32 labels', 'more than 32 labels']
    """
    enough = next((labels for labels, value in scores.items() if value >= score), None)
    if enough is None:
        return f"more than {max(scores)} labels"
    too_few = max((labels for labels in scores if labels < enough), default=0)
    if enough == 0 or scores[enough] == score:
        return counted(enough, "label") if enough else "no labels"
    return f"between {too_few} and {enough} labels" if too_few else f"fewer than {counted(enough, 'label')}"


def adaptation_worth(pair: Pair, curves: Mapping[str, LabelCurve]) -> str:
    """With how many labels plain fine-tuning has what the best adapted method has with none."""
    best = best_adapted(pair)
    name, row = next(((n, c[0]) for n, c in curves.items() if 0 in c and c[0].method is best), ("", None))
    base = row and reference(pair, row.method, "source_only")
    plain = next((c for c in curves.values() if len(c) > 1 and base in [point.method for point in c.values()]), None)
    if row is None or row.target is None or plain is None:
        return "How many labels adaptation is worth is not known: it takes source_only with and without labels."
    scores = {labels: point.target.mean for labels, point in plain.items() if point.target}
    labels, score = labels_to_reach(scores, row.target.mean), percent(row.target.mean)
    return f"Adaptation is worth {labels} here, by means over seeds: {name} with none scores {score}."


def target_label_sections(pairs: Sequence[Pair], statistics: Statistics) -> list[Section]:
    """Scores by number of target labels, where some method was run with several on one pair; else none."""
    blocks: list[Block] = []
    for pair in pairs:
        if curves := label_curves(pair, statistics):
            blocks += [Prose(adaptation_worth(pair, curves)), label_table(pair, curves)]
    return [Section("Target labels", tuple(blocks))] if blocks else []


def label_table(pair: Pair, curves: Mapping[str, LabelCurve]) -> Table:
    tried = [point for curve in curves.values() for point in curve.items()]
    every = {number for number, row in tried if row.method.config.get("target_labels") == "all"}

    def score(number: int, name: str) -> str | TableCell:
        if (row := curves[name].get(number)) is None or (value := row.target) is None:
            return ""
        if value.low is None or value.high is None:
            return TableCell(percent(value.mean), value.reason)
        return f"{percent(value.mean)} ({percent(value.low)}–{percent(value.high)}, {OVER[value.units][0]})"

    columns = [("labels", lambda n: f"{n} (all)" if n in every else str(n)), *columns_for([*curves], score)]
    title = f"{pair.name}: {pair.headline} on the target test by number of target labels, percent"
    notes = ["in brackets: 95 % interval over seeds (s) and test texts (t)"]
    return make_table(title, sorted({number for number, _ in tried}), columns, notes, narrow=True)
