"""Every method against source-only and against its controls, on each pair and over pairs.

Methods ranked over pairs: Friedman's test and critical differences.

Demšar (2006), Statistical Comparisons of Classifiers over Multiple Data Sets, https://jmlr.org/papers/v7/demsar06a.html.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import factorial

import numpy as np
from scipy import stats

from domadapt.runs.groups import ROLES, MethodRuns, Pair, reference
from domadapt.statistics.gap import ScoredPair, parts, replicability, score_names, scored, share
from domadapt.statistics.items import FloatArray, connected
from domadapt.statistics.resampling import (
    ALPHA,
    Sample,
    corrected,
    interval,
    items_test,
    mean_over_pairs,
    runs_test,
    sign_flip,
)
from domadapt.statistics.resampling import PERMUTATION_RESAMPLES as RESAMPLES
from domadapt.statistics.results import (
    Cell,
    Difference,
    Overall,
    OverallDifference,
    Ranking,
    Replicability,
    Share,
    Significance,
    Statistics,
)

CEILING = "in_domain"  # sees target labels: a bound to look at, not a method to test or rank
BOUND = "sees target labels: a bound, not tested"
UNCLAIMED = "nobody claims anything by it, so it is not tested"


@dataclass(frozen=True, slots=True)
class Versus:
    """A method less another, before any words.

    Attributes:
        method: whose gain it is.
        other: with whom it is compared; None where there is nobody.
        reason: why there is no ``sample``.
        sample: of the difference; None where there is nothing to compare.
        differences: (seeds,) of the scores.
        items: p-values over test items, two-sided and one-sided; None where not tested.
        item_count: test items.
    """

    method: MethodRuns
    other: MethodRuns | None
    reason: str
    sample: Sample | None = None
    differences: tuple[float, ...] = ()
    items: tuple[float, float] | None = None
    item_count: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one pair, against its baseline and each of its controls by name."""

    one: ScoredPair
    method: MethodRuns
    baseline: Versus
    controls: dict[str, Versus]


def rows(one: ScoredPair, baseline: str) -> list[Row]:
    """Every method of a pair against its baseline and its controls."""
    own = [(m, {"": _against_baseline(one, m, baseline), **_against_controls(one, m)}) for m in one.pair.methods]
    tested = iter(_tested_over_items(one, [side for _, sides in own for side in sides.values()]))
    found = [(method, {name: next(tested) for name in sides}) for method, sides in own]
    return [Row(one, method, sides.pop(""), sides) for method, sides in found]


def untested(method: MethodRuns) -> str:
    """Why nothing is tested of a method, in words; empty of an adapted one, by which somebody claims something."""
    return "" if method.role == "adapted" else BOUND if method.role == CEILING else UNCLAIMED


def seeds_test(side: Versus) -> Significance:
    """Would training again show it?"""
    count = len(side.differences)
    if reason := side.reason or untested(side.method):
        return Significance(None, None, "seeds", count, reason)
    return runs_test(side.differences, [1 / count] * count, "seeds")


def significance_over_items(side: Versus) -> Significance:
    """Do these trained models differ on other texts?"""
    if side.items is None:
        reason = side.reason or untested(side.method) or "not all runs have predictions of the same test items"
        return Significance(None, None, "test items", 0, reason)
    return Significance(side.items[0], None, "test items", side.item_count)


def _against_baseline(one: ScoredPair, method: MethodRuns, baseline: str) -> Versus:
    by_role = baseline in ROLES
    other = reference(one.pair, method, baseline) if by_role else _named(one.pair, baseline)
    if other is method or (by_role and method.role == baseline):
        return Versus(method, None, "is the baseline")
    return _versus(one, method, other, f"no comparable run of {baseline}")


def _against_controls(one: ScoredPair, method: MethodRuns) -> dict[str, Versus]:
    missing = "its control {} was not run, or with several settings"
    return {name: _versus(one, method, _named(one.pair, name), missing.format(name)) for name in method.controls}


def _named(pair: Pair, name: str) -> MethodRuns | None:
    found = [m for m in pair.methods if m.name == name] or [m for m in pair.methods if m.runs[0].method == name]
    return found[0] if len(found) == 1 else None


def _versus(one: ScoredPair, method: MethodRuns, other: MethodRuns | None, reason: str) -> Versus:
    if other is None:
        return Versus(method, None, reason)
    sample = one.sample(method, other)
    if sample is None:
        return Versus(method, other, f"no seed has a target score of both {method.name} and {other.name}")
    return Versus(method, other, "", sample, tuple(sample.values.tolist()))


def _tested_over_items(one: ScoredPair, sides: Sequence[Versus]) -> list[Versus]:
    """All comparisons of a test set on the same swaps: one matrix product."""
    by_set: dict[str, list[int]] = {}
    runs = {}
    for place, side in enumerate(sides):
        if side.other is None or side.sample is None or untested(side.method):
            continue
        seeds = one.seeds(side.method, side.other)
        if one.same_items(seeds, side.method, side.other):
            mine, others = ([one.items[m.name, seed] for seed in seeds] for m in (side.method, side.other))
            runs[place] = (mine, others)
            by_set.setdefault(mine[0].digest, []).append(place)
    result = list(sides)
    for places in by_set.values():
        for place, values in zip(places, items_test([runs[p] for p in places]), strict=True):
            result[place] = replace(sides[place], items=values, item_count=len(runs[place][0][0].counts))
    return result


FEWEST_METHODS = 3  # two are compared by a paired test


def mean_ranks(scores: FloatArray) -> FloatArray:
    """Mean rank of each method over pairs; 1 is best, ties share their mean rank.

    Args:
        scores: (pairs, methods), higher is better.

    >>> mean_ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]])).tolist()
    [1.0, 2.25, 2.75]
    """
    return np.asarray(stats.rankdata(-scores, axis=1).mean(axis=0))


def rank(
    methods: Sequence[str], pairs: Sequence[str], scores: FloatArray, networks: Sequence[Collection[str]] = ()
) -> Ranking:
    """Rank methods and test whether they differ.

    Args:
        scores: (pairs, methods), higher is better.
        networks: (pairs,) that were ranked there; pairs that share one are one observation.

    Returns:
        Best first. Pairwise tests only where Friedman's test says that any differ. Its p-value is that of its
        permutation test (exact where enumeration is possible), because chi-squared is far off on a handful of pairs.
    """
    count, width = len(pairs), len(methods)
    if width < FEWEST_METHODS:
        return _untested(methods, pairs, (), f"{width} methods on the same pairs: ranking needs {FEWEST_METHODS}")
    if not count:
        return _untested(methods, pairs, (), "no pair has all methods")
    ranks = mean_ranks(scores)
    order = sorted(range(width), key=lambda i: (ranks[i], methods[i]))
    groups = np.array(connected(networks or [{name} for name in pairs]))
    units = int(groups.max()) + 1
    names, ranks, scores = [methods[i] for i in order], ranks[order], scores[:, order]
    smallest = max(1 / factorial(width) ** (units - 1), 1 / (RESAMPLES + 1))
    if smallest > ALPHA:
        few = f"too few pairs ({_apart(count, units)})"
        reason = f"{few}: with {width} methods Friedman's test gives no p below {smallest:.2g}"
        return _untested(names, pairs, ranks.tolist(), reason)
    if (np.ptp(scores, axis=1) == 0).all():
        return _untested(names, pairs, ranks.tolist(), "all methods have the same scores")
    own = stats.rankdata(-scores, axis=1)
    together = np.stack([own[groups == group].sum(axis=0) for group in range(units)])
    p = _friedman_p(together[np.lexsort(together.T)])  # random swaps must not depend on the caller's order
    if p > ALPHA:
        reason = f"Friedman's test finds no difference between methods (p = {p:.2g}), so none are told apart"
        return Ranking(tuple(names), tuple(pairs), tuple(ranks.tolist()), p, None, (), reason)
    error = (width * (width + 1) / (6 * units)) ** 0.5  # of a difference of mean ranks
    difference = float(stats.studentized_range.ppf(1 - ALPHA, width, np.inf)) / 2**0.5 * error
    apart = np.abs(ranks[:, None] - ranks) / error * 2**0.5
    nemenyi = tuple(map(tuple, stats.studentized_range.sf(apart, width, np.inf).tolist()))
    return Ranking(tuple(names), tuple(pairs), tuple(ranks.tolist()), p, difference, nemenyi)


def _apart(pairs: int, units: int) -> str:
    return str(pairs) if pairs == units else f"{pairs}, of which only {units} share no network"


def _friedman_p(ranks: FloatArray) -> float:
    """Of ranks, summed over the pairs that share a network: their methods can only be swapped together."""
    expected = ranks.mean()

    def statistic(*columns: FloatArray, axis: int) -> FloatArray:
        # Friedman's chi-squared up to a factor that swapping within pairs does not change.
        return np.asarray(sum((column.mean(axis=axis) - expected) ** 2 for column in columns).round(12))

    result = stats.permutation_test(
        tuple(ranks.T),
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        alternative="greater",
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def _untested(methods: Sequence[str], pairs: Sequence[str], ranks: Sequence[float], reason: str) -> Ranking:
    return Ranking(tuple(methods), tuple(pairs), tuple(ranks), None, None, (), reason)


Part = Sequence[tuple[str, Versus]]  # one method against the baseline, or a control: name of each pair, and how


def overall(rows: Sequence[Row]) -> tuple[Overall, ...]:
    """Every method over the pairs that it was run on, in the order of first appearance."""
    own: dict[str, list[Row]] = {}
    for row in rows:
        own.setdefault(row.method.name, []).append(row)
    sides = {name: _parts(some) for name, some in own.items()}
    every = [part for some in sides.values() for part in some]
    runs, pairs = corrected([_runs_test(part) for part in every]), corrected([_pairs_test(part) for part in every])
    differences = iter([_difference(*three) for three in zip(every, runs, pairs, strict=True)])
    result = []
    for name, some in own.items():
        samples = [sample for row in some if (sample := row.one.sample(row.method))]
        result.append(
            Overall(
                name,
                some[0].method.role,
                tuple(row.one.pair.name for row in some),
                interval(mean_over_pairs(samples)) if samples else None,
                next(differences),
                tuple(next(differences) for _ in sides[name][1:]),
                _shares(some),
            )
        )
    return tuple(result)


def _parts(some: Sequence[Row]) -> list[Part]:
    """A method's comparisons: with the baseline first, then with each control that it has on any pair."""
    controls = dict.fromkeys(name for row in some for name in row.controls)
    against = [[(row.one.pair.name, row.controls[name]) for row in some if name in row.controls] for name in controls]
    return [[(row.one.pair.name, row.baseline) for row in some], *against]


def _shares(some: Sequence[Row]) -> tuple[Share, ...]:
    names = dict.fromkeys(name for row in some for name in score_names(row.one.pair))
    having = {name: [row for row in some if name in score_names(row.one.pair)] for name in names}
    return tuple(share(name, [parts(row.one, row.method, name) for row in rows]) for name, rows in having.items())


def ranked(known: Sequence[ScoredPair]) -> Ranking:
    """Rank the methods that were run on every pair with at least three of them; ceiling and controls are not ranked."""
    means = [
        {
            m.name: sample
            for m in one.pair.methods
            if m.role not in (CEILING, "control") and (sample := one.sample(m)) is not None
        }
        for one in known
    ]
    wide = [(one.pair.name, own) for one, own in zip(known, means, strict=True) if len(own) >= FEWEST_METHODS]
    methods = [name for name in (wide[0][1] if wide else ()) if all(name in own for _, own in wide)]
    scores = np.array([[own[name].mean for name in methods] for _, own in wide]).reshape(len(wide), len(methods))
    networks = [frozenset().union(*(keys for name in methods for keys in own[name].networks)) for _, own in wide]
    return rank(methods, [name for name, _ in wide], scores, networks)


def _samples(part: Part) -> list[Sample]:
    return [side.sample for _, side in part if side.sample is not None]


def _untested_of_overall(part: Part) -> str:
    """Why there is no test over pairs; empty where there is."""
    if not _samples(part):
        return "; ".join(dict.fromkeys(side.reason for _, side in part))
    return untested(part[0][1].method)


def _runs_test(part: Part) -> Significance:
    if reason := _untested_of_overall(part):
        return Significance(None, None, "runs", 0, reason)
    together = mean_over_pairs(_samples(part))
    return _blocks_test(together.sums(together.blocks), len(together.units), "runs")


def _pairs_test(part: Part) -> Significance:
    if reason := _untested_of_overall(part):
        return Significance(None, None, "pairs", 0, reason)
    together = mean_over_pairs(_samples(part))
    return _blocks_test(together.sums(together.groups), len(_samples(part)), "pairs")


def _blocks_test(sums: Sequence[float], of: int, unit: str) -> Significance:
    """Copies change sides together: what counts is how many there are that share no network."""
    found = runs_test(sums, [1.0] * len(sums), unit)
    if len(sums) == of or not found.reason:
        return found
    return replace(found, reason=f"{found.reason}; {of} {unit}, but those that share a network count as one")


def _difference(part: Part, runs: Significance, pairs: Significance) -> OverallDifference:
    own = [(pair, side) for pair, side in part if side.sample is not None]
    samples = _samples(part)
    ends = interval(mean_over_pairs(samples)) if samples else None
    other = ", ".join(dict.fromkeys(side.other.name for _, side in own if side.other))
    if reason := _untested_of_overall(part):
        none = Replicability(None, (), len(own), "seeds", reason)
        missing = "" if own else reason
        return OverallDifference(other, ends, runs, pairs, none, replace(none, unit="test items"), missing)
    seeds = [side.differences for _, side in own]
    over_seeds = replicability(
        [pair for pair, _ in own],
        [sign_flip(d, [1 / len(d)] * len(d), "greater") for d in seeds],
        [max(2.0 ** -len(d), 1 / (RESAMPLES + 1)) for d in seeds],
        "seeds",
    )
    items = [(pair, side.items[1]) for pair, side in own if side.items]
    over_items = replicability(
        [pair for pair, _ in items], [p for _, p in items], [1 / (RESAMPLES + 1)] * len(items), "test items"
    )
    return OverallDifference(other, ends, runs, pairs, over_seeds, over_items)


def compare(pairs: Sequence[Pair], baseline: str = "source_only", predictions: bool = True) -> Statistics:
    """Compare methods per pair and over pairs.

    Holm's correction is over what is claimed: all per-pair tests of one unit of adapted methods, against the baseline
    and against their controls alike, are one family; all their tests over pairs of one unit are another. Nothing is
    tested of bounds, baselines and controls.

    Args:
        pairs: grouped runs (:func:`domadapt.runs.groups.group`); each method's controls are what its runs'
            ``config.benchmark.controls`` declare.
        predictions: read them; without, intervals are over seeds alone.

    Returns:
        The numbers, and words where there are none.
    """
    found = [scored(pair, predictions) for pair in pairs]
    table = [row for one, _ in found for row in rows(one, baseline)]
    messages = [message for _, some in found for message in some]
    headlines = sorted({pair.headline for pair in pairs})
    if len(headlines) > 1:
        messages.append(f"pairs are scored by {', '.join(headlines)}: means over pairs mix these")
    return Statistics(baseline, _cells(table), overall(table), ranked([one for one, _ in found]), tuple(messages))


def _cells(table: Sequence[Row]) -> tuple[Cell, ...]:
    sides = [side for row in table for side in (row.baseline, *row.controls.values())]
    seeds = corrected([seeds_test(side) for side in sides])
    items = corrected([significance_over_items(side) for side in sides])
    differences = iter([_difference_of_compare(*three) for three in zip(sides, seeds, items, strict=True)])
    cells = []
    for row in table:
        sample = row.one.sample(row.method)
        cells.append(
            Cell(
                row.one.pair.name,
                row.method.name,
                row.method.role,
                interval(sample) if sample else None,
                next(differences),
                tuple(next(differences) for _ in row.controls),
                tuple(share(name, [parts(row.one, row.method, name)]) for name in score_names(row.one.pair)),
            )
        )
    return tuple(cells)


def _difference_of_compare(side: Versus, seeds: Significance, items: Significance) -> Difference:
    other = side.other.name if side.other else ""
    return Difference(other, interval(side.sample) if side.sample else None, seeds, items, side.reason)
