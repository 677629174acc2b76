"""The numbers of the result table, before anybody draws lines between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from domadapt.reporting.intervals import estimate, overlap
from domadapt.runs.groups import ROLES, Method, Pair, reference
from domadapt.runs.metrics import Metrics
from domadapt.statistics.results import Interval, Statistics

CEILING = "ceiling: trained on target labels"


@dataclass(frozen=True, slots=True)
class Row:
    """One method's line.

    Attributes:
        method: whose it is.
        target: headline score on all of the target test; None without target labels.
        clean: the same without copies of training or unlabelled texts; None where nothing was left out.
        details: means of the other scores by name.
        source: mean headline score on the source; None for the ceiling, which sees no source data.
        gap_closed: share of the way from source_only to in_domain; None where that means nothing.
        gap_reason: why it is None.
        regret: mean over seeds of the oracle's score less the chosen checkpoint's; None where no run recorded it.
    """

    method: Method
    target: Interval | None
    clean: Interval | None
    details: dict[str, float]
    source: float | None
    gap_closed: float | None
    gap_reason: str
    regret: float | None = None


def rows(pair: Pair, statistics: Statistics | None = None) -> list[Row]:
    """A pair's lines: rnn_from_scratch, source_only, adapted ones by falling score, in_domain.

    Args:
        pair: whose methods.
        statistics: where the target scores' intervals come from; over seeds alone without it.
    """
    found = [_row(pair, method, statistics) for method in pair.methods]
    return sorted(found, key=lambda r: (_place(r.method.role), -(r.target.mean if r.target else 0.0), r.method.name))


def detail_names(pair: Pair) -> list[str]:
    """Scores shown beside the headline: F1 of each span type, or of accuracy and macro F1 the one that it is not.

    Where they come from: ``<type>_f1`` of extraction, ``accuracy`` and ``macro_f1`` of classification.
    """
    tests = [run.target_test for method in pair.methods for run in method.runs if run.target_test]
    if pair.task == "classification":
        return [n for n in ("accuracy", "macro_f1") if n != pair.headline and any(n in test for test in tests)]
    return sorted({n for test in tests for n in test if n.endswith("_f1") and n != pair.headline})


def scores(method: Method, read: Callable[[Metrics], float | None]) -> list[float]:
    """One value a seed, of those seeds that have it."""
    return [value for value in map(read, method.runs) if value is not None]


def target_scores(pair: Pair, method: Method) -> list[float]:
    """Headline scores on the target test, one a seed."""
    return scores(method, lambda run: run.score(pair.headline))


def gap_closed(model: float | None, source_only: float | None, in_domain: float | None) -> tuple[float | None, str]:
    """Share of the gap between source_only and in_domain that a model closes.

    Args:
        model, source_only, in_domain: mean scores; None where there is none.

    Returns:
        The share, and an empty reason; or None and the reason.

    >>> gap_closed(0.5, 0.25, 0.75)
    (0.5, '')
    >>> gap_closed(0.5, 0.4, 0.4)
    (None, 'in_domain is not better than source_only, so there is no gap to close')
    """
    if model is None:
        return None, "the target test has no labels"
    missing = [name for name, value in (("source_only", source_only), ("in_domain", in_domain)) if value is None]
    if source_only is None or in_domain is None:
        return None, f"no comparable run of {' or '.join(missing)} among these"
    if in_domain <= source_only:
        return None, "in_domain is not better than source_only, so there is no gap to close"
    return (model - source_only) / (in_domain - source_only), ""


def _unlike_tests(methods: Sequence[Method]) -> str:
    """Which two of them were tested on different numbers of texts; empty where none were."""
    sizes = [set(scores(m, lambda run: run.target_test_sizes.all if run.target_test_sizes else None)) for m in methods]
    for (one, mine), (other, others) in combinations(zip(methods, sizes, strict=True), 2):
        if mine and others and mine != others:
            texts, other_texts = (" and ".join(map(str, sorted(found))) for found in (mine, others))
            return f"{one.name} was tested on {texts} texts, {other.name} on {other_texts}"
    return ""


def _row(pair: Pair, method: Method, statistics: Statistics | None) -> Row:
    target = _target(pair, method, statistics)
    sizes = [run.target_test_sizes for run in method.runs if run.target_test_sizes]
    fewer = any(size.all != size.clean for size in sizes)
    clean = scores(method, lambda run: (run.target_test_clean or {}).get(pair.headline))
    references = [reference(pair, method, role) for role in ("source_only", "in_domain")]
    bases = [_target(pair, m, statistics) if m else None for m in references]
    share, reason = gap_closed(target.mean if target else None, *(base.mean if base else None for base in bases))
    if share is not None and bases[0] and bases[1] and overlap(bases[0], bases[1]):
        # A share of a gap that may be nothing would be a number without a meaning.
        share, reason = None, "the intervals of source_only and in_domain overlap, so no gap to close is shown"
    source_only, in_domain = references
    if source_only and in_domain and (unlike := _unlike_tests([in_domain, source_only, method])):
        share, reason = None, unlike
    details = {
        name: scores(method, lambda run, name=name: run.score(name))  # type: ignore[misc]
        for name in detail_names(pair)
    }
    regrets = scores(method, lambda run: run.selection.gap)
    source = [] if method.role == "in_domain" else scores(method, lambda run: _source(run).get(pair.headline))
    return Row(
        method,
        target,
        _estimate(clean) if fewer else None,
        {name: sum(values) / len(values) for name, values in details.items() if values},
        sum(source) / len(source) if source else None,
        share,
        reason,
        sum(regrets) / len(regrets) if regrets else None,
    )


def _target(pair: Pair, method: Method, statistics: Statistics | None) -> Interval | None:
    if statistics is None:
        return _estimate(target_scores(pair, method))
    return statistics.cell(pair.name, method.name).score


def _source(run: Metrics) -> dict[str, float]:
    return dict(run.source_test or run.source_dev)


def _estimate(values: Sequence[float]) -> Interval | None:
    return estimate(values) if values else None


def _place(role: str) -> int:
    return ROLES.index(role) if role in ROLES else ROLES.index("adapted")
