"""Sections of the report: significance, costs, expected scores, curves, calibration, data, how to reproduce."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from domadapt.auditing.audit import Audit, headline, read_audit
from domadapt.reporting.blocks import (
    Block,
    Figure,
    Folded,
    Listing,
    Prose,
    Section,
    Table,
    TableCell,
    columns_for,
    make_table,
)
from domadapt.reporting.frames import best_adapted, mean, rows, run_mean, seconds
from domadapt.reporting.plots import Colors, calibration_svg, curve_svg, panels, pooled_bins
from domadapt.reporting.render import number, percent, points
from domadapt.reporting.tables import shares_table
from domadapt.reporting.words import claim, run_time
from domadapt.runs.groups import ROLES, MethodRuns, Pair, flat, reference
from domadapt.runs.metrics import Metrics
from domadapt.statistics.compare import Cell, Difference, Statistics
from domadapt.statistics.resampling import ALPHA, Replicability, Significance
from domadapt.utils.files import below
from domadapt.utils.redact import redact
from domadapt.utils.text import counted, duration

TESTED = (
    "Points; paired permutation tests, two-sided, Holm's correction over all comparisons. Over seeds: would training "
    "again show it? Over texts: do these trained models differ on other texts?"
)
OVER_PAIRS = (
    "p, some pair: a difference on at least one of these; p, other pairs: on others of this kind. Real on: least "
    "number of pairs with a gain, with 95 % confidence (Dror et al. 2017)."
)


def significance(pairs: Sequence[Pair], statistics: Statistics) -> Section:
    """Whether syntax helps, and tables of differences and tests."""
    several, baseline = len(pairs) > 1, statistics.baseline
    controlled = [cell for cell in statistics.overall if cell.role == "adapted" and cell.controls]
    blocks: list[Block] = [*(Prose(claim(cell, statistics)) for cell in controlled), Prose(TESTED, "soft")]
    start = len(blocks)
    if several and (over := _differences(statistics.overall, "Over pairs, against", baseline, over_pairs=True)):
        blocks += [*over, Prose(OVER_PAIRS, "soft")]
    by_pair = _differences(statistics.cells, "Against", baseline, named_pair=several)
    blocks += [Folded("Pair by pair", tuple(by_pair))] if several and by_pair else by_pair
    if (shares := shares_table(statistics.overall)) is not None:
        blocks.append(shares)
    if len(blocks) == start:
        blocks.append(Prose("Nothing was tested: there is nothing to compare with."))
    return Section("Significance", tuple(blocks))


def _differences(
    cells: Sequence[Cell], title: str, baseline: str, over_pairs: bool = False, named_pair: bool = False
) -> list[Table]:
    """Of what is tested, a table of differences to the baseline and one of those to controls, where there are any."""

    def difference(one: Difference) -> str | TableCell:
        return TableCell("-", one.reason) if one.interval is None else points(one.interval.mean)

    tests = ["p over seeds", "p over texts"]
    if over_pairs:
        tests = ["p, some pair", "p, other pairs", "real on (seeds)", "real on (texts)"]
    adapted, tables = [cell for cell in cells if cell.role == "adapted"], list[Table]()
    for other in (baseline, "each method's own controls"):
        control = other != baseline
        header = ["method", *["control"] * control, *["pairs"] * over_pairs, "difference", "interval", *tests]
        rows = list[list[str | TableCell]]()
        for cell, one in ((c, d) for c in adapted for d in (c.controls if control else (c.baseline,)) if d.other):
            names = [f"{cell.pairs[0]}: {cell.method}" if named_pair else cell.method, *[one.other] * control]
            known = [_p(one.retraining), _p(one.new_data), *map(_replicated, one.replicability)]
            rows.append([*names, *[str(one.pairs)] * over_pairs, difference(one), _interval(one), *known])
        if rows:
            tables.append(Table(f"{title} {other}", header, rows, left=frozenset({0, int(control)})))
    return tables


def _interval(difference: Difference) -> TableCell:
    """Coloured where the test over seeds shows a gain or a loss."""
    value = difference.interval
    if value is None or value.low is None or value.high is None:
        return TableCell("-", value.reason if value else "")
    p = difference.retraining.p_holm if difference.retraining.unit == "seeds" else None
    shade = None if p is None or p > ALPHA else 0.5 if value.mean > 0 else -0.5
    note = "" if value.units == "seeds and test items" else f"interval over {value.units}"
    note += f" alone: {value.reason}" if note and value.reason else ""
    return TableCell(f"{points(value.low)} to {points(value.high)}", note, shade)


def _p(test: Significance) -> str | TableCell:
    if test.p_holm is None:
        return TableCell("-", test.reason)
    return TableCell("<0.001" if test.p_holm < 0.001 else f"{test.p_holm:.3f}", test.reason)


def _replicated(counts: Replicability) -> str | TableCell:
    return TableCell("-", counts.reason) if counts.count is None else f"{counts.count} of {counts.pairs}"


def cost(pairs: Sequence[Pair]) -> Section:
    """What methods cost against what they gain, on their pairs and against source_only on the same pair."""
    by_name: dict[tuple[str, str], list[tuple[Pair, MethodRuns]]] = {}
    for pair, method in ((one, method) for one in pairs for method in one.methods):
        by_name.setdefault((method.name, method.role), []).append((pair, method))
    rows = list[tuple[tuple[int, float, str], list[str | TableCell]]]()  # by what they are sorted
    for (name, role), group in by_name.items():
        matched = [(method, base) for pair, method in group if (base := reference(pair, method, "source_only"))]
        times = mean(mine / others for m, base in matched if (mine := seconds(m)) and (others := seconds(base)))
        gains = [gain for method, base in matched if (gain := _gain(method, base)) is not None]
        gain = mean(gains)
        parameters = mean(run.counts.parameters for _, method in group for run in method.runs)
        spent = mean(seconds(method) for _, method in group)
        numbers = number(spent, ".1f"), number(times, ".2f"), number(parameters, ",.0f"), points(gain), str(len(gains))
        rows.append(((ROLES.index(role), times or 0, name), [name, *numbers]))
    table = Table(
        "Means over pairs and seeds",
        ["method", "seconds a run", "times source_only's", "parameters", "gain, points", "pairs"],
        [row for _, row in sorted(rows)],
        [
            "seconds: build, prepare and fit, as recorded on each run's machine; what a cache already held cost none",
            "times, gain: each pair's own against its source_only, where both are known; then the mean over pairs",
            "times: of a method that learns from a source-only network, as the recipe does, without that one's: add 1",
            "gain: at the seeds that both have; pairs: of the gain",
        ],
    )
    return Section("Cost against gain", (table, Prose(f"All runs took {duration(run_time(pairs))}.")))


def _gain(method: MethodRuns, base: MethodRuns) -> float | None:
    others = {(run.seed, run.tested): run.score() for run in base.runs}  # a ceiling may be tested on fewer texts
    paired = ((run.score(), others.get((run.seed, run.tested))) for run in method.runs)
    return mean(score - other for score, other in paired if score is not None and other is not None)


EXPECTED = "Expected without labels"
ESTIMATED = "The headline score that was expected on the target before a label of it was read."


def expected(pairs: Sequence[Pair]) -> Section:
    runs = [(pair, r, e) for pair in pairs for m in pair.methods for r in m.runs if (e := r.expected)]
    if not runs:
        return Section(EXPECTED, (Prose("No run recorded what it expected to score."),))
    rows = list[list[str | TableCell]]()
    for pair, run, estimate in runs:
        was = run.score()
        off = points(None if was is None else estimate.score - was)
        scores = map(percent, (estimate.score, estimate.low, estimate.high, was))
        rows.append([pair.name, run.method, str(run.seed), *scores, off, percent(estimate.usual_error)])
    header = ["pair", "method", "seed", "expected", "from", "to", "was", "off", "mean error"]
    note = "from, to: nine times in ten; mean error: mean absolute error on corpora the estimate was not fitted to"
    table = Table("Expected and true headline score, percent", header, rows, [note], left=frozenset({0, 1}))
    return Section(EXPECTED, (Prose(ESTIMATED, "soft"), Prose(how_far_off(run for _, run, _ in runs)), table))


def how_far_off(runs: Iterable[Metrics]) -> str:
    known = [(estimate, was) for run in runs if (estimate := run.expected) and (was := run.score()) is not None]
    if not known:
        return "The target test has no labels: nothing shows how far off these are."
    score, was, error = map(mean, zip(*((e.score, w, abs(e.score - w)) for e, w in known), strict=True))
    inside = sum(estimate.low <= was <= estimate.high for estimate, was in known)
    start, its = ("Expected", "its") if len(known) == 1 else ("In the mean, expected", "their")
    off = f"off by {percent(error)} points on average over {counted(len(known), 'run')}; {inside} within {its} interval"
    return f"{start} {percent(score)}, was {percent(was)}: {off}."


def learning_curves(pair: Pair, colors: Colors) -> list[Block]:
    if not (shown := panels(pair)):
        return [Prose("No run has a curve.")]
    caption = "By epoch, mean over seeds. Dev score and losses are of the source domain, in_domain's of the target."
    alt = f"Learning curves by epoch, {pair.name}: {', '.join(method.name for method in pair.methods)}"
    return [Figure(curve_svg(pair, shown, colors, alt), caption)]


ERROR_KINDS = {
    "error": "test",
    "scaled_error": "test, scaled",
    "source_dev_error": "source dev",
    "source_dev_scaled_error": "source dev, scaled",
}


def calibration(pair: Pair, colors: Colors) -> list[Block]:
    """A diagram of the bars that stand and the best adapted method, and every method's error."""
    methods = [row.method for row in rows(pair) if pooled_bins(row.method)]
    if not methods:
        return [Prose("No run recorded how sure it was of its predictions on the target test.")]
    best = best_adapted(pair)
    shown = [m for m in methods if m.role not in ("adapted", "control") or (best and m.name == best.name)]
    unit = "words" if pair.task == "extraction" else "texts"
    errors = make_table(
        "Expected calibration error, points, mean over seeds, before and after temperature scaling on source dev",
        methods,
        [
            ("method", lambda m: m.name),
            *columns_for(ERROR_KINDS, lambda m, name: percent(run_mean(m, lambda run: getattr(run.calibration, name)))),
            ("temperature", lambda m: number(run_mean(m, lambda run: run.calibration.temperature), ".2f")),
            (unit, lambda m: f"{sum(count for _, _, count in pooled_bins(m)):,}"),
        ],
        [
            f"{unit}: predictions on the target test that were binned, all seeds together",
            "temperature: above 1 where the model is too sure on source dev; of the ceiling, dev is of the target",
        ],
    )
    alt = f"Share of right {unit} against confidence, {pair.name}: {', '.join(m.name for m in shown)}"
    caption = (
        f"Share of {unit} that are right, against the network's confidence before scaling, target test, seeds pooled. "
        f"Below the dotted line a network is too sure. Larger dots hold more {unit}."
    )
    return [Figure(calibration_svg(shown, colors, alt), caption), errors]


def read_audits(runs: Iterable[str | Path], given: str | Path | None) -> tuple[list[Audit], list[str]]:
    """Audits below the runs' folders, or of an ``audit.json`` or folder given; a message for each unreadable file."""
    places = [Path(given)] if given is not None else [Path(path) for path in runs]
    found = [f for place in places for f in ([place] if place.is_file() else below(place, "audit.json"))]
    files = sorted({f.resolve() for f in found if given is not None or f.name == "audit.json"})
    if given is not None and not files:
        what = "no audit.json in it" if places[0].exists() else "no such file"
        raise ValueError(f"audit={given}: {what}; write one: `domadapt audit data=... output=audit.json`")
    audits, skipped = list[Audit](), list[str]()
    for file in files:
        try:
            if (audit := read_audit(file)) not in audits:  # both networks of a run have left the same
                audits.append(audit)
        except ValueError as error:
            if given is not None and len(files) == 1:
                raise
            skipped.append(str(error))
    return audits, skipped


def data(audits: Sequence[Audit], skipped: Sequence[str]) -> Section:
    blocks: list[Block] = [Prose(f"An audit was left out: {message}", "warning") for message in skipped]
    columns = [("severity", lambda f: f.severity), ("about", lambda f: f.kind), ("finding", lambda f: f.text)]
    for audit in audits:
        blocks.append(Prose(f"Audit of {headline(audit)}", "lead"))
        if audit.findings:
            blocks.append(make_table("Findings, worst first", audit.findings, columns, left=(0, 1, 2)))
        if examples := tuple(f"{f.kind}: {example}" for f in audit.findings for example in f.examples):
            blocks.append(Listing(f"Examples of the findings in {audit.source} → {audit.target}", examples))
        if audit.mended:
            mended = tuple(f"{what} ({counted(times, 'time')})" for what, times in audit.mended.items())
            blocks.append(Listing("Corrected by the readers, or left out", mended))
    if not audits:
        command = "domadapt audit data=... output=audit.json"
        blocks.append(Prose("No audit was found. This makes one, and audit=PATH shows it:", command=command))
    return Section("Data", tuple(blocks))


def reproduce(runs: Sequence[Metrics], pairs: Sequence[Pair]) -> Section:
    """Everything that somebody needs to repeat these runs; and what was warned of."""
    about = "Command and key of each run. The same command, versions and hardware give the same numbers. Commands name "
    about += "files as seen from the folder in which they were typed."
    blocks: list[Block] = [Prose(about)]
    for pair in pairs:
        lines, warned = list[str](), Counter[tuple[str, str]]()
        for method, run in ((m, run) for m in pair.methods for run in m.runs):
            command, key = redact(run.command or "not recorded"), run.key or "not recorded"
            lines.append(f"{command}  # {method.name}, seed {run.seed}, key {key}")
            warned.update({(method.name, text): times for text, times in run.counts.warnings.items()})
        blocks.append(Listing(f"{pair.name}: {counted(len(lines), 'command')}", tuple(lines), code=True))
        if warned:
            messages = (f"{name}: {counted(times, 'time')}: {text}" for (name, text), times in sorted(warned.items()))
            blocks.append(Listing(f"{pair.name}: warnings", tuple(messages)))
    for name in ("versions", "hardware"):
        texts = Counter(", ".join(f"{k} {v}" for k, v in flat(getattr(run, name)).items()).strip() for run in runs)
        first, *rest = (f"{counted(n, 'run')}: {redact(text) or 'not recorded'}" for text, n in texts.most_common())
        blocks += [Prose(f"{name.capitalize()}. {first}"), *([Listing(f"Other {name}", tuple(rest))] if rest else [])]
    return Section("How to reproduce", tuple(blocks))
