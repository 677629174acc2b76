"""Run folders on disk: found, read, and refused by name when they are broken."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domadapt.runs.metrics import FORMAT, Metrics

if TYPE_CHECKING:
    from pydantic import TypeAdapter

log = logging.getLogger(__name__)
# A report can do nothing without these.
NEEDED = [
    "source",
    "target",
    "task",
    "headline",
    "method",
    "role",
    "seed",
    "source_dev",
    "target_test",
    "curve",
    "config",
]
AGAIN = "run that cell again, or leave its folder out of `runs`"
# Of the configuration, what a report looks into; each is settings by name, or null.
SECTIONS = ("data", "task", "backbone", "trainer", "benchmark")
ROLES = ("floor", "rnn_from_scratch", "source_only", "adapted", "in_domain")
TASKS = ("extraction", "classification")


@dataclass(frozen=True, slots=True)
class RunSet:
    """What was found.

    Attributes:
        runs: each readable ``metrics.json``; oldest first.
        skipped: one message for each file that could not be read.
    """

    runs: tuple[Metrics, ...]
    skipped: tuple[str, ...] = ()


def read_runs(paths: str | Path | Iterable[str | Path]) -> RunSet:
    """Read every ``metrics.json`` at or below the given paths.

    Args:
        paths: a folder or ``metrics.json``, or several.

    Returns:
        The runs. Unreadable files among readable ones are left out, each with its reason in the log and in ``skipped``.

    Raises:
        ValueError: a path does not exist, nothing was found, or nothing of what was found is readable.
    """
    chosen = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    files = sorted({file.resolve() for path in chosen for file in _metrics_files(path)})
    if not files:
        raise ValueError(
            f"runs={[str(path) for path in chosen]}: no metrics.json there; "
            f"expected folders that `domadapt train` or `domadapt benchmark` has written"
        )
    found, skipped = list[tuple[int, Metrics]](), list[str]()
    for file in files:
        try:
            found.append((file.stat().st_mtime_ns, read_metrics(file)))
        except (OSError, ValueError) as error:
            skipped.append(str(error))
    if not found:
        raise ValueError(skipped[0] if len(skipped) == 1 else f"{skipped[0]} ({len(skipped)} files are unreadable)")
    for message in skipped:
        log.warning("left out: %s", message)
    found.sort(key=lambda each: (each[0], each[1].folder))
    return RunSet(tuple(run for _, run in found), tuple(skipped))


def read_metrics(path: Path) -> Metrics:
    """One ``metrics.json``.

    Args:
        path: of the file.

    Raises:
        ValueError: it is unreadable, half written, of another format, or lacks what a report needs; names the file.
    """
    content = load(path)
    if content.get("format") != FORMAT:
        found = f"format {content.get('format')!r}, expected {FORMAT}: another version of domadapt wrote it"
        raise ValueError(f"{path}: {found}; {AGAIN}")
    try:
        return typed({**content, "folder": str(path.parent)})
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {AGAIN}") from error


def load(path: Path) -> dict[str, Any]:
    """The content of one ``metrics.json``, as it is.

    Args:
        path: of the file.

    Raises:
        ValueError: it is unreadable, half written, or no JSON object; names the file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: unreadable ({error}); {AGAIN}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
        raise ValueError(f"{path}: not whole JSON ({error}); {AGAIN}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: holds a {type(content).__name__}, expected an object; {AGAIN}")
    return content


def typed(content: Mapping[str, Any]) -> Metrics:
    """The record of what :func:`domadapt.train` returned.

    Args:
        content: of a ``metrics.json``, and maybe the ``folder`` that it lies in.

    Raises:
        ValueError: something that a report needs is missing, or is of another kind.

    >>> typed({"source": "camera"})
    Traceback (most recent call last):
    ValueError: lacks target, task, headline, method, role, seed, source_dev, target_test, curve, config, or has \
something else in that place
    """
    from pydantic import ValidationError

    # What a run had nothing to say of may be null.
    given = {name: value for name, value in content.items() if value is not None or name in NEEDED}
    wrong = [name for name in NEEDED if name not in given]
    try:
        found = _schema().validate_python(given)
        if not wrong:
            wrong += _inconsistent(found)
    except ValidationError as error:
        wrong += dict.fromkeys(str(part["loc"][0]) for part in error.errors())
    if wrong:
        raise ValueError(f"lacks {', '.join(wrong)}, or has something else in that place")
    return found


def sound(content: Mapping[str, Any]) -> bool:
    """Whether :func:`typed` takes it; on a bundle's machine, which has no pydantic, whatever is JSON is taken.

    >>> sound({"source": "camera"})
    False
    """
    try:
        typed(content)
    except ModuleNotFoundError:
        return True
    except ValueError:
        return False
    return True


def _inconsistent(run: Metrics) -> Iterator[str]:
    """Fields of the right kind that do not go with the others."""
    if run.task not in TASKS:
        yield "task"
    if run.role not in ROLES:
        yield "role"
    tests = [run.target_test, *(choice.target_test for choice in run.selection.choices.values())]
    if any(scores is not None and run.headline not in scores for scores in tests):
        yield f"headline score {run.headline!r}"
    scored = [run.source_dev, run.source_test, run.target_test_clean, *tests, *(line.source_dev for line in run.curve)]
    each = [(name, score) for scores in scored for name, score in (scores or {}).items()]
    yield from dict.fromkeys(f"score {name!r}" for name, score in each if score > 1 and not name.endswith("_support"))
    odd = [name for name in SECTIONS if not isinstance(run.config.get(name), Mapping | None)]
    yield from (f"config.{name}" for name in odd)
    controls = (run.config.get("benchmark") or {}).get("controls") if "benchmark" not in odd else None
    if not isinstance(controls, Mapping | None):
        yield "config.benchmark.controls"


def _no_number(name: str) -> None:
    raise ValueError(f"it says {name} where a number belongs")


@lru_cache(maxsize=1)
def _schema() -> "TypeAdapter[Metrics]":
    from pydantic import TypeAdapter  # as wandb has it: 0.1 s that only a reader pays

    return TypeAdapter(Metrics)


def _metrics_files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ValueError(f"runs={path}: no such folder; expected one that `domadapt benchmark` has written")
    return path.rglob("metrics.json")
