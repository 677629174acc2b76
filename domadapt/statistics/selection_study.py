"""Which validator should choose checkpoints? Answered without choosing it on the test that it is reported on.

What a validator loses is its regret: the oracle's target score less that of the epoch it picks. The validator with the
least regret on these very pairs would be chosen on the target labels that it is then scored by. So each corpus in turn
(with one corpus, each pair) is held out: the validator with the least mean regret elsewhere is taken, and its regret
here is what counts. On one corpus, elsewhere means pairs with neither this source, whose networks may be the very same,
nor this target, whose test labels are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from statistics import fmean

from scipy import stats

from domadapt.statistics.choices import ORACLE, Choices

FIRST = "source_dev"  # takes a tie: the plainest of them
FEWEST_EPOCHS = 3  # two epochs always agree or disagree


@dataclass(frozen=True, slots=True)
class Regret:
    """One validator on everything of a task.

    Attributes:
        validator: its name.
        score: mean target score of its picks.
        mean, worst: regret: the mean, and that of the worst run.
        by_pair: (corpus, pair) → mean regret.
        correlation: mean over runs of Spearman's rank correlation, over epochs, of its value with the target score;
            None where no run has target scores of three epochs or more.
        correlated: runs that went into it.
        across: mean regret, over (pair, seed), of choosing among methods by its value, each at the epoch it picks; None
            where no two methods are comparable.
        choices: choices among methods that went into it.
    """

    validator: str
    score: float
    mean: float
    worst: float
    by_pair: Mapping[tuple[str, str], float]
    correlation: float | None
    correlated: int
    across: float | None
    choices: int


@dataclass(frozen=True, slots=True)
class Fold:
    """One held-out corpus or pair.

    Attributes:
        held_out: its name.
        chosen: validator with the least mean regret elsewhere.
        regrets: validator → mean regret on what is held out.
    """

    held_out: str
    chosen: str
    regrets: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Study:
    """All that is known of validators on one task.

    Attributes:
        task: extraction or classification.
        runs: how many.
        methods: names of what was run.
        validators: by mean regret, the oracle last.
        unit: what is held out, and what counts the same in every mean: ``corpus`` or ``pair``.
        folds: one for each unit; empty where nothing is left to choose on.
        alone: the same with the pair alone held out: pairs with its networks or test labels have a say. Empty for
            corpora, and for one pair.
        default: validator with the least mean regret on all of it: the one for the next corpus.
    """

    task: str
    runs: int
    methods: tuple[str, ...]
    validators: tuple[Regret, ...]
    unit: str
    folds: tuple[Fold, ...]
    alone: tuple[Fold, ...]
    default: str


def held_out(folds: Sequence[Fold]) -> float:
    """Mean regret, where it is held out, of the validator chosen elsewhere.

    Args:
        folds: at least one.
    """
    return fmean(fold.regrets[fold.chosen] for fold in folds)


def selection_study(runs: Sequence[Choices]) -> tuple[Study, ...]:
    """Compare validators, task by task.

    Args:
        runs: scored by the same validators.

    Returns:
        One study a task, in the order of their names. Means are over seeds, then methods, then pairs, then corpora,
        each counting the same.

    >>> def run(source, target, entropy):
    ...     scores = {"source_dev": 0.5, "entropy": entropy, "oracle": 0.75}
    ...     return Choices("c", source, target, "extraction", "gnn", 1, "bert", scores, {}, {})
    >>> [study] = selection_study([run("a", "b", 0.75), run("b", "a", 0.625)])
    >>> study.default, held_out(study.folds), [(fold.held_out, fold.chosen) for fold in study.folds]
    ('entropy', 0.0625, [('a → b', 'entropy'), ('b → a', 'entropy')])
    """
    return tuple(_study(task, own) for task, own in _split(runs, lambda run: run.task))


def mean_regret(runs: Iterable[Choices], read: Callable[[Choices], float]) -> float:
    """Mean over seeds, then methods, then pairs, then corpora.

    Args:
        runs: at least one.
        read: the number of a run.
    """
    levels: list[Callable[[Choices], str]] = [lambda r: r.corpus, lambda r: r.pair, lambda r: r.method]

    def mean(some: Iterable[Choices], depth: int) -> float:
        if depth == len(levels):
            return fmean(map(read, some))
        return fmean(mean(own, depth + 1) for _, own in _split(some, levels[depth]))

    return mean(runs, 0)


def best(runs: Sequence[Choices], validators: Sequence[str]) -> str:
    """The validator with the least mean regret; the plainest, then the first by name, of those with the same."""

    def order(name: str) -> tuple[float, bool, str]:
        return round(mean_regret(runs, lambda run: run.regret(name)), 12), name != FIRST, name

    return min(validators, key=order)


def _study(task: str, runs: Sequence[Choices]) -> Study:
    names = sorted(set.intersection(*(set(run.scores) for run in runs)) - {ORACLE})
    by_corpus = _several_corpora(runs)
    folds = _folds(held_out_units(runs), names)
    alone = () if by_corpus else _folds(held_out_units(runs, alone=True), names)
    found = sorted((_regret(runs, name) for name in names), key=lambda one: (one.mean, one.validator))
    methods = tuple(sorted({run.method for run in runs}))
    unit = "corpus" if by_corpus else "pair"
    return Study(task, len(runs), methods, (*found, _regret(runs, ORACLE)), unit, folds, alone, best(runs, names))


def held_out_units(runs: Sequence[Choices], alone: bool = False) -> list[tuple[str, list[Choices], list[Choices]]]:
    """Each corpus, or with one corpus each pair: its name, its runs, and those elsewhere that may have a say in it.

    Args:
        runs: of one task.
        alone: of pairs, let all others have a say, those too with the same source or target.
    """
    by_corpus = _several_corpora(runs)

    def elsewhere(run: Choices, own: Choices) -> bool:
        if by_corpus:
            return run.corpus != own.corpus
        return run.pair != own.pair if alone else run.source != own.source and run.target != own.target

    units = _split(runs, (lambda run: run.corpus) if by_corpus else (lambda run: run.pair))
    return [(unit, own, [run for run in runs if elsewhere(run, own[0])]) for unit, own in units]


def _several_corpora(runs: Sequence[Choices]) -> bool:
    return len({run.corpus for run in runs}) > 1


def _folds(units: Sequence[tuple[str, list[Choices], list[Choices]]], names: Sequence[str]) -> tuple[Fold, ...]:
    """Every unit held out; none if for one of them nothing is left to choose on."""
    folds = []
    for unit, own, rest in units:
        if not rest:
            return ()
        regrets = {v: mean_regret(own, lambda run, v=v: run.regret(v)) for v in names}  # type: ignore[misc]
        folds.append(Fold(unit, best(rest, names), regrets))
    return tuple(folds)


def _regret(runs: Sequence[Choices], name: str) -> Regret:
    by_pair = {
        (corpus, pair): mean_regret(own, lambda run: run.regret(name))
        for corpus, some in _split(runs, lambda run: run.corpus)
        for pair, own in _split(some, lambda run: run.pair)
    }
    related = [value for run in runs if (value := correlation(run.values.get(name, ()), run.curve)) is not None]
    across = [value for own in _comparable(runs, name) if (value := _across(own, name)) is not None]
    return Regret(
        name,
        mean_regret(runs, lambda run: run.scores[name]),
        mean_regret(runs, lambda run: run.regret(name)),
        max(run.regret(name) for run in runs),
        by_pair,
        fmean(related) if related else None,
        len(related),
        fmean(across) if across else None,
        len(across),
    )


def correlation(values: Sequence[float], scores: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None for other than the same three or more finite numbers each, or equal ones.

    >>> correlation([0.1, 0.2, 0.3], [0.5, 0.7, 0.6]), correlation([0.1, 0.1, 0.1], [0.5, 0.7, 0.6])
    (0.5, None)
    """
    if not len(values) == len(scores) >= FEWEST_EPOCHS or not all(map(isfinite, (*values, *scores))):
        return None
    if len(set(values)) == 1 or len(set(scores)) == 1:
        return None
    return round(float(stats.spearmanr(values, scores).statistic), 12)


def _comparable(runs: Sequence[Choices], name: str) -> list[list[Choices]]:
    known = [run for run in runs if isfinite(run.picked.get(name, float("nan")))]
    return [own for _, own in _split(known, lambda r: "\0".join((r.corpus, r.pair, str(r.seed), r.evidence)))]


def _across(runs: Sequence[Choices], name: str) -> float | None:
    if len(runs) < 2:
        return None
    chosen = max(sorted(runs, key=lambda run: run.method), key=lambda run: run.picked[name])
    return max(run.scores[name] for run in runs) - chosen.scores[name]


def _split(runs: Iterable[Choices], key: Callable[[Choices], str]) -> list[tuple[str, list[Choices]]]:
    return [(name, list(own)) for name, own in groupby(sorted(runs, key=key), key=key)]
