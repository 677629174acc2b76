"""From a configuration to everything that training needs, built in one place."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
from omegaconf import DictConfig

from domadapt.config.instantiate import make
from domadapt.data.batches import Collator
from domadapt.data.domains import Domains, SealedTest
from domadapt.methods.method import Method
from domadapt.methods.setting import Setting
from domadapt.models.encoder import EncoderLike
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.controls.control import controlled
from domadapt.syntax.graphs import relation_vocabulary
from domadapt.tasks.task import Task
from domadapt.training.distributed import check_devices
from domadapt.utils.device import kind_of_hardware, pick_device, pick_precision


def check_numbers(cfg: DictConfig) -> None:
    """Refuse settings that training could only fail on later.

    Raises:
        ValueError: naming the setting, its value and its range.
    """
    sizes = ("batch_size", "target_batch_size", "evaluation_batch_size", "validation_texts")
    whole = {name: cfg.trainer[name] for name in ("epochs", *sizes)}
    for name, value in {**{f"trainer.{k}": v for k, v in whole.items()}, "max_pieces": cfg.max_pieces}.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{name}={value!r}: expected a whole number from 1")
    for name, low, high in (
        ("learning_rate", 0, 1),
        ("weight_decay", 0, 1),
        ("warmup", 0, 1),
        ("gradient_clip", 1e-9, 1e9),
        ("checkpoint_seconds", 0, 1e9),
    ):
        value = cfg.trainer[name]
        if type(value) not in (int, float) or not low <= value <= high:
            raise ValueError(f"trainer.{name}={value!r}: expected a number from {low} to {high}")
    if type(cfg.trainer.threads) is not int or cfg.trainer.threads < 0:
        raise ValueError(f"trainer.threads={cfg.trainer.threads!r}: expected a whole number from 0 (torch's choice)")
    if cfg.max_pieces < 3:
        raise ValueError(f"max_pieces={cfg.max_pieces}: expected 3 or more; two pieces are special ones")
    if type(cfg.seed) is not int or not 0 <= cfg.seed < 2**32:
        raise ValueError(f"seed={cfg.seed!r}: expected a whole number from 0 to {2**32 - 1}")


def build(cfg: DictConfig) -> tuple[Setting, SealedTest | None]:
    """Read corpora, parse what needs parsing, tokenise, and make encoder and methods.

    Args:
        cfg: a composed ``train.yaml``.

    Returns:
        What training works with, and apart from it the sealed test, for the final evaluation alone.

    Raises:
        ValueError: naming the setting, its value, what was expected and the fix.
    """
    device = pick_device(cfg.trainer.device)
    kind = kind_of_hardware(cfg.trainer.device, cfg.trainer.precision)
    if cfg.trainer.get("hardware") not in (None, kind):
        raise ValueError(f"trainer.hardware={cfg.trainer.hardware!r}: expected null or what this machine is, {kind!r}")
    check_devices(cfg.trainer, device)
    domains: Domains = make(cfg.data)
    if cfg.train_on not in ("source", "target"):
        raise ValueError(f"train_on={cfg.train_on!r}: expected source, or target for the in-domain ceiling")
    if cfg.train_on == "target":
        domains = domains.in_domain()
    sealed = domains.test
    if sealed is None and make(cfg.selection).bound:
        raise ValueError("selection=oracle: there are no target labels to choose by; take another validator")
    task: Task = make(cfg.task)
    domains = replace(
        domains,
        source_train=task.usable(domains.source_train, domains.warnings),
        source_dev=task.usable(domains.source_dev, domains.warnings),
        source_test=task.usable(domains.source_test, domains.warnings),
        test=None,
        ceiling=None,
    )
    task.learn_labels([*domains.source_train, *domains.source_dev])
    methods = make_methods(cfg)
    encoder: EncoderLike = make(cfg.backbone, kind=task.kind, labels=task.labels)
    if cfg.max_pieces > encoder.longest:
        raise ValueError(
            f"max_pieces={cfg.max_pieces}: expected 3 to {encoder.longest}, the longest that {cfg.backbone.name} reads"
        )
    if methods and not encoder.takes_methods:
        raise ValueError("backbone=rnn_from_scratch takes no injection and no adaptation: it is the bar without them")
    if cfg.control and not any({"parses", "parses_at_prediction"} & m.reads for m in methods.values()):
        raise ValueError(
            f"control={next(iter(cfg.control))}: no method of this run reads parses, so there is nothing to control; "
            f"add one (injection=lisa, injection=gnn) or leave the control out"
        )
    parsers = (make(cfg.parser), ParseCache(make(cfg.parser), cfg.paths.cache))
    uncached, parser = (controlled(one, cfg.control) for one in parsers)
    setting = Setting(
        domains=domains,
        task=task,
        encoder=encoder,
        methods=methods,
        parser=parser,
        uncached=uncached,
        collator=Collator(int(encoder.tokenizer.pad_token_id or 0)),
        max_pieces=cfg.max_pieces,
        seed=cfg.seed,
        device=device,
        precision=pick_precision(cfg.trainer.precision, device),
        cache=Path(cfg.paths.cache),
        warnings=domains.warnings,
    )
    _read_parts(setting, cfg.trainer.validation_texts)
    pl.seed_everything(cfg.seed, verbose=False)  # a parser draws random numbers where a cache of parses does not
    for name, method in methods.items():
        method.attach(setting)
        setting.collator.extras[name] = method.collate
    return setting, sealed


def make_methods(cfg: DictConfig) -> dict[str, Method]:
    """Injections and adaptations by name.

    Raises:
        ValueError: two of them share a name, or the name of a loss.
    """
    methods: dict[str, Method] = {}
    losses = {"task"}
    for group in ("injection", "adaptation"):
        for name, config in (cfg[group] or {}).items():
            method: Method = make(config)
            if name in methods or losses & method.weights.keys():
                raise ValueError(
                    f"{group}.{name}: another method has this name, or one of the losses {[*method.weights]}"
                )
            methods[str(name)] = method
            method.name = str(name)
            losses |= method.weights.keys()
    return methods


def _read_parts(setting: Setting, validation_texts: int) -> None:
    domains, parses, at_prediction = setting.domains, setting.parses, setting.parses_at_prediction
    setting.source = setting.examples(domains.source_train, "source train", parses, labelled=True)
    setting.dev = setting.examples(domains.source_dev, "source dev", at_prediction, labelled=True)
    if setting.reads_target:
        setting.target = setting.examples(domains.unlabeled.texts, "target unlabelled", parses, labelled=False)
    texts = domains.unlabeled.texts
    if len(texts) > validation_texts:  # the same sample for every seed and method
        chosen = np.random.default_rng(0).choice(len(texts), validation_texts, replace=False)
        texts = tuple(texts[i] for i in sorted(chosen.tolist()))
    setting.validation = setting.examples(texts, "target validation", at_prediction, labelled=False)
    seen = (name for e in [*setting.source, *setting.target] if e.parse for name in e.parse.relations)
    setting.relations = relation_vocabulary(seen)
    setting.collator.relations = setting.relations
