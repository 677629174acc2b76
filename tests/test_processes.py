"""Worker processes: results in order, few items drawn ahead, and whoever dies, nobody hangs and nobody is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from domadapt.utils.work import in_order
from tests.trouble import DEADLINE, wait_until

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


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(in_order(abs, range(-50, 50), 2)) == [abs(number) for number in range(-50, 50)]
    assert list(in_order(abs, (), 2)) == []


def test_few_items_are_drawn_ahead() -> None:
    numbers = count()
    results = in_order(abs, numbers, 2)
    assert [next(results) for _ in range(10)] == [*range(10)]
    assert next(numbers) < 20
    results.close()  # type: ignore[attr-defined]


def test_an_error_of_the_work_or_of_the_items_is_the_callers() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the file ends here")

    with pytest.raises(ValueError, match="invalid literal"):
        list(in_order(int, ["1", "x"], 2))
    with pytest.raises(OSError, match="the file ends here"):
        list(in_order(abs, broken(), 2))


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
        assert process.stdout is not None
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
            assert "RuntimeError: one of processes=2 was killed, by the system perhaps" in error.splitlines()[-1]
        assert error.count("Traceback") == (exit_code in (1, -signal.SIGINT))  # the parent's own, no worker's
        wait_until(lambda: all(map(gone, workers)), "the workers' end")
    finally:
        process.kill()
        for worker in workers:
            if not gone(worker):
                os.kill(worker, signal.SIGKILL)
