"""Settings chosen on other pairs: what a method is worth to those who cannot tune it on the target.

A setting that was chosen by the test score of the pair that it is reported on has seen the answer. Here each pair gets
the setting with the best mean score on those pairs that share neither its source nor its target. Every method is tuned
so, source-only as well; how many settings each was tried with is kept, for more tries are more luck.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from domadapt.runs.groups import Method, Pair, settings

TUNED = ("rnn_from_scratch", "source_only", "adapted", "control")  # roles; floors and ceilings are bars
Setting = tuple[tuple[str, str], ...]  # (name, value) of what differs


@dataclass(frozen=True, slots=True)
class Choice:
    """A pair's setting, chosen where its labels are not.

    Attributes:
        pair: its name.
        setting: that was chosen.
        score: what it has on the pair.
        best: what the setting that is best by the pair's own labels has: a bound.
    """

    pair: str
    setting: Setting
    score: float
    best: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """A method that was run with several settings on several pairs.

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


def tuned(pairs: Sequence[Pair]) -> tuple[list[Tuned], list[str]]:
    """Tune every method that was run with several settings.

    Args:
        pairs: grouped runs. Settings are those that differ between runs of one method on one pair.

    Returns:
        The methods, by task and name; and which could not be tuned, in words.
    """
    families: dict[tuple[str, str, str], dict[str, list[Method]]] = {}
    ends = {pair.name: (run.source, run.target) for pair in pairs for run in pair.methods[0].runs[:1]}
    for pair in pairs:
        for method in pair.methods:
            if method.role in TUNED and all(pair.headline in (run.target_test or {}) for run in method.runs):
                family = families.setdefault((pair.task, pair.headline, method.runs[0].method), {})
                family.setdefault(pair.name, []).append(method)
    found, messages = list[Tuned](), list[str]()
    for (task, headline, name), by_pair in sorted(families.items()):
        tried = {pair: methods for pair, methods in by_pair.items() if len(methods) > 1}
        if not tried:
            continue
        scores = _scores(tried, headline)
        common = [setting for setting in next(iter(scores.values())) if all(setting in own for own in scores.values())]
        choices = [_choice(pair, scores, common, ends) for pair in scores] if len(common) > 1 else []
        made = tuple(choice for choice in choices if choice is not None)
        if made and len(made) == len(choices):
            found.append(Tuned(task, headline, name, tuple(common), made))
        else:
            why = "no pair is left that shares neither source nor target" if choices else "with one setting in common"
            messages.append(f"{name}, run with several settings on {', '.join(tried)}, can't be tuned elsewhere: {why}")
    return found, messages


def _scores(tried: Mapping[str, Sequence[Method]], headline: str) -> dict[str, dict[Setting, float]]:
    """Pair → setting → mean score, over the seeds that all of the pair's settings have."""
    own = {pair: [settings(method.config) for method in methods] for pair, methods in tried.items()}
    names = {name for all_of in own.values() for one in all_of for name in one}
    differ = sorted(n for n in names if any(len({one.get(n) for one in all_of}) > 1 for all_of in own.values()))
    found: dict[str, dict[Setting, float]] = {}
    for pair, methods in tried.items():
        seeds = set.intersection(*(set(method.seeds) for method in methods))
        for method, values in zip(methods, own[pair], strict=True):
            tests = [run.target_test or {} for run in method.runs if run.seed in seeds or not seeds]
            setting = tuple((name, values.get(name, "none")) for name in differ)
            found.setdefault(pair, {})[setting] = fmean(test[headline] for test in tests)
    return found


def _choice(
    pair: str,
    scores: Mapping[str, Mapping[Setting, float]],
    common: Sequence[Setting],
    ends: Mapping[str, tuple[str, str]],
) -> Choice | None:
    """None where every other pair has the same source or target."""
    source, target = ends[pair]
    others = [scores[other] for other in scores if ends[other][0] != source and ends[other][1] != target]
    if not others:
        return None
    chosen = max(common, key=lambda setting: round(fmean(own[setting] for own in others), 12))
    return Choice(pair, chosen, scores[pair][chosen], max(scores[pair][setting] for setting in common))
