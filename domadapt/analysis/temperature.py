"""Temperature scaling (Guo et al. 2017, https://arxiv.org/abs/1706.04599): one number makes confidence honest where
labels are known. Under shift it stays too sure (Ovadia et al. 2019, https://arxiv.org/abs/1906.02530)."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from domadapt.inference.evaluate import calibration
from domadapt.tasks.task import Rows

RANGE = np.log(0.05), np.log(20.0)  # of the logarithm of a temperature


def temperature(rows: Rows) -> float:
    """The temperature with the least negative log likelihood; 1 without rows.

    Args:
        rows: of labelled text that the model has not learnt from.

    >>> always, none = np.array([[0.9, 0.1]] * 4, np.float32), np.zeros(4, np.int64)
    >>> round(temperature(Rows(always, none, none, none, np.array([0, 0, 0, 1]))), 2)  # sure by .9, right by .75
    2.0
    """
    if not len(rows):
        return 1.0
    logits = _logs(rows)

    def loss(log_of_temperature: float) -> float:
        logs = log_softmax(logits / np.exp(log_of_temperature), axis=-1)
        return -float(np.take_along_axis(logs, rows.classes[:, None], -1).mean())

    return float(np.exp(minimize_scalar(loss, bounds=RANGE, method="bounded").x))


def tempered(rows: Rows, temperature: float) -> Rows:
    """The same rows at another temperature: above 1 they are less sure, and the likeliest class stays."""
    return replace(rows, probabilities=softmax(_logs(rows) / temperature, axis=-1).astype(np.float32))


def calibration_under_shift(dev: Rows, test: Rows | None) -> dict[str, Any]:
    """Calibration on source dev and on the target test, before and after temperature scaling on source dev.

    One number is fitted to all of source dev, so what it says of source dev itself is hardly flattered.

    Args:
        dev: labelled rows of source dev.
        test: of the target test; None where there are no labels.

    Returns:
        As :class:`domadapt.runs.metrics.Calibration` has it.
    """
    heat = temperature(dev)
    found: dict[str, Any] = {"temperature": round(heat, 4)}
    for name, rows in (("source_dev_", dev), ("", test)):
        if rows is None or (before := calibration(rows)) is None:
            continue
        after = calibration(tempered(rows, heat))
        found |= {f"{name}error": before["error"], f"{name}scaled_error": after and after["error"]}
        if rows is test:
            found["bins"] = before["bins"]
    return found


def _logs(rows: Rows) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.log(np.clip(rows.probabilities.astype(float), 1e-12, None))
    return logs
