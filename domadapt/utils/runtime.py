"""The device, processes, random numbers and progress bars."""

import os
import random
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing.resource_tracker import ensure_running
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm


def pick_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one."""
    found = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and found == "cpu"):
        raise ValueError(
            f"device={name!r}: expected auto or cpu{', or cuda' if found == 'cuda' else '; torch sees no GPU here'}"
        )
    return torch.device(found if name == "auto" else name)


def pick_precision(name: str, device: torch.device) -> str:
    """``auto`` takes bfloat16 where the device computes in it, else float32.

    Raises:
        ValueError: an unknown precision.
    """
    name = str(name)  # 32 arrives as a number
    if name not in ("auto", "32", "bf16-mixed"):
        raise ValueError(f"trainer.precision={name!r}: expected auto, 32 or bf16-mixed")
    if name != "auto":
        return "32-true" if name == "32" else name
    if device.type == "cuda":
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"
    supported: Callable[[], bool] = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return "bf16-mixed" if device.type == "cpu" and supported() else "32-true"


def kind_of_hardware(device: str, precision: str) -> str:
    """What of this machine changes a run's numbers: ``cpu 32-true``, or ``cuda NVIDIA H200 bf16-mixed``.

    Args:
        device: as configured.
        precision: as configured.

    Raises:
        ValueError: as of :func:`pick_device` and :func:`pick_precision`.
    """
    found = pick_device(device)
    name = [torch.cuda.get_device_name(found)] if found.type == "cuda" else []  # which processor changes nothing
    return " ".join([found.type, *name, pick_precision(precision, found)])


Item = TypeVar("Item")
Result = TypeVar("Result")
IDLE = 60  # seconds after which a worker without work ends
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}  # a worker is one core's share


def in_order(work: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[Result]:
    """``work`` of each item, done in worker processes, in the order of the items. Few are drawn ahead.

    The workers are loky's: they wait for more a while, so that only the first call pays for starting them, and a
    caller's script needs no ``if __name__ == "__main__"``.

    Args:
        work: a function of a module, or something else that can be pickled.
        items: drawn in this process.
        processes: workers.

    Raises:
        RuntimeError: a worker was killed.
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
    except BrokenProcessPool:
        raise RuntimeError(
            f"one of processes={processes} was killed, by the system perhaps because memory ran out; run the same "
            f"command again, with processes=1 if that was it: what was kept before is not done again"
        ) from None
    finally:
        for future in waiting:  # after Ctrl-C, after an error, or nobody wants the rest
            future.cancel()


@contextmanager
def _ctrl_c_for_the_parent() -> Iterator[None]:
    """Workers started here are deaf to Ctrl-C from their first instruction on; this process hears it afterwards.

    Python's resource tracker comes before: whoever starts it (the first worker would) is left hearing Ctrl-C.
    """
    ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@lru_cache
def end_with(parent: int) -> None:
    """End this worker process when its parent has gone: work whose owner was killed must not go on."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def random_state() -> dict[str, Any]:
    """Of Python, NumPy and torch, as numbers and tensors."""
    name, keys, *rest = np.random.get_state()
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Go on as :func:`random_state` found it."""
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), *rest))
    generator: Tensor = state["torch"]
    torch.set_rng_state(generator.cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([s.cpu() for s in state["cuda"]])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever is drawn within is as if it had not been.

    >>> random.seed(1)
    >>> with undisturbed():
    ...     inside = random.random()
    >>> random.random() == inside
    True
    """
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)


T = TypeVar("T")


def quiet() -> bool:
    """True where nobody watches: standard error is not a terminal."""
    return not sys.stderr.isatty()


def progress(items: Iterable[T], title: str, total: int | None, unit: str) -> Iterator[T]:
    """Show a bar over an iterable, if it lasts longer than a second and somebody watches.

    >>> list(progress([1, 2], "count", 2, "number"))
    [1, 2]
    """
    bar: Iterable[T] = tqdm(items, desc=title, total=total, unit=unit, delay=1.0, leave=False, disable=quiet())
    yield from bar
