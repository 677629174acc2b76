"""Share of the gap between source_only and in_domain that a method closes, from paired differences.

The three are compared at the same seeds on the same test items, so the gap's interval is that of the *difference*
in_domain − source_only; two intervals of their own may overlap where the difference is beyond doubt. The share's ends
are those shares that the same draws do not rule out: where the interval of (method − source_only) − share · gap
contains 0 (Fieller 1954, https://doi.org/10.1111/j.2517-6161.1954.tb00159.x). They are finite where the gap's own
interval excludes 0, and only there is a share shown.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

from scipy.optimize import brentq

from domadapt.runs.groups import Method, reference
from domadapt.statistics.bootstrap import Sample, interval, mean_over_pairs, plus
from domadapt.statistics.results import Interval, Share
from domadapt.statistics.scored import ScoredPair

NO_GAP = "in_domain is not better than source_only, so there is no gap to close"
FARTHEST = 1e6  # a share beyond is none
LEAST = 0.01  # of a gap without an interval, that a share is told of


def parts(one: ScoredPair, method: Method, name: str) -> tuple[Sample, Sample] | str:
    """A method's gain and the gap on one pair, at the seeds that all three have; or why there are none.

    Args:
        one: the pair.
        method: whose gain.
        name: of the score.
    """
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
        name: of the score.
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


def _unlike_tests(methods: Sequence[Method]) -> str:
    """Which two of them were tested on different numbers of texts; empty where none were."""
    sizes = [{run.target_test_sizes.all for run in m.runs if run.target_test_sizes} for m in methods]
    for (one, mine), (other, others) in combinations(zip(methods, sizes, strict=True), 2):
        if mine and others and mine != others:
            texts, other_texts = (" and ".join(map(str, sorted(found))) for found in (mine, others))
            return f"{one.name} was tested on {texts} texts, {other.name} on {other_texts}"
    return ""
