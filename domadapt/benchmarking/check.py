"""What every cell would fail of is told once, before the plan, and leaves no folder behind."""

from collections.abc import Sequence

from omegaconf import DictConfig, OmegaConf

from domadapt.benchmarking.plan import FINISHED, Cell
from domadapt.config.compose import make, user_error
from domadapt.training.build import make_methods, make_validators
from domadapt.training.floor import make_floor
from domadapt.training.options import read_options
from domadapt.training.problem import told


def check(todo: Sequence[Cell]) -> None:
    """Make of each kind of cell what is made quickly, up to the first kind that nothing is wrong with.

    Args:
        todo: cells in their order.

    Raises:
        ValueError: all cells that are still to be run fail, and of one and the same thing: a setting that is missing
            or wrong, a corpus that is not there.
    """
    kinds = {(cell.pair, cell.method): cell.config for cell in todo if cell.state() != FINISHED}
    said = set[str]()
    for config in kinds.values():
        try:
            make_parts(config)
            return
        except Exception as error:
            told = user_error(error, "train")
            if told is None:
                return  # running it shows where
            said.add(told)
    if len(said) == 1:
        raise ValueError(said.pop())


def make_parts(cfg: DictConfig) -> None:
    """Options, corpora, task, methods and validators of a cell; not its backbone, which takes long.

    Args:
        cfg: a composed ``train.yaml``.

    Raises:
        ValueError: naming the setting or file, its value, what was expected and the fix.
    """
    if missing := sorted(OmegaConf.missing_keys(cfg)):
        raise ValueError(f"{missing[0]} is not set: give {missing[0]}=VALUE; domadapt train --help says what it is")
    read_options(cfg)
    make_floor(cfg)
    make_methods(cfg)
    list(make_validators(cfg.selection))
    domains = make(cfg.data)
    make(told(cfg.task, domains))
    if cfg.train_on == "target":
        domains.in_domain()
