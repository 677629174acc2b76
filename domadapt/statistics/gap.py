"""The gap, what of it is closed, agreement of two models, and in how many pairs a method is better.

Share of the gap between source_only and in_domain that a method closes, from paired differences.

The three are compared at the same seeds on the same test items, so the gap's interval is that of the *difference*
in_domain − source_only; two intervals of their own may overlap where the difference is beyond doubt. The share's ends
are those shares that the same draws do not rule out: where the interval of (method − source_only) − share · gap
contains 0 (Fieller 1954, https://doi.org/10.1111/j.2517-6161.1954.tb00159.x). They are finite where the gap's own
interval excludes 0, and only there is a share shown.

How far seeds of one method agree: an estimate of their score that reads no label (generalisation disagreement
equality, Jiang et al. 2022, https://arxiv.org/abs/2106.13799). It is too high where all of them err alike.

On how many pairs is a gain real, and on which.

Dror, Baumer, Bogomolov and Reichart (2017), Replicability Analysis for Natural Language Processing,
https://aclanthology.org/Q17-1033: counting the pairs with p < 0.05 counts too many; partial conjunction tests (is there
a gain on at least u of N pairs?) give a count that is too high at most once in twenty times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy.optimize import brentq

from domadapt.runs.groups import MethodRuns, Pair, reference
from domadapt.runs.metrics import Metrics
from domadapt.statistics.items import FloatArray, Items, Row, f1, read_items, read_rows
from domadapt.statistics.resampling import ALPHA, Sample, interval, mean_over_pairs, plus, resampled_scores, sample
from domadapt.statistics.results import Interval, Replicability, Share

Run = tuple[str, int]  # method's name and seed


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """One pair's runs.

    Attributes:
        pair: as grouped.
        runs: every run by method and seed.
        items: counts per test item, of every run with readable predictions.
        resampled: (resamples,) scores by name on the same resamples of the test items, for the runs in ``items``.
    """

    pair: Pair
    runs: dict[Run, Metrics]
    items: dict[Run, Items]
    resampled: dict[tuple[str, Run], FloatArray]

    def known(self, method: MethodRuns, seed: int, name: str = "") -> bool:
        """Whether a run has a score, the headline unless named."""
        run = self.runs.get((method.name, seed))
        return run is not None and run.score(name or self.pair.headline) is not None

    def seeds(self, *methods: MethodRuns) -> list[int]:
        """Seeds that all these methods have a score for."""
        return [s for s in methods[0].seeds if all(self.known(m, s) for m in methods)]

    def sample(self, method: MethodRuns, other: MethodRuns | None = None) -> Sample | None:
        """A method's mean, or its mean difference to another over common seeds; None without any."""
        methods = (method,) if other is None else (method, other)
        if not (seeds := self.seeds(*methods)):
            return None
        own = self.over(method, seeds, self.pair.headline, methods)
        return own if other is None else plus(own, self.over(other, seeds, self.pair.headline, methods), -1.0)

    def over(self, method: MethodRuns, seeds: Sequence[int], name: str, beside: Sequence[MethodRuns]) -> Sample:
        """A method's mean over given seeds, on resampled items where all methods beside it have them."""
        runs = [(method.name, seed) for seed in seeds]
        same = self.same_items(seeds, *beside) and all((name, run) in self.resampled for run in runs)
        items = np.stack([self.resampled[name, run] for run in runs], axis=1) if same else None
        networks = [frozenset((self.runs[run].network,)) for run in runs]
        values = [self.runs[run].score(name) or 0.0 for run in runs]
        return sample(values, items, self.pair.name, seeds, networks)

    def same_items(self, seeds: Sequence[int], *methods: MethodRuns) -> bool:
        """Whether all these runs have predictions of one and the same test set."""
        found = [self.items.get((m.name, seed)) for m in methods for seed in seeds]
        return all(found) and len({items.digest for items in found if items}) == 1


def score_names(pair: Pair) -> list[str]:
    """The headline, then F1 of each span type."""
    if pair.task == "classification":
        return [pair.headline]
    names = {n for method in pair.methods for run in method.runs for n in run.target_test or () if n.endswith("_f1")}
    return [pair.headline, *sorted(names - {pair.headline})]


def scored(pair: Pair, predictions: bool = True) -> tuple[ScoredPair, list[str]]:
    """Read a pair's scores and predictions.

    Args:
        predictions: read them; without, only the scores are known.

    Returns:
        What is known, and one message for each kind of thing that is missing, with counts.
    """
    runs = {(method.name, run.seed): run for method in pair.methods for run in method.runs}
    items, missing, messages = dict[Run, Items](), list[str](), list[str]()
    with_score = [name for name, run in runs.items() if run.score(pair.headline) is not None and predictions]
    for name in with_score:
        try:
            found = read_items(runs[name])
        except ValueError as error:  # damaged predictions: the scores still count
            messages.append(str(error))
            continue
        if isinstance(found, str):
            missing.append(runs[name].folder)
        else:
            items[name] = found
    if missing:
        messages.append(
            f"{pair.name}: {len(missing)} of {len(with_score)} runs have no predictions.jsonl ({missing[0]} ...), "
            f"so nothing is said about other test items for them"
        )
    by_set: dict[str, list[Run]] = {}
    for name, counts in items.items():
        by_set.setdefault(counts.digest, []).append(name)
    if len(by_set) > 1:
        messages.append(
            f"{pair.name}: predictions are of {len(by_set)} different test sets; runs are compared within each"
        )
    resampled = dict[tuple[str, Run], FloatArray]()
    for score in score_names(pair):
        for names in by_set.values():
            own = {n: items[n] if score == pair.headline else items[n].only(score.removesuffix("_f1")) for n in names}
            if all(own.values()):
                drawn = resampled_scores([part for part in own.values() if part])
                resampled |= {(score, name): column for name, column in zip(own, drawn.T, strict=True)}
    return ScoredPair(pair, runs, items, resampled), messages


NO_GAP = "in_domain is not better than source_only, so there is no gap to close"
FARTHEST = 1e6  # a share beyond is none
LEAST = 0.01  # of a gap without an interval, that a share is told of


def parts(one: ScoredPair, method: MethodRuns, name: str) -> tuple[Sample, Sample] | str:
    """A method's gain and the gap on one pair, at the seeds that all three have; or why there are none."""
    low, high = (reference(one.pair, method, role) for role in ("source_only", "in_domain"))
    if not any(one.known(method, seed, name) for seed in method.seeds):
        return "the target test has no labels"
    if low is None or high is None:
        missing = [role for role, found in (("source_only", low), ("in_domain", high)) if found is None]
        return f"no comparable run of {' or '.join(missing)} among these"
    if unlike := _unlike_tests([high, low, method]):
        return unlike
    three = (method, low, high)
    seeds = [seed for seed in method.seeds if all(one.known(m, seed, name) for m in three)]
    if not seeds:
        return f"no seed has a target score of {method.name}, {low.name} and {high.name}"
    own, base, ceiling = (one.over(m, seeds, name, three) for m in three)
    return plus(own, base, -1.0), plus(plus(ceiling, base, -1.0), own, 0.0)  # both drawn by the networks of all three


def share(name: str, found: Sequence[tuple[Sample, Sample] | str]) -> Share:
    """Mean gain over mean gap, over the pairs that have both.

    Args:
        found: one a pair, as :func:`parts` returns it.
    """
    known = [each for each in found if not isinstance(each, str)]
    if not known:
        return Share(name, None, None, 0, "; ".join(dict.fromkeys(each for each in found if isinstance(each, str))))
    gain, gap = (mean_over_pairs([each[side] for each in known]) for side in (0, 1))
    behind = interval(gap)
    if gap.mean <= 0:
        return Share(name, None, behind, len(known), NO_GAP)
    if behind.low is None and gap.mean < LEAST:
        points = f"in_domain − source_only is {100 * gap.mean:.1f} points"
        return Share(name, None, behind, len(known), f"{points}, too few for a share of them: {behind.reason}")
    if behind.low is None:
        value = Interval(gain.mean / gap.mean, None, None, "", behind.reason)
        return Share(name, value, behind, len(known), f"no interval stands behind this share: {behind.reason}")
    if behind.low <= 0 or behind.high is None:
        points = f"{100 * behind.mean:+.1f} points, {100 * behind.low:.1f} to {100 * (behind.high or 0):.1f}"
        reason = f"no gap to close is shown: in_domain − source_only is {points} over {behind.over}"
        return Share(name, None, behind, len(known), reason)
    return Share(name, _fieller(gain, gap, behind), behind, len(known))


def _fieller(gain: Sample, gap: Sample, behind: Interval) -> Interval:
    middle = gain.mean / gap.mean

    def ruled_out(value: float) -> float:
        """Above 0 where the data rule this share out."""
        left = interval(plus(gain, gap, -value))
        return abs(left.mean) - ((left.high or 0.0) - left.mean)

    low, high = _end(ruled_out, middle, -1.0), _end(ruled_out, middle, 1.0)
    if low is None or high is None:
        return Interval(middle, None, None, "", "the gap is too uncertain for an interval of the share")
    return Interval(middle, low, high, behind.over, behind.reason)


def _end(ruled_out: Callable[[float], float], middle: float, way: float) -> float | None:
    step = 0.01
    if ruled_out(middle + way * 1e-9) > 0:  # source_only itself is 0, in_domain 1, whatever is drawn
        return middle
    while ruled_out(middle + way * step) <= 0:
        step *= 2
        if step > FARTHEST:
            return None
    return float(brentq(ruled_out, middle + way * step / 2 if step > 0.01 else middle, middle + way * step, xtol=1e-6))


def _unlike_tests(methods: Sequence[MethodRuns]) -> str:
    """Which two of them were tested on different numbers of texts; empty where none were."""
    sizes = [{run.target_test_sizes.all for run in m.runs if run.target_test_sizes} for m in methods]
    for (one, mine), (other, others) in combinations(zip(methods, sizes, strict=True), 2):
        if mine and others and mine != others:
            texts, other_texts = (" and ".join(map(str, sorted(found))) for found in (mine, others))
            return f"{one.name} was tested on {texts} texts, {other.name} on {other_texts}"
    return ""


def agreement(runs: Sequence[Metrics]) -> float | None:
    """Mean F1 of one run's predictions against another's, over pairs of runs.

    Args:
        runs: of one method on one test, with the folders they lie in.

    Returns:
        The mean; None for fewer than two runs with predictions of the same texts.

    Raises:
        ValueError: a file is damaged.
    """
    files = [Path(run.folder, "predictions.jsonl") for run in runs if run.folder]
    read = [{row[0]: row for row in read_rows(file, runs[0].task)} for file in files if file.is_file()]
    pairs = [(a, b) for a, b in combinations(read, 2) if a and a.keys() == b.keys()]
    return fmean(_f1([(a[name], b[name]) for name in a]) for a, b in pairs) if pairs else None


def _f1(both: Sequence[tuple[Row, Row]]) -> float:
    """Macro F1 over the kinds that either finds."""

    def kind(label: object) -> str:
        return str(label[2] if isinstance(label, tuple) else label)

    def found(place: int, name: str) -> set[tuple[int, object]]:
        return {(i, label) for i, rows in enumerate(both) for label in rows[place][3] if kind(label) == name}

    names = sorted({kind(label) for rows in both for row in rows for label in row[3]})
    sides = [(found(0, name), found(1, name)) for name in names]
    totals = np.array([(len(a & b), len(a - b), len(b - a)) for a, b in sides])
    return float(f1(totals)) if names else 1.0


def bonferroni(p_values: Sequence[float]) -> FloatArray:
    """p-values of 'a gain on at least u pairs', u = 1 ... N; holds for any dependence between pairs.

    Args:
        p_values: (N,) one-sided, one a pair.

    >>> bonferroni([0.01, 0.5, 0.02]).round(3).tolist()
    [0.03, 0.04, 0.5]
    """
    ordered = np.sort(np.asarray(p_values, dtype=float))
    return np.maximum.accumulate(np.minimum(1.0, ordered * np.arange(len(ordered), 0, -1)))


def replicability(
    names: Sequence[str], p_values: Sequence[float], smallest: Sequence[float], unit: str
) -> Replicability:
    """Count and name the pairs with a gain.

    Args:
        names: (N,) of the pairs that could be tested.
        p_values: (N,) one-sided.
        smallest: (N,) what each pair's test could at best have given.

    Returns:
        The count; or a reason where no p-values, however small, could have made it more than 0.

    >>> replicability(["a", "b", "c"], [0.01, 0.5, 0.02], [0.001] * 3, "test items").pairs
    ('a', 'c')
    """
    if not names:
        return Replicability(None, (), 0, unit, f"no pair could be tested over {unit}")
    if bonferroni(smallest)[0] > ALPHA:
        reason = (
            f"too few {unit}: no test over them could give p below {min(smallest):.2g}, "
            f"and {ALPHA / len(names):.2g} is needed to count one of {len(names)} pairs"
        )
        return Replicability(None, (), len(names), unit, reason)
    count = int((bonferroni(p_values) <= ALPHA).sum())
    # Bonferroni's combination of the largest p-values is Holm's correction: the count says how many, the order which.
    real = set(np.argsort(p_values, kind="stable")[:count].tolist())
    which = tuple(name for i, name in enumerate(names) if i in real)
    return Replicability(count, which, len(names), unit)
