"""What ran: settings, versions, hardware, time, and what was cut off or mended on the way."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from domadapt.runs.groups import Method, flat, settings
from domadapt.runs.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Ran:
    """One method's runs.

    Attributes:
        name: of the method.
        differences: settings that not all runs of the report share.
        seconds: mean of each stage, and their sum as ``total``.
        truncated: texts and words cut off, in all runs.
        warnings: messages and how often.
    """

    name: str
    differences: dict[str, str]
    seconds: dict[str, float]
    truncated: tuple[int, int]
    warnings: dict[str, int]


def shared_settings(runs: Sequence[Metrics]) -> dict[str, str]:
    """Settings that all runs have in common.

    >>> shared_settings([Metrics(config={"a": 1, "b": 2}), Metrics(config={"a": 1, "b": 3})])
    {'a': '1'}
    """
    every = [settings(run.config) for run in runs]
    return {k: v for k, v in every[0].items() if all(other.get(k) == v for other in every)} if every else {}


def ran(method: Method, shared: dict[str, str]) -> Ran:
    """What is to be told of a method's runs.

    Args:
        method: its runs.
        shared: settings that need no repeating.
    """
    own = {k: v for k, v in settings(method.runs[0].config).items() if shared.get(k) != v}
    stages: dict[str, list[float]] = {}
    for run in method.runs:
        for stage, value in {**run.seconds, "total": sum(run.seconds.values())}.items():
            stages.setdefault(stage, []).append(value)
    cut = [part for run in method.runs for part in run.counts.truncated.values()]
    warnings = sum((Counter(run.counts.warnings) for run in method.runs), Counter[str]())
    return Ran(
        method.name,
        own,
        {stage: sum(values) / len(values) for stage, values in stages.items()},
        (sum(part.texts for part in cut), sum(part.words for part in cut)),
        dict(sorted(warnings.items())),
    )


def counted(runs: Sequence[Metrics], name: str) -> list[tuple[str, int]]:
    """What runs say under ``versions`` or ``hardware``, and how many say so; the most frequent first.

    >>> counted([Metrics(versions={"torch": "2"}), Metrics(versions={"torch": "2"})], "versions")
    [('torch 2', 2)]
    """
    said = Counter(", ".join(f"{k} {v}" for k, v in flat(getattr(run, name)).items()).strip() for run in runs)
    return said.most_common()
