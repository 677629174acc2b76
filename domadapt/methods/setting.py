"""What a run works with: handed to methods, evaluation and training alike."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from domadapt.data.batches import Collator, Example, Truncation, encode
from domadapt.data.domains import Domains
from domadapt.data.records import Record
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text
from domadapt.tasks.task import Task
from domadapt.utils.progress import progress, quiet


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
    methods: dict[str, Any]
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


def words_of(
    texts: Sequence[Text], parser: Parser, parses: bool, title: str
) -> tuple[list[IntArray], list[Parse] | None]:
    """Word ranges of texts, with their parses if asked."""
    if not parses:
        return list(parser.tokenize(texts)), None
    trees = list(progress(parser.parse(texts), f"parse {title}", len(texts), "text"))
    return [t.words for t in trees], trees
