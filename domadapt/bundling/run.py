"""Runs the cells of an unpacked bundle, several at once; started by the bundle itself."""

import json
import os
import queue
import signal
import subprocess
import sys
import tarfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from domadapt.runs.key import run_folder
from domadapt.runs.reading import load, sound
from domadapt.utils.files import replace_atomic

FORMAT = 1  # of cells.json
MODULES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "sklearn",
    "scipy",
    "numpy",
    "yaml",
    "psutil",
    "xxhash",
)


class Run:
    """The cells of a bundle on one machine.

    Args:
        folder: the unpacked bundle.
        runs: where run folders are written.
        at_once: worker processes.
    """

    def __init__(self, folder: Path, runs: Path, at_once: int) -> None:
        self.folder, self.runs, self.at_once = folder, runs, at_once
        content: dict[str, Any] = json.loads((folder / "cells.json").read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise ValueError(f"{folder}/cells.json: format {content.get('format')!r}, this version reads {FORMAT}")
        self.cells: list[dict[str, Any]] = content["cells"]
        os.chdir(folder)  # configurations name files relative to it
        self.folders = [self._run_folder(cell["config"]) for cell in self.cells]
        self.waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.failed: list[str] = []
        self.done = 0
        self._lock = threading.Lock()
        self._workers: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def __call__(self) -> int:
        """Run what is not finished, print a line for each cell, and pack the results.

        Returns:
            The exit code: 0, or 1 if a cell is not finished or the results are not packed, or 130 if stopped.
        """
        todo = [i for i, folder in enumerate(self.folders) if not _finished(folder)]
        finished = len(self.cells) - len(todo)
        count = min(self.at_once, len(todo))
        print(f"{len(self.cells)} cells, {finished} of them finished, {count} at once; runs in {self.runs}", flush=True)
        for index in todo:
            self.waiting.put(index)
        self.done = finished
        threads = [threading.Thread(target=self._work, args=(n, count), daemon=True) for n in range(1, count + 1)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self._stop()
        results = self._pack()
        for line in self.failed:
            print(f"failed: {line}")
        stopped = ", stopped" if self._stopped else ""
        told = f"; {results} holds all that `domadapt report runs=FOLDER` reads" if results else ""
        print(f"{self.done} of {len(self.cells)} cells finished, {len(self.failed)} failed{stopped}{told}")
        return 130 if self._stopped else int(self.done < len(self.cells) or results is None)

    def _work(self, number: int, count: int) -> None:
        """Give cells to one worker process after the other; a new one takes the place of one that died."""
        worker: subprocess.Popen[str] | None = None
        while not self._stopped:
            try:
                index = self.waiting.get_nowait()
            except queue.Empty:
                break
            try:
                worker = worker or self._start(number, count)
            except OSError as error:  # no folder for its log, no process
                self._tell(self.cells[index]["name"], {"error": f"no process could be started for it: {error}"})
                continue
            answer = _ask(worker, index)
            if answer is None:
                code = worker.wait()
                self._workers.discard(worker)
                worker = None
                answer = {"error": f"its process ended with {code}; {self._log(number)} may say why"}
            if not self._stopped:
                self._tell(self.cells[index]["name"], answer)
        if worker is not None and worker.stdin is not None:
            worker.stdin.close()  # the end of its work
            worker.wait()

    def _start(self, number: int, count: int) -> "subprocess.Popen[str]":
        threads = str(max(1, (os.cpu_count() or 1) // count))
        env = {"OMP_NUM_THREADS": threads, **os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._log(number).parent.mkdir(parents=True, exist_ok=True)
        with self._log(number).open("a", encoding="utf-8") as log:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "domadapt.bundling.worker", str(self.runs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=env,
                text=True,
                encoding="utf-8",
            )
        self._workers.add(worker)
        return worker

    def _tell(self, name: str, answer: dict[str, Any]) -> None:
        with self._lock:
            if "error" in answer:
                self.failed.append(f"{name}: {answer['error']}")
                print(f"{name} failed: {answer['error']}", flush=True)
                return
            self.done += 1
            score = "-" if answer["score"] is None else f"{100 * answer['score']:.1f}"
            told = f"{answer['headline']} {score}, {answer['seconds']:.0f} s on {answer['hardware']}"
            print(f"[{self.done}/{len(self.cells)}] {name}: {told}", flush=True)

    def _stop(self) -> None:
        self._stopped = True
        for worker in list(self._workers):
            worker.terminate()
        for worker in list(self._workers):
            try:
                worker.wait(30)
            except subprocess.TimeoutExpired:
                worker.kill()

    def _pack(self) -> Path | None:
        """What a report needs of all finished cells, in one small file; None if it can't be written."""
        path = self.runs / "results.tar.gz"

        def write(part: Path) -> None:
            with tarfile.open(part, "w:gz") as archive:
                for folder in self.folders:
                    for file in ("metrics.json", "predictions.jsonl"):
                        if _finished(folder) and (folder / file).is_file():
                            archive.add(folder / file, str((folder / file).relative_to(self.runs)))

        try:
            replace_atomic(path, write)
        except OSError as error:
            print(f"bundle: {path}: {error}; the runs are in {self.runs}", file=sys.stderr)
            return None
        return path

    def _log(self, number: int) -> Path:
        return self.runs / "logs" / f"worker-{number}.log"

    def _run_folder(self, config: dict[str, Any]) -> Path:
        cfg = OmegaConf.create(config)
        cfg.paths.runs = str(self.runs)
        return run_folder(cfg)


def _finished(folder: Path) -> bool:
    """A run whose metrics are there and whole; a damaged file is for training to move aside."""
    try:
        metrics = load(folder / "metrics.json")
        return "key" in metrics and sound(metrics)
    except ValueError:
        return False


def _ask(worker: "subprocess.Popen[str]", index: int) -> dict[str, Any] | None:
    """A worker's answer; None if it died over the cell."""
    assert worker.stdin is not None and worker.stdout is not None
    try:
        worker.stdin.write(f"{index}\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except OSError:
        return None
    answer: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
    return answer


def settings(arguments: list[str], cores: int) -> tuple[Path, int]:
    """Folder of runs and number of workers.

    Raises:
        ValueError: an argument that is not known, or not a number.

    >>> settings(["cells=3", "runs=/tmp/x"], 16)
    (PosixPath('/tmp/x'), 3)
    """
    given = {"runs": "runs", "cells": str(max(1, min(8, cores // 2)))}
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name not in given or not value:
            raise ValueError(f"{argument!r}: expected cells=N, runs=FOLDER or unpack=FOLDER")
        given[name] = value
    if not given["cells"].isdigit() or int(given["cells"]) < 1:
        raise ValueError(f"cells={given['cells']}: expected a whole number from 1")
    return Path(given["runs"]).resolve(), int(given["cells"])


def main() -> None:
    """Entry point: the unpacked bundle's folder, then the user's arguments."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a scheduler's stop is a person's stop
    try:
        runs, at_once = settings(sys.argv[2:], os.cpu_count() or 1)
        if missing := [name for name in MODULES if find_spec(name) is None]:
            raise ValueError(f"{sys.executable} lacks {', '.join(missing)}; a bundle brings pure-Python libraries only")
        code = Run(Path(sys.argv[1]), runs, at_once)()
    except ValueError as error:
        print(f"bundle: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    raise SystemExit(code)


if __name__ == "__main__":
    main()
