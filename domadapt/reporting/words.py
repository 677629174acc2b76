"""What the report says in words: the verdict, what is shown of a pair, and whether syntax helps."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from domadapt.reporting.blocks import Facts
from domadapt.reporting.formats import counted, listed
from domadapt.reporting.frames import BELOW, best_adapted, best_overall, mean, over_runs
from domadapt.reporting.tables import closed
from domadapt.runs.groups import MethodRuns, Pair, reference
from domadapt.runs.metrics import Metrics
from domadapt.statistics.resampling import ALPHA
from domadapt.statistics.results import Cell, Difference, Interval, Statistics
from domadapt.utils.text import visible


def claim(one: Cell, statistics: Statistics) -> str:
    """Whether syntax helps: a gain needs to stand against source_only and against a neutral control.

    A control is the method with what it is about taken away. One that does worse than source_only is no placebo but
    poison: a gain over it measures its harm as well.

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
        elif own.high is not None and own.high < 0:
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


def gain(difference: Difference) -> bool:
    """Whether a gain is shown: by its interval, and by the test over runs after Holm's correction."""
    p, value = difference.again.p_holm, difference.interval
    return value is not None and value.low is not None and value.low > 0 and p is not None and p <= ALPHA


def distance(value: Interval) -> str:
    """A difference in points, with its interval and what that is over.

    >>> distance(Interval(0.02, -0.01, 0.05, "seeds"))
    '2.0 points (-1.0 to 5.0 over seeds) above'
    """
    ends = "no interval"
    if value.low is not None and value.high is not None:
        low, high = (100 * end if value.mean >= 0 else -100 * end for end in (value.low, value.high))
        ends = f"{min(low, high):.1f} to {max(low, high):.1f} over {value.over}"
    return f"{abs(100 * value.mean):.1f} points ({ends}) {'above' if value.mean >= 0 else 'below'}"


def summary(pair: Pair, statistics: Statistics) -> str:
    """One paragraph on a pair, beside its table: what adaptation changed, and whether that is shown."""
    if (best := best_adapted(pair)) is None:
        return "No adapted method was run."
    start = f"Of the adapted methods, {visible(best.name)} is best on source dev, by which it is named here"
    cell = statistics.cell(pair.name, best.name)
    if cell.score is None:
        return f"{start}; the target test has no labels to score it by."
    text = f"{start}. {verdict(cell.baseline)}"
    share = cell.shares[0] if cell.shares else None
    if share and share.value is not None and shown(cell.baseline):
        text += f" It closes {closed(share).text} of the gap to the ceiling."
    return text


def shown(difference: Difference) -> str:
    """``gain`` or ``loss`` where the test over seeds shows one after Holm's correction, else an empty string.

    >>> from domadapt.statistics.results import Significance
    >>> both = Interval(0.1, 0.05, 0.15, "seeds"), Significance(0.01, 0.03, "seeds", 10)
    >>> shown(Difference("source_only", *both, both[1]))
    'gain'
    """
    p = difference.again.p_holm
    if difference.interval is None or p is None or p > ALPHA:
        return ""
    return "gain" if difference.interval.mean > 0 else "loss"


def verdict(difference: Difference) -> str:
    """What may be said of a difference on one pair.

    >>> from domadapt.statistics.results import Significance
    >>> few = Significance(None, None, "seeds", 3, "3 seeds can't reach 0.05")
    >>> verdict(Difference("source_only", Interval(0.02, -0.01, 0.05, "seeds"), few, few))
    "It is 2.0 points (-1.0 to 5.0 over seeds) above source_only; no gain or loss is shown: 3 seeds can't reach 0.05."
    """
    if difference.interval is None:
        return f"It can't be compared: {difference.reason}."
    start, seeds = f"It is {distance(difference.interval)} {visible(difference.other)}", difference.again
    if kind := shown(difference):
        return f"{start}, a {kind} that training again would show (p = {seeds.p_holm:.2g} after Holm)."
    why = f"p = {seeds.p_holm:.2g} after Holm over seeds" if seeds.p_holm is not None else seeds.reason
    return f"{start}; no gain or loss is shown: {why}."


def _sizes(pairs: Sequence[Pair]) -> str:
    names = {method.name for pair in pairs for method in pair.methods}
    return f"{counted(len(_runs(pairs)), 'run')}, {counted(len(names), 'method')}, {counted(len(pairs), 'pair')}"


def verdict_card(pairs: Sequence[Pair], statistics: Statistics) -> Facts:
    """Task, backbone, scores, gap closed, run time, model, and one plain sentence."""
    tasks = list(dict.fromkeys(f"{pair.task}, scored by {pair.headline}" for pair in pairs))
    backbones = list(dict.fromkeys(_backbone(run) for run in _runs(pairs) if run.role not in BELOW))
    items = [("Task", listed(tasks)), ("Backbone", listed([name for name in backbones if name]) or "not recorded")]
    best = best_overall(pairs)
    if best and (scores := _scores(best)):
        over = f" (means of {counted(len(best), 'pair')})" if len(best) > 1 else ""
        items.append(("Target score, %", " → ".join(f"{name} {100 * mean:.1f}" for name, mean in scores) + over))
    overall = next((one for one in statistics.overall if best and one.method == best[0][1].name), None)
    if overall and overall.shares:
        share = overall.shares[0]
        items.append(("Gap closed", closed(replace(share, reason="")).text if share.value else f"- ({share.reason})"))
    items.append(("Runs", f"{_sizes(pairs)}; {duration(run_time(pairs))} in all"))
    if best:
        items.append(("Model", _model([method for _, method in best])))
    return Facts(_sentence(pairs, overall), tuple(items))


def _runs(pairs: Sequence[Pair]) -> list[Metrics]:
    return [run for pair in pairs for method in pair.methods for run in method.runs]


def run_time(pairs: Sequence[Pair]) -> float:
    """Seconds of all runs, stage by stage; those that took another's result cost none."""
    return sum(sum(run.seconds.values()) for run in _runs(pairs) if run.copied_from is None)


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(8.4), duration(310), duration(9000)
    ('8 s', '5 min 10 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _sentence(pairs: Sequence[Pair], overall: Cell | None) -> str:
    if not any(run.target_test for run in _runs(pairs)):
        return "The target test has no labels, so no score is known; below is what can be said without one."
    if overall is None:
        return "No adapted method was run, so nothing is compared."
    difference, name = overall.baseline, overall.method
    if difference.interval is None:
        return f"{name}, best on source dev, can't be compared: {difference.reason}."

    def better(value: Interval) -> str:
        return f"{abs(100 * value.mean):.1f} points {'better' if value.mean >= 0 else 'worse'} than"

    several = len(overall.pairs) > 1
    text = f"{name}, best on source dev, is {better(difference.interval)} {difference.other} on the target"
    text += f", in the mean over {counted(len(overall.pairs), 'pair')}" if several else ""
    controls = [(control.interval, control.other) for control in overall.controls if control.interval is not None]
    text += "".join(f" and {better(interval)} {other}, its control" for interval, other in controls)
    p = difference.again.p_holm
    if p is not None and p <= ALPHA:
        where = "on at least one of these pairs " if several else ""
        return f"{text}; {where}training again would show a difference to {difference.other}."
    why = difference.again.reason or difference.reason if p is None else f"p = {p:.2g} after Holm's correction"
    return f"{text}; that it is more than chance is not shown{f': {why}' if why else ''}."


def _scores(best: Sequence[tuple[Pair, MethodRuns]]) -> list[tuple[str, float]]:
    """(name, mean over pairs); a name that not all pairs have a score of is left out."""
    found = []
    for name in ("source_only", best[0][1].name, "ceiling"):
        role = "in_domain" if name == "ceiling" else name
        own = [method if name == method.name else reference(pair, method, role) for pair, method in best]
        values = [over_runs(method, Metrics.score) if method else None for method in own]
        if None not in values and (over := mean(values)) is not None:
            found.append((name, over))
    return found


def _backbone(run: Metrics) -> str:
    value = run.config.get("backbone")
    return str(value.get("name") or "") if isinstance(value, dict) else str(value or "")


def _model(methods: Sequence[MethodRuns]) -> str:
    folders = [Path(run.folder, "model") for method in methods for run in method.runs if run.folder]
    there = [folder for folder in folders if folder.is_dir()]
    if not there:
        return "not kept beside these runs"
    return f"{there[0]}{f' (and {len(there) - 1} more: other seeds and pairs)' if len(there) > 1 else ''}"
