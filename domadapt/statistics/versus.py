"""One method against another on one pair: with whom, over which seeds, by how much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from domadapt.runs.groups import ROLES, Method, Pair, reference
from domadapt.statistics.bootstrap import Sample
from domadapt.statistics.permutation import items_test, runs_test
from domadapt.statistics.results import Significance
from domadapt.statistics.scored import ScoredPair

CEILING = "in_domain"  # sees target labels: a bound to look at, not a method to test or rank
BOUND = "sees target labels: a bound, not tested"


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
    """One method on one pair, against its baseline and its control."""

    one: ScoredPair
    method: Method
    baseline: Versus
    control: Versus


def rows(one: ScoredPair, baseline: str, controls: Mapping[str, str]) -> list[Row]:
    """Every method of a pair against its baseline and its control.

    Args:
        one: the pair.
        baseline: a role, or the name of a method.
        controls: name of each method's control, beside those that the runs declare.
    """
    methods = one.pair.methods
    sides = [_against_baseline(one, m, baseline) for m in methods]
    sides += [_against_control(one, m, controls) for m in methods]
    sides = _tested_over_items(one, sides)
    return [Row(one, *parts) for parts in zip(methods, sides[: len(methods)], sides[len(methods) :], strict=True)]


def seeds_test(side: Versus) -> Significance:
    """Would training again show it?"""
    count = len(side.differences)
    if not count or side.method.role == CEILING:
        return Significance(None, None, "seeds", count, side.reason or BOUND)
    return runs_test(side.differences, [1 / count] * count, "seeds")


def significance_over_items(side: Versus) -> Significance:
    """Do these trained models differ on other texts?"""
    if side.items is None:
        bound = BOUND if side.method.role == CEILING else "not all runs have predictions of the same test items"
        return Significance(None, None, "test items", 0, side.reason or bound)
    return Significance(side.items[0], None, "test items", side.item_count)


def _against_baseline(one: ScoredPair, method: Method, baseline: str) -> Versus:
    by_role = baseline in ROLES
    other = reference(one.pair, method, baseline) if by_role else _named(one.pair, baseline)
    if other is method or (by_role and method.role == baseline):
        return Versus(method, None, "is the baseline")
    return _versus(one, method, other, f"no comparable run of {baseline}")


def _against_control(one: ScoredPair, method: Method, controls: Mapping[str, str]) -> Versus:
    declared = {**((method.config.get("benchmark") or {}).get("controls") or {}), **controls}
    name = declared.get(method.name) or declared.get(method.runs[0].method)
    if name is None:
        return Versus(method, None, "no control is declared")
    return _versus(
        one, method, _named(one.pair, str(name)), f"its control {name} was not run, or with several settings"
    )


def _named(pair: Pair, name: str) -> Method | None:
    found = [m for m in pair.methods if m.name == name] or [m for m in pair.methods if m.runs[0].method == name]
    return found[0] if len(found) == 1 else None


def _versus(one: ScoredPair, method: Method, other: Method | None, reason: str) -> Versus:
    if other is None:
        return Versus(method, None, reason)
    sample = one.sample(method, other)
    if sample is None:
        return Versus(method, other, f"no seed has a target score of both {method.name} and {other.name}")
    return Versus(method, other, "", sample, tuple(one.values(one.seeds(method, other), method, other)))


def _tested_over_items(one: ScoredPair, sides: Sequence[Versus]) -> list[Versus]:
    """All comparisons of a test set on the same swaps: one matrix product."""
    by_set: dict[str, list[int]] = {}
    runs = {}
    for place, side in enumerate(sides):
        if side.other is None or side.sample is None or side.method.role == CEILING:
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
