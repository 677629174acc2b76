"""Ctrl-C in a joblib sweep ends its workers, and what is finished stays finished."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import corpora
from tests.trouble import DEADLINE, wait_until

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
