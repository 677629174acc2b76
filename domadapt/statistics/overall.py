"""Methods over pairs: mean differences, tests over runs and over pairs, on how many pairs the gain is real, ranks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from domadapt.statistics.bootstrap import Sample, interval, mean_over_pairs
from domadapt.statistics.correction import corrected
from domadapt.statistics.gap import parts, share
from domadapt.statistics.permutation import RESAMPLES, runs_test, sign_flip
from domadapt.statistics.ranks import FEWEST_METHODS, rank
from domadapt.statistics.replicability import replicability
from domadapt.statistics.results import Overall, OverallDifference, Ranking, Replicability, Share, Significance
from domadapt.statistics.scored import ScoredPair, score_names
from domadapt.statistics.versus import CEILING, Row, Versus, untested

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


def _untested(part: Part) -> str:
    """Why there is no test over pairs; empty where there is."""
    if not _samples(part):
        return "; ".join(dict.fromkeys(side.reason for _, side in part))
    return untested(part[0][1].method)


def _runs_test(part: Part) -> Significance:
    if reason := _untested(part):
        return Significance(None, None, "runs", 0, reason)
    together = mean_over_pairs(_samples(part))
    return _blocks_test(together.sums(together.blocks), len(together.units), "runs")


def _pairs_test(part: Part) -> Significance:
    if reason := _untested(part):
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
    if reason := _untested(part):
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
