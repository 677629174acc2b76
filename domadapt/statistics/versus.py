"""One method against another on one pair: with whom, over which seeds, by how much."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from domadapt.runs.groups import ROLES, Method, Pair, reference
from domadapt.statistics.bootstrap import Sample
from domadapt.statistics.permutation import items_test, runs_test
from domadapt.statistics.results import Significance
from domadapt.statistics.scored import ScoredPair

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

    method: Method
    other: Method | None
    reason: str
    sample: Sample | None = None
    differences: tuple[float, ...] = ()
    items: tuple[float, float] | None = None
    item_count: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one pair, against its baseline and each of its controls by name."""

    one: ScoredPair
    method: Method
    baseline: Versus
    controls: dict[str, Versus]


def rows(one: ScoredPair, baseline: str) -> list[Row]:
    """Every method of a pair against its baseline and its controls.

    Args:
        one: the pair.
        baseline: a role, or the name of a method.
    """
    own = [(m, {"": _against_baseline(one, m, baseline), **_against_controls(one, m)}) for m in one.pair.methods]
    tested = iter(_tested_over_items(one, [side for _, sides in own for side in sides.values()]))
    found = [(method, {name: next(tested) for name in sides}) for method, sides in own]
    return [Row(one, method, sides.pop(""), sides) for method, sides in found]


def untested(method: Method) -> str:
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


def _against_baseline(one: ScoredPair, method: Method, baseline: str) -> Versus:
    by_role = baseline in ROLES
    other = reference(one.pair, method, baseline) if by_role else _named(one.pair, baseline)
    if other is method or (by_role and method.role == baseline):
        return Versus(method, None, "is the baseline")
    return _versus(one, method, other, f"no comparable run of {baseline}")


def _against_controls(one: ScoredPair, method: Method) -> dict[str, Versus]:
    missing = "its control {} was not run, or with several settings"
    return {name: _versus(one, method, _named(one.pair, name), missing.format(name)) for name in method.controls}


def _named(pair: Pair, name: str) -> Method | None:
    found = [m for m in pair.methods if m.name == name] or [m for m in pair.methods if m.runs[0].method == name]
    return found[0] if len(found) == 1 else None


def _versus(one: ScoredPair, method: Method, other: Method | None, reason: str) -> Versus:
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
