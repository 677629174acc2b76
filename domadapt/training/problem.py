"""From a configuration to the problem that it poses: corpora, and the task of them."""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from domadapt.config.compose import make, plain
from domadapt.config.resolvers import AUTO
from domadapt.data.domains import Domains, SealedTest
from domadapt.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be solved, before anybody says how.

    Attributes:
        domains: without sealed test and ceiling.
        task: with the classes of the source.
        task_config: its settings.
        sealed: the target test, for the final evaluation alone; None without target labels.
    """

    domains: Domains
    task: Task
    task_config: dict[str, Any]
    sealed: SealedTest | None


def read_problem(cfg: DictConfig) -> Problem:
    """Read corpora, and tell the task of them.

    Args:
        cfg: a composed ``train.yaml``.

    Raises:
        ValueError: naming the setting, its value, what was expected and the fix.
    """
    domains: Domains = make(cfg.data)
    if cfg.train_on not in ("source", "target"):
        raise ValueError(f"train_on={cfg.train_on!r}: expected source, or target for the in-domain ceiling")
    if cfg.train_on == "target":
        domains = domains.in_domain()
    if cfg.target_labels and cfg.train_on == "target":
        raise ValueError(
            f"target_labels={cfg.target_labels}: train_on=target trains on all of them; leave one of the two out"
        )
    if cfg.target_labels:
        domains = domains.with_target_labels(cfg.target_labels, cfg.target_label_share, cfg.seed)
    sealed = domains.test
    if sealed is None and make(cfg.selection).bound:
        raise ValueError("selection=oracle: there are no target labels to choose by; take another validator")
    task_config = told(cfg.task, domains)
    task: Task = make(task_config)
    domains = replace(
        domains,
        source_train=task.usable(domains.source_train, domains.warnings),
        source_dev=task.usable(domains.source_dev, domains.warnings),
        source_test=task.usable(domains.source_test, domains.warnings),
        test=None,
        ceiling=None,
    )
    task.learn_labels([*domains.source_train, *domains.source_dev])
    if sealed is not None:  # what is wrong with it is told before training, not after it
        judge = deepcopy(task)  # which is thrown away with all that it has seen
        sealed.check(lambda records: judge.check(judge.usable(records, Counter())))
    return Problem(domains, task, plain(task_config), sealed)


def told(task: DictConfig, domains: Domains) -> DictConfig:
    """The task's settings: as they are given, or of the task that the source's annotation is of."""
    if task.get("_target_") != AUTO:
        return task
    # By its name, so that the keys of other runs do not reach both tasks' code.
    name = get_method(AUTO)([*domains.source_train, *domains.source_dev])
    made = OmegaConf.create((files("domadapt.conf") / "task" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(made, DictConfig)
    return made
