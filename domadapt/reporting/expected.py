"""What was expected of each run without target labels, beside what came."""

from collections.abc import Iterable, Sequence

from domadapt.reporting.blocks import Block, Section, Table, Text, counted
from domadapt.runs.groups import Method, Pair
from domadapt.runs.metrics import Expected, Metrics
from domadapt.statistics.gap import agreement

TITLE = "Expected without labels"
ABOUT = (
    "The headline score that was expected on the target before a label of it was read: from confidence, calibrated on "
    "source dev, less what such an estimate is too high elsewhere. What the target's annotators do otherwise than the "
    "source's, confidence can't tell, so the interval is wide."
)


def expected(pairs: Sequence[Pair]) -> Section:
    """Expected and true scores, run by run.

    Args:
        pairs: of the report.
    """
    runs = [(pair, run) for pair in pairs for method in pair.methods for run in method.runs if run.expected]
    if not runs:
        return Section(TITLE, (Text("No run recorded what it expected to score."),))
    blocks: list[Block] = [Text(ABOUT, "soft"), *(Text(told) for told in summary(run for _, run in runs))]
    lines = [_line(pair, run, run.expected) for pair, run in runs if run.expected]
    header = ["pair", "method", "seed", "expected", "from", "to", "was", "off", "usually off"]
    notes = ["from, to: nine times in ten; usually off: mean absolute error on corpora the estimate was not fitted to"]
    blocks.append(Table("Expected and true headline score, percent", header, lines, notes))
    if agreeing := [line for pair in pairs for method in pair.methods for line in _agreeing(pair, method)]:
        notes = [
            "macro F1 of one seed's predictions against another's on the target test; too high where all err alike"
        ]
        blocks.append(Table("How far seeds agree, percent", ["pair", "method", "agreement", "was"], agreeing, notes))
    return Section(TITLE, tuple(blocks))


def _agreeing(pair: Pair, method: Method) -> list[list[str]]:
    known = [was for run in method.runs if (was := run.score()) is not None]
    if not known or (shared := agreement(method.runs)) is None:
        return []
    return [[pair.name, method.name, _percent(shared), _percent(sum(known) / len(known))]]


def summary(runs: Iterable[Metrics]) -> list[str]:
    """In words: how far off expectations were.

    Args:
        runs: with an expected score each.

    >>> known = Expected(0.612, 0.5, 0.7)
    >>> run = Metrics(headline="span_f1", target_test={"span_f1": 0.589}, expected=known)
    >>> summary([run])
    ['Expected 61.2, was 58.9: off by 2.3 points on average over 1 run; 1 within its interval.']
    """
    both = [(one, was) for run in runs if (one := run.expected) and (was := run.score()) is not None]
    if not both:
        return ["The target test has no labels: nothing shows how far off these are."]
    mean_expected, mean_was = (sum(values) / len(both) for values in zip(*((e.score, w) for e, w in both), strict=True))
    error = sum(abs(one.score - was) for one, was in both) / len(both)
    inside = sum(one.low <= was <= one.high for one, was in both)
    start = "Expected" if len(both) == 1 else "In the mean, expected"
    return [
        f"{start} {_percent(mean_expected)}, was {_percent(mean_was)}: off by {_percent(error)} points on average over "
        f"{counted(len(both), 'run')}; {inside} within {'its' if len(both) == 1 else 'their'} interval."
    ]


def _line(pair: Pair, run: Metrics, told: Expected) -> list[str]:
    was = run.score()
    return [
        pair.name,
        run.method,
        str(run.seed),
        *(_percent(value) for value in (told.score, told.low, told.high)),
        _percent(was),
        "-" if was is None else f"{100 * (told.score - was):+.1f}",
        _percent(told.usual_error),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
