"""Methods over pairs: mean differences, tests over runs and over pairs, on how many pairs the gain is real, ranks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from domadapt.statistics.bootstrap import interval, mean_over_pairs
from domadapt.statistics.correction import corrected
from domadapt.statistics.permutation import RESAMPLES, runs_test, sign_flip
from domadapt.statistics.ranks import FEWEST_METHODS, rank
from domadapt.statistics.replicability import replicability
from domadapt.statistics.results import Overall, OverallDifference, Ranking, Replicability, Significance
from domadapt.statistics.scored import ScoredPair
from domadapt.statistics.versus import BOUND, CEILING, Row, Versus

Part = Sequence[tuple[str, Versus]]  # one method against the baseline, or its control: name of each pair, and how


def overall(rows: Sequence[Row], ranking: Ranking) -> tuple[Overall, ...]:
    """Every method over the pairs that it was run on, in the order of first appearance."""
    names = list(dict.fromkeys(row.method.name for row in rows))
    own = [[row for row in rows if row.method.name == name] for name in names]
    parts: list[Part] = []
    for some in own:
        parts += [[(r.one.pair.name, r.baseline) for r in some], [(r.one.pair.name, r.control) for r in some]]
    runs, pairs = corrected([_runs_test(part) for part in parts]), corrected([_pairs_test(part) for part in parts])
    differences = [_difference(*three) for three in zip(parts, runs, pairs, strict=True)]
    ranks = dict(zip(ranking.methods, ranking.mean_ranks, strict=False))
    result = []
    for name, some, baseline, control in zip(names, own, differences[::2], differences[1::2], strict=True):
        samples = [sample for row in some if (sample := row.one.sample(row.method))]
        score = interval(mean_over_pairs(samples)) if samples else None
        where = tuple(row.one.pair.name for row in some)
        result.append(Overall(name, some[0].method.role, where, score, baseline, control, ranks.get(name)))
    return tuple(result)


def ranked(known: Sequence[ScoredPair]) -> Ranking:
    """Rank the methods that were run on every pair with at least three of them; the ceiling is not ranked."""
    means = [
        {
            m.name: float(np.mean(one.values(seeds, m)))
            for m in one.pair.methods
            if m.role != CEILING and (seeds := one.seeds(m))
        }
        for one in known
    ]
    wide = [(one.pair.name, own) for one, own in zip(known, means, strict=True) if len(own) >= FEWEST_METHODS]
    methods = [name for name in (wide[0][1] if wide else ()) if all(name in own for _, own in wide)]
    scores = np.array([[own[name] for name in methods] for _, own in wide]).reshape(len(wide), len(methods))
    return rank(methods, [name for name, _ in wide], scores)


def _compared(part: Part) -> list[tuple[str, Versus]]:
    return [(pair, side) for pair, side in part if side.sample is not None]


def _untested(part: Part) -> str:
    """Why there is no test over pairs; empty where there is."""
    if not _compared(part):
        return "; ".join(dict.fromkeys(side.reason for _, side in part))
    return BOUND if any(side.method.role == CEILING for _, side in part) else ""


def _runs_test(part: Part) -> Significance:
    if reason := _untested(part):
        return Significance(None, None, "runs", 0, reason)
    own = [side.differences for _, side in _compared(part)]
    weights = [1 / len(own) / len(differences) for differences in own for _ in differences]
    return runs_test([d for differences in own for d in differences], weights, "runs")


def _pairs_test(part: Part) -> Significance:
    if reason := _untested(part):
        return Significance(None, None, "pairs", 0, reason)
    means = [float(np.mean(side.differences)) for _, side in _compared(part)]
    return runs_test(means, [1 / len(means)] * len(means), "pairs")


def _difference(part: Part, runs: Significance, pairs: Significance) -> OverallDifference:
    own = _compared(part)
    samples = [sample for _, side in own if (sample := side.sample)]
    ends = interval(mean_over_pairs(samples)) if samples else None
    other = ", ".join(dict.fromkeys(side.other.name for _, side in own if side.other))
    if reason := _untested(part):
        none = Replicability(None, None, (), len(own), "seeds", reason)
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
