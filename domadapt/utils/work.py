"""Long work: a bar with rate and end, and worker processes that hand back results in order. Loads no torch."""

import logging
import os
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
Result = TypeVar("Result")
IDLE = 60  # seconds after which a worker without work ends
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}  # a worker is one core's share


class Stopped(RuntimeError):
    """Work that can't go on, said for the user; any other RuntimeError is a library's, and keeps its traceback."""


def locate(error: Exception) -> None:
    """Note on an error which line outside of this package led to it: from a worker process comes no traceback."""
    home, libraries = str(Path(__file__).parents[1]), (sysconfig.get_path("stdlib"), "<")
    places = [(place.filename, place.lineno) for place in traceback.extract_tb(error.__traceback__)]
    own = [(file, line) for file, line in places if not file.startswith((home, *libraries)) and "-packages" not in file]
    if own and not places[-1][0].startswith(home):
        error.add_note(f"({Path(own[-1][0]).name}:{own[-1][1]})")


def with_notes(error: BaseException) -> str:
    """What an error says, and the notes on it."""
    return " ".join([str(error), *getattr(error, "__notes__", ())])


def in_order(work: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[Result]:
    """``work`` of each item, done in worker processes, in the order of the items. Few are drawn ahead.

    The workers are loky's: they wait for more a while, so that only the first call pays for starting them, and a
    caller's script needs no ``if __name__ == "__main__"``. ``work`` must be picklable.
    """
    from joblib.externals.loky import get_reusable_executor

    pool = get_reusable_executor(processes, timeout=IDLE, initializer=end_with, initargs=(os.getpid(),), env=ONE_THREAD)
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            with _ctrl_c_for_the_parent():
                waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except (KeyboardInterrupt, SystemExit):
        pool.shutdown(kill_workers=True)  # or the end of this process waits for what they are at
        raise
    except BrokenProcessPool:
        fix = "run the same command again, with processes=1 if memory ran out: what was kept is not done again"
        raise Stopped(f"one of processes={processes} was killed, by the system perhaps; {fix}") from None
    finally:
        for future in waiting:  # after Ctrl-C, after an error, or nobody wants the rest
            future.cancel()


@contextmanager
def _ctrl_c_for_the_parent() -> Iterator[None]:
    """Workers started here are deaf to Ctrl-C from their first instruction on; this process hears it afterwards."""
    ensure_running()  # Python's resource tracker: whoever starts it, else the first worker, is left hearing Ctrl-C
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


@lru_cache
def end_with(parent: int) -> None:
    """End this worker process when its parent has gone: work whose owner was killed must not go on."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def quieter(loggers: Iterable[str], level: int) -> Iterator[None]:
    """Within it, these loggers tell nothing below a level."""
    levels = {logger: logger.level for logger in map(logging.getLogger, loggers)}
    for logger in levels:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, was in levels.items():
            logger.setLevel(was)


def quiet() -> bool:
    """True where nobody watches: standard error is not a terminal."""
    return not sys.stderr.isatty()


def progress(items: Iterable[Item], title: str, total: int | None, unit: str) -> Iterator[Item]:
    """Show a bar over an iterable, if it lasts longer than a second and somebody watches."""
    yield from tqdm(items, desc=title, total=total, unit=unit, delay=1.0, leave=False, disable=quiet())
