"""Validators asked about runs that are over, from the evidence that these kept."""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path

from domadapt.runs.metrics import Choice, Metrics
from domadapt.selection.choose import best_epoch
from domadapt.selection.every import every_validator
from domadapt.selection.storage import load_evidence
from domadapt.selection.validator import Comparing, Evidence, Validator


def rescored(runs: Sequence[Metrics]) -> tuple[tuple[Metrics, ...], list[str]]:
    """Runs with the values and choices of validators that were written after them.

    Args:
        runs: finished ones; those with ``evidence/`` in their folder and a target score of every epoch can be asked.

    Returns:
        The runs, in their order; and which validators could not be asked about how many of them, in words.
    """
    validators = [validator for validator in every_validator() if not validator.bound]
    found = tuple(_rescored(run, validators) for run in runs)
    lacking = {v.name: sum(v.name not in run.selection.choices for run in found) for v in validators}
    told = ", ".join(f"{name} ({count} of {len(found)} runs)" for name, count in lacking.items() if count)
    return found, [f"not asked, for want of kept evidence (trainer.keep_evidence=true): {told}"] if told else []


def _rescored(run: Metrics, validators: Sequence[Validator]) -> Metrics:
    new = [validator for validator in validators if validator.name not in run.selection.choices]
    files = [Path(run.folder, "evidence", f"epoch={line.epoch}.npz") for line in run.curve]
    curve = run.selection.target_curve
    if not new or len(curve) != len(files) or not files or not all(file.is_file() for file in files):
        return run
    evidence = [load_evidence(file) for file in files]
    lines, choices = list(run.curve), dict(run.selection.choices)
    for validator in new:
        values = _values(validator, evidence)
        if all(map(isnan, values)):
            continue
        lines = [
            replace(line, validators={**line.validators, validator.name: value})
            for line, value in zip(lines, values, strict=True)
        ]
        best = best_epoch(values) - 1
        choices[validator.name] = Choice(lines[best].epoch, {run.headline: curve[best]})
    return replace(run, curve=tuple(lines), selection=replace(run.selection, choices=choices))


def _values(validator: Validator, evidence: Sequence[Evidence]) -> list[float]:
    if isinstance(validator, Comparing):
        return validator.together([one.target for one in evidence])
    return [validator(one) for one in evidence]
