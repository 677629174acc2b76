"""Settings chosen on other pairs: what a method is worth to those who cannot tune it on the target.

A setting that was chosen by the test score of the pair that it is reported on has seen the answer. Here each pair gets
the setting with the best mean score on pairs that share neither its sources nor its target; of several corpora, on
those of the others, which may hold the same texts by other names. Every method is tuned so, source-only as well; how
many settings each was tried with is kept, for more tries are more luck.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from domadapt.runs.groups import Method, Pair, settings
from domadapt.statistics.choices import CHOOSING, corpus

Setting = tuple[tuple[str, str | None], ...]  # (name, value) of what differs; None where a run has no such setting


@dataclass(frozen=True, slots=True)
class Choice:
    """A pair's setting, chosen where its labels are not.

    Attributes:
        pair: its name.
        chosen: the setting that is best elsewhere; several where they are equal there.
        score: what it has on the pair; the mean of several.
        best: what the setting that is best by the pair's own labels has: a bound.
    """

    pair: str
    chosen: tuple[Setting, ...]
    score: float
    best: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """A method that was run with several settings on several pairs, or with one beside such a method.

    Attributes:
        task, headline: the score is of that task, by that name.
        method: its name.
        settings: those that every pair was run with.
        choices: one a pair.
    """

    task: str
    headline: str
    method: str
    settings: tuple[Setting, ...]
    choices: tuple[Choice, ...]

    @property
    def score(self) -> float:
        """Mean over the pairs, with settings chosen on other pairs."""
        return fmean(choice.score for choice in self.choices)

    @property
    def best(self) -> float:
        """The same with settings chosen by each pair's own test labels: a bound."""
        return fmean(choice.best for choice in self.choices)


@dataclass(frozen=True, slots=True)
class _Ends:
    """What a pair is made of."""

    corpus: str
    sources: frozenset[str]
    target: str

    def apart(self, other: "_Ends", several: bool) -> bool:
        """Whether none of its networks or test labels has a say in the other's score; of one, or several corpora."""
        if several:
            return self.corpus != other.corpus
        return not self.sources & other.sources and self.target != other.target


def tuned(pairs: Sequence[Pair], methods: Sequence[str] | None = None) -> tuple[list[Tuned], list[str]]:
    """Tune every method that was run with several settings.

    Args:
        pairs: grouped runs. Settings are those that differ between runs of one method on one pair.
        methods: names of those to take; None takes source-only and adapted ones, without controls.

    Returns:
        The methods, by task, score and name, with those of one setting beside them; and what was left out, in words.
    """
    ends = {pair.name: _ends(pair) for pair in pairs}
    families: dict[tuple[str, str, str], dict[str, list[Method]]] = {}
    for pair in pairs:
        for method in pair.methods:
            name = method.runs[0].method
            wanted = method.role in CHOOSING if methods is None else {name, method.name} & {*methods}
            if wanted and all(pair.headline in (run.target_test or {}) for run in method.runs):
                families.setdefault((pair.task, pair.headline, name), {}).setdefault(pair.name, []).append(method)
    found, messages = list[Tuned](), list[str]()
    for key, by_pair in sorted(families.items()):
        if any(len(own) > 1 for own in by_pair.values()):
            made, told = _tuned(key, by_pair, ends)
            found += [made] if made else []
            messages += told
    for key, by_pair in sorted(families.items()):
        own = {choice.pair for one in found if (one.task, one.headline) == key[:2] for choice in one.choices}
        if own & by_pair.keys() and all(len(some) == 1 for some in by_pair.values()):
            scores = {pair: _mean(some[0], key[1], some[0].seeds) for pair, some in by_pair.items() if pair in own}
            found.append(Tuned(*key, ((),), tuple(Choice(pair, ((),), score, score) for pair, score in scores.items())))
    return sorted(found, key=lambda one: (one.task, one.headline, one.method)), messages


def _ends(pair: Pair) -> _Ends:
    run = pair.methods[0].runs[0]
    return _Ends(corpus(run), frozenset(run.source.split("+")), run.target)


def _tuned(
    key: tuple[str, str, str], by_pair: Mapping[str, Sequence[Method]], ends: Mapping[str, _Ends]
) -> tuple[Tuned | None, list[str]]:
    """One method; None where no pair can be tuned."""
    headline, name = key[1:]
    tried = {pair: methods for pair, methods in by_pair.items() if len(methods) > 1}
    lacking = dict.fromkeys(by_pair.keys() - tried.keys(), "run with one setting")
    named = _settings(tried)
    every = [setting for own in named.values() for setting in own]
    common = [setting for setting in dict.fromkeys(every) if all(setting in own for own in named.values())]
    messages = []
    if (count := len({*every})) > len(common) > 1:
        messages.append(f"{name}: {len(common)} of {count} settings were run on every pair, the others are left out")
    if len(common) < 2:
        return None, [f"{name}: not tuned: its pairs have {len(common)} settings in common, and two are needed"]
    scores: dict[str, dict[Setting, float]] = {}
    for pair, own in named.items():
        seeds = set.intersection(*(set(own[setting].seeds) for setting in common))
        if seeds:
            scores[pair] = {setting: _mean(own[setting], headline, [*seeds]) for setting in common}
        else:
            lacking[pair] = "no seed was run with all settings"
    several, choices = len({ends[pair].corpus for pair in scores}) > 1, []
    for pair in scores:
        others = [scores[other] for other in scores if ends[pair].apart(ends[other], several)]
        if not others:
            lacking[pair] = "no pair is left that shares neither source nor target"
            continue
        elsewhere = {setting: round(fmean(other[setting] for other in others), 12) for setting in common}
        chosen = tuple(setting for setting in common if elsewhere[setting] == max(elsewhere.values()))
        own_scores = scores[pair]
        choices.append(Choice(pair, chosen, fmean(own_scores[one] for one in chosen), max(own_scores.values())))
    messages += [f"{name}: {pair} is left out: {why}" for pair, why in sorted(lacking.items())]
    return (Tuned(*key, tuple(common), tuple(choices)) if choices else None), messages


def _settings(tried: Mapping[str, Sequence[Method]]) -> dict[str, dict[Setting, Method]]:
    """Pair → what differs between runs of one pair → method."""
    own = {pair: [settings(method.config) for method in methods] for pair, methods in tried.items()}
    names = {name for all_of in own.values() for one in all_of for name in one}
    differ = sorted(n for n in names if any(len({one.get(n) for one in all_of}) > 1 for all_of in own.values()))
    return {
        pair: {tuple((n, one.get(n)) for n in differ): method for one, method in zip(own[pair], methods, strict=True)}
        for pair, methods in tried.items()
    }


def _mean(method: Method, headline: str, seeds: Sequence[int]) -> float:
    return fmean((run.target_test or {})[headline] for run in method.runs if run.seed in seeds)
