"""Several processes train one cell: Lightning's strategies, and what the processes tell each other.

A step's global batch is that of a single process: each takes every world-th text. Rank 0 alone evaluates and writes.
"""

import atexit
import logging
import os
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.plugins.io import CheckpointIO
from pytorch_lightning.strategies import DDPStrategy
from threadpoolctl import threadpool_limits
from torch.multiprocessing.spawn import ProcessRaisedException

from domadapt.training.options import TrainerOptions
from domadapt.utils import checkpoint as files
from domadapt.utils.runtime import preserve_random_state


class SafeCheckpointIO(CheckpointIO):
    """What Lightning saves and loads checkpoints with, in place of pickles."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write by rename: the last checkpoint stays until the next is whole."""
        files.save(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Read a checkpoint; Lightning moves its tensors where they belong."""
        return files.load(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


class Spawned(DDPStrategy):
    """Distributed data parallel in so many processes, which share this one's threads and are as quiet."""

    def __init__(self, processes: int) -> None:
        # Not by the command line, as Lightning's ``ddp``: that would start its sweep anew, and notebooks have none.
        # A loss of weight 0 leaves its parameters without a gradient.
        super().__init__(start_method="spawn", find_unused_parameters=True)
        self.threads = max(1, torch.get_num_threads() // processes)

    def setup_environment(self) -> None:
        """Called first in every process."""
        torch.set_num_threads(self.threads)
        be_quiet()
        super().setup_environment()
        # Lightning does so with NCCL alone; Gloo's threads now and then abort a process that ends beside them.
        atexit.register(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())


def be_quiet() -> None:
    """Lightning's advice, some of it on loader workers: batches are collated faster than a worker could be reached."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*Trying to infer the `batch_size`.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*deprecated")  # Lightning 2.6 beside torch 2.13


def make_reproducible(seed: int, threads: int) -> None:
    """Seed everything, and let torch compute the same again, on so many threads; 0 leaves it its own choice."""
    pl.seed_everything(seed, verbose=False)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)  # stages before Lightning's, too
    # For debugging alone, and a tenth of a step's time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if threads := threads or min(threads_of_a_job(), torch.get_num_threads()):
        torch.set_num_threads(threads)
    be_quiet()


def threads_of_a_job() -> int:
    """This job's share of the machine's cores, where its launcher runs ``n_jobs`` at once; else 0."""
    jobs = HydraConfig.get().launcher.get("n_jobs") if HydraConfig.initialized() else None
    if not jobs:
        return 0
    import joblib

    return int(max(1, joblib.cpu_count() // joblib.effective_n_jobs(jobs)))


@contextmanager
def settings_of_torch() -> Iterator[None]:
    """Afterwards threads, BLAS's too, determinism, random numbers and variables are as before: a program may go on."""
    new = [name for name in ("CUBLAS_WORKSPACE_CONFIG", "PL_GLOBAL_SEED") if name not in os.environ]
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        with threadpool_limits(), preserve_random_state():  # sets none, and puts back what was there
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        for name in new:
            os.environ.pop(name, None)


def trainer_options(options: TrainerOptions, device: torch.device) -> dict[str, Any]:
    spawned = options.devices > 1 and options.strategy == "auto"
    return {
        "accelerator": "cpu" if device.type == "cpu" else "auto",
        "devices": options.devices,
        "strategy": Spawned(options.devices) if spawned else options.strategy,
        # Whatever cluster this is on: a cell's processes are ours, not the cluster's.
        "plugins": [SafeCheckpointIO(), LightningEnvironment()],
        "use_distributed_sampler": False,
    }


def check_devices(options: TrainerOptions, device: torch.device) -> None:
    available = torch.cuda.device_count() if device.type == "cuda" else None
    if type(options.devices) is not int or options.devices < 1 or (available and options.devices > available):
        expected = f"expected a whole number from 1{f' to {available}' if available else ''}"
        raise ValueError(f"trainer.devices={options.devices!r}: {expected}")
    known = options.strategy == "auto" or any(word in str(options.strategy) for word in ("spawn", "fork"))
    if options.devices > 1 and not known:
        why = "starts the command line again in every process, and so a whole sweep"
        expected = "expected auto, or one of Lightning's that spawns or forks, such as ddp_spawn"
        raise ValueError(f"trainer.strategy={options.strategy}: {why}; {expected}")


@contextmanager
def as_one_process() -> Iterator[None]:
    """Around ``trainer.fit``: errors and Ctrl-C come as they would without Lightning and its processes."""
    handler = signal.getsignal(signal.SIGINT)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # of the processes: no word if all parameters are in use
    try:
        yield
    except ProcessRaisedException as error:
        kind, _, message = str(error).strip().splitlines()[-1].partition(": ")
        if kind == "ValueError":
            raise ValueError(message) from None
        raise
    except SystemExit:  # Lightning has been interrupted
        signal.signal(signal.SIGINT, handler)  # it ignores any more
        raise KeyboardInterrupt from None


def mean_over_ranks(values: Mapping[str, float], trainer: pl.Trainer) -> dict[str, float]:
    """Mean of each value over all processes; every one of them must ask, for the same names."""
    local = torch.tensor(list(values.values()), dtype=torch.float64, device=trainer.strategy.root_device)
    return dict(zip(values, trainer.strategy.reduce(local, reduce_op="mean").tolist(), strict=True))


def of_all_ranks(value: Any) -> list[Any]:
    """What each process gives, by rank; every one of them must ask."""
    if not torch.distributed.is_initialized():
        return [value]
    values: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values
