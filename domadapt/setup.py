"""From a configuration to everything that training needs, built in one place."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from domadapt.data.batches import Collator, Example, Truncation, encode
from domadapt.data.domains import Domains, SealedTest
from domadapt.data.records import Record
from domadapt.encoder import EncoderLike
from domadapt.method import Method
from domadapt.progress import progress, quiet
from domadapt.ranks import check_devices
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.graphs import relation_vocabulary
from domadapt.syntax.parser import Parse, Parser, Text
from domadapt.tasks.task import Task


@dataclass(slots=True)
class Setting:
    """What a run works with.

    Attributes:
        domains: without sealed test and ceiling: nothing that training can reach leads to a target label.
        methods: injections and adaptations by the name that the configuration gives them.
        source: labelled training examples.
        dev: labelled examples that choose the checkpoint.
        target: unlabelled target examples; empty if no method reads target text.
        validation: a sample of them that validators read, always there.
        cache: folder of what runs share: parses, post-trained encoders.
        relations: ids of relation names met in source and target.
        truncation: what ``max_pieces`` cut off, by part.
    """

    domains: Domains
    task: Task
    encoder: Any
    methods: dict[str, Method]
    parser: Parser
    collator: Collator
    max_pieces: int
    seed: int
    device: torch.device
    precision: str
    cache: Path
    source: list[Example] = field(default_factory=list)
    dev: list[Example] = field(default_factory=list)
    target: list[Example] = field(default_factory=list)
    validation: list[Example] = field(default_factory=list)
    relations: dict[str, int] = field(default_factory=dict)
    truncation: dict[str, Truncation] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)

    @property
    def quiet(self) -> bool:
        """No progress bars: not a terminal."""
        return quiet()

    def autocast(self) -> AbstractContextManager[Any]:
        """The run's precision for code outside Lightning."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16-mixed")

    def examples(self, texts: Sequence[Text], part: str, parses: bool, labelled: bool) -> list[Example]:
        """Tokenise texts; parse them if asked, and tag them if labelled."""
        if not parses and self.task.kind == "sequence":  # nothing reads words
            words: list[IntArray] = [np.empty((0, 2), dtype=np.int64)] * len(texts)
            trees = None
        else:
            words, trees = words_of(texts, self.parser, parses, part)
        targets: dict[str, Any] = {}
        if labelled:
            records = [t for t in texts if isinstance(t, Record)]
            self.task.check(records)
            targets = self.task.targets(records, words, self.warnings)
        found, cut = encode([t.text for t in texts], words, self.encoder.tokenizer, self.max_pieces, trees, **targets)
        self.truncation[part] = cut
        return found


def make(config: Any, **extra: Any) -> Any:
    """The one place where configuration becomes objects.

    Raises:
        ValueError: what the object's constructor said, as it said it.
    """
    try:
        return instantiate(config, _convert_="all", **extra)
    except InstantiationException as error:
        cause = error.__cause__
        while isinstance(cause, InstantiationException) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, ValueError | OSError):
            raise cause from None
        if isinstance(cause, TypeError):  # a setting of the wrong type, or one that is not there
            raise ValueError(f"{config.get('_target_')}: {cause}; see the comments in its yaml") from None
        raise


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
    parser: Parser = ParseCache(make(cfg.parser), cfg.paths.cache)
    setting = Setting(
        domains=domains,
        task=task,
        encoder=encoder,
        methods=methods,
        parser=parser,
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
    for method in methods.values():
        method.attach(encoder, len(setting.relations))
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
            losses |= method.weights.keys()
    return methods


def _read_parts(setting: Setting, validation_texts: int) -> None:
    domains, methods = setting.domains, setting.methods.values()
    parses = any(m.reads_parses for m in methods)
    reads_target = any(m.reads_target for m in methods)
    setting.source = setting.examples(domains.source_train, "source train", parses, labelled=True)
    at_prediction = any(m.parses_at_prediction for m in methods)
    setting.dev = setting.examples(domains.source_dev, "source dev", at_prediction, labelled=True)
    if reads_target:
        setting.target = setting.examples(domains.unlabeled.texts, "target unlabelled", parses, labelled=False)
    texts = domains.unlabeled.texts
    if len(texts) > validation_texts:  # the same sample for every seed and method
        chosen = np.random.default_rng(0).choice(len(texts), validation_texts, replace=False)
        texts = tuple(texts[i] for i in sorted(chosen.tolist()))
    setting.validation = setting.examples(texts, "target validation", at_prediction, labelled=False)
    seen = (name for e in [*setting.source, *setting.target] if e.parse for name in e.parse.relations)
    setting.relations = relation_vocabulary(seen)
    setting.collator.relations = setting.relations


def words_of(
    texts: Sequence[Text], parser: Parser, parses: bool, title: str
) -> tuple[list[IntArray], list[Parse] | None]:
    """Word ranges of texts, with their parses if asked."""
    if not parses:
        return list(parser.tokenize(texts)), None
    trees = list(progress(parser.parse(texts), f"parse {title}", len(texts), "text"))
    return [t.words for t in trees], trees


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


def plain(cfg: DictConfig) -> dict[str, Any]:
    """A configuration as plain dicts and lists."""
    result = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(result, dict)
    return {str(key): value for key, value in result.items()}
