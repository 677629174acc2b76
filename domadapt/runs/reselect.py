"""Finished runs as another validator would have left them: nothing is trained, every choice is in metrics.json."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from domadapt.runs.metrics import Calibration, Metrics

ORACLE = "oracle"  # chooses by target test labels: a bound, and marked so
MARK = f"+{ORACLE}_selection"  # as training names it


def reselect(runs: Sequence[Metrics], name: str) -> tuple[tuple[Metrics, ...], tuple[str, ...]]:
    """Put the checkpoint that a validator would have chosen in place of the one that was kept.

    Args:
        runs: finished ones.
        name: of a validator that scored them.

    Returns:
        The runs that it scored, and what has changed, in words. What was recorded of the kept epoch alone is dropped,
        also from the seeds beside, so that no mean is over some of them.

    Raises:
        ValueError: no run was scored by it; names those that did.

    >>> from domadapt.runs.metrics import Choice, Selection
    >>> picks = {"entropy": Choice(1, {"span_f1": 0.5}), "oracle": Choice(2, {"span_f1": 0.75})}
    >>> run = Metrics(headline="span_f1", selection=Selection("source_dev", 2, 0.0, picks))
    >>> [shown], _ = reselect([run], "entropy")
    >>> shown.target_test, shown.selection.epoch, shown.selection.gap
    ({'span_f1': 0.5}, 1, 0.25)
    """
    known = list(dict.fromkeys(validator for run in runs for validator in run.selection.choices))
    scored = [run for run in runs if name in run.selection.choices]
    if not scored:
        raise ValueError(
            f"selection={name}: no such validator scored these runs; there are {', '.join(known) or 'none'}"
        )
    changed = [run for run in scored if run.selection.choices[name].epoch != run.selection.epoch]
    told = f"Shown as {name} would have chosen, in place of the validator that chose: {len(changed)} of {len(scored)} "
    told += "runs keep another epoch"
    if changed:
        told += "; of their methods, calibration, predictions and scores on the source test and on clean texts are not "
        told += "shown, which were recorded of the epoch that was kept"
    words = [told]
    if len(scored) < len(runs):
        words.append(f"{len(runs) - len(scored)} of {len(runs)} runs are left out: {name} did not score them")
    moved = {_beside(run) for run in changed}
    return tuple(_shown(run, name, _beside(run) in moved) for run in scored), tuple(words)


def _beside(run: Metrics) -> tuple[str, str, str]:
    return run.source, run.target, run.method


def _shown(run: Metrics, name: str, moved: bool) -> Metrics:
    pick, bound = run.selection.choices[name], run.selection.choices.get(ORACLE)
    gap = None
    if pick.target_test and bound and bound.target_test:
        gap = bound.target_test[run.headline] - pick.target_test[run.headline]
    shown = replace(
        run,
        target_test=pick.target_test,
        selection=replace(run.selection, validator=name, epoch=pick.epoch, gap=gap),
        source_dev=next((line.source_dev for line in run.curve if line.epoch == pick.epoch), run.source_dev),
        config={**run.config, "selection": {"name": name}},  # runs that differ only in who chose are one and the same
    )
    if name == ORACLE and not run.method.endswith(MARK):
        shown = replace(shown, method=run.method + MARK)
    if not moved:
        return shown
    nowhere = str(Path(run.folder, f"epoch={pick.epoch}"))  # such a folder is not there, as its predictions are not
    return replace(
        shown, calibration=Calibration(), expected=None, target_test_clean=None, source_test=None, folder=nowhere
    )
