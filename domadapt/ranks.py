"""Several processes train one cell: Lightning's strategies, and what the processes tell each other.

A step's global batch is the one that a single process would have: each process, a rank, takes every world-th text of
it. Rank 0 alone evaluates and writes.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy
from torch.multiprocessing import ProcessRaisedException


def trainer_options(options: DictConfig, device: torch.device) -> dict[str, Any]:
    """Lightning's accelerator, devices, strategy and environment for a configuration.

    Processes are spawned, or forked: strategies that start the command line anew would start its whole sweep anew.

    Args:
        options: ``trainer`` of the configuration.
        device: the run's.
    """
    strategy: Any = options.strategy
    if options.devices > 1 and strategy == "auto":
        # A loss of weight 0 leaves its parameters without a gradient.
        strategy = DDPStrategy(start_method="spawn", find_unused_parameters=True)
    return {
        "accelerator": "cpu" if device.type == "cpu" else "auto",
        "devices": options.devices,
        "strategy": strategy,
        # Whatever cluster this is: a cell's processes are ours.
        "plugins": [LightningEnvironment()],
        "use_distributed_sampler": False,
    }


def check_devices(options: DictConfig, device: torch.device) -> None:
    """Refuse what can't be started.

    Args:
        options: ``trainer`` of the configuration.
        device: the run's.

    Raises:
        ValueError: naming the setting, its value and what is expected.
    """
    found = torch.cuda.device_count() if device.type == "cuda" else None
    if type(options.devices) is not int or options.devices < 1 or (found and options.devices > found):
        raise ValueError(f"trainer.devices={options.devices!r}: expected a whole number from 1{f' to {found}' * bool(found)}")
    known = options.strategy == "auto" or any(word in str(options.strategy) for word in ("spawn", "fork"))
    if options.devices > 1 and not known:
        raise ValueError(
            f"trainer.strategy={options.strategy}: starts the command line again in every process, and so a whole "
            f"sweep; expected auto, or one of Lightning's that spawns or forks, such as ddp_spawn"
        )


@contextmanager
def as_one_process() -> Iterator[None]:
    """Around ``trainer.fit``: errors and Ctrl-C come as they would without Lightning and its processes."""
    handler = signal.getsignal(signal.SIGINT)
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
    own = torch.tensor(list(values.values()), dtype=torch.float64, device=trainer.strategy.root_device)
    return dict(zip(values, trainer.strategy.reduce(own, reduce_op="mean").tolist(), strict=True))


def of_all_ranks(value: Any) -> list[Any]:
    """What each process gives, by rank; every one of them must ask."""
    if not torch.distributed.is_initialized():
        return [value]
    values: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def seed_of_rank(seed: int, rank: int) -> int:
    """The run's seed for rank 0; for others one of their own, lest all drop the same units.

    >>> seed_of_rank(7, 0), seed_of_rank(7, 1) == seed_of_rank(7, 2)
    (7, False)
    """
    return int(np.random.SeedSequence([seed, rank]).generate_state(1)[0]) if rank else seed
