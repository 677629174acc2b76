"""The card that a report opens with: what was run, what came out, where the model is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from domadapt.reporting.blocks import Facts, counted, listed
from domadapt.reporting.examples import best_overall
from domadapt.reporting.rows import BELOW, target_scores
from domadapt.reporting.summary import LEVEL
from domadapt.reporting.tables import closed
from domadapt.runs.groups import Method, Pair, reference
from domadapt.statistics.results import Overall, Statistics


def verdict_card(pairs: Sequence[Pair], statistics: Statistics) -> Facts:
    """Task, backbone, scores, gap closed, run time, model, and one plain sentence.

    Args:
        pairs: of the report.
        statistics: of these pairs.
    """
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


def _sentence(pairs: Sequence[Pair], best: Sequence[tuple[Pair, Method]], overall: Overall | None) -> str:
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
    why = difference.runs.reason or difference.reason
    if difference.runs.p_holm is not None:
        why = f"p = {difference.runs.p_holm:.2g} after Holm's correction"
    return f"{text}; that it is more than chance is not shown{f': {why}' if why else ''}."


def _is_shown(overall: Overall) -> bool:
    p = overall.baseline.runs.p_holm
    return p is not None and p <= LEVEL


def _scores(best: Sequence[tuple[Pair, Method]]) -> list[tuple[str, float]]:
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


def _model(methods: Sequence[Method]) -> str:
    folders = [Path(run.folder, "model") for method in methods for run in method.runs if run.folder]
    kept = [folder for folder in folders if folder.is_dir()]
    if not kept:
        return "not kept beside these runs"
    return f"{kept[0]}{f' (and {len(kept) - 1} more: other seeds and pairs)' if len(kept) > 1 else ''}"
