# ruff: noqa: F811 - fixtures are imported
"""A run that is killed at random moments ends with the weights it would have had."""

import random
import signal
from pathlib import Path
from typing import Any

from tests.test_resume import arguments, no_process_left, own_cache, problem  # noqa: F401
from tests.trouble import Trouble, cpu_seconds, join, renamed, run, same_run, start, wait_until

KILLS = 10


def test_killed_at_ten_random_moments(problem: Path, tmp_path: Path) -> None:
    """Five of them drawn from the run's time, five while a file that matters is being put in its place."""
    dice = random.Random(20)
    files = [name for name in renamed(problem / "log") if name != "status.json"]
    assert {"epoch=1.safetensors", "last.safetensors", "model", "predictions.jsonl", "metrics.json"} <= set(files)
    writes = dice.sample([(name, files[: i + 1].count(name)) for i, name in enumerate(files)], KILLS // 2)
    moments: list[Any] = [*writes, *(dice.uniform(0.05, 0.9) for _ in range(KILLS - len(writes)))]
    total = 0.0
    killed = 0
    for number, moment in enumerate(moments):
        folder, log = tmp_path / str(number), tmp_path / f"{number}.log"
        command = arguments(problem, folder / "run", own_cache(problem, folder))
        if isinstance(moment, tuple):
            code = run(command, log, Trouble(*moment, signal=signal.SIGKILL))
        else:
            total = total or time_of_a_run(problem, tmp_path)
            process = start(command, log)
            wait_until(lambda p=process, s=moment * total: cpu_seconds(p) >= s, "its processor time")
            process.kill()
            code = join(process)
        killed += code == -signal.SIGKILL
        assert run(command, tmp_path / f"{number}.again") == 0
        same_run(folder / "run", problem / "whole")
    assert killed >= KILLS - 2


def time_of_a_run(problem: Path, folder: Path) -> float:
    """Processor seconds of an undisturbed run."""
    process = start(arguments(problem, folder / "timed", own_cache(problem, folder)), folder / "timed.log")
    used = [0.0]

    def over() -> bool:
        now = cpu_seconds(process)
        used[0] = now if now < float("inf") else used[0]
        return process.exitcode is not None

    wait_until(over, "the end")
    same_run(folder / "timed", problem / "whole")
    return used[0]
