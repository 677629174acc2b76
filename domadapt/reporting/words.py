"""What the report says in words: claims, verdicts, significance.

What a method's controls allow to be said: a gain needs to stand against source_only and against a neutral control.

A control is the method with what it is about taken away. One that does worse than source_only is no placebo but poison:
a gain over it measures its harm as well.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from domadapt.reporting.blocks import Block, Facts, Figure, Folded, Section, Table, Text, counted, listed
from domadapt.reporting.examples import best_adapted, best_overall
from domadapt.reporting.rows import BELOW, Row, rows, target_scores
from domadapt.reporting.tables import closed, rank_svg, shares_table
from domadapt.runs.groups import MethodRuns, Pair, reference
from domadapt.statistics.resampling import ALPHA
from domadapt.statistics.results import (
    Cell,
    Difference,
    Interval,
    Ranking,
    Replicability,
    Significance,
    Statistics,
)
from domadapt.utils.text import visible


def claim(one: Cell, statistics: Statistics) -> str:
    """Whether syntax helps, from a method's differences over pairs.

    Args:
        statistics: where its controls' own differences to the baseline are.
    """
    baseline = visible(one.baseline.other or statistics.baseline)
    if one.baseline.interval is None:
        return f"Of {visible(one.method)} against its controls nothing can be said: {one.baseline.reason}."
    sentences = [f"{visible(one.method)} is {distance(one.baseline.interval)} {baseline}"]
    needed, lacking = [one.baseline], list[str]()
    for control in one.controls:
        name = visible(control.other)
        if control.interval is None:
            lacking.append(control.reason)
            continue
        text = f"{distance(control.interval)} {name}"
        own = next((o.baseline.interval for o in statistics.overall if o.method == control.other), None)
        if own is None:
            lacking.append(f"{name} was not compared with {baseline}")
        elif harms(own):
            text += f" (this control harms: {distance(own)} {baseline}, so a gain over it measures harm as well)"
        elif own.high is None and own.mean < 0:
            text += f" (this control may harm: {distance(own)} {baseline}, so a gain over it may measure harm)"
        else:
            needed.append(control)
        sentences.append(text)
    names = [visible(difference.other) for difference in needed]
    unshown = [name for name, difference in zip(names, needed, strict=True) if not gain(difference)]
    if len(needed) == 1:
        lacking.append("no neutral control was run")
    elif not unshown and not lacking:  # nothing that it was to stand against may be missing
        where = f"on at least one of {len(one.pairs)} pairs" if len(one.pairs) > 1 else "on this pair"
        return f"{listed(sentences)}. So it is shown {where} that syntax helps, against {listed(names)}."
    if unshown:
        lacking.insert(0, f"no gain whose interval excludes 0 is shown against {listed(unshown)}")
    return f"{listed(sentences)}. It is not shown that syntax helps: {'; '.join(lacking)}."


def harms(own: Interval) -> bool:
    """Whether a control lies below the baseline by more than its interval."""
    return own.high is not None and own.high < 0


def gain(difference: Difference) -> bool:
    """Whether a gain is shown: by its interval, and by the test over runs after Holm's correction."""
    p, value = difference.again.p_holm, difference.interval
    return value is not None and value.low is not None and value.low > 0 and p is not None and p <= ALPHA


def distance(value: Interval) -> str:
    """A difference in points, with its interval and what that is over.

    >>> distance(Interval(0.02, -0.01, 0.05, "seeds"))
    '2.0 points (-1.0 to 5.0 over seeds) above'
    """
    if value.low is None or value.high is None:
        ends = "no interval"
    else:
        low, high = (100 * end if value.mean >= 0 else -100 * end for end in (value.low, value.high))
        ends = f"{min(low, high):.1f} to {max(low, high):.1f} over {value.over}"
    return f"{abs(100 * value.mean):.1f} points ({ends}) {'above' if value.mean >= 0 else 'below'}"


ABOUT = (
    "Differences are in points. Two questions are kept apart. Over seeds: would training again show it? That is the "
    "test that a claim about a method needs. Over texts: do these trained models differ on other texts of this kind? "
    "p-values are two-sided, of paired permutation tests, after Holm's correction over all comparisons of adapted "
    "methods with the baseline and with their controls; nothing else is tested."
)


def significance(pairs: Sequence[Pair], statistics: Statistics) -> Section:
    """Tables of differences and tests, and the critical-difference diagram."""
    blocks: list[Block] = [Text(ABOUT, "soft")]
    several = len(pairs) > 1
    against = [(cell, cell.baseline) for cell in statistics.cells if cell.baseline.other]
    controlled = [(cell, control) for cell in statistics.cells for control in cell.controls if control.other]
    by_pair: list[Block] = []
    if against:
        by_pair.append(_differences(f"Against {statistics.baseline}", against, several))
    if controlled:
        by_pair.append(_differences("Against each method's own controls", controlled, several, True))
    if several:
        blocks += _over_pairs(statistics.overall)
    shares = shares_table(statistics.overall)
    blocks += [
        *([Folded("Pair by pair", tuple(by_pair))] if several and by_pair else by_pair),
        *([shares] if shares else []),
    ]
    if several:  # with one pair, ranks say what its scores say
        blocks += _ranking(statistics.ranking)
    if len(blocks) == 1:
        blocks.insert(1, Text("Nothing was tested: there is nothing to compare with."))
    return Section("Significance", tuple(blocks))


class Notes:
    """Footnotes of one table: the same words get the same mark."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """The mark of a footnote, as cells carry it; without words, no mark."""
        if not text:
            return "-"
        if text not in self.texts:
            self.texts.append(text)
        return f"- [{self.texts.index(text) + 1}]"


def _differences(title: str, sides: Sequence[tuple[Cell, Difference]], several: bool, control: bool = False) -> Table:
    notes = Notes()
    table = Table(
        title,
        ["method", *(["control"] if control else []), "difference", "interval", "p over seeds", "p over texts"],
        [],
        notes.texts,
        left=frozenset((0, 1) if control else (0,)),
    )
    for cell, found in sides:
        name = f"{cell.pairs[0]}: {cell.method}" if several else cell.method
        numbers = [*_interval(found.interval, found.reason, notes), _p(found.again, notes), _p(found.elsewhere, notes)]
        table.rows.append([name, *([found.other] if control else []), *numbers])
        if found.again.p_holm is not None and found.again.p_holm <= 0.05 and found.interval:
            table.shades[len(table.rows) - 1, 3 + control] = 0.5 if found.interval.mean > 0 else -0.5
    return table


def _interval(value: Interval | None, reason: str, notes: Notes) -> list[str]:
    if value is None:
        return [notes.mark(reason), "-"]
    mean = f"{100 * value.mean:+.1f}"
    if value.low is None or value.high is None:
        return [mean, notes.mark(value.reason)]
    if value.over != "seeds and test items":
        text = f"interval over {value.over} alone: {value.reason}" if value.reason else f"interval over {value.over}"
        mark = notes.mark(text).removeprefix("- ")
        return [mean, f"{100 * value.low:+.1f} to {100 * value.high:+.1f} {mark}"]
    return [mean, f"{100 * value.low:+.1f} to {100 * value.high:+.1f}"]


def _p(test: Significance, notes: Notes) -> str:
    if test.p_holm is None:
        return notes.mark(test.reason)
    return "<0.001" if test.p_holm < 0.001 else f"{test.p_holm:.3f}"


def _over_pairs(overall: Sequence[Cell]) -> list[Block]:
    tables: list[Block] = []
    both = {
        "baseline": [(one, one.baseline) for one in overall if one.baseline.other],
        "control": [(one, control) for one in overall for control in one.controls if control.other],
    }
    for what, found in both.items():
        if not found:
            continue
        notes = Notes()
        title = f"Over pairs, against {found[0][1].other if what == 'baseline' else 'controls'}"
        left = frozenset((0,) if what == "baseline" else (0, 1))
        rows = [
            [
                one.method,
                *([difference.other] if what == "control" else []),
                str(len(one.pairs)),
                *_interval(difference.interval, difference.reason, notes),
                _p(difference.again, notes),
                _p(difference.elsewhere, notes),
                _replicated(difference.replicability[0], notes),
                _replicated(difference.replicability[1], notes),
            ]
            for one, difference in found
        ]
        header = ["method", *(["control"] if what == "control" else []), "pairs", "difference", "interval"]
        header += ["p, some pair", "p, other pairs"]
        header += ["real on (seeds)", "real on (texts)"]
        tables.append(Table(title, header, rows, notes.texts, left=left))
    if tables:
        tables.append(
            Text(
                "p, some pair: is there a difference on at least one of these pairs, each trained model being one "
                "observation? p, other pairs: would there be one on other pairs of this kind? Runs and pairs that "
                "share a network count as one. Real on: the least number of pairs with a gain, right with 95 % "
                "confidence (Dror et al. 2017).",
                "soft",
            )
        )
    return tables


def _replicated(found: Replicability, notes: Notes) -> str:
    if found.count is None:
        return notes.mark(found.reason)
    return f"{found.count} of {found.of}"


def _ranking(ranking: Ranking) -> list[Block]:
    if not ranking.methods:
        return [Text(f"No ranks: {ranking.reason}.")] if ranking.reason else []
    rows = [[name, f"{rank:.2f}"] for name, rank in zip(ranking.methods, ranking.mean_ranks, strict=True)]
    over = counted(len(ranking.pairs), "pair")
    table = Table(f"Mean rank over {over} that all these methods were run on; 1 is best", ["method", "mean rank"], rows)
    if ranking.critical_difference is None:
        return [table, Text(f"No critical difference: {ranking.reason}.")]
    told = ranking.reason
    if ranking.p is not None:
        told = f"Friedman's test over {over}: p {'< 0.001' if ranking.p < 0.001 else f'= {ranking.p:.3f}'}"
    words = (
        f"{told}. Critical difference {ranking.critical_difference:.2f} (Nemenyi, 0.05): methods joined by a bar are "
        f"not told apart."
    )
    svg = rank_svg(ranking, f"Critical-difference diagram. {'; '.join(f'{n} {r}' for n, r in rows)}")
    text = tuple((name, rank / len(rows), f"{rank:.2f}") for name, rank in zip(ranking.methods, ranking.mean_ranks))
    return [Figure(svg, words, text), table] if svg else [Text(words), table]


LEVEL = 0.05
NAMED = 6  # comparisons that are named one by one in a sentence


def overview(pairs: Sequence[Pair], statistics: Statistics) -> list[str]:
    """The report's first paragraphs: what ran, what was shown, over all pairs."""
    runs = sum(len(method.runs) for pair in pairs for method in pair.methods)
    names = {method.name for pair in pairs for method in pair.methods}
    seeds = sorted({len(method.seeds) for pair in pairs for method in pair.methods})
    each = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    ran = (
        f"{counted(runs, 'run')}: {counted(len(names), 'method')} on {counted(len(pairs), 'pair')} of domains, {each}."
    )
    adapted = [cell for cell in statistics.cells if cell.role == "adapted"]
    if not adapted:
        return [f"{ran} No adapted method was run."]
    paragraphs = [ran, _against(adapted, statistics.baseline, [cell.baseline for cell in adapted])]
    controlled = [(cell, control) for cell in adapted for control in cell.controls if control.other]
    if controlled:
        words = _against([cell for cell, _ in controlled], "its own control", [control for _, control in controlled])
        paragraphs.append(f"Against controls, the same method with what it is about taken away. {words}")
    claims = [claim(one, statistics) for one in statistics.overall if one.role == "adapted" and one.controls]
    paragraphs += [f"{_over(pairs)}{text}" for text in claims]
    if len(pairs) > 1:
        paragraphs += [_over_pairs_of_summary(overall) for overall in statistics.overall if _tells(overall)]
    return paragraphs


def summary(pair: Pair, statistics: Statistics) -> str:
    """One paragraph on a pair: what source labels alone reach, what target labels would, what adaptation changed."""
    lines = {row.method.name: row for row in rows(pair, statistics)}
    sentences = [_standing(lines, role) for role in ("source_only", "in_domain")]
    best = best_adapted(pair)
    if best is None:
        sentences.append("No adapted method was run.")
    else:
        sentences.append(_adapted(lines[best.name], statistics.cell(pair.name, best.name)))
    return " ".join(filter(None, sentences))


def shown(difference: Difference) -> str:
    """``gain`` or ``loss`` where the test over seeds shows one after Holm's correction, else an empty string.

    >>> from domadapt.statistics.results import Significance
    >>> both = Interval(0.1, 0.05, 0.15, "seeds"), Significance(0.01, 0.03, "seeds", 10)
    >>> shown(Difference("source_only", *both, both[1]))
    'gain'
    """
    p = difference.again.p_holm
    if difference.interval is None or p is None or p > LEVEL:
        return ""
    return "gain" if difference.interval.mean > 0 else "loss"


def verdict(difference: Difference) -> str:
    """What may be said of a difference on one pair.

    >>> from domadapt.statistics.results import Significance
    >>> few = Significance(None, None, "seeds", 3, "3 seeds can't reach 0.05")
    >>> verdict(Difference("source_only", Interval(0.02, -0.01, 0.05, "seeds"), few, few))
    "That is 2.0 points above source_only (-1.0 to 5.0 over seeds); no gain or loss is shown: 3 seeds can't reach 0.05."
    """
    if difference.interval is None:
        return f"It can't be compared: {difference.reason}."
    points = 100 * difference.interval.mean
    size = f"{abs(points):.1f} points {'above' if points >= 0 else 'below'} {visible(difference.other)}"
    start = f"That is {size}{_ends(difference.interval)}"
    if kind := shown(difference):
        return f"{start}, a {kind} that training again would show (p = {difference.again.p_holm:.2g} after Holm)."
    seeds = difference.again
    why = f"p = {seeds.p_holm:.2g} after Holm over seeds" if seeds.p_holm is not None else seeds.reason
    text = f"{start}; no gain or loss is shown: {why}."
    items = difference.elsewhere.p_holm
    if items is not None and items <= LEVEL:
        text += f" These trained models do differ on other texts of this kind (p = {items:.2g} over test texts)."
    return text


def score(value: Interval, seeds: int) -> str:
    """A mean with its interval, or with the number of seeds where there is none.

    >>> score(Interval(0.5, None, None, "", "one seed"), 1)
    '50.0 (1 seed, no interval)'
    """
    ends = _ends(value, f" over {value.over}")
    return (
        f"{100 * value.mean:.1f}{ends}" if ends else f"{100 * value.mean:.1f} ({counted(seeds, 'seed')}, no interval)"
    )


def _ends(value: Interval, what: str = "") -> str:
    what = what or f" over {value.over}"
    return (
        "" if value.low is None or value.high is None else f" ({100 * value.low:.1f} to {100 * value.high:.1f}{what})"
    )


def _closed(value: Interval) -> str:
    none = value.low is None or value.high is None
    ends = "no interval" if none else f"{100 * (value.low or 0):.0f} to {100 * (value.high or 0):.0f} over {value.over}"
    return f"{100 * value.mean:.0f} % ({ends})"


def _over(pairs: Sequence[Pair]) -> str:
    return f"Over {counted(len(pairs), 'pair')}: " if len(pairs) > 1 else ""


def _against(cells: Sequence[Cell], other: str, differences: Sequence[Difference]) -> str:
    found = {kind: [(c, d) for c, d in zip(cells, differences) if shown(d) == kind] for kind in ("gain", "loss", "")}
    of = f"{counted(len(cells), 'comparison')} of an adapted method with {other}"
    if not found["gain"] and not found["loss"]:
        text = f"No gain and no loss is shown in {of}, by tests over seeds after Holm's correction."
    else:
        text = f"Of {of}, tests over seeds after Holm's correction show "
        text += " and ".join(
            f"{counted(len(some), kind, {'gain': 'gains', 'loss': 'losses'}[kind])} ({_named(some)})"
            for kind, some in found.items()
            if kind and some
        )
        text += f"; {len(found[''])} show neither." if found[""] else "."
    reasons = _frequent(d.again.reason for _, d in found[""] if d.again.p is None and d.again.reason)
    if reasons:
        text += f" Why not: {'; '.join(reasons)}."
    differ = [
        (c, d) for c, d in found[""] if d.interval and d.elsewhere.p_holm is not None and d.elsewhere.p_holm <= LEVEL
    ]
    if differ:
        text += (
            f" Of the models as they were trained, {counted(len(differ), 'differs', 'differ')} from {other} on other "
            f"texts of this kind (tests over test texts after Holm's correction: {_named(differ)}); "
            f"that says nothing about training again."
        )
    return text


def _named(some: Sequence[tuple[Cell, Difference]]) -> str:
    ordered = sorted(some, key=lambda both: -abs(both[1].interval.mean if both[1].interval else 0.0))
    names = [
        f"{visible(cell.method)} on {visible(cell.pairs[0])} by {100 * d.interval.mean:+.1f} points"
        for cell, d in ordered[:NAMED]
        if d.interval
    ]
    return listed([*names, *([f"{len(some) - NAMED} more"] if len(some) > NAMED else [])])


def _frequent(reasons: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return [f"{reason} ({number} of them)" for reason, number in ordered[:3]]


def _tells(overall: Cell) -> bool:
    difference = overall.baseline
    tests = (difference.again.p_holm, difference.elsewhere.p_holm)
    some = any(p is not None and p <= LEVEL for p in tests) or bool(difference.replicability[0].count)
    return overall.role == "adapted" and difference.interval is not None and some


def _over_pairs_of_summary(overall: Cell) -> str:
    difference = overall.baseline
    assert difference.interval is not None
    points = 100 * difference.interval.mean
    text = f"Over {counted(len(overall.pairs), 'pair')}, {visible(overall.method)} is {abs(points):.1f} points "
    text += f"{'above' if points >= 0 else 'below'} {visible(difference.other)}{_ends(difference.interval)}"
    parts = []
    if (p := difference.again.p_holm) is not None:
        parts.append(f"on at least one of these pairs: p = {p:.2g} after Holm's correction")
    if (p := difference.elsewhere.p_holm) is not None:
        parts.append(f"on other pairs of this kind: p = {p:.2g} after Holm's correction")
    if (count := difference.replicability[0].count) is not None:
        parts.append(f"the gain is real on at least {count} of {difference.replicability[0].of} pairs, 95 % confidence")
    return "; ".join([text, *parts]) + "."


def _standing(lines: dict[str, Row], role: str) -> str:
    found = [row for row in lines.values() if row.method.role == role]
    what = {"source_only": "Trained on source labels alone", "in_domain": "Trained on target labels (the ceiling)"}[
        role
    ]
    if not found:
        return f"No run of {role} is among these."
    if len(found) > 1:
        return f"{role} was run with {len(found)} different settings; see the table."
    row = found[0]
    if row.target is None:
        return f"{what}, it can't be scored: the target test has no labels."
    return f"{what}, the model scores {score(row.target, len(row.method.seeds))}."


def _adapted(row: Row, cell: Cell) -> str:
    name = visible(row.method.name)
    start = f"Of the adapted methods, {name} is best on source dev, by which it is named here without target labels"
    if row.target is None:
        return f"{start}; the target test has no labels to score it by."
    sentences = [f"{start}; on the target test it scores {score(row.target, len(row.method.seeds))}."]
    sentences.append(verdict(cell.baseline))
    if row.closed.value is not None and shown(cell.baseline):
        sentences.append(f"Of the gap to the ceiling it closes {_closed(row.closed.value)}.")
    return " ".join(sentences)


def verdict_card(pairs: Sequence[Pair], statistics: Statistics) -> Facts:
    """Task, backbone, scores, gap closed, run time, model, and one plain sentence."""
    runs = [run for pair in pairs for method in pair.methods for run in method.runs]
    tasks = list(dict.fromkeys(f"{pair.task}, scored by {pair.headline}" for pair in pairs))
    backbones = list(dict.fromkeys(_backbone(run.config) for run in runs if run.role not in BELOW))
    items = [("Task", listed(tasks)), ("Backbone", listed([name for name in backbones if name]) or "not recorded")]
    best = best_overall(pairs)
    if best and (scores := _scores(best)):
        over = f" (means of {counted(len(best), 'pair')})" if len(best) > 1 else ""
        items.append(("Target score, %", " → ".join(f"{name} {100 * mean:.1f}" for name, mean in scores) + over))
    overall = next((one for one in statistics.overall if best and one.method == best[0][1].name), None)
    if overall and overall.shares:
        share = overall.shares[0]
        items.append(("Gap closed", closed(replace(share, reason=""), []) if share.value else f"- ({share.reason})"))
    names = {method.name for pair in pairs for method in pair.methods}
    told = f"{counted(len(runs), 'run')}, {counted(len(names), 'method')}, {counted(len(pairs), 'pair')}"
    items.append(("Runs", f"{told}; {duration(run_time(pairs))} in all"))
    if best:
        items.append(("Model", _model([method for _, method in best])))
    return Facts(_sentence(pairs, best, overall), tuple(items))


def run_time(pairs: Sequence[Pair]) -> float:
    """Seconds of all runs, stage by stage; those that took another's result cost none."""
    runs = [run for pair in pairs for method in pair.methods for run in method.runs]
    return sum(sum(run.seconds.values()) for run in runs if run.taken_from is None)


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(8.4), duration(310), duration(9000)
    ('8 s', '5 min 10 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _sentence(pairs: Sequence[Pair], best: Sequence[tuple[Pair, MethodRuns]], overall: Cell | None) -> str:
    if not any(run.target_test for pair in pairs for method in pair.methods for run in method.runs):
        return "The target test has no labels, so no score is known; below is what can be said without one."
    if not best or overall is None:
        return "No adapted method was run, so nothing is compared."
    difference, name = overall.baseline, overall.method
    if difference.interval is None:
        return f"{name}, best on source dev, can't be compared: {difference.reason}."
    points = 100 * difference.interval.mean
    side = "better" if points >= 0 else "worse"
    over = f", in the mean over {counted(len(overall.pairs), 'pair')}" if len(overall.pairs) > 1 else ""
    text = f"{name}, best on source dev, is {abs(points):.1f} points {side} than {difference.other} on the target{over}"
    for control in overall.controls:
        if control.interval is not None:
            less = 100 * control.interval.mean
            text += f" and {abs(less):.1f} {'better' if less >= 0 else 'worse'} than {control.other}, its control"
    if _is_shown(overall):
        where = "on at least one of these pairs " if len(overall.pairs) > 1 else ""
        return f"{text}; {where}training again would show a difference to {difference.other}."
    why = difference.again.reason or difference.reason
    if difference.again.p_holm is not None:
        why = f"p = {difference.again.p_holm:.2g} after Holm's correction"
    return f"{text}; that it is more than chance is not shown{f': {why}' if why else ''}."


def _is_shown(overall: Cell) -> bool:
    p = overall.baseline.again.p_holm
    return p is not None and p <= LEVEL


def _scores(best: Sequence[tuple[Pair, MethodRuns]]) -> list[tuple[str, float]]:
    """(name, mean over pairs); a name that not all pairs have a score of is left out."""
    both = [
        (reference(pair, method, "source_only"), method, reference(pair, method, "in_domain")) for pair, method in best
    ]
    found = []
    for place, name in enumerate(("source_only", best[0][1].name, "ceiling")):
        values = [target_scores(pair, m) for (pair, _), line in zip(best, both, strict=True) if (m := line[place])]
        if len(values) == len(best) and all(values):
            found.append((name, sum(sum(v) / len(v) for v in values) / len(values)))
    return found


def _backbone(config: dict[str, object]) -> str:
    value = config.get("backbone")
    return str(value.get("name") or "") if isinstance(value, dict) else str(value or "")


def _model(methods: Sequence[MethodRuns]) -> str:
    folders = [Path(run.folder, "model") for method in methods for run in method.runs if run.folder]
    kept = [folder for folder in folders if folder.is_dir()]
    if not kept:
        return "not kept beside these runs"
    return f"{kept[0]}{f' (and {len(kept) - 1} more: other seeds and pairs)' if len(kept) > 1 else ''}"
