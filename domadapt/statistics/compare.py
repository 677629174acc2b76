"""Every method against source-only and against its controls, on each pair and over pairs; the gap.

Scores and differences are shares (0.52 is 52 percent). Where a number is None, the ``reason`` beside it says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.optimize import brentq

from domadapt.runs.groups import ROLES, MethodRuns, Pair, reference, settings
from domadapt.runs.metrics import Metrics
from domadapt.statistics import resampling
from domadapt.statistics.items import FloatArray, ItemCounts, read_items
from domadapt.statistics.resampling import Interval, Mean, Replicability, Significance, interval, mean_over_pairs, plus

CEILING = "in_domain"  # sees target labels: a bound to look at, not a method to test or rank
UNTESTED = {"adapted": "", CEILING: "sees target labels: a bound, not tested"}  # why nothing is tested, by role
UNCLAIMED = "nobody claims anything by it, so it is not tested"
ORACLE = "target labels chose its epochs: a bound, not tested"
Run = tuple[str, int]  # method's name and seed


@dataclass(frozen=True, slots=True)
class Difference:
    """One method less another, on one pair or over those that have both, at the seeds that both were run with."""

    other: str  #: name of the baseline or control (several where it differs by pair); empty where there is none
    interval: Interval | None  #: positive where the method is better; over pairs each counts the same
    #: Would training again show it? The test that a claim about a method needs. On one pair its unit is a seed; over
    #: pairs a (pair, seed), those that share a network being one: a gain on at least one of the pairs.
    retraining: Significance
    #: On one pair, do these trained models differ on other texts of this kind? It says nothing about training again.
    #: Over pairs, would other pairs of this kind show it? Those that share a network are one.
    new_data: Significance
    pairs: int = 0  #: how many have both
    replicability: tuple[Replicability, ...] = ()  #: over pairs, by tests over seeds and by tests over test items
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of the gap between source_only and in_domain a method closes."""

    score: str
    value: Interval | None  #: 1 is the ceiling; None where it would mean nothing
    gap: Interval | None  #: in_domain − source_only at the same seeds on the same items
    pairs: int  #: how many it is over: mean gain over mean gap
    reason: str = ""  #: why ``value`` is None, or has no interval


@dataclass(frozen=True, slots=True)
class Cell:
    """One method, on one pair or over those it was run on."""

    pairs: tuple[str, ...]  #: those with a score; where none has one, all
    method: str
    role: str
    score: Interval | None  #: headline on the target test; of methods run on different pairs not comparable
    baseline: Difference  #: against it
    controls: tuple[Difference, ...]  #: against each of its controls
    shares: tuple[Share, ...]  #: of the gap, by the headline and by F1 of each span type

    @property
    def differences(self) -> tuple[Difference, ...]:
        """To the baseline, and to each control."""
        return (self.baseline, *self.controls)


@dataclass(frozen=True, slots=True)
class Statistics:
    """All that is said about a report's runs."""

    baseline: str  #: role or name of what methods are compared with
    cells: tuple[Cell, ...]  #: every pair × method
    overall: tuple[Cell, ...]  #: every method over its pairs
    messages: tuple[str, ...] = ()  #: what could not be used, one line each, with counts

    def cell(self, pair: str, method: str) -> Cell:
        return {(cell.pairs, cell.method): cell for cell in self.cells}[(pair,), method]


def compare(pairs: Sequence[Pair], baseline: str = "source_only", predictions: bool = True) -> Statistics:
    """Compare methods per pair and over pairs.

    Holm's correction is over what is claimed: all per-pair tests of one unit of adapted methods, against the baseline
    and against their controls alike, are one family; all their tests over pairs of one unit are another. Nothing is
    tested of bounds, baselines and controls. Without predictions, intervals are over seeds alone.
    """
    read = [read_scores(pair, predictions) for pair in pairs]
    known = [one for one, _ in read]
    messages = [message for _, notes in read for message in notes]
    headlines = sorted({pair.headline for pair in pairs})
    if len(headlines) > 1:
        messages.append(f"pairs are scored by {', '.join(headlines)}: means over pairs mix these")
    mixed: dict[str, list[str]] = {}
    for name in dict.fromkeys(method.name for pair in pairs for method in pair.methods):
        chosen = [settings(method.config) for pair in pairs for method in pair.methods if method.name == name]
        every = sorted({setting for one in chosen for setting in one})
        if differing := [setting for setting in every if len({one.get(setting) for one in chosen}) > 1]:
            mixed.setdefault(", ".join(differing), []).append(name)
    for differ, names in mixed.items():
        what = f"not run with the same settings on all pairs ({differ}): means over pairs mix these"
        messages.append(f"{', '.join(names)}: {what}")
    sides = [_sides(one, baseline) for one in known]
    places = [(i, method) for i, one in enumerate(known) for method in one.pair.methods]
    cells = [_cell([(known[i], method, sides[i][method.name])], over_pairs=False) for i, method in places]
    overall = [
        _cell([(known[i], m, sides[i][name]) for i, m in places if m.name == name], over_pairs=True)
        for name in dict.fromkeys(method.name for _, method in places)
    ]
    return Statistics(baseline, _corrected(cells), _corrected(overall), tuple(messages))


def _corrected(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    every = [difference for cell in cells for difference in cell.differences]
    retraining = resampling.correction([difference.retraining for difference in every])
    new_data = resampling.correction([difference.new_data for difference in every])

    def corrected(difference: Difference) -> Difference:
        return replace(difference, retraining=retraining(difference.retraining), new_data=new_data(difference.new_data))

    return tuple(replace(c, baseline=corrected(c.baseline), controls=tuple(map(corrected, c.controls))) for c in cells)


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """One pair's runs."""

    pair: Pair
    runs: dict[Run, Metrics]
    items: dict[Run, ItemCounts]  #: of every run with readable predictions
    resampled: dict[tuple[str, Run], FloatArray]  #: (resamples,) scores by name, on the same resamples of the items

    def has_score(self, method: MethodRuns, seed: int, name: str = "") -> bool:
        """Whether a run has a score, the headline unless named."""
        run = self.runs.get((method.name, seed))
        return run is not None and run.score(name or self.pair.headline) is not None

    def seeds(self, *methods: MethodRuns, name: str = "") -> list[int]:
        """Seeds that all these methods have a score for, the headline unless named, on one test set as far as known."""
        shared = [s for s in methods[0].seeds if all(self.has_score(m, s, name) for m in methods)]
        digests = {s: [self.items[m.name, s].digest for m in methods if (m.name, s) in self.items] for s in shared}
        sizes = {s: [run.tested for m in methods if (run := self.runs[m.name, s]).tested] for s in shared}
        return [s for s in shared if len({*digests[s]}) < 2 and len({*sizes[s]}) < 2]

    def mean(self, method: MethodRuns, other: MethodRuns | None = None) -> Mean | None:
        """A method's mean, or its mean difference to another over common seeds; None without any."""
        methods = (method,) if other is None else (method, other)
        if not (seeds := self.seeds(*methods)):
            return None
        mean = self.mean_over(method, seeds, self.pair.headline, methods)
        return mean if other is None else plus(mean, self.mean_over(other, seeds, self.pair.headline, methods), -1.0)

    def mean_over(self, method: MethodRuns, seeds: Sequence[int], name: str, others: Sequence[MethodRuns]) -> Mean:
        """A method's mean over given seeds, on resampled items where all methods beside it have them."""
        runs = [(method.name, seed) for seed in seeds]
        same = self.same_items(seeds, *others) and all((name, run) in self.resampled for run in runs)
        items = np.stack([self.resampled[name, run] for run in runs], axis=1) if same else None
        networks = [frozenset((self.runs[run].network,)) for run in runs]
        values = [self.runs[run].score(name) or 0.0 for run in runs]
        return resampling.mean_of(values, items, self.pair.name, seeds, networks)

    def same_items(self, seeds: Sequence[int], *methods: MethodRuns) -> bool:
        """Whether all these runs have predictions of one and the same test set."""
        counts = [self.items.get((m.name, seed)) for m in methods for seed in seeds]
        return all(counts) and len({items.digest for items in counts if items}) == 1


def score_names(pair: Pair) -> list[str]:
    """The headline, then F1 of each span type."""
    if pair.task == "classification":
        return [pair.headline]
    names = {n for method in pair.methods for run in method.runs for n in run.target_test or () if n.endswith("_f1")}
    return [pair.headline, *sorted(names - {pair.headline})]


def read_scores(pair: Pair, predictions: bool = True) -> tuple[ScoredPair, list[str]]:
    """Read a pair's scores and, if asked, predictions; a message for each kind of what is missing."""
    runs = {(method.name, run.seed): run for method in pair.methods for run in method.runs}
    items, missing, messages = dict[Run, ItemCounts](), dict[str, list[str]](), list[str]()
    with_score = [name for name, run in runs.items() if run.score(pair.headline) is not None and predictions]
    for name in with_score:
        try:
            result = read_items(runs[name])
        except ValueError as error:  # damaged predictions: the scores still count
            messages.append(str(error))
            continue
        if isinstance(result, str):
            missing.setdefault(result, []).append(runs[name].folder)
        else:
            items[name] = result
    for what, folders in missing.items():
        lacking = f"{len(folders)} of {len(with_score)} runs have {what} ({folders[0]} ...)"
        messages.append(f"{pair.name}: {lacking}, so nothing is said about other test items for them")
    by_set: dict[str, list[Run]] = {}
    for name, counts in items.items():
        by_set.setdefault(counts.digest, []).append(name)
    if len(by_set) > 1:
        messages.append(f"{pair.name}: predictions are of {len(by_set)} test sets; runs are compared within each")
    resampled = dict[tuple[str, Run], FloatArray]()
    for score in score_names(pair):
        for names in by_set.values():
            kind = score.removesuffix("_f1")
            parts = [items[n] if score == pair.headline else items[n].of_kind(kind) for n in names]
            if all(parts):
                columns = resampling.resampled_scores([part for part in parts if part]).T
                resampled |= {(score, name): column for name, column in zip(names, columns, strict=True)}
    return ScoredPair(pair, runs, items, resampled), messages


@dataclass(frozen=True, slots=True)
class Contrast:
    """A method less another on one pair, before any words over pairs."""

    other: MethodRuns | None  #: with whom the method is compared; None where there is nobody
    reason: str  #: why there is no ``mean``
    mean: Mean | None = None  #: of the difference over seeds
    items: tuple[float, float] | None = None  #: p-values over test items, two-sided and one-sided
    item_count: int = 0


# Against the baseline, by the name "", and each of the method's controls.
Compared = tuple[ScoredPair, MethodRuns, dict[str, Contrast]]


def _sides(one: ScoredPair, baseline: str) -> dict[str, dict[str, Contrast]]:
    """By method, what each is compared with. All comparisons of a test set are tested on the same swaps."""
    sides: dict[str, dict[str, Contrast]] = {}
    by_set: dict[str, dict[tuple[str, str], tuple[list[ItemCounts], list[ItemCounts]]]] = {}
    by_role = baseline in ROLES
    for method in one.pair.methods:
        missing = "its control {} was not run, or with several settings"
        controls = {name: _side(one, method, _named(one.pair, name), missing.format(name)) for name in method.controls}
        base = reference(one.pair, method, baseline) if by_role else _named(one.pair, baseline)
        contrast = _side(one, method, base, f"no comparable run of {baseline}")
        if base is method or (by_role and method.role == baseline):
            contrast = Contrast(None, "is the baseline")
        sides[method.name] = {"": contrast, **controls}
        for name, side in sides[method.name].items():
            if side.other is None or side.mean is None or _untested(method):
                continue
            seeds = one.seeds(method, side.other)
            if one.same_items(seeds, method, side.other):
                mine, others = ([one.items[m.name, seed] for seed in seeds] for m in (method, side.other))
                by_set.setdefault(mine[0].digest, {})[method.name, name] = mine, others
    for tested in by_set.values():
        for (method_name, name), p in zip(tested, resampling.items_test([*tested.values()]), strict=True):
            count = len(tested[method_name, name][0][0].counts)
            sides[method_name][name] = replace(sides[method_name][name], items=p, item_count=count)
    return sides


def _untested(method: MethodRuns) -> str:
    """Why nothing is tested of a method; empty where something is."""
    return ORACLE if method.oracle else UNTESTED.get(method.role, UNCLAIMED)


def _named(pair: Pair, name: str) -> MethodRuns | None:
    matches = [m for m in pair.methods if m.name == name] or [m for m in pair.methods if m.runs[0].method == name]
    return matches[0] if len(matches) == 1 else None


def _side(one: ScoredPair, method: MethodRuns, other: MethodRuns | None, reason: str) -> Contrast:
    mean = None if other is None else one.mean(method, other)
    if other is not None:
        reason = "" if mean else f"no seed has a target score of both {method.name} and {other.name} on one test set"
    return Contrast(other, reason, mean)


def _cell(compared: Sequence[Compared], over_pairs: bool) -> Cell:
    """A method on one pair, or over all those it was run on; Holm's correction is still to come."""
    method = compared[0][1]
    by_pair = {one.pair.name: mean for one, runs, _ in compared if (mean := one.mean(runs))}
    means = list(by_pair.values())
    names = dict.fromkeys(name for *_, sides in compared for name in sides)
    by_name = [[sides[name] for *_, sides in compared if name in sides] for name in names]
    baseline, *controls = [_difference(method, sides, over_pairs) for sides in by_name]
    scores = dict.fromkeys(name for one, *_ in compared for name in score_names(one.pair))
    by_score = {
        n: [gain_and_gap(one, runs, n) for one, runs, _ in compared if n in score_names(one.pair)] for n in scores
    }
    # A pair whose target test has no labels counts in no mean.
    pairs = tuple(by_pair) or tuple(one.pair.name for one, *_ in compared)
    score = resampling.score_interval(mean_over_pairs(means)) if means else None
    shares = tuple(share(name, of_pairs) for name, of_pairs in by_score.items())
    return Cell(pairs, method.name, method.role, score, baseline, tuple(controls), shares)


def _difference(method: MethodRuns, sides: Sequence[Contrast], over_pairs: bool) -> Difference:
    means = [side.mean for side in sides if side.mean is not None]
    items = [side.items[1] for side in sides if side.items]
    reason = "" if means else "; ".join(dict.fromkeys(side.reason for side in sides))
    why = reason or _untested(method)
    named = [side.other.name for side in sides if side.other and (side.mean or not over_pairs)]
    tests = _tests_over_pairs(means, why) if over_pairs else _tests_on_a_pair(sides[0], why)
    ends = interval(mean_over_pairs(means)) if means else None
    replicated = _replicated(means, items, why) if over_pairs else ()
    return Difference(", ".join(dict.fromkeys(named)), ends, *tests, len(means), replicated, reason)


def _tests_on_a_pair(side: Contrast, why: str) -> tuple[Significance, Significance]:
    values = [] if side.mean is None else side.mean.addends
    over_seeds = Significance(None, None, "seeds", len(values), why) if why else resampling.runs_test(values, "seeds")
    if side.items is not None:
        return over_seeds, Significance(side.items[0], None, "test items", side.item_count)
    why = why or "not all runs have predictions of the same test items"
    return over_seeds, Significance(None, None, "test items", 0, why)


def _tests_over_pairs(means: Sequence[Mean], why: str) -> tuple[Significance, Significance]:
    """Copies change sides together: what counts is how many there are that share no network."""
    if why:
        return Significance(None, None, "runs", 0, why), Significance(None, None, "pairs", 0, why)
    mean = mean_over_pairs(means)
    runs, pairs = mean.sums(mean.blocks), mean.sums(mean.groups)
    return (
        resampling.runs_test(runs, "runs", copies=len(mean.units) - len(runs)),
        resampling.runs_test(pairs, "pairs", copies=len(means) - len(pairs)),
    )


def _replicated(means: Sequence[Mean], items: Sequence[float], why: str) -> tuple[Replicability, Replicability]:
    """By tests over seeds, and over test items, whose one-sided p-values are given; of each pair that has them."""
    if why:
        none = Replicability(None, len(means), why)
        return none, none
    least, seeds = 1 / (resampling.SWAPS + 1), [mean.addends for mean in means]
    over_seeds = [resampling.sign_flip(values, "greater") for values in seeds]
    return (
        resampling.replicability(over_seeds, [max(2.0 ** -len(values), least) for values in seeds], "seeds"),
        resampling.replicability(items, [least] * len(items), "test items"),
    )


NO_GAP = "in_domain is not better than source_only, so there is no gap to close"
LARGEST_SHARE = 1e6  # a share beyond is none
SMALLEST_GAP = 0.01  # of a gap without an interval, that a share is told of


def gain_and_gap(one: ScoredPair, method: MethodRuns, name: str) -> tuple[Mean, Mean] | str:
    """A method's gain and the gap on one pair, at the seeds that all three have; or why there are none."""
    low, high = (reference(one.pair, method, role) for role in ("source_only", CEILING))
    if not any(one.has_score(method, seed, name) for seed in method.seeds):
        return "the target test has no labels"
    if low is None or high is None:
        missing = [role for role, found in (("source_only", low), (CEILING, high)) if found is None]
        return f"no comparable run of {' or '.join(missing)} among these"
    sizes = [(m.name, {r.tested for r in m.runs if r.tested}) for m in (high, low, method)]
    for (first, mine), (second, others) in combinations(sizes, 2):
        if mine and others and mine != others:
            texts, other_texts = (" and ".join(map(str, sorted(found))) for found in (mine, others))
            return f"{first} was tested on {texts} texts, {second} on {other_texts}"
    three = (method, low, high)
    if not (seeds := one.seeds(*three, name=name)):
        return f"no seed has a target score of {method.name}, {low.name} and {high.name} on one test set"
    mean, base, ceiling = (one.mean_over(m, seeds, name, three) for m in three)
    return plus(mean, base, -1.0), plus(plus(ceiling, base, -1.0), mean, 0.0)  # both drawn by the networks of all three


def share(name: str, gains_and_gaps: Sequence[tuple[Mean, Mean] | str]) -> Share:
    """Mean gain over mean gap, over the pairs that have both.

    The three methods are compared at the same seeds on the same test items, so the gap's interval is that of the
    *difference* in_domain − source_only; two intervals of their own may overlap where the difference is beyond doubt.
    The share's ends are those shares that the same draws do not rule out: where the interval of
    (method − source_only) − share · gap contains 0 (Fieller 1954, https://doi.org/10.1111/j.2517-6161.1954.tb00159.x).
    They are finite where the gap's own interval excludes 0, and only there is a share shown.
    """
    known = [each for each in gains_and_gaps if not isinstance(each, str)]
    if not known:
        reasons = dict.fromkeys(each for each in gains_and_gaps if isinstance(each, str))
        return Share(name, None, None, 0, "; ".join(reasons))
    gain, gap = (mean_over_pairs([each[side] for each in known]) for side in (0, 1))
    gap_interval, value, reason = interval(gap), None, NO_GAP
    if gap.value > 0 and (gap_interval.low is None or gap_interval.high is None):
        reason = f"in_domain − source_only is {100 * gap.value:.1f} points, too few for a share: {gap_interval.reason}"
        if gap.value >= SMALLEST_GAP:
            reason = f"no interval stands behind this share: {gap_interval.reason}"
            value = Interval(gain.value / gap.value, None, None, "", gap_interval.reason)
    elif gap.value > 0 and gap_interval.low is not None and gap_interval.high is not None:
        points = f"{100 * gap_interval.mean:+.1f} points, {100 * gap_interval.low:.1f} to {100 * gap_interval.high:.1f}"
        reason = f"no gap to close is shown: in_domain − source_only is {points} over {gap_interval.units}"
        if gap_interval.low > 0:
            value, reason = _fieller(gain, gap, gap_interval), ""
    return Share(name, value, gap_interval, len(known), reason)


def _fieller(gain: Mean, gap: Mean, gap_interval: Interval) -> Interval:
    middle = gain.value / gap.value

    def ruled_out(value: float) -> float:
        """Above 0 where the data rule this share out."""
        left = interval(plus(gain, gap, -value))
        return abs(left.mean) - ((left.high or 0.0) - left.mean)

    def end(way: float) -> float | None:
        step = 0.01
        if ruled_out(middle + way * 1e-9) > 0:  # source_only itself is 0, in_domain 1, whatever is drawn
            return middle
        while ruled_out(middle + way * step) <= 0:
            step *= 2
            if step > LARGEST_SHARE:
                return None
        near = middle + way * step / 2 if step > 0.01 else middle
        return float(brentq(ruled_out, near, middle + way * step, xtol=1e-6))

    low, high = end(-1.0), end(1.0)
    if low is None or high is None:
        return Interval(middle, None, None, "", "the gap is too uncertain for an interval of the share")
    return Interval(middle, low, high, gap_interval.units, gap_interval.reason)
