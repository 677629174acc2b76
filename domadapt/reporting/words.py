"""What the report says in words: the verdict, whether syntax helps; texts that adaptation fixed and broke."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from domadapt.reporting.blocks import Block, Fact, Facts, Folded, Marked, Prose, Samples, columns_for, make_table
from domadapt.reporting.frames import OTHER_BASELINES, best_adapted, best_overall, mean, rows, run_mean
from domadapt.reporting.render import listed
from domadapt.reporting.tables import share_cell
from domadapt.reporting.target_card import marked
from domadapt.runs.groups import MethodRuns, Pair, backbone_name, reference
from domadapt.runs.metrics import Metrics
from domadapt.runs.target_card import ShownText
from domadapt.statistics.compare import Cell, Difference, Statistics
from domadapt.statistics.items import read_answers
from domadapt.statistics.resampling import ALPHA, Interval
from domadapt.utils.text import counted, cut, duration


def claim(one: Cell, statistics: Statistics) -> str:
    """Whether syntax helps: a gain needs to stand against source_only and against a neutral control.

    A control is the method with what it is about taken away. A gain over one that harms measures that harm as well.
    """
    baseline = one.baseline.other or statistics.baseline
    if one.baseline.interval is None:
        return f"Of {one.method} against its controls nothing can be said: {one.baseline.reason}."
    sentences = [f"{one.method} is {difference_words(one.baseline.interval)} {baseline}"]
    needed, lacking, harmful = [one.baseline], list[str](), False
    for control in one.controls:
        name = control.other
        if control.interval is None:
            lacking.append(control.reason)
            continue
        text = f"{difference_words(control.interval)} {name}{_of_pairs(control, one.baseline)}"
        its_gain = next((o.baseline.interval for o in statistics.overall if o.method == control.other), None)
        if its_gain is None:
            lacking.append(f"{name} was not compared with {baseline}")
        elif (its_gain.mean if its_gain.high is None else its_gain.high) < 0:
            harmful, harms, measures = True, "harms", "measures harm as well"
            if its_gain.high is None:
                harms, measures = "may harm", "may measure harm"
            text += f" (this control {harms}: {difference_words(its_gain)} {baseline}, so a gain over it {measures})"
        else:
            needed.append(control)
        sentences.append(text)
    names = [difference.other for difference in needed]
    # By its interval, and by the test over runs after Holm's correction.
    unshown = [d.other for d in needed if not ((v := d.interval) and (v.low or 0.0) > 0 and _real(d))]
    if len(needed) == 1 and (harmful or not lacking):
        lacking.append("no control that was run is neutral" if harmful else "no control was run")
    elif not unshown and not lacking:  # nothing that it was to stand against may be missing
        where = f"on at least one of {one.baseline.pairs} pairs" if len(one.pairs) > 1 else "on this pair"
        return f"{listed(sentences)}. So it is shown {where} that syntax helps, against {listed(names)}."
    if unshown:
        lacking.insert(0, f"no gain whose interval excludes 0 is shown against {listed(unshown)}")
    return f"{listed(sentences)}. It is not shown that syntax helps: {'; '.join(lacking)}."


def _real(difference: Difference) -> bool:
    """Whether training again would show a difference, after Holm's correction."""
    return difference.retraining.p_holm is not None and difference.retraining.p_holm <= ALPHA


def _of_pairs(difference: Difference, beside: Difference) -> str:
    """Of how many pairs a difference is, where the one told beside it is of others."""
    return "" if difference.pairs == beside.pairs else f" on {counted(difference.pairs, 'pair')}"


def difference_words(value: Interval) -> str:
    """A difference in points, with its interval and what that is over.

    >>> difference_words(Interval(0.02, -0.01, 0.05, "seeds")), difference_words(Interval(-0.02, -0.05, 0.0, "seeds"))
    ('2.0 points (-1.0 to 5.0 over seeds) above', '2.0 points (0.0 to 5.0 over seeds) below')
    """
    ends = "no interval"
    if value.low is not None and value.high is not None:
        low, high = (100 * end if value.mean >= 0 else -100 * end for end in (value.low, value.high))
        low, high = (round(end, 1) + 0.0 for end in sorted((low, high)))  # -0.0 is 0.0
        ends = f"{low:.1f} to {high:.1f} over {value.units}"
    return f"{abs(100 * value.mean):.1f} points ({ends}) {'above' if value.mean >= 0 else 'below'}"


def verdict_card(pairs: Sequence[Pair], statistics: Statistics) -> Facts:
    """Task, backbone, scores, gap closed, run time, model, and one plain sentence."""
    tasks = list(dict.fromkeys(f"{pair.task}, scored by {pair.headline}" for pair in pairs))
    given = [run.config.get("backbone") or {} for pair in pairs for run in pair.runs if run.role not in OTHER_BASELINES]
    backbones = dict.fromkeys(map(backbone_name, given))
    items = [("Task", listed(tasks)), ("Backbone", listed([name for name in backbones if name]) or "not recorded")]
    measured = [pair for pair in pairs if any(run.target_test for run in pair.runs)]
    best = best_overall(measured) or best_overall(pairs)
    if best and (scores := _scores(best)):
        over = f" (means of {counted(len(best), 'pair')})" if len(best) > 1 else ""
        roles = ["in_domain" if name == "ceiling" else "source_only" for name, _ in scores if name != best[0][1].name]
        bases = [(method, reference(pair, method, role)) for pair, method in best for role in roles]
        over += ", not of the same seeds" if any(base and base.seeds != method.seeds for method, base in bases) else ""
        over += ", not of the same test texts" if any(base and _tested(base) != _tested(m) for m, base in bases) else ""
        items.append(("Target score, %", " → ".join(f"{name} {100 * mean:.1f}" for name, mean in scores) + over))
    overall = next((cell for cell in statistics.overall if best and cell.method == best[0][1].name), None)
    if overall and overall.shares:
        share = overall.shares[0]
        over = f" (of {counted(share.pairs, 'pair')})" if share.pairs < len(overall.pairs) else ""
        text = share_cell(replace(share, reason="")).text + over if share.value else f"- ({share.reason})"
        items.append(("Gap closed", text))
    runs = [run for pair in pairs for run in pair.runs]
    names = {method.name for pair in pairs for method in pair.methods}
    sizes = f"{counted(len(runs), 'run')}, {counted(len(names), 'method')}, {counted(len(pairs), 'pair')}"
    items.append(("Runs", f"{sizes}; {duration(run_time(pairs))} in all"))
    if best:
        folders = [Path(run.folder, "model") for _, method in best for run in method.runs if run.folder]
        models = [folder for folder in folders if folder.is_dir()]
        rest = f" (and {len(models) - 1} more: other seeds and pairs)" if len(models) > 1 else ""
        items.append(("Model", f"{models[0]}{rest}" if models else "not kept beside these runs"))
    return Facts(verdict(measured or pairs, overall), tuple(Fact(*item) for item in items))


def run_time(pairs: Sequence[Pair]) -> float:
    """Seconds of all runs, stage by stage; those that took another's result cost none."""
    return sum(sum(run.seconds.values()) for pair in pairs for run in pair.runs if run.copied_from is None)


def verdict(pairs: Sequence[Pair], cell: Cell | None) -> str:
    """What may be said of the best adapted method, on one pair or over several."""
    if not any(run.target_test for pair in pairs for run in pair.runs):
        return "The target test has no labels, so no score is known; below is what can be said without one."
    if cell is None:
        return "No adapted method was run, so nothing is compared."
    difference, name = cell.baseline, cell.method
    every = [method for pair in pairs for method in pair.methods if method.role == "adapted"]
    blind = [method for method in every if not (method.oracle or method.config.get("target_labels"))]
    adapted = Counter(method.name for method in blind or every)
    if len(adapted) > 1:  # source_only is often better on source dev
        most = " that were run on most pairs" if len({*adapted.values()}) > 1 else ""
        most += " without target labels" if 0 < len(blind) < len(every) else ""
        name += f", best of the adapted{most} on source dev,"
    if difference.interval is None:
        return f"{name} can't be compared: {difference.reason}."
    several = len(cell.pairs) > 1
    text = f"{name} is {difference_words(difference.interval)} {difference.other} on the target"
    text += f", in the mean over {counted(difference.pairs, 'pair')}" if several else ""
    for one in cell.controls:
        if one.interval is not None:
            text += f" and {difference_words(one.interval)} {one.other}{_of_pairs(one, difference)}, its control"
    if _real(difference):
        where = "on at least one of these pairs " if several else ""
        return f"{text}; {where}training again would show a difference to {difference.other}."
    p = difference.retraining.p_holm
    why = difference.retraining.reason or difference.reason if p is None else f"p = {p:.2g} after Holm's correction"
    why = why.partition(": ")[0]  # the section on significance has the rest
    return f"{text}; that it is more than chance is not shown{f': {why}' if why else ''}."


def _tested(method: MethodRuns) -> set[int | None]:
    """Sizes of the tests of its runs: a ceiling may be tested on fewer texts."""
    return {run.tested for run in method.runs}


def _scores(best: Sequence[tuple[Pair, MethodRuns]]) -> list[tuple[str, float]]:
    """(name, mean over pairs); a name that not all pairs have a score of is left out."""
    scores = []
    for name in ("source_only", best[0][1].name, "ceiling"):
        role = "in_domain" if name == "ceiling" else name
        methods = [method if name == method.name else reference(pair, method, role) for pair, method in best]
        values = [run_mean(method, Metrics.score) if method else None for method in methods]
        if None not in values and (over := mean(values)) is not None:
            scores.append((name, over))
    return scores


@dataclass(frozen=True, slots=True)
class ChangedText:
    """One text of ``predictions.jsonl``, and the annotator's, source_only's and the adapted model's labels."""

    text: str
    gold: set[Any]
    before: set[Any]
    after: set[Any]
    change: float  #: errors that adaptation added (negative: removed), mean over the seeds that both were run with
    errors: tuple[int, int]  #: of source_only and of the adapted model, at ``seed``
    seed: int  #: where adaptation changed most


def changed_texts(pair: Pair) -> tuple[MethodRuns, list[int], list[ChangedText]]:
    """A pair's best adapted method, its seeds that source_only has, too, texts as both label them; or a ValueError."""
    method = best_adapted(pair)
    if method is None:
        raise ValueError("no adapted method was run")
    base = reference(pair, method, "source_only")
    if base is None:
        raise ValueError("no comparable run of source_only")
    seeds = [seed for seed in method.seeds if seed in base.seeds]
    if not seeds:
        mismatch = f"source_only was run with seeds {base.seeds}, the adapted method with {method.seeds}"
        raise ValueError(f"{mismatch}: none in common")
    files = [{run.seed: Path(run.folder, "predictions.jsonl") for run in each.runs} for each in (base, method)]
    texts: dict[int, list[ChangedText]] = {}
    for seed in seeds:
        base_file, method_file = (of_method[seed] for of_method in files)
        if absent := [str(file) for file in (base_file, method_file) if not file.is_file()]:
            raise ValueError(f"no {absent[0]} (written only where the target test has labels)")
        before, after = read_answers(base_file, pair.task), read_answers(method_file, pair.task)
        if len(before) != len(after):
            raise ValueError(f"{base_file} and {method_file}: different numbers of texts; run those cells again")
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if old.text != new.text:
                raise ValueError(f"{method_file}: text {new.name!r} is not the one of {base_file}")
            wrong = errors(old.gold, old.predicted, pair.task), errors(old.gold, new.predicted, pair.task)
            labels, change = (old.gold, old.predicted, new.predicted), float(wrong[1] - wrong[0])
            texts.setdefault(index, []).append(ChangedText(old.text, *labels, change, wrong, seed))
    changes = []
    for same in texts.values():
        change = sum(e.change for e in same) / len(same)
        changes.append(replace((min if change < 0 else max)(same, key=lambda e: e.change), change=change))
    return method, seeds, changes


def errors(gold: set[Any], predicted: set[Any], task: str) -> int:
    """Wrong label, or spans missed and invented."""
    return int(gold != predicted) if task == "classification" else len(gold ^ predicted)


KINDS = ("right", "boundary", "type", "boundary and type", "missed", "invented")
CONFUSIONS = 8  # confusions of labels that have a column


def mistakes(pair: Pair) -> list[Block]:
    """A table of errors by kind, one line a method; nothing where no run kept its predictions beside gold labels."""
    methods = [row.method for row in rows(pair)]
    try:
        counts = {method.name: tally for method in methods if (tally := _mistakes(method, pair.task))}
    except ValueError as error:  # damaged predictions spoil this table, not the report
        return [Prose(f"Not counted: {error}.", "soft")]
    if not counts:
        return []
    what, names = "spans", list(KINDS)
    notes = ["boundary: overlaps a span of its type; type: the span, another type; missed, invented: overlaps nothing"]
    if pair.task != "extraction":
        common = sum(counts.values(), Counter[str]())
        what = "texts"
        names = ["right", *(name for name, _ in common.most_common() if name != "right")][: CONFUSIONS + 1]
        notes = ["a → b: annotated as a, predicted as b"]
        if len(common) > len(names):
            notes.append(f"the {CONFUSIONS} most frequent of {len(common) - ('right' in common)} confusions")

    def mean(method: MethodRuns, name: str) -> str:
        return f"{counts[method.name][name] / len(method.runs):.1f}".removesuffix(".0")

    columns = columns_for(names, mean)
    columns = [("method", lambda method: method.name), *columns]
    title = f"{pair.name}: {what} of the target test by kind of error, mean over seeds"
    return [make_table(title, [method for method in methods if method.name in counts], columns, notes, narrow=True)]


def error_kinds(gold: set[Any], predicted: set[Any]) -> Counter[str]:
    """Kinds of a text's predicted spans, and of annotated ones that are missed.

    An annotated span that is found right, or of which one prediction has the wrong type or boundary, is not missed.
    """
    tally = Counter[str]()
    for start, end, kind in sorted(predicted):
        touched = [span for span in gold if span[0] < end and start < span[1]]
        if (start, end, kind) in gold:
            tally["right"] += 1
        elif any(span[2] == kind for span in touched):
            tally["boundary"] += 1
        elif any(span[:2] == (start, end) for span in touched):
            tally["type"] += 1
        else:
            tally["boundary and type" if touched else "invented"] += 1
    tally["missed"] += sum(not any(s < end and start < e for s, e, _ in predicted) for start, end, _ in gold)
    return +tally


def _mistakes(method: MethodRuns, task: str) -> Counter[str] | None:
    files = [Path(run.folder, "predictions.jsonl") for run in method.runs]
    if not all(run.folder and run.target_test and file.is_file() for run, file in zip(method.runs, files, strict=True)):
        return None
    tally = Counter[str]()
    for answer in (answer for file in files for answer in read_answers(file, task)):
        if task == "extraction":
            tally += error_kinds(answer.gold, answer.predicted)
        else:
            (gold,), (predicted,) = answer.gold, answer.predicted
            tally["right" if gold == predicted else f"{gold} → {predicted}"] += 1
    return tally


LONGEST_TEXT = 300  # characters of a sentence that are shown
EXAMPLES, FRONT = 10, 4  # of each kind and pair: that are shown, and of these, that are not folded away


def fixed_and_broken(pair: Pair) -> list[Block]:
    """A pair's examples, so many of each kind at most."""
    try:
        method, seeds, changes = changed_texts(pair)
    except ValueError as error:  # damaged predictions spoil the examples, not the report
        return [Prose(f"Nothing to compare: {error}.")]
    # Texts with fewer and more errors, clearest first.
    fixed = sorted((e for e in changes if e.change < 0), key=lambda e: (e.errors[1] > 0, e.change))
    broken = sorted((e for e in changes if e.change > 0), key=lambda e: (e.errors[0] > 0, -e.change))
    wrong = "a span missed or invented" if pair.task == "extraction" else "a wrong label"
    about = (
        f"{method.name} against source_only at the same seeds ({', '.join(map(str, seeds))}), on {len(changes)} target "
        f"test texts. An error is {wrong}. Shown at the seed that changed most: gold is the annotators', before is "
        f"source_only's, after is the adapted model's."
    )
    blocks: list[Block] = [Prose(about)]
    for kind, worse, examples in (("Fixed", "fewer", fixed), ("Broke", "more", broken)):
        shown, number = examples[:EXAMPLES], len(examples)
        of = "" if not number else "; all of them" if number == len(shown) else f"; {len(shown)} of them"
        blocks.append(Prose(f"{kind}: {counted(number, 'text has', 'texts have')} {worse} errors{of}", "lead"))
        samples = [_sample(pair, example) for example in shown]
        blocks += samples[:FRONT]
        if len(samples) > FRONT:
            blocks.append(Folded(f"{kind}: {len(samples) - FRONT} more", tuple(samples[FRONT:])))
    return blocks


def _sample(pair: Pair, example: ChangedText) -> Samples:
    """One text: with its labels, or once with each side's spans."""
    text, left_out = cut(example.text if example.text.strip() else "[nothing but white space]", LONGEST_TEXT)
    three = {"gold": example.gold, "before": example.before, "after": example.after}
    if pair.task == "classification":
        labels = ", ".join(f"{name} {label}" for name, side in three.items() for label in side)
        return Samples(f"{labels}; seed {example.seed}", (Marked("", ((text, ""),), left_out),))
    before, after = example.errors
    texts = (replace(marked(ShownText(text, left_out, spans=tuple(side))), lead=name) for name, side in three.items())
    return Samples(f"errors: {before} before, {after} after; seed {example.seed}", tuple(texts))
