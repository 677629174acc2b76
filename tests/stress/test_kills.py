# ruff: noqa: F811 - fixtures are imported
"""Killed at random moments, a run ends with the weights it would have had, and a sweep goes on."""

import json
import os
import random
import signal
import subprocess
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests.support import corpora
from tests.test_resume import own_cache, shared, training  # noqa: F401
from tests.trouble import DEADLINE, Trouble, join, renamed, run, same_run, start, wait_until

KILLS = 10


def test_killed_at_ten_random_moments(shared: Path, tmp_path: Path) -> None:
    """Five of them drawn from the run's time, five while a file that matters is being put in its place."""
    rng = random.Random(20)
    files = [name for name in renamed(shared / "log") if name != "status.json"]
    assert {"epoch=1.safetensors", "last.safetensors", "model", "predictions.jsonl", "metrics.json"} <= set(files)
    writes = rng.sample([(name, files[: i + 1].count(name)) for i, name in enumerate(files)], KILLS // 2)
    moments: list[Any] = [*writes, *(rng.uniform(0.05, 0.9) for _ in range(KILLS - len(writes)))]
    total = 0.0
    killed = 0
    for number, moment in enumerate(moments):
        folder, log = tmp_path / str(number), tmp_path / f"{number}.log"
        command = training(shared, folder / "run", own_cache(shared, folder))
        if isinstance(moment, tuple):
            code = run(command, log, Trouble(*moment, signal=signal.SIGKILL))
        else:
            total = total or time_of_a_run(shared, tmp_path)
            process = start(command, log)
            wait_until(lambda p=process, s=moment * total: cpu_seconds(p) >= s, "its processor time")
            process.kill()
            code = join(process)
        killed += code == -signal.SIGKILL
        assert run(command, tmp_path / f"{number}.again") == 0
        same_run(folder / "run", shared / "whole")
    assert killed >= KILLS - 2


def cpu_seconds(process: BaseProcess) -> float:
    """That a process has used: a clock that runs no faster on a busy machine."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")  # it is gone
    return float("inf") if fields[0] == "Z" else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def time_of_a_run(shared: Path, folder: Path) -> float:
    """Processor seconds of an undisturbed run."""
    process = start(training(shared, folder / "timed", own_cache(shared, folder)), folder / "timed.log")
    used = [0.0]

    def over() -> bool:
        now = cpu_seconds(process)
        used[0] = now if now < float("inf") else used[0]
        return process.exitcode is not None

    wait_until(over, "the end")
    same_run(folder / "timed", shared / "whole")
    return used[0]


SEEDS = 40  # more cells than are ever finished before the first is seen
# A shell that starts something in the background has it ignore Ctrl-C; this test may be run so.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from domadapt.cli.main import main
main()
"""


def alive(mark: str) -> list[str]:
    """Command lines of processes that have inherited the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has just ended, or is not ours
    return found


def cells(folder: Path) -> list[Path]:
    """Results of finished cells; not by ``rglob``, which trips over files that come and go."""
    return list(folder.glob("runs/*/*/*/metrics.json"))


def test_control_c_leaves_no_process_and_keeps_what_is_finished(tmp_path: Path) -> None:
    seeds = ",".join(map(str, range(1, SEEDS + 1)))
    mark = f"SWEEP_OF={tmp_path}"
    command = [sys.executable, "-c", PROGRAM, "train", *corpora(tmp_path)]
    environment = {**os.environ, "SWEEP_OF": str(tmp_path)}
    with (tmp_path / "log").open("w") as log:
        sweep = subprocess.Popen(
            [*command, "-m", "launcher=joblib", "hydra.launcher.n_jobs=2", f"seed={seeds}"],
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env=environment,
            start_new_session=True,
        )
        try:
            wait_until(lambda: bool(cells(tmp_path) or sweep.poll()), "the first cell")
            assert sweep.poll() is None, (tmp_path / "log").read_text()
            assert len(alive(mark)) >= 3  # this one and two workers: what is to end
            os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does
            assert sweep.wait(DEADLINE) == 130
        finally:
            sweep.kill()
            sweep.wait()
    assert "domadapt train: stopped" in (tmp_path / "log").read_text()
    wait_until(lambda: not alive(mark), f"the end of {alive(mark)}")

    kept = cells(tmp_path)
    assert 1 <= len(kept) < SEEDS
    done = json.loads(kept[0].read_text())
    written = kept[0].stat().st_mtime_ns
    again = subprocess.run(
        [*command, f"seed={done['seed']}"], capture_output=True, text=True, cwd=tmp_path, check=True, env=environment
    )
    assert "is finished: not run again" in again.stderr
    assert kept[0].stat().st_mtime_ns == written


ENDLESS = """
import multiprocessing, sys
from itertools import count
from domadapt.utils.work import in_order
results = in_order(abs, count(), 2)
for _ in range(100):
    next(results)
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
for _ in results:
    pass
"""


def gone(process: int) -> bool:
    """It has ended, even if nobody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def deaf_to_ctrl_c(process: int) -> bool:
    """Whatever it is doing, importing for one."""
    blocked = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "SigBlk" in line)
    return bool(int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1)


@pytest.mark.parametrize(
    ("number", "whom", "exit_code"),
    [
        (signal.SIGKILL, "worker", 1),
        (signal.SIGTERM, "worker", 1),
        (signal.SIGINT, "parent", -signal.SIGINT),
        (signal.SIGINT, "all", -signal.SIGINT),
        (signal.SIGTERM, "parent", -signal.SIGTERM),
        (signal.SIGKILL, "parent", -signal.SIGKILL),
    ],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_whoever_dies_nobody_hangs_and_nobody_is_left(number: signal.Signals, whom: str, exit_code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", f"import signal; signal.signal(2, signal.default_int_handler){ENDLESS}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        workers = [int(word) for word in process.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(deaf_to_ctrl_c, workers))
        if whom == "all":  # as Ctrl-C does
            os.killpg(process.pid, number)
        else:
            os.kill(workers[0] if whom == "worker" else process.pid, number)
        _, error = process.communicate(timeout=DEADLINE)
        assert process.returncode == exit_code
        if whom == "worker":
            assert "Stopped: one of processes=2 was killed, by the system perhaps" in error.splitlines()[-1]
        assert error.count("Traceback") == (exit_code in (1, -signal.SIGINT))  # the parent's own, no worker's
        wait_until(lambda: all(map(gone, workers)), "the workers' end")
    finally:
        process.kill()
        for worker in workers:
            if not gone(worker):
                os.kill(worker, signal.SIGKILL)
